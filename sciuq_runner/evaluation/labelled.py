"""Predictions with their coordinates and units, as an xarray dataset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from sciuq_runner.evaluation.results import Result
from sciuq_runner.physics.problem import Array
from sciuq_runner.predict.scaled_residual import LEVEL, UNCALIBRATED

if TYPE_CHECKING:
    import xarray as xr


def labelled(results: Mapping[str, Result], units: Mapping[str, str]) -> xr.Dataset:
    """All quantities of a run on their test grids: ``u_mean``, ``u_std``, ``u_lower`` … of the quantity u.

    Shapes:
        A quantity whose points make up a grid has one dimension for every coordinate, any other the dimension
        ``u_point``; the functions of an operator and components of a field come last, as ``u_component``. Quantities
        on the same grid share its coordinates; where they differ, those of the later one are called ``x_f``.
    """
    import xarray as xr

    dataset = xr.Dataset()
    for name, result in results.items():
        parts = arrays_of(result)
        axes = grid_of(result.x)
        sizes = [len(axis) for axis in axes] if axes is not None else [len(result.x)]
        width = result.mean.shape[1]
        dims = _dims(dataset, name, result, axes, units)
        for part, values in parts.items():
            shaped = values.reshape(*sizes, width) if width > 1 else values.reshape(sizes)
            own = [*dims, f"{name}_component"] if width > 1 else dims
            dataset[f"{name}_{part}"] = (own, shaped, {"units": units[name]} if name in units else {})
    return dataset


def arrays_of(result: Result) -> dict[str, Array]:
    """Mean, standard deviations, 95 % bounds and what is known of the truth, ``[N, D_q]`` each; after calibration the
    same with ``cal_`` before them."""
    found = {
        "mean": result.mean,
        "std": result.std,
        "aleatoric_std": result.aleatoric_std,
        "epistemic_std": result.epistemic_std,
    }
    for prefix, standard in {"": UNCALIBRATED, **result.calibrated}.items():
        lower, upper = standard.interval(LEVEL)
        if prefix:
            found[f"{prefix}mean"] = result.mean + standard.mean * result.std
            found[f"{prefix}std"] = standard.std * result.std
        found[f"{prefix}lower"] = result.mean + lower * result.std
        found[f"{prefix}upper"] = result.mean + upper * result.std
    if result.reference.shape == result.mean.shape and np.isfinite(result.reference).any():
        found["reference"] = result.reference
    return found


def grid_of(x: Array) -> list[Array] | None:
    """The values along every coordinate if the points ``x[N, D]`` are all of their combinations in order."""
    axes = [np.unique(column) for column in x.T]
    if np.prod([len(axis) for axis in axes]) != len(x):
        return None
    grid = np.stack([part.ravel() for part in np.meshgrid(*axes, indexing="ij")], axis=1)
    return axes if np.array_equal(grid, x) else None


def _dims(
    dataset: xr.Dataset, name: str, result: Result, axes: list[Array] | None, units: Mapping[str, str]
) -> list[str]:
    """The dimensions of a quantity; its coordinates are added where the dataset lacks them."""
    if axes is None:
        point = f"{name}_point"
        for key, column in zip(result.coordinates, result.x.T, strict=True):
            attributes = {"units": units[key]} if key in units else {}
            dataset.coords[f"{key}_{name}"] = ((point,), column, attributes)
        return [point]
    dims = []
    for key, axis in zip(result.coordinates, axes, strict=True):
        shared = key not in dataset.coords or np.array_equal(dataset.coords[key].values, axis)
        dim = key if shared else f"{key}_{name}"
        dataset.coords[dim] = ((dim,), axis, {"units": units[key]} if key in units else {})
        dims.append(dim)
    return dims

"""A problem without files: the mapping of a YAML file, with arrays and tables in place of the names of data files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from sciuq_runner.errors import ConfigError, first_line
from sciuq_runner.files import write_atomically

if TYPE_CHECKING:
    import pandas as pd

PROBLEM_FILE = "problem.yaml"


def write_problem(problem: Mapping[str, Any], folder: Path) -> Path:
    """Write a problem as a YAML file with its data beside it, as the command line would take it; returns the file.

    ``file:`` of an observed or tested quantity may be a pandas data frame, an xarray object, a mapping of arrays by
    column, or an array ``[N, D + 1]`` with the coordinates and the quantity as columns.
    """
    plain = _plain(_with_functions(problem), "problem")
    for group in ("observed", "test"):
        for name, entry in (problem.get(group) or {}).items():
            data = entry.get("file") if isinstance(entry, Mapping) else None
            if data is None or isinstance(data, str | Path):
                continue
            label = f"problem.{group}.{name}.file"
            table = _table(data, _columns(problem, str(name), entry), label)
            path = folder / f"{group}_{name}.csv"
            write_atomically(path, lambda target, table=table: table.to_csv(target, index=False))  # type: ignore[misc]
            plain[group][name]["file"] = path.name
    text = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)
    path = folder / PROBLEM_FILE
    write_atomically(path, lambda target: target.write_text(text, encoding="utf-8"))
    return path


def has_functions(problem: Any) -> bool:
    """Whether an equation is a Python function, which other processes do not have."""
    return isinstance(problem, Mapping) and any(map(callable, (problem.get("equations") or {}).values()))


def give_functions(functions: Mapping[str, Callable[..., Any]], equations: Mapping[str, Any]) -> None:
    """Make the functions known by which ``equations`` of an earlier process are named."""
    from sciuq_runner.physics.python_equations import is_python, register

    for name, function in functions.items():
        if not is_python(equations.get(name)):
            raise ConfigError(f"functions: {name} is not an equation of this run that was a Python function.")
        if register(name, function) != equations[name]:
            raise ConfigError(f"functions: {name} is another function than the one that the run was made with.")


def _with_functions(problem: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same problem with texts that stand for its Python functions."""
    if not has_functions(problem):
        return problem
    from sciuq_runner.physics.python_equations import register

    entries = problem["equations"].items()
    return {**problem, "equations": {name: register(name, e) if callable(e) else e for name, e in entries}}


def _columns(problem: Mapping[str, Any], quantity: str, entry: Mapping[str, Any]) -> list[str]:
    """The columns of an array without names: the free coordinates of a field in their order, then the quantity."""
    needs = (problem.get("unknowns") or {}).get(quantity) or list(problem.get("coordinates") or {})
    fixed = {*(entry.get("at") or {}), *(entry.get("repeat") or {})}
    named = entry.get("columns") or {}
    return [str(named.get(key, key)) for key in [*(name for name in needs if name not in fixed), quantity]]


def _table(data: Any, columns: list[str], label: str) -> pd.DataFrame:
    """Data of any of the kinds that :func:`write_problem` takes, as columns."""
    import pandas as pd

    if isinstance(data, pd.DataFrame):
        return data
    if hasattr(data, "to_dataframe"):  # of xarray, which need not be imported for this
        named = data if getattr(data, "name", "") is not None else data.rename(columns[-1])
        frame: pd.DataFrame = named.to_dataframe().reset_index()
        return frame
    try:
        if isinstance(data, Mapping):
            arrays = {str(key): np.asarray(value, dtype=float) for key, value in data.items()}
            return pd.DataFrame({key: value.ravel() for key, value in arrays.items()})
        values = np.asarray(data, dtype=float)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{label} should hold numbers ({first_line(error)}).") from error
    if values.ndim != 2 or values.shape[1] != len(columns):
        raise ConfigError(
            f"{label} is an array of the shape {list(values.shape)}: it should have one row per observation and the "
            f"columns {', '.join(columns)}; or give a mapping of arrays, or a data frame."
        )
    return pd.DataFrame(values, columns=columns)


def _plain(node: Any, key: str) -> Any:
    """Numbers, texts, lists and mappings as YAML has them; what becomes a file stays as it is for the moment."""
    if isinstance(node, Mapping):
        return {
            str(name): None if name == "file" and not isinstance(value, str | Path) else _plain(value, f"{key}.{name}")
            for name, value in node.items()
        }
    if isinstance(node, Path):
        return str(node.expanduser().resolve())
    if isinstance(node, np.ndarray | list | tuple | range):
        return [_plain(value, key) for value in node]
    if isinstance(node, np.generic):
        return node.item()
    if node is None or isinstance(node, bool | int | float | str):
        return node
    raise ConfigError(f"{key} is a {type(node).__name__}: give numbers, texts, lists or mappings there.")

"""A problem without files: the mapping of a YAML file, with arrays and tables in place of the names of data files."""

from __future__ import annotations

import hashlib
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


def keep_problem(problem: Mapping[str, Any], folder: Path) -> tuple[Path, bool]:
    """Write a problem as a YAML file with its data beside it, as the command line would take it, into a folder of its
    own below ``folder``, named by the hash of both; returns the file, and whether it is new.

    ``file:`` of an observed or tested quantity may be a pandas data frame, an xarray object, a mapping of arrays by
    column, or an array ``[N, D + 1]`` with the coordinates and the quantity as columns.
    """
    parts = described(problem)
    digest = hashlib.sha256(repr(sorted(parts.items())).encode()).hexdigest()[:12]
    place = folder.resolve() / f"problem_{digest}"
    is_new = not place.exists()
    for name, text in parts.items():
        if not (place / name).is_file():
            write_atomically(place / name, lambda target, text=text: target.write_text(text, encoding="utf-8"))  # type: ignore[misc]
    return place / PROBLEM_FILE, is_new


def described(problem: Mapping[str, Any]) -> dict[str, str]:
    """The files that describe a problem, by name."""
    plain, found = _plain(_with_functions(problem), "problem"), {}
    for group in ("observed", "test"):
        for name, entry in (problem.get(group) or {}).items():
            data = entry.get("file") if isinstance(entry, Mapping) else None
            if data is None or isinstance(data, str | Path):
                continue
            table = _table(data, _columns(problem, str(name), entry), f"problem.{group}.{name}.file")
            plain[group][name]["file"] = f"{group}_{name}.csv"
            found[f"{group}_{name}.csv"] = table.to_csv(index=False)
    return {**found, PROBLEM_FILE: yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)}


def has_functions(problem: Any) -> bool:
    """Whether an equation is a Python function, which other processes do not have."""
    return isinstance(problem, Mapping) and any(map(callable, (problem.get("equations") or {}).values()))


def give_functions(functions: Mapping[str, Callable[..., Any]], equations: Mapping[str, Any]) -> None:
    """Make the functions known by which ``equations`` of an earlier process are named."""
    from sciuq_runner.physics.python_equations import give_again, is_python

    for name, function in functions.items():
        if not is_python(equations.get(name)):
            raise ConfigError(f"functions: {name} is not an equation of this run that was a Python function.")
        give_again(equations[name], name, function)


def give_functions_to(file: Path, functions: Mapping[str, Callable[..., Any]]) -> None:
    """The same for the problem of a file."""
    if functions:
        content = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
        give_functions(functions, content.get("equations") or {})


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
        return data.reset_index() if any(name is not None for name in data.index.names) else data
    if hasattr(data, "to_dataframe"):  # of xarray, which need not be imported for this
        named = data if getattr(data, "name", "") is not None else data.rename(columns[-1])
        frame: pd.DataFrame = named.to_dataframe().reset_index()
        return frame
    try:
        if isinstance(data, Mapping):
            arrays = {str(key): np.asarray(value, dtype=float).ravel() for key, value in data.items()}
            if len({len(values) for values in arrays.values()}) > 1:
                sizes = ", ".join(f"{key} {len(values)}" for key, values in arrays.items())
                raise ConfigError(f"{label} should have columns of equal length; it has {sizes}.")
            return pd.DataFrame(arrays)
        values = np.asarray(data, dtype=float)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{label} should hold numbers ({first_line(error)}).") from error
    if values.ndim != 2 or values.shape[1] != len(columns):
        raise ConfigError(
            f"{label} is an array of the shape {list(values.shape)}: it should have one row per observation and the "
            f"columns {', '.join(columns)}; or give a mapping of arrays, or a data frame."
        )
    return pd.DataFrame(values, columns=columns)


def _file(value: Any) -> str | None:
    """The name of a file, seen from the working folder; data have none yet."""
    return str(Path(value).expanduser().resolve()) if isinstance(value, str | Path) else None


def _plain(node: Any, key: str) -> Any:
    """Numbers, texts, lists and mappings as YAML has them; what becomes a file stays as it is for the moment."""
    if isinstance(node, Mapping):
        return {
            str(name): _file(value) if name == "file" else _plain(value, f"{key}.{name}")
            for name, value in node.items()
        }
    if isinstance(node, np.ndarray | list | tuple | range):
        return [_plain(value, key) for value in node]
    if isinstance(node, np.generic):
        return node.item()
    if node is None or isinstance(node, bool | int | float | str):
        return node
    raise ConfigError(f"{key} is a {type(node).__name__}: give numbers, texts, lists or mappings there.")

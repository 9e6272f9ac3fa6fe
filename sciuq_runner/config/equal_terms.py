"""Equal terms: whether the problem of a run is the one that other methods and models get."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from sciuq_runner.config.compose import Composer, override_text, plain
from sciuq_runner.config.configuration_hash import BOOKKEEPING
from sciuq_runner.config.problem_files import CONFIG_MODULE

TUNED = {"tuned/method": ("method",), "tuned/model": ("model",), "tuned/model_method": ("model", "method")}
"""Groups of tuned settings, with the choices that each depends on beside the problem."""

Changes = Mapping[str, Mapping[str, Any]]
"""By setting: its ``value``, its ``usual`` value without tuned files, and the choices that it was changed ``for``."""


def changed_terms(
    config: Mapping[str, Any], choices: Mapping[str, str], overrides: Sequence[str], config_dir: str | None
) -> Changes:
    """Settings beside model and method to which tuned files have given other values.

    ``overrides`` are those that ``config`` was composed from: a setting that the person has chosen is no change.
    """
    composer = Composer(config_dir)
    usual = terms(untuned(composer, overrides))
    found = {key: value for key, value in terms(config).items() if value != usual.get(key)}
    whom: dict[str, list[str]] = {key: [] for key in found}
    for group, names in TUNED.items() if found else ():
        alone = terms(untuned(composer, overrides, [other for other in TUNED if other != group]))
        for key in found:
            if alone.get(key) != usual.get(key):
                whom[key] += [f"{name}={choices[name]}" for name in names]
    return {
        key: {"value": value, "usual": usual.get(key), "for": " ".join(dict.fromkeys(whom[key]))}
        for key, value in found.items()
    }


def is_tuned(hydra: Any, config_dir: str | None) -> bool:
    """Whether there is a tuned file for these choices at all; composing once more takes its time."""
    if any(text.lstrip("+").startswith("hydra.searchpath=") for text in hydra.overrides.hydra):
        return True  # it may be anywhere
    roots = [resources.files(CONFIG_MODULE), *([Path(config_dir)] if config_dir else [])]
    names = [f"{group}/{hydra.runtime.choices.get(group)}.yaml" for group in TUNED]
    return any(root.joinpath(name).is_file() for root in roots for name in names)


def given(hydra: Any) -> list[str]:
    """The overrides that a configuration was composed from, but for those of Hydra that do not change its settings."""
    paths = [text for text in hydra.overrides.hydra if text.lstrip("+").startswith("hydra.searchpath=")]
    return [*paths, *hydra.overrides.task]


def untuned(composer: Composer, overrides: Sequence[str], groups: Iterable[str] = tuple(TUNED)) -> dict[str, Any]:
    """The configuration without these groups of tuned settings."""
    return plain(composer.compose([*overrides, *(f"~{group}" for group in groups)]))


def terms(config: Mapping[str, Any]) -> dict[str, Any]:
    """All settings that tell what is to be found from which data, by their dotted names."""
    found: dict[str, Any] = {}

    def walk(key: str, node: Any) -> None:
        if isinstance(node, Mapping) and node:
            for name, item in node.items():
                walk(f"{key}.{name}", item)
        else:
            found[key] = node

    for part, node in config.items():
        if part not in ("model", "method", *BOOKKEEPING):
            walk(part, node)
    return found


def describe_changes(changes: Changes) -> str:
    """One sentence for all changes."""
    by_whom: dict[str, list[str]] = {}
    for key, change in changes.items():
        usual = override_text(key, change["usual"]).removeprefix(f"{key}=")
        text = f"{override_text(key, change['value'])} instead of {usual}"
        by_whom.setdefault(str(change["for"]), []).append(text)
    parts = [f"{' and '.join(texts)} for {whom}" for whom, texts in by_whom.items()]
    return f"Not on equal terms: {'; '.join(parts)}."

"""The jobs of a sweep, by their overrides."""

from __future__ import annotations

from collections.abc import Sequence

from sciuq_runner.config.compose import hydra_settings, mistake, parse_overrides
from sciuq_runner.errors import ConfigError


def expand(overrides: Sequence[str], config_dir: str | None) -> list[list[str]]:
    """The overrides of every job of a sweep; of one to check, where they are chosen as it goes."""
    from hydra.errors import HydraException

    from sciuq_runner.config.hydra_internals import BasicSweeper

    parsed = parse_overrides(overrides)
    shared = hydra_settings(overrides, config_dir)
    if not str(shared.hydra.sweeper.get("_target_", "")).endswith("BasicSweeper"):
        raise ConfigError("hydra/sweeper cannot be chosen: use search=optuna, or none for every combination.")
    if shared.get("search") is not None:
        from sciuq_runner.sweeps.search import first_values

        fixed = [text for text, item in zip(overrides, parsed, strict=True) if not item.is_sweep_override()]
        return [[*fixed, *first_values(parsed)]]
    params = [f"{key}={value}" for key, value in (shared.hydra.sweeper.get("params") or {}).items()]
    given = {item.key_or_group for item in parsed}
    kept = [text for text in params if text.split("=")[0] not in given]
    try:
        batches = BasicSweeper.split_arguments(parse_overrides([*kept, *overrides]), None)
    except HydraException as error:
        if "does not support sweep type" in str(error):
            raise ConfigError("interval(…) is for a search: add search=optuna, or list values.") from error
        raise mistake(error, overrides, config_dir) from error
    return [list(job) for batch in batches for job in batch]

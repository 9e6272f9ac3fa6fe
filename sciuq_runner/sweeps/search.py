"""Optuna proposes jobs, and learns from their scores.

Not the plugin of Hydra: its releases need an Optuna of 2022, which does not go with the SQLAlchemy of MLflow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sciuq_runner.errors import ConfigError
from sciuq_runner.schema import Count, construct


@dataclass(frozen=True)
class SearchSettings:
    """``search.*``: how many jobs, and who proposes them."""

    trials: Count = 20
    batch: Count = 1
    sampler: Literal["tpe", "gp", "random"] = "tpe"
    seed: int = 0


def space_of(overrides: Sequence[Any]) -> dict[str, Any]:
    """The distributions of all parsed overrides that name several values."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    space: dict[str, Any] = {}
    for override in overrides:
        if not override.is_sweep_override():
            continue
        key, value = override.get_key_element(), override.value()
        if override.is_interval_sweep():
            whole = isinstance(value.start, int) and isinstance(value.end, int)
            kind = IntDistribution if whole else FloatDistribution
            try:
                space[key] = kind(value.start, value.end, log="log" in value.tags)
            except ValueError as error:
                raise ConfigError(f"{override.input_line}: {error}") from error
        else:
            space[key] = CategoricalDistribution(list(override.sweep_string_iterator()))
    if not space:
        raise ConfigError(
            "search=optuna has nothing to search: give settings such as 'method.learning_rate=interval(1e-4,1e-2)'."
        )
    return space


def first_values(overrides: Sequence[Any]) -> list[str]:
    """One value of everything that is searched, to check the names before anything starts."""
    values = []
    for override in overrides:
        if override.is_interval_sweep():
            values.append(f"{override.get_key_element()}={override.value().start}")
        elif override.is_sweep_override():
            values.append(f"{override.get_key_element()}={next(iter(override.sweep_string_iterator()))}")
    return values


class Search:
    """Proposals that get better: minimises the score of the jobs.

    The same seed and the same scores give the same proposals, so that a search which is started again finds the jobs
    that it had proposed before.
    """

    def __init__(self, overrides: Sequence[Any], settings: Mapping[str, Any]) -> None:
        import optuna
        from optuna.samplers import GPSampler, RandomSampler, TPESampler

        self.settings = construct(SearchSettings, settings, "search")
        self.space = space_of(overrides)
        samplers = {"tpe": TPESampler, "gp": GPSampler, "random": RandomSampler}
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.study = optuna.create_study(sampler=samplers[self.settings.sampler](seed=self.settings.seed))
        self.asked: list[Any] = []

    def propose(self) -> list[list[str]]:
        """The settings of the next jobs; none when there were enough."""
        left = self.settings.trials - len(self.study.trials)
        self.asked = [self.study.ask(self.space) for _ in range(min(left, self.settings.batch))]
        return [[f"{key}={value}" for key, value in trial.params.items()] for trial in self.asked]

    def learn(self, scores: Sequence[float | None]) -> None:
        """Tell how the jobs that were proposed last did; None is a failure."""
        from optuna.trial import TrialState

        for trial, score in zip(self.asked, scores, strict=True):
            if score is None:
                self.study.tell(trial, state=TrialState.FAIL)
            else:
                self.study.tell(trial, score)

    def best(self) -> tuple[list[str], float] | None:
        """The best settings so far, and their score."""
        found = [(trial.value, trial.params) for trial in self.study.trials if trial.value is not None]
        if not found:
            return None
        score, settings = min(found, key=lambda pair: pair[0])
        return [f"{key}={value}" for key, value in settings.items()], score

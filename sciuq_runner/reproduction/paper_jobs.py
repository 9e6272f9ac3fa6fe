"""The jobs that reproduce the paper: those of the presets ``experiment=paper/NAME``, each with its configuration."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cache, cached_property
from typing import Any

from sciuq_runner.config import choices
from sciuq_runner.config.compose import plain
from sciuq_runner.config.configuration_hash import BOOKKEEPING, configuration_hash
from sciuq_runner.errors import ConfigError, nearest
from sciuq_runner.schema import locate
from sciuq_runner.sweeps.request import read_sweep
from sciuq_runner.tracking.flat_keys import MAX_PARAM, flatten_params

GROUP = "experiment/paper"
OWN_GROUPS = ("technique", "architecture")
"""Groups inside that of the presets, which choose several settings at once."""
BEFORE = {"problem.mirror": "False", "model.n_starts": "1"}
"""What runs did before these settings existed; the defaults of the classes are other values."""
FIDELITIES = ("smoke", "quick", "paper")
ORDER = (  # that of the paper; a job that several share belongs to the first
    "function_known",
    "epistemic_growth",
    "network_size",
    "calibration_size",
    "function_unknown",
    "function_heteroscedastic",
    "function_student_t",
    "mixed_pde_standard",
    "mixed_pde_additional",
    "spde_clean",
    "spde_noisy",
    "forward_n15",
    "forward_n6",
    "darcy_noisy",
    "darcy_ood",
    "darcy_clean",
    "cost",
    "cost_gpu",
)


@dataclass(frozen=True)
class Job:
    """One configuration of a preset, to be run with several seeds; ``choices`` tell it from the preset's others."""

    preset: str
    choices: tuple[str, ...]
    config: Mapping[str, Any]

    @property
    def name(self) -> str:
        return " ".join([self.preset, *self.choices])

    @property
    def fidelity(self) -> str:
        return str(self.config["fidelity"]["name"])

    def arguments(self, seed: int) -> list[str]:
        """The command line of ``sciuq-run`` for one seed."""
        choices = [f"{GROUP}/{text}" if text.startswith(OWN_GROUPS) else text for text in self.choices]
        return [f"experiment=paper/{self.preset}", *choices, f"fidelity={self.fidelity}", f"seed={seed}"]

    def hash(self, seed: int) -> str:
        """The hash of the configuration that the command line above composes to."""
        return configuration_hash({**self.config, "seed": seed})

    @cached_property
    def settings(self) -> dict[str, str]:
        """Everything that results depend on but the seed, as MLflow keeps it."""
        kept = {key: value for key, value in self.config.items() if key not in (*BOOKKEEPING, "seed")}
        return {key: str(value)[:MAX_PARAM] for key, value in flatten_params(kept, {}).items()}

    def made(self, params: Mapping[str, str]) -> bool:
        """Whether a run with these parameters is one of this job.

        A setting that the run does not have is younger than the run, which did what its class does by default, or what
        ``BEFORE`` says. But what is done by a class, a calibrator say, the run must have too.
        """
        before = {key: "" if key.endswith("_target_") else value for key, value in self.settings.items()}
        before |= self.defaults | BEFORE
        return all(same(params.get(key, before[key]), value) for key, value in self.settings.items())

    @cached_property
    def defaults(self) -> dict[str, str]:
        """What classes do where no setting says otherwise."""
        return {key: str(value) for key, value in defaults_of(self.config, "")}


def defaults_of(node: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    """The defaults of the classes that a configuration names, by the keys of its settings."""
    if "_target_" in node:
        for item in fields(locate(node["_target_"], prefix)):
            if item.default is not MISSING:
                yield f"{prefix}{item.name}", item.default
    for key, value in node.items():
        if isinstance(value, Mapping):
            yield from defaults_of(value, f"{prefix}{key}.")


def same(a: str, b: str) -> bool:
    """Whether two texts mean the same setting: ``1`` is ``1.0``."""
    if a == b:
        return True
    try:
        return float(a) == float(b)
    except ValueError:
        return False


def presets() -> dict[str, str]:
    """The names of all presets, with what each is."""
    found = dict(choices.options(GROUP, None))
    return {name: found[name] for name in ORDER}


def check_names(names: Iterable[str]) -> list[str]:
    """Names of presets, all of them if none is given; refuses one that is not there."""
    known = presets()
    wanted = [name.removeprefix("paper/") for name in names] or list(known)
    for name in wanted:
        if name not in known:
            raise ConfigError(f"{name} is no experiment of the paper: {nearest(name, known)} --list shows them all.")
    return [name for name in known if name in wanted]


@cache
def jobs_of(preset: str, fidelity: str) -> tuple[Job, ...]:
    """The jobs of one preset."""
    fixed = [f"experiment=paper/{preset}", f"fidelity={fidelity}", "seed=0"]
    sweep = read_sweep(fixed, None)
    found = []
    for overrides in sweep.jobs:
        choices = tuple(text.removeprefix(f"{GROUP}/") for text in overrides if text not in fixed)
        found.append(Job(preset, choices, plain(sweep.composer.compose(overrides))))
    return tuple(found)


@cache
def seeds_of(preset: str) -> int:
    """How many seeds a preset has of its own."""
    every = [text for overrides in read_sweep([f"experiment=paper/{preset}"], None).jobs for text in overrides]
    return len({text for text in every if text.startswith("seed=")})


def jobs(names: Sequence[str], fidelity: str) -> list[Job]:
    """The jobs of several presets; what two of them share comes once, under the first."""
    found: dict[str, Job] = {}
    for name in names:
        for job in jobs_of(name, fidelity):
            found.setdefault(job.hash(0), job)
    return list(found.values())

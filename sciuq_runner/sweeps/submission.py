"""Jobs of SLURM, submitted as Hydra's plugin for submitit does it, with its settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def is_submitit(launcher: Any) -> bool:
    """Whether this is one of that plugin's launchers."""
    return type(launcher).__module__.startswith("hydra_plugins.hydra_submitit_launcher")


def submit(launcher: Any, jobs: Sequence[Sequence[str]], first: int) -> None:
    """Submit jobs, wait until all of them have ended, and only then raise what the first that died says.

    The plugin raises it at once, when others may still work or wait for their turn.
    """
    from hydra.core.singleton import Singleton

    state = Singleton.get_state()
    calls = [
        (list(job), "hydra.sweep.dir", number, f"job_id_for_{number}", state) for number, job in enumerate(jobs, first)
    ]
    handles = executor_of(launcher).map_array(launcher, *zip(*calls, strict=True))
    for handle in handles:
        handle.wait()
    for handle in handles:
        handle.results()


def executor_of(launcher: Any) -> Any:
    """What submits: some settings belong to all queues, the others to the one that it is for, by their names."""
    import submitit
    from hydra_plugins.hydra_submitit_launcher.config import BaseQueueConf
    from omegaconf import OmegaConf

    kind, settings = launcher._EXECUTOR, dict(launcher.params)
    folder = settings.pop("submitit_folder")
    early = {f"{kind}_{key}": settings.pop(key) for key in ("max_num_timeout",) if key in settings}
    executor = submitit.AutoExecutor(folder, cluster=kind, **early)
    shared = OmegaConf.structured(BaseQueueConf).keys()
    executor.update_parameters(**{key if key in shared else f"{kind}_{key}": item for key, item in settings.items()})
    return executor

"""Where the jobs of a sweep belong: to the folders of the same jobs of earlier sweeps, or to their own."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sciuq_runner import files, layout
from sciuq_runner.config.compose import quote
from sciuq_runner.config.environment import RESUME_VARIABLE
from sciuq_runner.errors import ConfigError
from sciuq_runner.sweeps.earlier import Runs


@dataclass(frozen=True)
class Planned:
    """A job and its folder: ``done`` in an earlier sweep, or one that ``resumes`` what an earlier sweep began."""

    number: int
    overrides: list[str]
    folder: Path
    done: bool = False
    resumes: bool = False
    refusal: str = ""

    def arguments(self) -> list[str]:
        """Its settings, and those of Hydra that are its own."""
        own = {"sweep.subdir": str(self.folder), f"job.env_set.{RESUME_VARIABLE}": "yes" if self.resumes else ""}
        return [*self.overrides, *(f"hydra.{key}={quote(value)}" for key, value in own.items())]


class Plan:
    """The jobs of a sweep so far; ``earlier`` are runs that may be theirs."""

    def __init__(self, folder: Path, earlier: Runs) -> None:
        self.folder, self.earlier = folder, earlier
        self.jobs: list[Planned] = []

    def add(self, overrides: list[str], digest_of: Callable[[list[str]], str]) -> None:
        """One more job; ``digest_of`` gives the hash of its configuration."""
        self.jobs.append(self.place(overrides, digest_of))

    def place(self, overrides: list[str], digest_of: Callable[[list[str]], str]) -> Planned:
        """Where a job belongs: to the folder of the same job of an earlier sweep, or to one of its own."""
        number = len(self.jobs)
        own = self.folder / str(number)
        try:
            found = self.earlier.get(digest_of(overrides), []) if self.earlier else []
        except ConfigError as error:
            return Planned(number, overrides, own, refusal=str(error))
        for folder, origin in found:
            if origin.finished(folder):
                return Planned(number, overrides, folder, done=True)
        taken = {item.folder for item in self.jobs}
        begun = [folder for folder, _ in found if folder not in taken]
        if not begun and (own in taken or (own / layout.RESUME).exists()):  # of another configuration
            own = self.folder / f"{number}_{secrets.token_hex(4)}"
        folder = begun[-1] if begun else own
        try:
            refuse_link(folder)
            files.refuse_links(folder)
        except ConfigError as error:
            return Planned(number, overrides, folder, refusal=str(error))
        return Planned(number, overrides, folder, resumes=folder.exists())


def refuse_link(folder: Path) -> None:
    """The folder of a job is one of the sweep: a link could lead to any other, and results would be written there."""
    if folder.is_symlink():
        raise ConfigError(f"{folder} is a link: put the folder itself in its place.")

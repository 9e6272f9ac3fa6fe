"""Pre-training as a stage of its own: trained once, kept, and found again by the hash of what made it."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from torch import Tensor

from sciuq_runner import files, layout
from sciuq_runner import locks as lock
from sciuq_runner.errors import ConfigError, RunError
from sciuq_runner.models.base import BoundModel, Pretraining
from sciuq_runner.physics.problem import Array
from sciuq_runner.training.loop import Loop

log = logging.getLogger(__name__)


class Archive(Protocol):
    """A second place where products are kept, beside the folder: MLflow."""

    def find_pretrained(self, key: str, folder: Path) -> Path | None: ...
    def keep_pretrained(self, key: str, path: Path) -> None: ...


class Store:
    """Products of pre-training in a folder, by their hash."""

    def __init__(self, folder: Path, archive: Archive | None = None) -> None:
        self.folder, self.archive = folder, archive

    def path(self, key: str) -> Path:
        return self.folder / f"{key}.safetensors"

    def alone(self, key: str) -> AbstractContextManager[object]:
        """Jobs side by side that need the same product wait for the first to make it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return lock.alone(self.folder / f".{key}.lock")

    def find(self, key: str) -> tuple[dict[str, Tensor], str] | None:
        """The product and where it was found."""
        path = self.path(key)
        if not path.is_file() and self.archive is not None:
            path = self.archive.find_pretrained(key, self.folder) or path
        if not path.is_file():
            return None
        try:
            return files.read_tensors(path)[0], str(path)
        except ConfigError as error:
            log.warning("%s; it is made anew.", error)
            return None

    def keep(self, key: str, state: Mapping[str, Tensor]) -> Path:
        files.write_tensors(self.path(key), state, {"key": key})
        if self.archive is not None:
            self.archive.keep_pretrained(key, self.path(key))
        return self.path(key)


def pretrain(model: BoundModel, store: Store, folder: Path, loop: Loop) -> dict[str, float]:
    """Give a model what it needs before inference: from the store, or by training. Returns how good it is."""
    stages = model.pretraining()
    started, reused = time.perf_counter(), True
    numbers: dict[str, float] = {}
    arrays: dict[str, Array] = {}
    for stage in stages:
        key = stage.key()
        with store.alone(key):
            found = store.find(key)
            if found is not None:
                stage.load(found[0])
                log.info("Pre-training was done before: reusing %s.", found[1])
            else:
                log.info("Pre-training the model; it will be found again as %s.", store.path(key))
                product = train(stage, key, folder, loop)
                stage.load(product)
                store.keep(key, product)
                reused = False
        checkpoint(folder, key).unlink(missing_ok=True)
        judged = stage.judge()
        numbers |= judged[0]
        arrays |= judged[1]
    if arrays:
        files.write_npz(folder / layout.PRIOR, arrays)
    return {**numbers, "reused": float(reused), "train_s": time.perf_counter() - started} if stages else {}


def checkpoint(folder: Path, key: str) -> Path:
    """Where one of several stages is saved while it is trained."""
    return folder / f"pretraining_{key[:12]}.safetensors"


def train(stage: Pretraining, key: str, folder: Path, loop: Loop) -> dict[str, Tensor]:
    """Train with checkpoints of its own; when that fails, the last good weights are kept in the run folder."""
    own = loop.stage(checkpoint(folder, key))
    try:
        state = stage.run(own)
    except RunError as error:
        raise RunError(f"{error} {keep_good(folder, stage.kept())}") from error
    if own.interrupted:
        own.save()
        raise KeyboardInterrupt
    return state


def keep_good(folder: Path, tensors: Mapping[str, Tensor]) -> str:
    """Keep the last good weights of a training that failed, if it had any; a sentence on where they are."""
    if not tensors:
        return "None of its weights were good yet: none are kept."
    files.write_tensors(folder / layout.LAST_GOOD, tensors)
    return f"The last good weights are in {folder / layout.LAST_GOOD}."

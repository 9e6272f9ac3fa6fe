"""The run at work in MLflow: opened, described, closed, with those below it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from sciuq_runner import layout
from sciuq_runner.config.build import TrackingSettings
from sciuq_runner.config.configuration_hash import RUN_FOLDER, program
from sciuq_runner.config.environment import PARENT_VARIABLE
from sciuq_runner.config.uris import with_credentials
from sciuq_runner.files import write_atomically
from sciuq_runner.tracking.experiment import Experiment
from sciuq_runner.tracking.flat_keys import MAX_PARAM
from sciuq_runner.tracking.store_failures import guarded, is_missing

SWEEP_FOLDER = "sweep_folder"  # a tag
PRETRAINED_MARK = "kept"  # a folder of artifacts and the start of tags, and their value
RUNS_PER_QUERY = 1000  # runs that are asked for at once
Status = Literal["FINISHED", "FAILED", "KILLED"]


def open_tracker(settings: TrackingSettings, folder: Path | None = None) -> Tracker | None:
    """The tracker that the settings ask for; None for ``tracking=none``."""
    if settings.kind == "none":
        return None
    here = folder or Path.cwd()
    return Tracker(with_credentials(settings.uri), settings.experiment, here, settings.artifacts)


class Tracker(Experiment):
    """An experiment, and the run of it that is at work."""

    run_id: str | None = None

    def start(self, name: str, tags: Mapping[str, str], params: Mapping[str, Any], started: int | None = None) -> None:
        """Open the run, with all that is known before the work."""
        extra = {"mlflow.runName": name, **program()}
        parent = os.environ.get(PARENT_VARIABLE)
        if parent:
            extra["mlflow.parentRunId"] = parent
        run = self.client.create_run(self.experiment_id, started, {**extra, **tags}, name)
        self.run_id = run.info.run_id
        self.log_params(params)

    def log_params(self, params: Mapping[str, Any]) -> None:
        """All that was chosen, in as many batches as MLflow asks for."""
        from mlflow.entities import Param

        assert self.run_id is not None
        entries = [Param(key, str(value)[:MAX_PARAM]) for key, value in params.items()]
        for start in range(0, len(entries), 100):
            self.client.log_batch(self.run_id, params=entries[start : start + 100])

    def reopen(self, run_id: str, params: Mapping[str, Any]) -> None:
        """Go on with a run that did not end, and that may have ended before all was known of it."""
        known = self.client.get_run(run_id).data.params
        self.client.update_run(run_id, "RUNNING")
        self.run_id = run_id
        self.log_params({key: value for key, value in params.items() if key not in known})

    def start_or_reopen(self, name: str, tags: Mapping[str, str], params: Mapping[str, Any], tag: str) -> None:
        """Go on with the run that has the same value of one tag, if there is one; otherwise open one."""
        found = self.tagged(tag, tags[tag])
        if found:
            self.reopen(found[0].info.run_id, params)
        else:
            self.start(name, tags, params)

    def tagged(self, tag: str, value: str, status: str | None = None) -> list[Any]:
        """Runs of the experiment by the value of a tag, and by status, newest first; however many there are."""
        mark = '"' if "'" in value else "'"
        query = f"tags.`{tag}` = {mark}{value}{mark}" + (f" and attributes.status = '{status}'" if status else "")
        found: list[Any] = []
        token: str | None = None
        while True:
            page = self.client.search_runs([self.experiment_id], query, max_results=RUNS_PER_QUERY, page_token=token)
            found += page
            token = page.token
            if not token:
                return found

    def close_children(self, is_alive: Callable[[str], bool], parent: str | None = None) -> None:
        """Mark runs below this one (or ``parent``) as killed that are running by name only."""
        for run in self.tagged("mlflow.parentRunId", parent or str(self.run_id), "RUNNING"):
            if not is_alive(run.data.tags.get(RUN_FOLDER, "")):
                self.client.set_terminated(run.info.run_id, "KILLED")

    def close_sweep(self, folder: Path, is_alive: Callable[[str], bool]) -> None:
        """Mark the runs of a sweep as killed whose process is gone."""
        for run in self.tagged(SWEEP_FOLDER, str(folder)):
            self.close_children(is_alive, run.info.run_id)
            if run.info.status == "RUNNING":
                self.client.set_terminated(run.info.run_id, "KILLED")

    def find(self, run_id: str | None) -> Any:
        """A run of the store, which is from then on the one at work; None if it has none with this id."""
        if run_id is None:
            return None
        try:
            found = self.client.get_run(run_id)
        except Exception as error:
            if is_missing(error):
                return None
            raise
        self.run_id = run_id
        return found

    def log_file(self, path: Path) -> None:
        """One more file of the run."""
        if self.run_id is not None and path.is_file():
            self.client.log_artifact(self.run_id, str(path))

    def keep_pretrained(self, key: str, path: Path) -> None:
        """Keep the product of pre-training with the run that made it."""

        def keep() -> None:
            assert self.run_id is not None
            self.client.log_artifact(self.run_id, str(path), layout.PRETRAINED)
            self.client.set_tag(
                self.run_id, f"{layout.PRETRAINED}.{key}", PRETRAINED_MARK
            )  # a run may have several: one tag for each

        guarded(keep, "keep what was pre-trained")

    def find_pretrained(self, key: str, folder: Path) -> Path | None:
        """Bring the product of an earlier run into ``folder``; None if there is none."""
        found: list[Path] = []

        def find() -> None:
            runs = self.tagged(f"{layout.PRETRAINED}.{key}", PRETRAINED_MARK) or self.tagged(
                layout.PRETRAINED, key
            )  # of earlier versions
            if runs:
                name = f"{key}.safetensors"
                with tempfile.TemporaryDirectory() as temporary:
                    here = self.client.download_artifacts(runs[0].info.run_id, f"{layout.PRETRAINED}/{name}", temporary)
                    write_atomically(folder / name, lambda target: shutil.copyfile(here, target))
                found.append(folder / name)

        guarded(find, "look for what was pre-trained")
        return found[0] if found else None

    def end(self, status: Status) -> None:
        """Close the run."""
        if self.run_id is not None:
            self.client.set_terminated(self.run_id, status)

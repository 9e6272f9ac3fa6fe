"""A sweep: its jobs, which of them are done already, and how they ended. Hydra's launchers do the launching."""

from __future__ import annotations

import argparse
import logging
import os
import secrets
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from omegaconf import DictConfig, OmegaConf

from sciuq_runner import files, lock
from sciuq_runner.cli import FAILED, INTERRUPTED, OK, WRONG_INPUT, stop_on_signal
from sciuq_runner.composition import (
    carried_variables,
    expand,
    hydra_settings,
    is_of_hydra,
    parse_overrides,
    plain,
    quote,
)
from sciuq_runner.environment import NOTES_VARIABLE, PARENT_VARIABLE, RESUME_VARIABLE, SWEEPER_VARIABLE, sweeper_id
from sciuq_runner.errors import ConfigError, first_line
from sciuq_runner.identity import BOOKKEEPING
from sciuq_runner.memory import Share
from sciuq_runner.problem import Dataset
from sciuq_runner.resume import NAME, Origin, digest, read_origin
from sciuq_runner.schema import Count, construct
from sciuq_runner.sweeps.job import job
from sciuq_runner.sweeps.notes import STOP, Note, read_notes, take_beginnings
from sciuq_runner.sweeps.search import Search, SearchSettings, space_of
from sciuq_runner.sweeps.submission import is_submitit, submit
from sciuq_runner.tracking import SWEEP_FOLDER, Tracker, guarded

log = logging.getLogger(__name__)

RECORD, SWEEP_LOCK, NOTES_PREFIX = "sweep.json", "sweep.lock", ".notes_"
STARTS = 3  # of a job whose process dies


@dataclass(frozen=True)
class SweepSettings:
    """``sweep.*``: where jobs run; each launcher has some of these."""

    resume: bool = False
    jobs: Literal[-1] | Count = 1
    minutes: Count = 240
    memory_gb: Count = 4
    address: str | None = None
    cores: Count | None = None


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


@dataclass(frozen=True)
class Row:
    """A line of the table at the end."""

    job: int
    settings: str
    status: str
    metric: str = ""
    value: float | None = None
    score: float | None = None
    sentence: str = ""
    folder: str = ""
    run: str = ""


def run_sweep(parsed: argparse.Namespace, tracker: Tracker | None) -> int:
    """Run all jobs of a sweep, or those that are left of it; returns the exit status."""
    from sciuq_runner.console import print_sweep

    resume, fresh = sweep_settings(parsed)
    identity = identity_of(parsed)
    folder = (find_sweep(fresh.parent, identity) if resume else None) or fresh
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder), notes_in(folder) as notes:
        if resume and tracker is not None:
            close_dead(fresh.parent, tracker)
        files.write_json(folder / RECORD, {"settings": identity, "status": "RUNNING", "jobs": []})
        sweep = Sweep(parsed, folder, notes, fresh.parent if resume else None)
        try:
            with parent_run(tracker, parsed.overrides, sweep), stop_on_signal((notes / STOP).touch):
                sweep.run()
        finally:
            rows = sweep.rows(tracker)
            if sweep.has_begun():
                print_sweep(rows, folder, tracker.ui_command if tracker else None, sweep.best())
            record = {"settings": identity, "status": sweep.status_name(), "jobs": [asdict(row) for row in rows]}
            with suppress(OSError):  # a full disk: the table has been shown, and every job has its folder
                files.write_json(folder / RECORD, record)
        return sweep.exit_status()


def check_sweep(parsed: argparse.Namespace) -> bool:
    """Refuse settings of a sweep that are wrong, or that only a sweep can have; returns whether it is a search."""
    for item in parse_overrides(parsed.overrides):
        if item.is_sweep_override() and key_of(item.input_line) in ("sweep", "search"):
            raise ConfigError(f"{item.input_line} names several values: a sweep runs in one way.")
    cfg = hydra_settings(parsed.overrides, parsed.config_dir)
    sweep = construct(SweepSettings, section(cfg.sweep), "sweep")
    if not parsed.multirun and (sweep.resume or cfg.get("search") is not None):
        wrong = "sweep.resume=true" if sweep.resume else "search=optuna"
        raise ConfigError(f"{wrong} is for sweeps: add -m.")
    if cfg.get("search") is not None:
        construct(SearchSettings, section(cfg.search), "search")
        require_optuna()
        space_of(parse_overrides(parsed.overrides))
    return cfg.get("search") is not None


def memory_share(parsed: argparse.Namespace, n_jobs: int) -> Share:
    """The memory that one of ``n_jobs`` jobs may have, by where they run."""
    if not parsed.multirun:
        return Share()
    cfg = hydra_settings(parsed.overrides, parsed.config_dir)
    settings = construct(SweepSettings, section(cfg.sweep), "sweep")
    if "memory_gb" in cfg.sweep:
        return Share(size=settings.memory_gb * 2**30)
    together = cfg.search.batch if cfg.get("search") is not None else n_jobs
    if str(cfg.hydra.launcher.get("_target_")).endswith(".LocalLauncher"):  # of submitit, which makes none wait
        return Share(jobs=together)
    at_once = (os.cpu_count() or 1) if settings.jobs == -1 else settings.jobs
    return Share(jobs=min(at_once, together))


def section(cfg: DictConfig) -> dict[str, Any]:
    """A part of the configuration as plain values."""
    return {str(key): value for key, value in OmegaConf.to_container(cfg, resolve=True).items()}  # type: ignore[union-attr]


def require_optuna() -> None:
    """Say how to get what a search needs."""
    from importlib.util import find_spec

    if find_spec("optuna") is None:
        raise ConfigError("search=optuna needs a package that is not installed: pip install 'sciuq-runner[optuna]'.")


def require_validation(dataset: Dataset) -> None:
    """A search needs readings to judge by that neither train nor test."""
    if not any(len(data.validation) for data in dataset.values()):
        raise ConfigError(
            "search=optuna needs validation readings, and the problem has none: set problem.n_validation."
        )


def sweep_settings(parsed: argparse.Namespace) -> tuple[bool, Path]:
    """Whether to go on with an earlier sweep, and the folder of a new one."""
    cfg = hydra_settings(parsed.overrides, parsed.config_dir)
    return bool(cfg.sweep.resume), Path(str(cfg.hydra.sweep.dir)).absolute()


def identity_of(parsed: argparse.Namespace) -> list[str]:
    """What a sweep is known by: its settings, but for those that change nothing of what it finds."""
    kept = [text for text in parsed.overrides if not is_of_hydra(text) and key_of(text) not in BOOKKEEPING]
    return sorted(kept) + ([f"--config-dir {Path(parsed.config_dir).resolve()}"] if parsed.config_dir else [])


def key_of(override: str) -> str:
    """``method`` of ``method=dens`` and of ``method.n_steps=5``."""
    return override.lstrip("+").partition("=")[0].partition(".")[0]


def find_sweep(root: Path, identity: list[str]) -> Path | None:
    """The folder of the newest sweep with the same settings."""
    found = [path.parent for path in root.glob(f"*/{RECORD}") if files.read_json(path).get("settings") == identity]
    return max(found, key=lambda folder: folder.stat().st_mtime, default=None)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Nobody else works on this sweep; the lock ends with the process, however that ends."""
    try:
        with lock.alone(folder / SWEEP_LOCK, wait=False):
            yield
    except lock.Busy as error:
        raise ConfigError(f"sweep.resume: {folder} is still at work in another process: wait for its end.") from error


def at_work(path: Path) -> bool:
    """Whether a process holds this lock."""
    try:
        with lock.alone(path, wait=False):
            return False
    except lock.Busy:
        return True


@contextmanager
def notes_in(folder: Path) -> Iterator[Path]:
    """A folder for the notes of jobs, where jobs on other machines find it too."""
    for left in folder.glob(f"{NOTES_PREFIX}*"):  # by a process that was killed
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=NOTES_PREFIX, dir=folder, ignore_cleanup_errors=True) as notes:
        os.environ[NOTES_VARIABLE] = notes
        yield Path(notes)


def close_dead(root: Path, tracker: Tracker) -> None:
    """Runs of sweeps whose process died are not running, whatever MLflow says."""
    for path in root.glob(f"*/{RECORD}"):
        folder, record = path.parent, files.read_json(path)
        if record.get("status") == "RUNNING" and not at_work(folder / SWEEP_LOCK):
            guarded(partial(tracker.close_sweep, folder, is_alive), "close the runs of a dead sweep")
            files.write_json(path, {**record, "status": "KILLED"})


def is_alive(folder: str) -> bool:
    """Whether the job of this folder is at work, here or on another machine that shares the folder."""
    return bool(folder) and (Path(folder) / lock.NAME).exists() and at_work(Path(folder) / lock.NAME)


@contextmanager
def parent_run(tracker: Tracker | None, overrides: Sequence[str], sweep: Sweep) -> Iterator[None]:
    """The run in MLflow that holds the jobs; that of the earlier sweep where one goes on."""
    os.environ[PARENT_VARIABLE] = ""
    if tracker is None:
        yield
        return
    text = " ".join(overrides)
    tags, params = {"sweep": text, SWEEP_FOLDER: str(sweep.folder)}, {"overrides": text}
    opened = guarded(
        lambda: tracker.start_or_reopen("sweep", tags, params, SWEEP_FOLDER), "open the parent run of the sweep"
    )
    if opened and tracker.run_id:
        os.environ[PARENT_VARIABLE] = tracker.run_id
    try:
        yield
    finally:
        os.environ.pop(PARENT_VARIABLE, None)
        if opened:
            guarded(lambda: tracker.close_children(is_alive), "close runs that were left")
            guarded(lambda: tracker.end(sweep.status_name()), "close the parent run of the sweep")


class Sweep:
    """The jobs of one sweep at work."""

    def __init__(self, parsed: argparse.Namespace, folder: Path, notes: Path, root: Path | None) -> None:
        self.parsed, self.folder, self.notes = parsed, folder, notes
        self.planned: list[Planned] = []
        self.search: Search | None = None
        self.interrupted = False
        self.read: set[str] = set()  # names of notes
        self.ended: dict[str, Note] = {}  # the last note of every folder
        self.strikes: Counter[str] = Counter()  # how often the process of a job died, by folder
        self.earlier: dict[str, list[tuple[Path, Origin]]] = index(root) if root else {}

    def run(self) -> None:
        """Launch everything; a job that fails does not stop the others."""
        os.environ[SWEEPER_VARIABLE] = sweeper_id()
        os.environ[RESUME_VARIABLE] = ""
        from hydra.core.global_hydra import GlobalHydra

        jobs = expand(self.parsed.overrides, self.parsed.config_dir)
        self.open()
        try:
            if self.cfg.get("search") is None:
                self.launch(jobs)
            else:
                self.run_search()
        except KeyboardInterrupt:
            self.interrupted = True
            raise
        finally:
            GlobalHydra.instance().clear()

    def open(self) -> None:
        """Compose what all jobs share, and make the launcher."""
        from hydra._internal.callbacks import Callbacks
        from hydra._internal.config_search_path_impl import ConfigSearchPathImpl
        from hydra._internal.hydra import Hydra
        from hydra._internal.utils import create_config_search_path
        from hydra.core.config_search_path import SearchPathQuery
        from hydra.core.plugins import Plugins
        from hydra.types import HydraContext, RunMode

        path = create_config_search_path("pkg://sciuq_runner.conf")
        assert isinstance(path, ConfigSearchPathImpl)
        if self.parsed.config_dir:
            mine = f"file://{Path(self.parsed.config_dir).resolve()}"
            path.prepend("command-line", mine, SearchPathQuery(provider="schema"))  # as Hydra does: ours come first
        hydra = Hydra.create_main_hydra2("sciuq-run", path)
        own = [f"hydra.sweep.dir={quote(str(self.folder))}", *carried_variables()]
        self.cfg = hydra.compose_config("config", [*self.parsed.overrides, *own], RunMode.MULTIRUN, True)
        context = HydraContext(hydra.config_loader, Callbacks(self.cfg))
        self.loader = hydra.config_loader
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=context, task_function=job, config=self.cfg
        )

    def run_search(self) -> None:
        """Jobs as Optuna proposes them."""
        overrides = [text for text in self.parsed.overrides if not is_of_hydra(text)]
        self.search = Search(parse_overrides(overrides), section(self.cfg.search))
        fixed = [item.input_line for item in parse_overrides(overrides) if not item.is_sweep_override()]
        while proposed := self.search.propose():
            notes = self.launch([[*fixed, *settings] for settings in proposed])
            self.search.learn([note.score for note in notes])

    def launch(self, jobs: Sequence[Sequence[str]]) -> list[Note]:
        """Run these jobs to their ends; those whose process died are started again, from their checkpoints.

        Whatever ends one process can take others with it (joblib ends them all): a job that was there twice is started
        alone, after all others.
        """
        first = len(self.planned)
        for overrides in jobs:
            self.planned.append(self.plan([text for text in overrides if not is_of_hydra(text)]))
        batch = self.planned[first:]
        pending = [item for item in batch if not item.done and not item.refusal]
        while pending:
            pending.sort(key=self.deaths)
            chosen = [item for item in pending if self.deaths(item) < STARTS - 1] or pending[:1]
            error = self.launch_once(chosen, first)
            moved = self.look(chosen)
            if (self.notes / STOP).exists():
                raise KeyboardInterrupt
            if error is not None and not moved:
                self.give_up(error)
                break
            if error is not None:
                log.warning("A process of the sweep died (%s); what it was doing starts again.", first_line(error))
            tried = {item.number for item in chosen}
            again = [replace(item, resumes=True) for item in chosen if error is not None and self.is_left(item)]
            pending = [item for item in pending if item.number not in tried] + again
        return [self.note_of(item) for item in batch]

    def launch_once(self, pending: Sequence[Planned], first: int) -> Exception | None:
        """Start jobs together and wait for them; what the launcher raised where it did not come back with all."""
        jobs = [item.arguments() for item in pending]
        try:
            if is_submitit(self.launcher):
                submit(self.launcher, jobs, first)
            else:
                self.launcher.launch(jobs, initial_job_idx=first)
        except Exception as error:  # each launcher has its own for a process that died
            return error
        return None

    def look(self, tried: Sequence[Planned] = ()) -> bool:
        """Read what jobs have left, and count those that began and died; whether there was anything new."""
        fresh = read_notes(self.notes, self.read)
        self.read |= fresh.keys()
        self.ended |= {note.folder: note for note in fresh.values()}
        for item in tried:
            origin = origin_of(item.folder) if str(item.folder) not in self.ended else None
            if origin is not None and origin.finished(item.folder):
                self.ended[str(item.folder)] = Note(str(item.folder), OK, score=origin.score)  # a full disk took none
        begun = take_beginnings(self.notes)
        self.strikes.update(folder for folder in begun if folder not in self.ended and not is_alive(folder))
        return bool(fresh or begun)

    def deaths(self, item: Planned) -> int:
        """How often the process of a job died."""
        return self.strikes[str(item.folder)]

    def is_left(self, item: Planned) -> bool:
        """Whether a job has not ended, and may be started once more."""
        return str(item.folder) not in self.ended and self.deaths(item) < STARTS

    def has_begun(self) -> bool:
        """Whether there is anything to say of any job."""
        return bool(self.ended or self.strikes or any(item.done or item.refusal for item in self.planned))

    def give_up(self, error: Exception) -> None:
        """Say that the launcher starts nothing: at the beginning, that is a mistake in the settings."""
        choice = f"sweep={self.cfg.hydra.runtime.choices.get('sweep')}"
        if isinstance(error, OSError) and error.filename:  # no room, or not allowed: that has its own sentence
            raise error
        if not self.ended and not self.strikes:
            raise ConfigError(
                f"{choice} could not start a job ({first_line(error)}): choose another, such as sweep=local."
            ) from error
        log.warning("%s starts no more jobs (%s).", choice, first_line(error))

    def plan(self, overrides: list[str]) -> Planned:
        """Where a job belongs: to the folder of the same job of an earlier sweep, or to one of its own."""
        number = len(self.planned)
        own = self.folder / str(number)
        try:
            found = self.earlier.get(self.digest_of(overrides), [])
        except ConfigError as error:
            return Planned(number, overrides, own, refusal=str(error))
        for folder, origin in found:
            if origin.finished(folder):
                return Planned(number, overrides, folder, done=True)
        taken = {item.folder for item in self.planned}
        begun = [folder for folder, _ in found if folder not in taken]
        if not begun and (own in taken or (own / NAME).exists()):  # of another configuration
            own = self.folder / f"{number}_{secrets.token_hex(4)}"
        folder = begun[-1] if begun else own
        try:
            refuse_link(folder)
            files.refuse_links(folder)
        except ConfigError as error:
            return Planned(number, overrides, folder, refusal=str(error))
        return Planned(number, overrides, folder, resumes=folder.exists())

    def digest_of(self, overrides: list[str]) -> str:
        """The hash of the configuration of a job."""
        from omegaconf import open_dict

        from sciuq_runner.assembly import assemble
        from sciuq_runner.datafiles import digests

        if not self.earlier:
            return ""
        try:
            cfg = self.loader.load_sweep_config(self.cfg, overrides)
        except Exception as error:  # only configuration is at work here
            raise ConfigError(first_line(error)) from error
        with open_dict(cfg):
            del cfg["hydra"]
        config = plain(cfg)
        return digest(config, digests(assemble(config).problem.data_files))

    def note_of(self, item: Planned) -> Note:
        """How a job ended."""
        if item.refusal:
            return Note(str(item.folder), WRONG_INPUT, item.refusal)
        if item.done:
            origin = origin_of(item.folder)
            return Note(str(item.folder), OK, score=origin.score if origin else None)
        return self.ended.get(str(item.folder)) or self.lost(item)

    def lost(self, item: Planned) -> Note:
        """How a job ended that left no note."""
        died = self.deaths(item)
        if self.interrupted:
            return Note(str(item.folder), INTERRUPTED, "at once." if died else "")
        sentence = f"its process died at each of {died} starts." if died else "it did not start."
        return Note(str(item.folder), FAILED, sentence)

    def rows(self, tracker: Tracker | None) -> list[Row]:
        """The table: a line for every job."""
        self.look(self.planned)
        several = len(self.planned) > 1
        shared = set.intersection(*(set(item.overrides) for item in self.planned)) if several else set()
        return [self.row(item, shared, tracker) for item in self.planned]

    def row(self, item: Planned, shared: set[str], tracker: Tracker | None) -> Row:
        """One line of the table, with the settings that are not ``shared`` by all."""
        note, origin = self.note_of(item), origin_of(item.folder)
        names = {OK: "finished", INTERRUPTED: "stopped"}
        status = "finished before" if item.done else names.get(note.status, "failed")
        metric, value = headline(item.folder) if note.status == OK else ("", None)
        run = tracker.link(origin.mlflow_run) if tracker and origin and origin.mlflow_run else ""
        settings = " ".join(text for text in item.overrides if text not in shared)
        return Row(item.number, settings, status, metric, value, note.score, note.sentence, str(item.folder), run)

    def best(self) -> tuple[list[str], float] | None:
        """What a search has found."""
        return self.search.best() if self.search else None

    def exit_status(self) -> int:
        """The worst of all jobs."""
        return max((self.note_of(item).status for item in self.planned), default=FAILED)

    def status_name(self) -> Any:
        """The status of the sweep in MLflow."""
        if self.interrupted:
            return "KILLED"
        return "FINISHED" if self.exit_status() == OK else "FAILED"


def index(root: Path) -> dict[str, list[tuple[Path, Origin]]]:
    """Runs below a folder by the hash of their configuration; the most promising to go on with comes last."""
    from sciuq_runner.pipeline import CHECKPOINT

    found: dict[str, list[tuple[Path, Origin]]] = {}
    for path in [*root.glob(f"*/{NAME}"), *root.glob(f"*/*/{NAME}")]:
        try:
            origin = read_origin(path.parent)
        except ConfigError as error:
            log.warning("%s", error)
            continue
        if origin is not None and origin.digest:
            found.setdefault(origin.digest, []).append((path.parent.absolute(), origin))
    for runs in found.values():
        runs.sort(key=lambda run: ((run[0] / CHECKPOINT).exists(), (run[0] / NAME).stat().st_mtime))
    return found


def refuse_link(folder: Path) -> None:
    """The folder of a job is one of the sweep: a link could lead to any other, and results would be written there."""
    if folder.is_symlink():
        raise ConfigError(f"{folder} is a link: put the folder itself in its place.")


def origin_of(folder: Path) -> Origin | None:
    """The origin of a run folder, if there is one that can be read."""
    try:
        return read_origin(folder)
    except ConfigError:
        return None


def headline(folder: Path) -> tuple[str, float | None]:
    """The first error that metrics.json names, with its name in MLflow."""
    from sciuq_runner.results import METRICS, NOT_QUANTITIES

    path = folder / METRICS
    for quantity, splits in files.read_json(path).items() if path.is_file() else ():
        for split, values in splits.items() if quantity not in NOT_QUANTITIES else ():
            if "rl2e" in values:
                return f"{quantity}/{split}/rl2e", values["rl2e"]
    return "", None

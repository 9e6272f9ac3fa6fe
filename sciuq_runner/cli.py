"""``sciuq-run``: checks everything first, then lets Hydra start the work."""

from __future__ import annotations

import argparse
import logging
import os
import re
import signal
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

OK, FAILED, WRONG_INPUT, INTERRUPTED = 0, 1, 2, 130

NOTES_VARIABLE, RESUME_VARIABLE = "SCIUQ_NOTES", "SCIUQ_RESUME"

log = logging.getLogger(__name__)


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of ``sciuq-run``."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    early = _early(arguments)
    if early.help:
        from sciuq_runner import help as help_text

        print(help_text.text(early.config_dir))
        return
    from sciuq_runner.errors import ConfigError

    try:
        status = run(arguments)
    except ConfigError as error:
        print(f"sciuq-run: {error}", file=sys.stderr)
        status = WRONG_INPUT
    except OSError as error:
        print(f"sciuq-run: {error.strerror or error}: {error.filename or 'a file'}.", file=sys.stderr)
        status = WRONG_INPUT
    except KeyboardInterrupt:
        print("sciuq-run: stopped.", file=sys.stderr)
        status = INTERRUPTED
    sys.exit(status)


def _early(arguments: list[str]) -> argparse.Namespace:
    """What must be known before anything heavy is imported."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("-h", "--help", action="store_true")
    parser.add_argument("--config-dir", "-cd", nargs="?")
    return parser.parse_known_args(arguments)[0]


def run(arguments: list[str]) -> int:
    """Check the command line, then hand over to Hydra; returns the exit status."""
    from sciuq_runner.composition import adopt_files, register_resolvers

    register_resolvers()
    resumes = any(argument.startswith("resume=") for argument in arguments)
    parsed, arguments = parse(adopt_files(resumed(arguments) if resumes else arguments))
    refuse_flags(parsed)
    if parsed.hydra_help or parsed.shell_completion:
        _start_hydra(arguments)
        return OK
    tracker = check(parsed)
    if parsed.cfg or parsed.info:
        _start_hydra(arguments)
        return OK
    with tempfile.TemporaryDirectory(prefix="sciuq_") as notes:
        os.environ[NOTES_VARIABLE] = notes
        os.environ[RESUME_VARIABLE] = "yes" if resumes else ""
        with _parent_run(tracker if parsed.multirun else None, parsed.overrides, notes):
            _start_hydra(arguments)
        return worst_status(notes)


def parse(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """What Hydra will read, and the arguments in the order that it understands: flags first."""
    from hydra._internal.utils import get_args_parser

    from sciuq_runner.errors import ConfigError

    def refuse(message: str) -> NoReturn:
        raise ConfigError(f"the command line is not understood: {message}; sciuq-run --help shows what there is.")

    parser = get_args_parser()
    parser.error = refuse  # type: ignore[method-assign]
    parsed = parser.parse_intermixed_args(arguments)
    flags = list(arguments)
    for override in reversed(parsed.overrides):
        del flags[len(flags) - 1 - flags[::-1].index(override)]
    return parsed, [*flags, *parsed.overrides]


def refuse_flags(parsed: argparse.Namespace) -> None:
    """Options of Hydra that would go around our checks, or end in its traceback."""
    from sciuq_runner.errors import ConfigError

    for name in ("experimental_rerun", "config_name", "config_path"):
        if getattr(parsed, name, None):
            flag = "--" + name.replace("_", "-")
            raise ConfigError(f"{flag} is not supported: choose with group=choice, or add files with --config-dir.")
    completion = re.fullmatch("(install|uninstall|query)=(bash|fish|zsh)", " ".join(parsed.overrides))
    if parsed.shell_completion and not completion:
        raise ConfigError("-sc needs one of install=, uninstall= and query= with bash, fish or zsh: -sc install=bash.")
    if any(override.startswith(("tuned", "~")) for override in parsed.overrides):
        raise ConfigError("tuned= and ~ cannot be used: change single settings with key=value instead.")


def worst_status(notes: str) -> int:
    """The exit status of all jobs, wherever they ran: each leaves a note."""
    found = [int(path.read_text()) for path in Path(notes).iterdir()]
    return max(found, default=FAILED)


def resumed(arguments: list[str]) -> list[str]:
    """The arguments of the run that ``resume=`` names."""
    named = [argument for argument in arguments if argument.startswith("resume=")]
    from sciuq_runner.resume import restart_arguments

    return restart_arguments(named[0].partition("=")[2], [item for item in arguments if item != named[0]])


def check(parsed: argparse.Namespace) -> Any:
    """Refuse whatever can be known to fail, before any work, folder or run in MLflow exists.

    Returns the connected tracker of the (first) job, None without tracking.
    """
    from sciuq_runner.composition import compose, expand, plain

    grant_trust(parsed.overrides)
    jobs = expand(parsed.overrides, parsed.config_dir) if parsed.multirun else [list(parsed.overrides)]
    configs = [plain(compose(job, parsed.config_dir)) for job in jobs]
    if parsed.cfg or parsed.info:
        return None
    from sciuq_runner.assembly import assemble, prepare
    from sciuq_runner.tracking import open_tracker

    tracker = None
    for index, config in enumerate(configs):
        allow_modules(config["trust"])
        built = assemble(config)
        prepare(built)
        tracker = open_tracker(built.tracking) if index == 0 else tracker
    if tracker is not None:
        tracker.connect()
    return tracker


def grant_trust(overrides: Sequence[str]) -> None:
    """Remember which modules the person at the command line trusts; no file can add to them."""
    granted = [text.partition("=")[2].strip("[]").split(",") for text in overrides if text.startswith("trust=")]
    names = [name.strip() for part in granted for name in part if name.strip()]
    known = [name for name in os.environ.get("SCIUQ_TRUST", "").split(",") if name]
    os.environ["SCIUQ_TRUST"] = ",".join(dict.fromkeys([*known, *names]))


def allow_modules(trust: Any) -> None:
    """Let trusted modules be found in the working folder; refuse trust that did not come from the command line."""
    from sciuq_runner.errors import ConfigError

    granted = os.environ.get("SCIUQ_TRUST", "").split(",")
    if isinstance(trust, list) and any(name not in granted for name in trust):
        raise ConfigError("trust can be given on the command line only, for example trust=[my_module].")
    here = os.getcwd()
    if trust and here not in sys.path:
        sys.path.insert(0, here)


def _start_hydra(arguments: list[str]) -> None:
    import hydra

    os.environ["HYDRA_FULL_ERROR"] = "1"  # errors come to us, and become sentences here
    sys.argv = [sys.argv[0], *arguments]
    decorate = hydra.main(version_base="1.3", config_path="pkg://sciuq_runner.conf", config_name="config")
    decorate(task)()


def task(cfg: Any) -> float | None:
    """One job of Hydra: a run with its folder, its log and its place in MLflow. Returns its validation score."""
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    from sciuq_runner.assembly import assemble
    from sciuq_runner.composition import original, plain, register_resolvers
    from sciuq_runner.datafiles import digests
    from sciuq_runner.errors import ConfigError
    from sciuq_runner.resume import NAME, Origin
    from sciuq_runner.tracking import open_tracker

    register_resolvers()
    job = HydraConfig.get()
    folder = Path(job.runtime.output_dir)
    status, headline = FAILED, None
    try:
        if not os.environ.get(RESUME_VARIABLE) and (folder / NAME).exists():
            raise ConfigError(f"{folder} already holds a run: choose another folder, or resume={folder}.")
        config = plain(cfg)
        allow_modules(config["trust"])
        wanted = ("problem", "model", "method", "calibration", "fidelity")
        choices = {key: str(job.runtime.choices.get(key)) for key in wanted}
        built = assemble(config)
        choices["calibration"] = ",".join(built.calibrators) or "none"  # Hydra does not name a list of choices
        tracker = open_tracker(built.tracking, Path(job.runtime.cwd))
        if tracker is not None:
            tracker.connect()
        sources = [item.path for item in job.runtime.config_sources if item.provider == "command-line"]
        data = digests(built.problem.data_files)
        origin = Origin(original(job.overrides.task, config), sources[0] if sources else None, data=data)
        status, headline = work(built, folder, choices, tracker, origin)
    except ConfigError as error:
        status = WRONG_INPUT
        log.error("%s", error)
    finally:
        leave_note(status)
    if status == INTERRUPTED and job.mode == RunMode.MULTIRUN:
        raise KeyboardInterrupt  # the person wants the sweep to end, not one job of it
    return headline


def leave_note(status: int) -> None:
    """Tell the process that started the sweep how this job ended."""
    notes = os.environ.get(NOTES_VARIABLE)
    if notes and os.path.isdir(notes):
        (Path(notes) / f"{os.getpid()}_{uuid.uuid4().hex}").write_text(str(status))


def work(built: Any, folder: Path, choices: dict[str, str], tracker: Any, origin: Any) -> tuple[int, float | None]:
    """Do the run under the eyes of MLflow and of the person at the terminal: exit status and validation score."""
    from sciuq_runner.console import make_display, print_summary
    from sciuq_runner.errors import RunError
    from sciuq_runner.identity import TAG, configuration_hash
    from sciuq_runner.loop import Loop
    from sciuq_runner.pipeline import CHECKPOINT, PRETRAINED, execute
    from sciuq_runner.pretraining import Store
    from sciuq_runner.results import DEFAULT_MODEL
    from sciuq_runner.resume import read_origin
    from sciuq_runner.tracking import flatten_params, guarded

    loop = Loop(make_display(), folder / CHECKPOINT, built.settings.checkpoint_interval)
    status = "FAILED"
    case = str(built.config["problem"].get("case", ""))
    seed = str(built.settings.seed)
    model = "" if choices["model"] == DEFAULT_MODEL else choices["model"]
    name = " ".join(part for part in (choices["problem"], case, model, choices["method"], f"seed {seed}") if part)
    tags = {**choices, "case": case, "seed": seed, "run_folder": str(folder), TAG: configuration_hash(built.config)}
    params = flatten_params(built.config, choices)
    earlier = read_origin(folder)  # of the run that is being resumed; a new run's folder has none

    def open_run() -> None:
        if earlier is not None and earlier.mlflow_run is not None:
            tracker.reopen(earlier.mlflow_run)
        else:
            tracker.start(name, tags, params)

    if tracker is not None and not guarded(open_run, "open the run"):
        guarded(lambda: tracker.end("FAILED"), "close the run")
        tracker = None
    replace(origin, mlflow_run=tracker.run_id if tracker else None).write(folder)
    try:
        with stop_on_signal(loop.request_stop):
            outcome = execute(built, folder, loop, choices, Store(Path(PRETRAINED), tracker))
            status = "KILLED" if outcome.interrupted else "FINISHED"
            if tracker is not None:
                guarded(lambda: tracker.log_results(outcome.metrics, folder), "store the results")
        print_summary(outcome.metrics, folder, tracker.ui_command if tracker else None)
        if outcome.interrupted:
            log.warning("Stopped early: what was computed until then is in the run folder.")
            return INTERRUPTED, None
        return OK, outcome.headline
    except RunError as error:
        log.error("%s", error)
        return FAILED, None
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and "allocate" not in str(error):
            raise
        log.error("There is not enough memory for this run: try fewer samples, members or points.")
        return FAILED, None
    except KeyboardInterrupt:
        status = "KILLED"
        raise
    finally:
        if tracker is not None:
            guarded(lambda: tracker.log_file(folder / "run.log"), "store the log")
            guarded(lambda: tracker.end(status), "close the run")


@contextmanager
def stop_on_signal(request_stop: Callable[[], None]) -> Iterator[None]:
    """The first Ctrl-C (or SIGTERM) ends the work after its current step, the second at once."""

    def handle(number: int, frame: Any) -> None:
        request_stop()
        print("\nStopping after this step; once more to stop at once.", flush=True)
        for watched in previous:
            signal.signal(watched, signal.default_int_handler)

    previous = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in previous:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


@contextmanager
def _parent_run(tracker: Any, overrides: Sequence[str], notes: str) -> Iterator[None]:
    """The run in MLflow that holds the jobs of a sweep."""
    from sciuq_runner.tracking import PARENT_VARIABLE, guarded

    if tracker is None:
        yield
        return
    opened = guarded(
        lambda: tracker.start("sweep", {"sweep": " ".join(overrides)}, {"overrides": " ".join(overrides)}),
        "open the parent run of the sweep",
    )
    if opened:
        os.environ[PARENT_VARIABLE] = tracker.run_id
    status = "FAILED"
    try:
        yield
        status = "FINISHED" if worst_status(notes) == OK else "FAILED"
    except KeyboardInterrupt:
        status = "KILLED"
        raise
    finally:
        os.environ.pop(PARENT_VARIABLE, None)
        if opened:
            guarded(lambda: tracker.end(status), "close the parent run of the sweep")


if __name__ == "__main__":
    main()

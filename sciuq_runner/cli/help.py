"""``sciuq-run --help``: read from the first line of every configuration file, so it needs no import of Hydra."""

from __future__ import annotations

from sciuq_runner.config.choices import options

GROUPS = (
    "problem",
    "model",
    "method",
    "calibration",
    "detection",
    "fidelity",
    "tracking",
    "experiment",
    "sweep",
    "search",
)
"""In the order of the pipeline: every folder of ``conf`` but those that nobody chooses from."""

EXAMPLES = """\
Examples:
  sciuq-run problem=function method=hmc
  sciuq-run problem=function method=dens method.n_members=20 fidelity=paper seed=3
  sciuq-run -m problem=function method=hmc,dens seed='range(0,5)'
  sciuq-run -m problem=function method=hmc,dens seed='range(0,5)' sweep=local sweep.resume=true
  sciuq-run -m experiment=paper/function_known      (a table of the paper; sciuq-reproduce --list names them all)
"""

OPTIONS = """\
Settings (key=value; --cfg job shows them all):
  seed=N  device=auto|cpu|cuda|mps  dtype=float32|float64  temperature=T  method.n_burn=N ...

Options:
  -m, --multirun       run every combination of comma-separated values
  --cfg job            print the composed configuration with resolved values and stop
  --info               print how the configuration was composed
  --config-dir DIR     a folder with your own problem/, method/, ... files
  --shell-completion   tab completion: see sciuq-run --hydra-help
  --hydra-help         the options of Hydra itself
"""


def text(config_dir: str | None = None) -> str:
    """The whole help text."""
    parts = ["sciuq-run: a field with its uncertainty, from an equation and a few noisy observations.\n"]
    parts.append("Usage: sciuq-run [OPTIONS] [group=choice] [key=value] ...\n")
    for group in GROUPS:
        entries = dict(options(group, config_dir))
        width = max(map(len, entries), default=0)
        lines = [f"  {name.ljust(width)}  {line}" for name, line in sorted(entries.items())]
        if lines:
            parts.append(f"{group}=\n" + "\n".join(lines) + "\n")
    return "\n".join([*parts, OPTIONS, EXAMPLES])

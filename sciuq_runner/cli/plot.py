"""``sciuq-plot``: the figures of a finished run, drawn again or for the first time."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from sciuq_runner.cli.common import conclude, run_parser


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of ``sciuq-plot``."""
    conclude("sciuq-plot", lambda: plot(sys.argv[1:] if argv is None else argv))


def plot(arguments: Sequence[str]) -> None:
    """Draw the figures of the run that the arguments name, and print their files."""
    parser = run_parser("sciuq-plot", "Draw the figures of a finished run again, from its saved predictions alone.")
    options = parser.parse_args(arguments)

    from sciuq_runner.runs.finding import find_run

    folder = find_run(options.run)

    from sciuq_runner.runs.afterwards import redraw

    for path in redraw(folder):
        print(path)


if __name__ == "__main__":
    main()

"""``sciuq-calibrate``: a finished run calibrated anew."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from sciuq_runner.cli.common import conclude, run_parser


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of ``sciuq-calibrate``."""
    conclude("sciuq-calibrate", lambda: calibrate(sys.argv[1:] if argv is None else argv))


def calibrate(arguments: Sequence[str]) -> None:
    """Calibrate the run that the arguments name, and print its metrics."""
    description = "Recalibrate a finished run from its saved predictions; nothing is trained anew."
    parser = run_parser("sciuq-calibrate", description)
    parser.add_argument("settings", metavar="KEY=VALUE", nargs="+", help="calibration=[var,cdf] calibration.n=20 ...")
    options = parser.parse_args(arguments)

    from sciuq_runner.runs.finding import find_run

    folder = find_run(options.run, half_calibrated=True)

    from sciuq_runner.runs.afterwards import recalibrate
    from sciuq_runner.runs.console import print_summary

    print_summary(recalibrate(folder, options.settings), folder, None)


if __name__ == "__main__":
    main()

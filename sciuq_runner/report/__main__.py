"""``python -m sciuq_runner.report`` is ``sciuq-report``."""

from sciuq_runner.report import main

main()

"""``python -m sciuq_runner.reproduction`` is ``sciuq-reproduce``."""

from sciuq_runner.reproduction import main

main()

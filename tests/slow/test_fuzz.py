"""The expression parser under a fuzzer that looks at which of its lines are reached."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import environment

SECONDS = 60
TARGET = Path(__file__).parent / "fuzz_expressions.py"


@pytest.mark.slow
def test_the_expression_parser_survives_a_minute_of_fuzzing(tmp_path):
    pytest.importorskip(
        "atheris", reason="atheris is not installed: it exists for Linux on x86-64 (pip install atheris)"
    )
    command = [sys.executable, TARGET, f"-max_total_time={SECONDS}", "-timeout=30", "-rss_limit_mb=4096", "-seed=1"]
    found = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=600)
    assert found.returncode == 0, found.stderr[-3000:]
    assert not list(tmp_path.glob("crash-*")) + list(tmp_path.glob("timeout-*"))
    runs = re.search(r"Done (\d+) runs in (\d+) second", found.stderr)
    assert runs is not None, found.stderr[-3000:]
    assert int(runs.group(1)) > 1000

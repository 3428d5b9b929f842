"""The package is typed, and its stubs say what is there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]


def checked(*line: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *line], cwd=HERE, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_package_its_tests_and_examples_pass_mypy_strict() -> None:
    checked("mypy", "python", "tests", "examples")


def test_the_stubs_say_what_the_extension_has() -> None:
    checked("mypy.stubtest", "tack_lab._native")

"""What tests share: short files, and the runs of one machine that everything is held against."""

from __future__ import annotations

from pathlib import Path

import pytest
import tack_lab as lab

REPOSITORY = Path(__file__).resolve().parents[3]

SCENARIO = """\
name = "short"
duration_s = 0.6
warmup_s = 0.2
runs = 2
[wifi]
phy = "n"
[wan]
delay_ms = 10.0
[[flow]]
strategy = "tack"
[sweep]
"wan.delay_ms" = [5.0, 20.0]
"flow.0.strategy" = ["tcp-l2", "tack"]
"""


@pytest.fixture
def plan() -> lab.Plan:
    return lab.loads(SCENARIO, name="short.toml")


@pytest.fixture(scope="session")
def results() -> lab.Results:
    return lab.loads(SCENARIO, name="short.toml").run(progress=False)

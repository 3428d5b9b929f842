"""Sweeps on Slurm, which script/python-slurm has started on this machine."""

from __future__ import annotations

from pathlib import Path

from processes import command
from test_sweep import SWEEP, survives


def test_slurm_survives_the_end_of_a_worker_and_of_the_driver(tmp_path: Path) -> None:
    survives(
        "slurm",
        tmp_path,
        "--folder",
        str(tmp_path / "jobs"),
        # A job takes a second to begin.
        "--shard-s",
        "3",
        text=SWEEP.replace("runs = 25", "runs = 60"),
        is_worker=lambda pid: "submitit.core._submit" in command(pid),
        of_driver=False,
    )

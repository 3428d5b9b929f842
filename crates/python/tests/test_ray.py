"""Sweeps on Ray: a local cluster of processes."""

from __future__ import annotations

from pathlib import Path

from processes import command
from test_sweep import survives


def test_ray_survives_the_end_of_a_worker_and_of_the_driver(tmp_path: Path) -> None:
    survives("ray", tmp_path, is_worker=lambda pid: "ray::" in command(pid))

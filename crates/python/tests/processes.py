"""Processes as the kernel has them: who descends from whom, and who works hardest."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Dict, List


def _stat(pid: int) -> List[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def all_pids() -> List[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def descendants(pid: int) -> List[int]:
    parents = {one: int(stat[1]) for one in all_pids() if (stat := _stat(one))}
    found = [pid]
    for one in found:
        found.extend(child for child, parent in parents.items() if parent == one)
    return found[1:]


def ticks(pid: int) -> int:
    stat = _stat(pid)
    return int(stat[11]) + int(stat[12]) if stat else 0


def busiest(pids: List[int], for_s: float = 0.3) -> int:
    """Which of them used the processor most for a moment: a worker that simulates."""
    before: Dict[int, int] = {pid: ticks(pid) for pid in pids}
    time.sleep(for_s)
    used = {pid: ticks(pid) - before[pid] for pid in pids if ticks(pid)}
    assert used, "each of them has ended meanwhile"
    return max(used, key=lambda pid: used[pid])


def wait_for(what: str, is_so: object, within_s: float = 60.0) -> None:
    """Until the callable says so."""
    assert callable(is_so)
    until = time.monotonic() + within_s
    while not is_so():
        assert time.monotonic() < until, f"waited {within_s} s for {what}"
        time.sleep(0.05)

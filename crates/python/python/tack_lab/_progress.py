"""How far the work is: a line on standard error, or what the caller wants to be told."""

from __future__ import annotations

import sys
import time
from typing import Callable, Optional, Union

#: None: a line if a person is looking; or whether; or what is called with how many are done, of how many.
Progress = Union[None, bool, Callable[[int, int], object]]

#: Between two lines, seconds.
_EVERY_S = 0.2


def told(progress: Progress) -> Callable[[int, int], object]:
    """What is to be called."""
    if callable(progress):
        return progress
    if progress is None:
        progress = sys.stderr is not None and sys.stderr.isatty()
    if not isinstance(progress, bool):
        kind = type(progress).__name__
        raise TypeError(f"progress is of type {kind}, but must be True, False, None or a function")
    return Line() if progress else lambda done, total: None


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


class Line:
    """One line, written anew."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._first: Optional[int] = None
        self._written = 0.0

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        # What a store has already says nothing of the speed.
        self._first = done if self._first is None else self._first
        if done < total and now - self._written < _EVERY_S:
            return
        self._written = now
        taken, made = now - self._began, done - self._first
        left = _clock(taken / made * (total - done)) if made else "?"
        end = "\n" if done >= total else ""
        sys.stderr.write(f"\r{done}/{total} runs  {_clock(taken)}, {left} left {end}")
        sys.stderr.flush()

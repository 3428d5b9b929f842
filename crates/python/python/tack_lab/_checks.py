"""Arguments that are of a wrong type are refused with their names, before anything runs."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any, Dict, Iterable, List, Mapping, Optional


def _wrong(name: str, value: object, right: str) -> TypeError:
    return TypeError(f"{name} is of type {type(value).__name__}, but must be {right}")


def mapping(name: str, value: Optional[Mapping[str, Any]]) -> Optional[Dict[str, Any]]:
    """A copy of it; None stays None."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise _wrong(name, value, "a mapping")
    return dict(value)


def names(name: str, value: Iterable[str]) -> List[str]:
    """A list of it. A text is one of letters to Python, which nobody means."""
    if isinstance(value, str):
        raise TypeError(f"{name} must be a list of names: [{value!r}]")
    if not isinstance(value, Iterable):
        raise _wrong(name, value, "a list of names")
    return list(value)


def whole(name: str, value: int, least: int) -> None:
    """A whole number."""
    # NumPy's is one, too.
    if not isinstance(value, Integral):
        raise _wrong(name, value, "a whole number")
    if value < least:
        raise ValueError(f"{name} is {value}, but must be at least {least}")


def above_0(name: str, value: float) -> None:
    """A number above 0, be it infinite."""
    if not isinstance(value, Real):
        raise _wrong(name, value, "a number")
    if math.isnan(value) or value <= 0:
        raise ValueError(f"{name} is {value}, but must be above 0")

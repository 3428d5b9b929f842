"""The lab of tack in Python: scenarios and experiment files, simulated; results as Arrow tables.

    import tack_lab as lab

    results = lab.load("scenarios/cafe.toml").run()
    results.means()          # an Arrow table: pyarrow.table(it), polars.DataFrame(it), ...

`sweep` runs a plan on any executor: threads of this machine, processes, Dask, Ray, Slurm.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Mapping, Optional, Sequence, Union

from . import _checks
from ._controller import Controller
from ._errors import FileError, LabError, RunError, StoreError, WorkerLost
from ._native import (
    AckSample,
    ControllerConfig,
    LossSample,
    Picture,
    Plan,
    Results,
    Table,
    __version__,
    about_metric,
    bundled,
    figures,
)
from ._sweep import sweep

__all__ = [
    "AckSample",
    "Controller",
    "ControllerConfig",
    "FileError",
    "LabError",
    "LossSample",
    "Picture",
    "Plan",
    "Results",
    "RunError",
    "StoreError",
    "Table",
    "WorkerLost",
    "__version__",
    "about_metric",
    "figure",
    "figures",
    "load",
    "loads",
    "sweep",
]


def load(
    path: Union[str, "os.PathLike[str]"],
    *,
    extent: str = "usual",
    set: Optional[Mapping[str, Any]] = None,
    only: Sequence[str] = (),
    series: bool = False,
) -> Plan:
    """Plans a scenario or experiment file.

    extent: how much of an experiment runs: "short", "usual" or "full".
    set:    other values, by dotted key, as `--set` has them: {"wan.delay_ms": [10, 40], "seeds": 5}.
    only:   these cases and variants.
    series: keep windows, rates and round trips over time, for `Results.series` and pictures of them.

    Raises FileError, which names file, line and key.
    """
    name = os.fspath(path)
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as wrong:
        raise FileError(f"{name}: not a text in UTF-8: {wrong.reason}", name, None, "") from wrong
    return loads(text, name=name, extent=extent, set=set, only=only, series=series)


def loads(
    text: str,
    *,
    name: str = "text",
    extent: str = "usual",
    set: Optional[Mapping[str, Any]] = None,
    only: Sequence[str] = (),
    series: bool = False,
) -> Plan:
    """Plans the text of a file, which messages call `name`; the rest is as in `load`."""
    changes, chosen = _checks.mapping("set", set), _checks.names("only", only)
    return Plan._parse(text, name, extent=extent, set=changes, only=chosen, series=series)


def figure(
    name: str,
    *,
    extent: str = "usual",
    set: Optional[Mapping[str, Any]] = None,
    only: Sequence[str] = (),
    series: bool = False,
) -> Plan:
    """Plans an experiment of the repository, such as a figure of a paper: `figures()` has the names."""
    found = bundled(name)
    if found is None:
        raise KeyError(f"`{name}` is no figure: {', '.join(figures())}")
    path, text = found
    return loads(text, name=path, extent=extent, set=set, only=only, series=series)

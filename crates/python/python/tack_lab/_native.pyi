"""The extension module. What of it is for users is in `tack_lab` itself."""

import os
from typing import Any, Callable, Dict, List, Literal, NoReturn, Optional, Tuple, Union, final

from ._controller import Controller
from ._progress import Progress

__all__ = [
    "__version__",
    "Plan",
    "Results",
    "Store",
    "Table",
    "Picture",
    "AckSample",
    "LossSample",
    "ControllerConfig",
    "figures",
    "bundled",
    "about_metric",
    "main",
]

__version__: str

def figures() -> List[str]:
    """Names of the repository's experiments, as `figure` takes them."""

def bundled(name: str) -> Optional[Tuple[str, str]]:
    """Path and text of one of the repository's experiments."""

def about_metric(name: str) -> Optional[Tuple[str, str]]:
    """Unit and meaning of a figure; None: there is no such figure."""

def main(line: List[str], program: str) -> NoReturn:
    """Runs the command line and ends the process."""

@final
class Plan:
    """Every run of a scenario or experiment file. It can be pickled."""

    @staticmethod
    def _parse(
        text: str,
        name: str,
        *,
        extent: str,
        set: Optional[Dict[str, Any]],
        only: List[str],
        series: bool,
    ) -> Plan: ...
    @staticmethod
    def _restore(state: str) -> Plan: ...
    def _check(
        self, is_kept: bool, controllers: Optional[Dict[str, Callable[..., Any]]]
    ) -> None: ...
    def _shard(
        self,
        runs: List[str],
        *,
        jobs: int,
        seconds: Optional[float],
        controllers: Optional[Dict[str, Callable[..., Any]]],
    ) -> bytes: ...
    def __reduce__(self) -> Tuple[Any, Tuple[str]]: ...
    @property
    def id(self) -> str:
        """Of the experiment; of a scenario, its name."""

    @property
    def title(self) -> str:
        """In a few words; empty of a scenario."""

    @property
    def text(self) -> str:
        """The file."""

    @property
    def axes(self) -> List[Tuple[str, List[Union[float, str, List[float]]]]]:
        """What varies, and its values, the last fastest."""

    @property
    def runs(self) -> List[str]:
        """What each run is known by."""

    def describe(self, run: str) -> str:
        """Which run it is, in words."""

    def __len__(self) -> int: ...
    def run(
        self,
        *,
        jobs: int = 0,
        store: Union[None, str, os.PathLike[str]] = None,
        resume: bool = True,
        progress: Progress = None,
        controllers: Optional[Dict[str, Callable[..., Controller]]] = None,
    ) -> Results:
        """Runs it on this machine, without Python's lock; Ctrl-C ends it within a moment.

        jobs:        threads; 0 is one per core. Results do not depend on it.
        store:       a .jsonl file, that of `tack lab run --out`: what it has is not run again, and what
                     an interruption leaves is kept.
        resume:      False deletes what the store has.
        progress:    None: a line on standard error if a person is looking; True, False; or what is called
                     with how many runs are done, and of how many.
        controllers: what makes each controller that the file names: {"mine": Mine}.
        """

@final
class Results:
    """What came of every run of a plan. Notebooks show its pictures, tables and judgments."""

    @property
    def id(self) -> str:
        """The plan's."""

    @property
    def void(self) -> List[str]:
        """Runs without figures: their key, and why."""

    @property
    def pictures(self) -> List[Picture]:
        """Those of the file's views."""

    def runs(self) -> Table:
        """A row per run: its key, its seed and every figure."""

    def means(self) -> Table:
        """A row per point of the plan: means over its runs, and halves of their 95 % intervals."""

    def series(self) -> Table:
        """A row per moment of each figure of each run, of plans that keep series."""

    def quantiles(self) -> Table:
        """A row per quantile of each distribution over the time of each run."""

    def findings(self) -> Table:
        """A row per claim: what a paper says, what ours says, the verdict (agrees, open, differs), and why."""

    def plot(
        self,
        metric: str,
        *,
        kind: Literal["lines", "bars", "cdf", "series"] = "lines",
        **view: Any,
    ) -> Picture:
        """Draws one more view; its words are those of `[[view]]` in a file:

        results.plot("goodput_bps", x="wan.delay_ms", lines="flow.0.strategy", title="Goodput")
        """

    def text(self) -> str:
        """What `tack lab run` prints."""

    def markdown(self) -> str:
        """The same for a document."""

    def json(self) -> str:
        """What `tack lab run --json` prints, to the byte."""

    def jsonl(self) -> bytes:
        """What `tack lab run` keeps, to the byte: a line per run."""

    def html(self) -> str:
        """One page with pictures, tables, judgments and the file."""

    def _repr_html_(self) -> str: ...
    def __len__(self) -> int: ...

@final
class Store:
    """An open store, for `sweep`."""

    def __new__(cls, path: Union[None, str, os.PathLike[str]], resume: bool) -> Store: ...
    def missing(self, plan: Plan) -> List[str]:
        """The runs of a plan that have no record yet, in order."""

    def append(self, lines: bytes) -> List[str]:
        """Keeps the records of these lines; which runs they are of."""

    def finish(self, plan: Plan) -> Results:
        """Puts the file into the order of the plan, and closes it; what came of the plan."""

    def close(self) -> None:
        """Lets go of the file."""

@final
class Table:
    """An Arrow table. Whatever knows the PyCapsule interface takes it without a copy:
    `pyarrow.table(it)`, `polars.DataFrame(it)`, `duckdb.sql("... from it")`, `pandas.DataFrame.from_arrow(it)`.
    """

    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...
    @property
    def column_names(self) -> List[str]:
        """Names of its columns."""

    def column(self, name: str) -> List[Any]:
        """The values of a column, for who has no library for tables."""

    def rows(self) -> List[Dict[str, Any]]:
        """Its rows as dictionaries."""

    def _repr_html_(self) -> str: ...
    def __len__(self) -> int: ...

@final
class Picture:
    """One picture, or several below each other. Notebooks show it."""

    @property
    def titles(self) -> List[str]:
        """What stands above each."""

    @property
    def svg(self) -> str:
        """As a document of its own."""

    def save(self, path: Union[str, os.PathLike[str]]) -> None:
        """Writes it as an SVG file."""

    def _repr_svg_(self) -> str: ...
    def __len__(self) -> int: ...

@final
class ControllerConfig:
    """What a controller is made from."""

    @property
    def mss(self) -> int:
        """Bytes of text in a full segment."""

    @property
    def initial_window(self) -> int:
        """Window before the first acknowledgment, bytes."""

    @property
    def max_window(self) -> int:
        """The window never exceeds this, bytes."""

    @property
    def seed(self) -> int:
        """For what is random: the same for the same run."""

@final
class AckSample:
    """What an acknowledgment told the sender. Times are virtual seconds."""

    @property
    def now_s(self) -> float:
        """Its arrival."""

    @property
    def acked_bytes(self) -> int:
        """Bytes newly acknowledged."""

    @property
    def lost_bytes(self) -> int:
        """Bytes newly declared lost."""

    @property
    def delivered(self) -> int:
        """All bytes delivered so far, these included."""

    @property
    def prior_in_flight(self) -> int:
        """Bytes in flight before it was applied."""

    @property
    def in_flight(self) -> int:
        """Bytes in flight after it."""

    @property
    def rtt_s(self) -> Optional[float]:
        """A round trip, free of the receiver's delay; None when ambiguous."""

    @property
    def queued_s(self) -> Optional[float]:
        """How long the packet of `rtt_s` waited on the data path; None when nobody tells."""

    @property
    def srtt_s(self) -> Optional[float]:
        """Smoothed round trip."""

    @property
    def rtt_min_s(self) -> Optional[float]:
        """Least round trip over the filter's window."""

    @property
    def delivery_rate_bps(self) -> Optional[float]:
        """Delivery rate; None when this acknowledgment allows none."""

    @property
    def app_limited(self) -> bool:
        """That rate is a lower bound: there was nothing to send."""

    @property
    def newest_sent_s(self) -> Optional[float]:
        """When the newest packet acknowledged here left."""

    @property
    def ack_interval_s(self) -> float:
        """Time between two TACKs in force; zero for plain TCP."""

    @property
    def cwnd_limited(self) -> bool:
        """The window held the sender back, not the application."""

    @property
    def in_recovery(self) -> bool:
        """Loss recovery is under way."""

    @property
    def ece(self) -> bool:
        """It carried ECN-Echo."""

@final
class LossSample:
    """A congestion event: one per episode, not per packet."""

    @property
    def now_s(self) -> float:
        """When it was declared, virtual seconds."""

    @property
    def kind(self) -> Literal["recovery", "timeout", "congestion-experienced", "spurious"]:
        """What happened; `spurious` takes the last event back."""

    @property
    def lost_bytes(self) -> int:
        """Bytes declared lost."""

    @property
    def in_flight(self) -> int:
        """Bytes in flight, the lost ones excluded."""

"""A plan on any executor: shards out, records back, the store with the driver.

    driver ── submit(run_shard, plan, runs, ...) ──> worker: simulates for about `shard_s` seconds
      │  <──────────────── records as lines ───────────┘  and gives back what it came to
      └── store: a line per run, at once; at the end in the plan's order

A shard is a list of runs and a time. What a worker does not come to goes back to the queue, so that
shards take about as long as they should before anybody knows how long a run takes. Results do not
depend on who ran what: a run's identity has all that its figures depend on.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import threading
import time
import traceback
import uuid
from collections import deque
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Callable, Deque, Dict, List, Mapping, Optional, Union

from . import _checks
from ._errors import LabError, RunError, WorkerLost
from ._native import Plan, Results, Store
from ._progress import Progress, told

#: Shards on their way per worker: one that runs, one that waits for it.
_AHEAD = 2
#: Between two looks at futures that tell nobody when they are done, seconds.
_LOOK_S = 0.1
#: The same at those that do, in case one forgets to.
_LISTEN_S = 1.0
#: A shard is no shorter than this part of `shard_s`: submitting costs time, too.
_LEAST_PART = 60
#: How long a shard may take, in `shard_s`: what it did not come to by then goes back.
_PATIENCE = 2.0
#: The least `limit_s` unless one is given, and the same in `shard_s`: a single run may be long.
_LIMIT_S, _LIMIT_PARTS = 3_600.0, 20.0
#: After a submission that failed, seconds; twice as long after each in a row.
_PAUSE_S = 0.5
#: What a batch system calls a job that does not run yet.
_QUEUED = frozenset(("PENDING", "CONFIGURING", "REQUEUED", "SUSPENDED"))


@dataclass(frozen=True)
class Shard:
    """What came of a shard."""

    #: Records as a store has them.
    lines: bytes
    #: How long it took.
    seconds: float
    #: What went wrong with a run, which no other worker could do better.
    error: Optional[LabError]


def run_shard(
    plan: Plan,
    runs: List[str],
    jobs: int,
    seconds: float,
    controllers: Optional[Dict[str, Callable[..., Any]]],
    ticket: str,
    ends_with_driver: bool = False,
) -> Shard:
    """Runs a shard, on a worker. The ticket makes calls differ, for executors that take equal ones for one."""
    del ticket
    if ends_with_driver:
        _end_with_driver()
    began = time.monotonic()
    lines, failed = b"", None
    try:
        lines = plan._shard(runs, jobs=jobs, seconds=seconds, controllers=controllers)
    except LabError as error:
        failed = error
    except Exception as error:
        # A user's controller may raise what cannot be sent.
        told = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        failed = RunError(f"on a worker: {told}")
    return Shard(lines, time.monotonic() - began, failed)


#: The process that ends with its driver: what is forked from it is another.
_watched = 0


def _end_with_driver() -> None:
    """A pool's process waits for work for ever: when its driver is killed, nobody tells it."""
    global _watched
    driver, parent = multiprocessing.parent_process(), os.getppid()
    if driver is None or _watched == os.getpid():
        return
    _watched = os.getpid()

    def watch() -> None:
        # The pipe that tells is held open by processes forked later, and not every system says who the parent is.
        while driver.is_alive() and os.getppid() == parent:
            driver.join(_LISTEN_S)
        os._exit(1)

    threading.Thread(target=watch, name="driver", daemon=True).start()


def sweep(
    plan: Plan,
    executor: Any = None,
    *,
    store: Union[None, str, "os.PathLike[str]"] = None,
    resume: bool = True,
    jobs: Optional[int] = None,
    workers: Optional[int] = None,
    shard_s: float = 60.0,
    retries: int = 3,
    limit_s: Optional[float] = None,
    progress: Progress = None,
    controllers: Optional[Mapping[str, Callable[..., Any]]] = None,
) -> Results:
    """Runs a plan: on threads of this machine, or on an executor. Results are the same, to the byte.

    executor:    anything with `submit(function, *args)` that returns a future with `done()` and `result()`:
                 those of concurrent.futures, Dask's Client, submitit's executors, tack_lab.ray.RayExecutor;
                 or a function that makes one, which is called again should it break.
    store:       a .jsonl file, that of `tack lab run --out`: what it has is not run again.
    jobs:        threads, of this machine or of each shard (all cores here, one in a shard).
    workers:     how many shards run at a time, where the executor does not tell.
    shard_s:     about how long a shard takes: what is lost with a worker.
    retries:     how often a shard may be lost, or submitting fail in a row, before WorkerLost is raised.
    limit_s:     a shard that is not back so long after it was begun is lost with its worker, and run again
                 (20 times shard_s, but an hour at least). It has to be longer than the longest run.
    progress, controllers: as in `Plan.run`.
    """
    if not isinstance(plan, Plan):
        raise TypeError(f"plan is of type {type(plan).__name__}, but must be what load, loads or figure gives")
    _checks.above_0("shard_s", shard_s)
    _checks.whole("retries", retries, 0)
    if limit_s is not None:
        _checks.above_0("limit_s", limit_s)
    if jobs is not None:
        _checks.whole("jobs", jobs, 0)
    if workers is not None:
        _checks.whole("workers", workers, 1)
    own = _checks.mapping("controllers", controllers)
    tell = told(progress)
    if executor is None:
        return plan.run(
            jobs=jobs or 0, store=store, resume=resume, progress=progress, controllers=own
        )
    plan._check(store is not None, own)
    kept = Store(store, resume)
    try:
        with _Source(executor) as source:
            limit = max(_LIMIT_S, _LIMIT_PARTS * shard_s) if limit_s is None else limit_s
            settings = _Settings(jobs or 1, workers, shard_s, retries, limit, own)
            driver = _Driver(plan, kept, source, settings)
            driver.run(tell)
        return kept.finish(plan)
    finally:
        kept.close()


class _Source:
    """Where executors come from. One that breaks with a worker is made anew."""

    def __init__(self, executor: Any) -> None:
        # A class has it too, and makes what has it.
        has_submit = not isinstance(executor, type) and callable(getattr(executor, "submit", None))
        if not has_submit and not callable(executor):
            kind = type(executor).__name__
            raise TypeError(f"executor is of type {kind}, which has no `submit` and makes nothing that has")
        self._make: Optional[Callable[[], Any]] = None if has_submit else executor
        self.executor = executor if has_submit else executor()
        self._is_ours = not has_submit
        #: A shard did not come back in time, so its worker may never end.
        self.hangs = False

    def __enter__(self) -> "_Source":
        return self

    def __exit__(self, *raised: object) -> None:
        if self._is_ours:
            self._shut()

    def _shut(self) -> None:
        if self.hangs and isinstance(self.executor, Executor):
            # To be waited for by nobody; processes are ended, where the pool tells them.
            processes: Any = getattr(self.executor, "_processes", None) or {}
            # What it has not begun comes back at once.
            self.executor.shutdown(wait=False, cancel_futures=True)
            for process in list(processes.values()):
                process.kill()
            return
        for end in ("shutdown", "close"):
            if callable(getattr(self.executor, end, None)):
                getattr(self.executor, end)()
                return

    def renew(self, broken: BaseException) -> None:
        """Another executor like the one that broke, or stands still."""
        old = self.executor
        if self._make is not None:
            self._shut()
            self.executor = self._make()
        elif isinstance(old, ProcessPoolExecutor):
            # A pool ends with any of its processes. What it was made of is in these attributes since there
            # are pools; a function as executor needs none of them.
            inner: Any = old
            # Since Python 3.11.
            most = getattr(inner, "_max_tasks_per_child", None)
            more = {} if most is None else {"max_tasks_per_child": most}
            self.executor = ProcessPoolExecutor(
                inner._max_workers, inner._mp_context, inner._initializer, inner._initargs, **more
            )
            self._is_ours = True
        else:
            how = "broke" if isinstance(broken, BrokenExecutor) else "stands still"
            raise WorkerLost(
                f"the executor {how} with a worker; give a function that makes one, and it is made anew"
            ) from broken

    def workers(self) -> int:
        """How many shards run at a time."""
        executor = self.executor
        threads = getattr(executor, "nthreads", None)
        if callable(threads):  # Dask
            return max(1, int(sum(threads().values())))
        for name in ("workers", "_max_workers"):
            known = getattr(executor, name, None)
            if isinstance(known, int) and known > 0:
                return known
        return os.cpu_count() or 1


@dataclass(frozen=True)
class _Settings:
    jobs: int
    workers: Optional[int]
    shard_s: float
    retries: int
    limit_s: float
    controllers: Optional[Dict[str, Callable[..., Any]]]


@dataclass
class _Lot:
    """Runs that go together, and how often they were lost."""

    runs: List[str]
    lost: int = 0
    #: Which executor has it.
    executor: Any = None
    #: When it has to be back.
    until: float = math.inf


class _Driver:
    def __init__(self, plan: Plan, store: Store, source: _Source, settings: _Settings) -> None:
        self._plan, self._store, self._source, self._settings = plan, store, source, settings
        self._queue: Deque[str] = deque(store.missing(plan))
        self._again: Deque[_Lot] = deque()
        #: By ticket.
        self._flying: Dict[str, Any] = {}
        self._lots: Dict[str, _Lot] = {}
        #: How often submitting failed in a row, and before when it is not tried again.
        self._refused, self._pause_until = 0, 0.0
        #: When the executor last gave something back, or was made.
        self._heard = time.monotonic()
        self._woken = threading.Event()
        self._all_tell = True
        #: Of the runs that came back: how many, and their workers' time.
        self._made, self._seconds = 0, 0.0

    def run(self, tell: Callable[[int, int], object]) -> None:
        """Until every run of the plan has a record."""
        total = len(self._plan)
        try:
            while True:
                self._submit()
                left = self._left()
                tell(total - left, total)
                if not left:
                    return
                self._wait()
                for ticket in [t for t, future in self._flying.items() if future.done()]:
                    self._take(ticket)
                self._give_up()
        finally:
            # Nothing is left of a sweep that was interrupted, as far as its executor can be told.
            for future in self._flying.values():
                with suppress(Exception):
                    future.cancel()

    def _left(self) -> int:
        lots = [*self._again, *self._lots.values()]
        return len(self._queue) + sum(len(lot.runs) for lot in lots)

    def _submit(self) -> None:
        workers = self._settings.workers or self._source.workers()
        while len(self._flying) < _AHEAD * workers and time.monotonic() >= self._pause_until:
            lot = self._again.popleft() if self._again else self._cut(workers)
            if lot is None:
                return
            self._send(lot)

    def _cut(self, workers: int) -> Optional[_Lot]:
        """The next runs of the queue: a fair part of what is left, so that all workers end together,
        within a small part of `shard_s` and all of it."""
        if not self._queue:
            return None
        size = math.ceil(len(self._queue) / (_AHEAD * workers))
        if self._made:
            per_shard = self._settings.shard_s * self._made / max(self._seconds, 1e-9)
            # Of a shard without end it is all that is left, which can be counted.
            most, least = (min(part, len(self._queue)) for part in (per_shard, per_shard / _LEAST_PART))
            size = max(min(size, math.floor(most)), math.ceil(least), 1)
        return _Lot([self._queue.popleft() for _ in range(min(size, len(self._queue)))])

    def _send(self, lot: _Lot) -> None:
        ticket, settings = uuid.uuid4().hex, self._settings
        args = (self._plan, lot.runs, settings.jobs, settings.shard_s * _PATIENCE, settings.controllers)
        lot.executor = self._source.executor
        is_pool = isinstance(lot.executor, ProcessPoolExecutor)
        try:
            future = lot.executor.submit(run_shard, *args, ticket, is_pool)
        except Exception as refused:
            self._again.appendleft(lot)
            self._refuse(refused)
            return
        self._refused = 0
        lot.until = time.monotonic() + settings.limit_s
        self._flying[ticket], self._lots[ticket] = future, lot
        if callable(getattr(future, "add_done_callback", None)):
            future.add_done_callback(lambda _: self._woken.set())
        else:
            self._all_tell = False

    def _refuse(self, refused: Exception) -> None:
        """A scheduler that is restarted or a queue that is full may take it later; a pool that broke never."""
        self._refused += 1
        if self._refused > self._settings.retries:
            raise WorkerLost(
                f"the executor took no shard, {self._refused} times in a row; at last: "
                f"{type(refused).__name__}: {refused}"
            ) from refused
        if isinstance(refused, BrokenExecutor):
            self._source.renew(refused)
            return
        self._pause_until = time.monotonic() + _PAUSE_S * 2 ** (self._refused - 1)

    def _wait(self) -> None:
        """Until a shard is done or overdue, or submitting is to be tried again."""
        until = min((lot.until for lot in self._lots.values()), default=math.inf)
        if self._pause_until > time.monotonic():
            until = min(until, self._pause_until)
        while not any(future.done() for future in self._flying.values()):
            left = until - time.monotonic()
            if left <= 0:
                return
            self._woken.wait(min(left, _LISTEN_S if self._all_tell else _LOOK_S))
            self._woken.clear()

    def _give_up(self) -> None:
        """What is overdue is lost, unless nobody has begun it."""
        now, limit_s, executor = time.monotonic(), self._settings.limit_s, self._source.executor
        late = TimeoutError(f"it was not back within {limit_s:g} s")
        is_still = False
        for ticket in [ticket for ticket, lot in self._lots.items() if lot.until <= now]:
            is_current = self._lots[ticket].executor is executor
            if is_current and _is_queued(executor, self._flying[ticket]):
                self._lots[ticket].until = now + limit_s
                continue
            future, lot = self._flying.pop(ticket), self._lots.pop(ticket)
            with suppress(Exception):
                future.cancel()
            self._source.hangs = True
            is_still |= is_current and self._heard + limit_s <= now
            self._lose(lot, late)
        if is_still and isinstance(executor, Executor):
            # Who stopped had what all of a pool share, such as its queue: whatever is sent there waits for ever.
            self._source.renew(late)
            self._heard = now

    def _take(self, ticket: str) -> None:
        """What came of a shard: records, or nothing and it is run again."""
        future, lot = self._flying.pop(ticket), self._lots.pop(ticket)
        self._heard = time.monotonic()
        try:
            shard: Shard = future.result()
        except Exception as lost:
            self._lose(lot, lost)
            return
        if shard.error is not None:
            raise shard.error
        made = self._store.append(shard.lines)
        self._made += len(made)
        self._seconds += shard.seconds
        done = frozenset(made)
        self._queue.extendleft(run for run in reversed(lot.runs) if run not in done)

    def _lose(self, lot: _Lot, lost: BaseException) -> None:
        if isinstance(lost, BrokenExecutor) and lot.executor is self._source.executor:
            self._source.renew(lost)
        lot.lost += 1
        if lot.lost > self._settings.retries:
            first = self._plan.describe(lot.runs[0])
            raise WorkerLost(
                f"a shard of {len(lot.runs)} runs was lost with its worker {lot.lost} times; its first is "
                f"{first}; at last: {type(lost).__name__}: {lost}"
            ) from lost
        self._again.append(lot)


def _is_queued(executor: Any, future: Any) -> bool:
    """Whether a shard waits for a worker, as far as it is told. Of futures only those of pools say so."""
    if isinstance(executor, Executor) and isinstance(future, Future):
        return not (future.running() or future.done())
    return str(getattr(future, "state", "")).upper() in _QUEUED

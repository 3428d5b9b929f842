"""Sweeps on executors: the same bytes whoever runs what, and whoever is lost meanwhile."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable, List, Optional

import pytest
import tack_lab as lab
from conftest import SCENARIO
from processes import busiest, command, descendants, wait_for
from tack_lab._sweep import Shard, run_shard

SCRIPT = Path(__file__).resolve().parents[1] / "examples" / "sweep.py"

#: Some seconds of work on two cores: 100 runs.
SWEEP = (
    SCENARIO.replace("duration_s = 0.6", "duration_s = 2.5")
    .replace("runs = 2", "runs = 25")
)  # fmt: skip


@pytest.mark.parametrize("shard_s", [0.001, 0.2, 60.0])
def test_a_sweep_on_threads_gives_a_single_runs_bytes(
    plan: lab.Plan, results: lab.Results, tmp_path: Path, shard_s: float
) -> None:
    store = tmp_path / "runs.jsonl"
    with ThreadPoolExecutor(2) as executor:
        swept = lab.sweep(plan, executor, store=store, shard_s=shard_s)
    assert swept.jsonl() == store.read_bytes() == results.jsonl()
    assert swept.json() == results.json()


def test_without_an_executor_a_sweep_is_a_run_on_all_cores(
    plan: lab.Plan, results: lab.Results, tmp_path: Path
) -> None:
    store = tmp_path / "runs.jsonl"
    told: List[int] = []
    lab.sweep(plan, store=store, progress=lambda done, total: told.append(done))
    assert store.read_bytes() == results.jsonl() and told[-1] == 8


def test_a_sweep_on_processes_gives_a_single_runs_bytes(plan: lab.Plan, results: lab.Results) -> None:
    with ProcessPoolExecutor(2) as executor:
        assert lab.sweep(plan, executor, shard_s=0.05).jsonl() == results.jsonl()


class Unruly:
    """An executor that loses what it is told to lose, and mixes the rest up."""

    def __init__(self, lost: Callable[[int], bool]) -> None:
        self.lost, self.count = lost, 0
        self.waiting: List[Any] = []

    def submit(self, function: Callable[..., Any], /, *args: Any) -> "Future[Any]":
        future: Future[Any] = Future()
        self.count += 1
        if self.lost(self.count):
            future.set_exception(OSError("the node is gone"))
        else:
            # The last first.
            self.waiting.append((future, function, args))
            if len(self.waiting) == 2:
                while self.waiting:
                    future_, function_, args_ = self.waiting.pop()
                    future_.set_result(function_(*args_))
        return future


def test_a_lost_shard_is_run_again_and_late_ones_change_no_byte(
    plan: lab.Plan, results: lab.Results, tmp_path: Path
) -> None:
    store = tmp_path / "runs.jsonl"
    executor = Unruly(lambda n: n in (1, 4))
    swept = lab.sweep(plan, executor, store=store, shard_s=1e-3, workers=4)
    assert swept.jsonl() == store.read_bytes() == results.jsonl()


def test_a_shard_that_is_lost_again_and_again_ends_the_sweep_and_keeps_the_rest(
    plan: lab.Plan,
) -> None:
    with pytest.raises(lab.WorkerLost, match=r"lost with its worker 3 times; its first is .*gone"):
        lab.sweep(plan, Unruly(lambda n: True), retries=2)


def test_a_run_that_fails_is_not_tried_elsewhere(plan: lab.Plan) -> None:
    calls: List[str] = []

    class Counting(ThreadPoolExecutor):
        def submit(self, function: Callable[..., Any], /, *args: Any, **more: Any) -> "Future[Any]":
            calls.append("")
            return super().submit(lambda *a: Shard(b"", 0.1, lab.RunError("no such air")), *args)

    with Counting(1) as executor, pytest.raises(lab.RunError, match="no such air"):
        lab.sweep(plan, executor, workers=1)
    assert len(calls) <= 2


def test_what_a_worker_does_not_come_to_goes_back_to_the_queue(plan: lab.Plan) -> None:
    shard = run_shard(plan, plan.runs, 1, 0.0, None, "ticket")
    assert shard.error is None and shard.lines.count(b"\n") == 1, "at least one run, so that it ends"
    assert len(pickle.dumps(shard)) < 10_000


def test_errors_of_a_worker_come_back_as_they_are(plan: lab.Plan) -> None:
    shard = run_shard(plan, ["0123"], 1, 1.0, None, "ticket")
    assert isinstance(shard.error, lab.RunError) and "no run 0123" in str(shard.error)

    def broken(config: lab.ControllerConfig) -> Any:
        raise type("Local", (Exception,), {})("cannot be sent")

    own = lab.loads(SCENARIO.replace('phy = "n"', 'phy = "g"'), set={"flow.0.controller": "mine"})
    shard = run_shard(own, own.runs, 1, 1.0, {"mine": broken}, "ticket")
    assert "cannot be sent" in str(pickle.loads(pickle.dumps(shard)).error)


def test_a_store_has_what_is_done_when_a_sweep_ends_early_and_it_goes_on(
    plan: lab.Plan, results: lab.Results, tmp_path: Path
) -> None:
    store = tmp_path / "runs.jsonl"
    executor = Unruly(lambda n: n > 4)
    with pytest.raises(lab.WorkerLost):
        lab.sweep(plan, executor, store=store, shard_s=1e-3, workers=2, retries=0)
    done = len(store.read_bytes().splitlines())
    assert 0 < done < 8
    told: List[int] = []
    with ThreadPoolExecutor(2) as pool:
        lab.sweep(plan, pool, store=store, progress=lambda d, total: told.append(d))
    assert told[0] == done and store.read_bytes() == results.jsonl()


def test_a_shard_that_does_not_come_back_costs_itself_and_no_more(
    plan: lab.Plan, results: lab.Results, tmp_path: Path
) -> None:
    class Forgetful(Unruly):
        def submit(self, function: Callable[..., Any], /, *args: Any) -> "Future[Any]":
            self.count += 1
            future: Future[Any] = Future()
            if self.count != 2:
                future.set_result(function(*args))
            return future

    store, executor = tmp_path / "runs.jsonl", Forgetful(lambda n: False)
    swept = lab.sweep(plan, executor, store=store, shard_s=1e-3, workers=2, limit_s=0.2)
    assert swept.jsonl() == store.read_bytes() == results.jsonl()
    with pytest.raises(lab.WorkerLost, match=r"2 times; .*TimeoutError: it was not back within 0.1 s"):
        lab.sweep(plan, Never(), retries=1, limit_s=0.1)


class Never:
    """Takes everything and does nothing."""

    workers = 1

    def submit(self, function: Callable[..., Any], /, *args: Any) -> "Future[Any]":
        return Future()


class Stopping(ProcessPoolExecutor):
    """A pool whose second shard stops its process."""

    def __init__(self, told: Path) -> None:
        super().__init__(2)
        self.told, self.count = told, 0

    def submit(self, function: Callable[..., Any], /, *args: Any, **more: Any) -> "Future[Any]":
        self.count += 1
        if self.count == 2:
            return super().submit(_stand_still, self.told, function, *args)
        return super().submit(function, *args)


def _stand_still(told: Path, function: Callable[..., Any], *args: Any) -> Any:
    told.write_text(str(os.getpid()))
    os.kill(os.getpid(), signal.SIGSTOP)
    return function(*args)


def test_a_worker_that_stands_still_is_left_and_its_shard_run_by_another(tmp_path: Path) -> None:
    made: List[Any] = []

    def make() -> Any:
        made.append(Stopping(tmp_path / "stopped"))
        return made[-1]

    plan = lab.loads(SWEEP)
    whole = plan.run(progress=False)
    store = tmp_path / "runs.jsonl"
    swept = lab.sweep(plan, make, store=store, shard_s=0.3, limit_s=6.0)
    assert len(made) == 1, "no other pool is made of it"
    assert swept.jsonl() == store.read_bytes() == whole.jsonl()
    stopped = int((tmp_path / "stopped").read_text())
    wait_for("the end of the one that stood still", lambda: stopped not in descendants(os.getpid()))


def test_a_pool_whose_queue_stands_still_with_a_worker_is_made_anew(
    plan: lab.Plan, results: lab.Results
) -> None:
    made: List[Any] = []
    stopped: List[int] = []

    def make() -> Any:
        pool = ProcessPoolExecutor(2)
        made.append(pool)
        if len(made) == 1:
            # One of those that wait for work has the queue's lock.
            for nap in [pool.submit(time.sleep, 0.3) for _ in range(2)]:
                nap.result()
            stopped.extend(pool._processes)
            for pid in stopped:
                os.kill(pid, signal.SIGSTOP)
        return pool

    assert lab.sweep(plan, make, limit_s=5.0).jsonl() == results.jsonl()
    assert len(made) == 2 and len(stopped) == 2
    wait_for("the end of those that stood still", lambda: not {*stopped} & {*descendants(os.getpid())})


def test_threads_that_stand_still_end_the_sweep(plan: lab.Plan) -> None:
    go_on = threading.Event()

    class Held(ThreadPoolExecutor):
        def submit(self, function: Callable[..., Any], /, *args: Any, **more: Any) -> "Future[Any]":
            return super().submit(go_on.wait)

    with Held(1) as executor:
        try:
            with pytest.raises(lab.WorkerLost, match="the executor stands still with a worker; give"):
                lab.sweep(plan, executor, limit_s=0.3)
        finally:
            go_on.set()


def test_what_an_executor_does_not_take_at_once_it_is_offered_again(
    plan: lab.Plan, results: lab.Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tack_lab._sweep._PAUSE_S", 0.01)

    class Full(Unruly):
        def submit(self, function: Callable[..., Any], /, *args: Any) -> "Future[Any]":
            self.count += 1
            if self.lost(self.count):
                raise OSError("the queue is full")
            future: Future[Any] = Future()
            future.set_result(function(*args))
            return future

    often = Full(lambda n: n % 3 != 0)
    assert lab.sweep(plan, often, shard_s=1e-3, workers=2, retries=2).jsonl() == results.jsonl()
    with pytest.raises(lab.WorkerLost, match="took no shard, 3 times in a row; .*the queue is full"):
        lab.sweep(plan, Full(lambda n: True), retries=2)


def test_results_of_another_file_stay_in_a_store(plan: lab.Plan, tmp_path: Path) -> None:
    store = tmp_path / "runs.jsonl"
    other = lab.loads(SCENARIO, set={"wan.loss": 0.01})
    with ThreadPoolExecutor(2) as pool:
        lab.sweep(other, pool, store=store)
        lab.sweep(plan, pool, store=store)
    kept = [line.split(b'"')[3].decode() for line in store.read_bytes().splitlines()]
    assert sorted(kept[:8]) == sorted(other.runs) and kept[8:] == plan.runs


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"executor": 3}, TypeError, "executor is of type int, which has no `submit`"),
        ({"shard_s": 0.0}, ValueError, "shard_s is 0.0, but must be above 0"),
        ({"workers": 0}, ValueError, "workers is 0, but must be at least 1"),
        ({"retries": -1}, ValueError, "retries is -1, but must be at least 0"),
        ({"limit_s": 0.0}, ValueError, "limit_s is 0.0, but must be above 0"),
        ({"shard_s": "60"}, TypeError, "shard_s is of type str, but must be a number"),
        ({"limit_s": float("nan")}, ValueError, "limit_s is nan, but must be above 0"),
        # Of these two the sweep would never have ended.
        ({"workers": float("nan")}, TypeError, "workers is of type float, but must be a whole number"),
        ({"retries": float("nan")}, TypeError, "retries is of type float, but must be a whole number"),
        ({"jobs": 1.5}, TypeError, "jobs is of type float, but must be a whole number"),
        ({"controllers": 7}, TypeError, "controllers is of type int, but must be a mapping"),
    ],
)
def test_a_sweep_that_cannot_be_is_refused_with_why(
    plan: lab.Plan, change: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        lab.sweep(plan, **change)


def test_a_plan_that_is_none_is_refused_with_its_type() -> None:
    with pytest.raises(TypeError, match="plan is of type str, but must be what load, loads or figure gives"):
        lab.sweep(SCENARIO)  # type: ignore[arg-type]


def test_a_shard_may_be_without_end(plan: lab.Plan, results: lab.Results) -> None:
    with ThreadPoolExecutor(2) as threads:
        assert lab.sweep(plan, threads, shard_s=float("inf")).jsonl() == results.jsonl()


def test_a_function_that_makes_executors_is_asked_again_when_one_breaks(
    results: lab.Results, plan: lab.Plan, tmp_path: Path
) -> None:
    made: List[ProcessPoolExecutor] = []

    def make() -> ProcessPoolExecutor:
        made.append(ProcessPoolExecutor(1, initializer=_end_once, initargs=(str(tmp_path / "ended"),)))
        return made[-1]

    assert lab.sweep(plan, make).jsonl() == results.jsonl()
    assert len(made) == 2


def test_a_class_of_executors_is_what_makes_one(plan: lab.Plan, results: lab.Results) -> None:
    assert lab.sweep(plan, ThreadPoolExecutor).jsonl() == results.jsonl()


def _end_once(path: str) -> None:
    """Ends the first process that is begun with it."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os._exit(3)


def start(file: Path, store: Path, *args: str, on: str = "processes") -> "subprocess.Popen[str]":
    """The example's script, which every executor's test runs."""
    line = [sys.executable, str(SCRIPT), str(file), "--on", on, "--store", str(store)]
    return subprocess.Popen(
        [*line, "--shard-s", "0.5", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def lines(store: Path) -> int:
    return store.read_bytes().count(b"\n") if store.exists() else 0


def ended(driver: "subprocess.Popen[str]", within_s: float = 300) -> str:
    """What it printed, once it has ended well."""
    out, errors = driver.communicate(timeout=within_s)
    assert driver.returncode == 0, errors
    return out


def survives(
    on: str,
    tmp_path: Path,
    *args: str,
    is_worker: Callable[[int], bool] = lambda pid: True,
    of_driver: bool = True,
    text: Optional[str] = None,
) -> None:
    """A sweep whose worker and then whose driver is killed ends with a single run's bytes."""
    from processes import all_pids

    file, store = tmp_path / "sweep.toml", tmp_path / "runs.jsonl"
    file.write_text(text or SWEEP)
    plan = lab.load(file)
    whole = plan.run(progress=False)
    driver = start(file, store, *args, on=on)
    try:
        wait_for("the first records", lambda: lines(store) or driver.poll() is not None, 120)
        assert driver.poll() is None, driver.communicate()

        def workers() -> List[int]:
            pids = descendants(driver.pid) if of_driver else all_pids()
            return [pid for pid in pids if is_worker(pid)]

        wait_for("a worker", workers)
        worker = busiest(workers())
        os.kill(worker, signal.SIGKILL)
        after = lines(store)
        wait_for("records after a worker's end", lambda: lines(store) > after, 180)
        assert lines(store) < len(plan), "there is work left to kill the driver in"
    finally:
        left = descendants(driver.pid)
        driver.kill()
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        # Its pipes end with the last of them.
        driver.communicate()
    assert store.read_bytes() != whole.jsonl()
    printed = ended(start(file, store, *args, on=on))
    assert store.read_bytes() == whole.jsonl()
    assert printed == whole.text()


@pytest.mark.parametrize("how", ["fork", "spawn", "forkserver"])
def test_a_pools_processes_end_when_their_driver_is_killed(tmp_path: Path, how: str) -> None:
    store = tmp_path / "runs.jsonl"
    (tmp_path / "sweep.toml").write_text(SWEEP)
    script = tmp_path / "driver.py"
    script.write_text(
        "import multiprocessing, sys, tack_lab as lab\n"
        "from concurrent.futures import ProcessPoolExecutor\n"
        "if __name__ == '__main__':\n"
        "    how = multiprocessing.get_context(sys.argv[3])\n"
        "    with ProcessPoolExecutor(2, how) as pool:\n"
        "        lab.sweep(lab.load(sys.argv[1]), pool, store=sys.argv[2], shard_s=0.5, progress=False)\n"
    )
    line = [sys.executable, str(script), str(tmp_path / "sweep.toml"), str(store), how]
    driver = subprocess.Popen(line)
    wait_for("the first records", lambda: lines(store) or driver.poll() is not None, 120)
    workers = [pid for pid in descendants(driver.pid) if command(pid)]
    driver.kill()
    driver.wait()
    assert len(workers) >= 2
    # What is ended and not yet reaped has no command.
    wait_for("the workers' end", lambda: not any(command(pid) for pid in workers), 20)


def test_processes_survive_the_end_of_a_worker_and_of_the_driver(tmp_path: Path) -> None:
    survives("processes", tmp_path)

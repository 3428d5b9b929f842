"""Runs on this machine: progress, Ctrl-C, the store, and the command's own bytes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, List, Tuple

import pytest
import tack_lab as lab
from conftest import SCENARIO
from processes import wait_for


def tack(*args: str, **more: object) -> "subprocess.CompletedProcess[bytes]":
    """The command, as the wheel installs it."""
    program = str(Path(sys.executable).parent / "tack")
    return subprocess.run([program, *args], capture_output=True, timeout=60, **more)  # type: ignore[call-overload, no-any-return]


def test_results_do_not_depend_on_how_many_threads_run(plan: lab.Plan, results: lab.Results) -> None:
    for jobs in (1, 2, 5):
        assert plan.run(jobs=jobs, progress=False).jsonl() == results.jsonl()


def test_results_and_store_are_those_of_the_command_to_the_byte(
    results: lab.Results, plan: lab.Plan, tmp_path: Path
) -> None:
    file = tmp_path / "short.toml"
    file.write_text(SCENARIO)
    done = tack("lab", "run", str(file), "--json", "--quiet", "--out", str(tmp_path / "its.jsonl"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode() == results.json()
    assert (tmp_path / "its.jsonl").read_bytes() == results.jsonl()
    plan.run(store=tmp_path / "own.jsonl", progress=False)
    assert (tmp_path / "own.jsonl").read_bytes() == results.jsonl()


def test_progress_is_told_from_the_callers_thread_and_ends_with_all(plan: lab.Plan) -> None:
    told: List[Tuple[int, int, int]] = []
    plan.run(progress=lambda done, total: told.append((done, total, threading.get_ident())))
    assert told[-1][:2] == (8, 8) and told[0][1] == 8
    assert [t[0] for t in told] == sorted(t[0] for t in told)
    assert {t[2] for t in told} == {threading.get_ident()}


def test_what_progress_raises_ends_the_runs(plan: lab.Plan) -> None:
    def refuse(done: int, total: int) -> None:
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        plan.run(progress=refuse)


def test_a_line_of_progress_is_shown_if_asked_for(
    plan: lab.Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    plan.run(progress=True)
    assert capsys.readouterr().err.rstrip().split("\r")[-1].startswith("8/8 runs")
    plan.run()
    assert capsys.readouterr().err == "", "nobody looks at a pipe"


def test_other_threads_of_python_go_on_while_runs_are_simulated() -> None:
    counted, stop = [0], threading.Event()

    def count() -> None:
        while not stop.is_set():
            counted[0] += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    began = time.monotonic()
    lab.loads(SCENARIO, set={"duration_s": 4.0}).run(jobs=1, progress=False)
    took = time.monotonic() - began
    stop.set()
    thread.join()
    assert counted[0] > took * 100, f"{counted[0]} turns in {took:.2f} s"


def test_a_store_is_gone_on_with_and_what_it_has_does_not_run_again(
    plan: lab.Plan, results: lab.Results, tmp_path: Path
) -> None:
    store = tmp_path / "deep" / "runs.jsonl"
    store.parent.mkdir()
    lines = results.jsonl().splitlines(keepends=True)
    store.write_bytes(b"".join(lines[:5]) + lines[5][:40])
    told: List[int] = []
    again = plan.run(store=store, progress=lambda done, total: told.append(done))
    assert told[0] == 5, "a torn line is none"
    assert store.read_bytes() == again.jsonl() == results.jsonl()
    plan.run(store=store, resume=False, progress=False)
    assert store.read_bytes() == results.jsonl()


def test_a_file_that_is_no_store_is_refused_and_stays(plan: lab.Plan, tmp_path: Path) -> None:
    file = tmp_path / "thesis.txt"
    file.write_text("years of work\nand more\n")
    with pytest.raises(lab.StoreError, match="thesis.txt holds something else"):
        plan.run(store=file)
    assert file.read_text() == "years of work\nand more\n"


LONG = """
import sys, time
import tack_lab as lab
plan = lab.loads(open(sys.argv[1]).read(), set={"duration_s": 3000.0, "warmup_s": 1.0, "seeds": 2})
print("begins", flush=True)
began = time.monotonic()
try:
    plan.run(store=sys.argv[2], jobs=2)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    raise SystemExit(7)
"""


def test_ctrl_c_ends_a_run_in_its_middle_and_the_store_stays_whole(tmp_path: Path) -> None:
    file, store = tmp_path / "short.toml", tmp_path / "runs.jsonl"
    file.write_text(SCENARIO)
    child = subprocess.Popen(
        [sys.executable, "-c", LONG, str(file), str(store)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None and child.stdout.readline() == "begins\n"
    wait_for("the store", store.exists)
    time.sleep(0.5)
    began = time.monotonic()
    child.send_signal(signal.SIGINT)
    assert child.stdout.read() == "interrupted\n"
    assert child.wait(10) == 7
    assert time.monotonic() - began < 5.0, "a run of 3000 s is not waited for"
    assert all(json.loads(line) for line in store.read_text().splitlines())


def test_a_bad_scenario_of_a_run_names_the_run() -> None:
    # Only a run finds out that nobody brings a controller.
    text = SCENARIO.replace('strategy = "tack"\n', 'strategy = "tack"\ncontroller = "mine"\n')
    with pytest.raises(ValueError, match='text: `controller` is "mine", and `controllers` has none'):
        lab.loads(text).run()


def test_the_command_ends_with_the_statuses_of_the_binary(tmp_path: Path) -> None:
    assert tack("--version").stdout.decode().startswith("tack ")
    assert tack("--help").returncode == 0
    assert tack("lab", "frobnicate").returncode == 2
    missing = tack("lab", "run", str(tmp_path / "none.toml"))
    assert missing.returncode == 1 and b"none.toml" in missing.stderr
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("flow = 1\n")
    assert tack("lab", "run", str(wrong)).returncode == 2
    module = subprocess.run([sys.executable, "-m", "tack_lab", "--version"], capture_output=True)
    assert module.stdout == tack("--version").stdout


def test_ctrl_c_ends_the_command_as_it_ends_the_binary(tmp_path: Path) -> None:
    file = tmp_path / "long.toml"
    file.write_text(SCENARIO.replace("duration_s = 0.6", "duration_s = 3000.0"))
    program = str(Path(sys.executable).parent / "tack")
    store = tmp_path / "runs.jsonl"
    child = subprocess.Popen(
        [program, "lab", "run", str(file), "--out", str(store)], stderr=subprocess.PIPE
    )
    wait_for("the store", store.exists)
    time.sleep(0.3)
    child.send_signal(signal.SIGINT)
    assert child.wait(10) == 130
    assert child.stderr is not None
    said = child.stderr.read().decode()
    assert "stopped; 0 of 8 runs are in" in said and "Traceback" not in said


def test_a_server_of_the_command_goes_to_the_background(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    served = tack("perf", "-s", "--open", "-p", "0", "-D", "-I", str(pid_file))
    assert served.returncode == 0, served.stderr
    wait_for("the server's number", pid_file.exists)
    pid = int(pid_file.read_text())
    try:
        assert "perf" in Path(f"/proc/{pid}/cmdline").read_bytes().decode()
    finally:
        os.kill(pid, signal.SIGTERM)
    wait_for("the server's end", lambda: not pid_file.exists())


def test_a_store_is_one_runs_in_a_process_and_reading_it_lets_nobody_else_in(
    plan: lab.Plan, tmp_path: Path
) -> None:
    store = tmp_path / "runs.jsonl"
    again = f"import tack_lab as lab; lab.load({str(tmp_path / 'it.toml')!r}).run(store={str(store)!r})"
    (tmp_path / "it.toml").write_text(SCENARIO)
    refused: List[str] = []

    def look(done: int, total: int) -> None:
        if done == total or refused:
            return
        with pytest.raises(lab.StoreError, match="runs.jsonl is that of another run") as caught:
            plan.run(store=store, progress=False)
        refused.append(str(caught.value))
        # The store of this process has its lock still.
        other = subprocess.run([sys.executable, "-c", again], capture_output=True, timeout=60)
        refused.append(other.stderr.decode())

    plan.run(store=store, progress=look)
    assert "runs.jsonl is that of another run" in refused[1]
    assert store.read_bytes() == plan.run(progress=False).jsonl()


def test_what_is_no_number_of_threads_and_no_progress_is_refused(plan: lab.Plan) -> None:
    number: Any = 3
    for run in (plan.run, lambda **how: lab.sweep(plan, **how)):
        with pytest.raises(ValueError, match="jobs is -3"):
            run(jobs=-3)
        with pytest.raises(TypeError, match="progress is of type int"):
            run(progress=number)
    with pytest.raises(ValueError, match="jobs is -3"):
        lab.sweep(plan, object, jobs=-3)

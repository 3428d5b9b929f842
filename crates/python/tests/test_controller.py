"""Congestion controllers written in Python."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import List, Optional

import pytest
import tack_lab as lab

WIRE = """\
id = "own"
[base]
duration_s = 3.0
warmup_s = 1.0
wan = { rate_mbps = 10.0, delay_ms = 10.0, buffer_bdp = 1.0 }
flow = [{ strategy = "tack", controller = "constant" }]
"""


class Constant:
    """So many segments in flight, whatever happens."""

    def __init__(self, config: lab.ControllerConfig, segments: int = 5) -> None:
        self.window = segments * config.mss
        self.pacing_bps: Optional[float] = None

    def on_ack(self, ack: lab.AckSample) -> None:
        pass

    def on_loss(self, loss: lab.LossSample) -> None:
        pass


def goodput(text: str, controllers: dict[str, object]) -> float:
    results = lab.loads(text).run(progress=False, controllers=controllers)  # type: ignore[arg-type]
    return float(results.runs().column("goodput_bps")[0])


def test_a_window_of_python_is_what_is_in_flight() -> None:
    # Each segment acknowledged at once, and a path that is never full: so many segments a round trip.
    text = WIRE.replace('"tack"', '"tcp-l1"').replace("rate_mbps = 10.0", "rate_mbps = 1000.0")
    for segments in (4, 8, 16):
        found = goodput(text, {"constant": lambda config, n=segments: Constant(config, n)})
        assert found == pytest.approx(segments * 1448 * 8 / 0.020, rel=0.05)


def test_a_rate_of_python_is_the_rate_of_the_flow() -> None:
    class Paced(Constant):
        def __init__(self, config: lab.ControllerConfig) -> None:
            super().__init__(config, 100)
            self.pacing_bps = 4e6

    assert goodput(WIRE, {"constant": Paced}) == pytest.approx(4e6, rel=0.05)


def test_samples_tell_what_controllers_of_the_lab_are_told() -> None:
    acks: List[lab.AckSample] = []
    losses: List[lab.LossSample] = []
    sent = [0]

    class Curious(Constant):
        def __init__(self, config: lab.ControllerConfig) -> None:
            assert config.mss > 1000 and config.initial_window >= config.mss
            super().__init__(config, 60)

        def on_ack(self, ack: lab.AckSample) -> None:
            acks.append(ack)

        def on_loss(self, loss: lab.LossSample) -> None:
            losses.append(loss)

        def on_sent(self, bytes: int, in_flight: int, app_limited: bool, now_s: float) -> None:
            assert in_flight >= bytes > 0 and now_s >= 0 and not app_limited
            sent[0] += 1

    goodput(WIRE, {"constant": Curious})
    # Both ends have a controller; only one of them sends.
    acks = [ack for ack in acks if ack.delivered]
    assert sent[0] > 1000 and len(acks) > 50
    assert [a.now_s for a in acks] == sorted(a.now_s for a in acks)
    last = acks[-1]
    assert last.delivered > 2e6 and last.rtt_min_s == pytest.approx(0.0215, abs=0.003)
    assert last.srtt_s is not None and last.srtt_s > 0.02
    assert losses and {loss.kind for loss in losses} <= {
        "recovery", "timeout", "congestion-experienced", "spurious",
    }  # fmt: skip


def test_a_controller_of_python_repeats_to_the_byte_on_any_number_of_threads() -> None:
    plan = lab.loads(WIRE, set={"seeds": 4, "wan.loss": 0.01})
    one = plan.run(jobs=1, progress=False, controllers={"constant": Constant})
    two = plan.run(jobs=2, progress=False, controllers={"constant": Constant})
    assert one.jsonl() == two.jsonl()


def test_what_a_controller_raises_is_what_the_call_raises() -> None:
    class Failing(Constant):
        def on_ack(self, ack: lab.AckSample) -> None:
            raise ZeroDivisionError("my mistake")

    with pytest.raises(ZeroDivisionError, match="my mistake"):
        goodput(WIRE.replace("duration_s = 3.0", "duration_s = 3000.0"), {"constant": Failing})


@pytest.mark.parametrize(
    ("window", "pacing", "words"),
    [
        ("many", None, '`window` of controller "constant" is many: whole bytes'),
        (-1, None, '`window` of controller "constant" is -1'),
        (1, 0.0, '`pacing_bps` of controller "constant" is 0.0: bit/s above 0, or None'),
        (1, "fast", "`pacing_bps` .* is fast"),
        (1, float("inf"), "`pacing_bps` .* is inf"),
    ],
)
def test_a_controller_that_wants_nonsense_is_told_what(
    window: object, pacing: object, words: str
) -> None:
    class Wrong(Constant):
        def on_ack(self, ack: lab.AckSample) -> None:
            self.window, self.pacing_bps = window, pacing  # type: ignore[assignment]

    with pytest.raises(ValueError, match=words):
        goodput(WIRE, {"constant": Wrong})


def test_a_controller_without_a_window_is_refused() -> None:
    with pytest.raises(AttributeError, match="window"):
        goodput(WIRE, {"constant": lambda config: object()})
    with pytest.raises(TypeError, match=r"controllers\[\"constant\"\] must be what makes a controller"):
        goodput(WIRE, {"constant": 3})


def test_results_of_an_own_controller_are_not_kept(tmp_path: Path) -> None:
    plan = lab.loads(WIRE)
    for keep in (
        lambda: plan.run(store=tmp_path / "a.jsonl", controllers={"constant": Constant}),
        lambda: lab.sweep(plan, store=tmp_path / "a.jsonl", controllers={"constant": Constant}),
    ):
        with pytest.raises(ValueError, match="are not kept in a store"):
            keep()
    assert not (tmp_path / "a.jsonl").exists()


def test_own_controllers_are_swept_by_name_beside_the_labs() -> None:
    text = WIRE.replace(', controller = "constant"', "") + (
        '[[variant]]\nname = "bbr"\nset = { "flow.0.cc" = "bbr" }\n'
        '[[variant]]\nname = "mine"\nset = { "flow.0.controller" = "constant" }\n'
    )
    means = lab.loads(text).run(progress=False, controllers={"constant": Constant}).means()
    found = dict(zip(means.column("variant"), means.column("goodput_bps")))
    assert found["bbr"] > 8e6 > found["mine"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('strategy = "tack"', 'strategy = "udp"'), "flow.0.controller` cannot be set for udp"),
        (('controller = "constant"', 'controller = ""'), "must be a name of 1 to 64 letters"),
        (('id = "own"', 'id = "own"\nbackend = "formula"'), 'is for backend = "sim"'),
    ],
)
def test_a_controller_where_none_can_be_is_refused_with_its_line(
    change: tuple[str, str], words: str
) -> None:
    with pytest.raises(lab.FileError, match=words) as caught:
        lab.loads(WIRE.replace(*change))
    assert caught.value.line is not None


def test_the_command_says_whose_a_controller_is(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text(WIRE)
    program = str(Path(sys.executable).parent / "tack")
    done = subprocess.run([program, "lab", "run", str(file)], cwd=tmp_path, capture_output=True)
    assert done.returncode == 2, "refused before anything runs"
    assert b'`controller` is "constant", which a program of Python\'s brings' in done.stderr

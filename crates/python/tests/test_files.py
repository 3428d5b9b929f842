"""What files say, and what is wrong with them."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
import tack_lab as lab
from conftest import REPOSITORY, SCENARIO


def test_a_scenario_is_a_plan_of_every_combination_and_seed(plan: lab.Plan) -> None:
    assert (plan.id, len(plan)) == ("short", 8)
    assert plan.axes == [("wan.delay_ms", [5.0, 20.0]), ("flow.0.strategy", ["tcp-l2", "tack"])]
    assert len(set(plan.runs)) == 8
    assert "seed = 1" in plan.describe(plan.runs[0])


def test_a_path_is_read_and_every_scenario_of_the_repository_is_one() -> None:
    for path in sorted((REPOSITORY / "scenarios").glob("*.toml")):
        assert len(lab.load(path)) > 0, path


def test_every_experiment_of_the_repository_is_planned_by_its_name() -> None:
    for name in lab.figures():
        assert lab.figure(name, extent="short").id, name


def test_a_name_that_is_no_figure_is_refused_with_those_that_are() -> None:
    with pytest.raises(KeyError, match="`T-99` is no figure: .*T-6b"):
        lab.figure("T-99")


def test_a_wrong_file_is_refused_with_its_name_line_and_key(tmp_path: Path) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(SCENARIO.replace('phy = "n"', 'phy = "z"'))
    with pytest.raises(lab.FileError) as caught:
        lab.load(path)
    error = caught.value
    assert (error.file, error.line, error.key) == (str(path), 6, "wifi.phy")
    assert str(error).startswith(f"{path}, line 6: `wifi.phy` ")


def test_a_text_that_is_no_toml_is_refused_with_its_line() -> None:
    with pytest.raises(lab.FileError, match="here, line 2: "):
        lab.loads("a = 1\n= 2\n", name="here")


def test_an_error_of_a_file_can_be_sent_to_another_process() -> None:
    with pytest.raises(lab.FileError) as caught:
        lab.loads("flow = 1", name="x")
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert (again.file, again.line, again.key) == ("x", caught.value.line, caught.value.key)


def test_values_are_set_by_dotted_keys_as_on_the_command_line() -> None:
    plan = lab.loads(SCENARIO, set={"wan.delay_ms": [1, 2.5, 9], "seeds": 3, "wan.loss": 0.01})
    assert plan.axes[0] == ("wan.delay_ms", [1.0, 2.5, 9.0])
    assert len(plan) == 3 * 2 * 3


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"wan.delay_ms": object()}, TypeError, "`wan.delay_ms` is of type object"),
        ({"wan.delay_ms": [float("nan")]}, ValueError, "`wan.delay_ms.0` is NaN"),
        ({"seeds": 0}, ValueError, r"set\[\"seeds\"\]: `seeds` must be a number from 1 on"),
        ({"wan.delay": 3}, lab.FileError, "delay"),
        ({1: 3}, TypeError, "a key that is no text: 1"),
        ([("seeds", 2)], TypeError, "set is of type list, but must be a mapping"),
    ],
)
def test_a_wrong_value_is_refused_with_its_key(
    changes: dict[str, object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        lab.loads(SCENARIO, set=changes)


def test_extents_cases_and_variants_are_chosen_by_name() -> None:
    short, usual = lab.figure("T-6b", extent="short"), lab.figure("T-6b")
    assert 0 < len(short) < len(usual)
    only = lab.figure("T-6b", only=["rich"])
    assert 0 < len(only) < len(usual)
    with pytest.raises(ValueError, match="only: nobody: of T-6b there are .*rich"):
        lab.figure("T-6b", only=["nobody"])
    with pytest.raises(ValueError, match="`extent` is \"long\": short, usual or full"):
        lab.figure("T-6b", extent="long")
    with pytest.raises(TypeError, match="a list of names"):
        lab.figure("T-6b", only="rich")


def test_a_plan_is_the_same_in_another_process(plan: lab.Plan) -> None:
    changed = lab.loads(SCENARIO, set={"seeds": 3, "wan.loss": 1, "wan.delay_ms": [2]})
    for one in (plan, changed, lab.figure("T-6b", extent="short", only=["rich"], series=True)):
        again = pickle.loads(pickle.dumps(one))
        assert (again.runs, again.axes, again.text) == (one.runs, one.axes, one.text)


def test_a_plan_of_another_version_is_refused(plan: lab.Plan) -> None:
    restore, (state,) = plan.__reduce__()
    with pytest.raises(lab.RunError, match="another version of tack_lab"):
        restore(state.replace(plan.runs[0], "0123456789abcdef"))


def test_series_are_kept_if_asked_for(plan: lab.Plan) -> None:
    kept = lab.loads(SCENARIO, series=True)
    assert set(kept.runs).isdisjoint(plan.runs), "runs with series are other runs to a store"


def test_a_file_that_is_no_text_is_refused_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "binary.toml"
    path.write_bytes(b"name = \"\xff\"")
    with pytest.raises(lab.FileError, match="binary.toml: not a text in UTF-8") as caught:
        lab.load(path)
    assert caught.value.file == str(path)

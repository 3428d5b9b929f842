"""Tables in every library that knows Arrow, pictures, and the command's own words."""

from __future__ import annotations

import json
import xml.etree.ElementTree as xml
from pathlib import Path

import pytest
import tack_lab as lab
from conftest import SCENARIO


def test_runs_are_a_row_each_with_key_seed_and_figures(results: lab.Results) -> None:
    rows = results.runs().rows()
    assert [(r["wan.delay_ms"], r["flow.0.strategy"], r["seed"]) for r in rows] == [
        (delay, strategy, seed)
        for delay in (5.0, 20.0)
        for strategy in ("tcp-l2", "tack")
        for seed in (1, 2)
    ]
    assert all(row["goodput_bps"] > 1e6 and row["void"] is None for row in rows)


def test_means_are_a_row_per_point_with_their_intervals(results: lab.Results) -> None:
    means, runs = results.means(), results.runs().column("goodput_bps")
    assert means.column("runs") == [2, 2, 2, 2]
    assert means.column("goodput_bps")[0] == pytest.approx(sum(runs[:2]) / 2)
    assert all(half >= 0 for half in means.column("goodput_ci95_bps"))


def test_a_column_that_is_not_there_is_refused_with_those_that_are(results: lab.Results) -> None:
    with pytest.raises(KeyError, match="no column `goodputs`: .*goodput_bps"):
        results.means().column("goodputs")


def test_pyarrow_takes_a_table_without_a_copy(results: lab.Results) -> None:
    import pyarrow as pa

    table = results.runs()
    one, two = pa.table(table), pa.table(table)
    assert one.num_rows == 8 and one.column_names == table.column_names
    for name in ("goodput_bps", "flow.0.strategy"):
        buffers = [t[name].chunk(0).buffers()[-1] for t in (one, two)]
        assert buffers[0].address == buffers[1].address, name
    assert one["goodput_bps"].to_pylist() == table.column("goodput_bps")
    assert pa.schema(table) == one.schema
    field = one.schema.field("goodput_bps")
    assert field.metadata[b"unit"] == b"bit/s"
    assert b"delivered" in field.metadata[b"what"]


def test_a_table_lives_on_in_arrow_after_its_results_are_gone() -> None:
    import gc

    import pyarrow as pa

    taken = pa.table(lab.loads(SCENARIO, set={"seeds": 1}).run(progress=False).runs())
    gc.collect()
    taken.validate(full=True)
    assert min(taken["goodput_bps"].to_pylist()) > 0


def test_polars_takes_a_table(results: lab.Results) -> None:
    import polars as pl

    frame = pl.DataFrame(results.runs())
    best = frame.group_by("flow.0.strategy").agg(pl.col("goodput_bps").mean())
    assert frame.shape[0] == 8 and set(best["flow.0.strategy"]) == {"tcp-l2", "tack"}


def test_pandas_takes_a_table(results: lab.Results) -> None:
    import pandas as pd
    import pyarrow as pa

    # From 3.0 on pandas takes it itself; before, through pyarrow.
    take = getattr(pd.DataFrame, "from_arrow", lambda table: pa.table(table).to_pandas())
    frame = take(results.runs())
    assert frame.shape[0] == 8
    assert list(frame["goodput_bps"]) == results.runs().column("goodput_bps")


def test_duckdb_asks_a_table(results: lab.Results) -> None:
    import duckdb

    means = results.means()
    found = duckdb.sql('select "flow.0.strategy", max(goodput_bps) from means group by all order by 1')
    assert found is not None
    assert [row[0] for row in found.fetchall()] == ["tack", "tcp-l2"]
    assert len(means) == 4


def test_series_are_a_long_table() -> None:
    results = lab.loads(SCENARIO, set={"seeds": 1}, series=True).run(progress=False)
    series = results.series()
    assert set(series.column("figure")) >= {"cwnd_bytes", "srtt_us"}
    assert max(series.column("time_s")) <= 0.6
    picture = results.plot("cwnd_bytes", kind="series", lines="flow.0.strategy", at={"wan.delay_ms": 5})
    xml.fromstring(picture.svg)


def test_a_table_without_rows_has_the_types_of_one_with_some() -> None:
    import pyarrow as pa

    empty, full = (
        pa.table(lab.loads(SCENARIO, series=series).run(progress=False).series())
        for series in (False, True)
    )
    assert empty.num_rows == 0 < full.num_rows
    assert pa.concat_tables([empty, full]) == full


def test_a_run_in_which_nothing_ever_waited_has_quantiles_too_and_they_are_zeros() -> None:
    quiet = 'duration_s = 1.0\nwan = { rate_mbps = 10.0, delay_ms = 5.0 }\nflow = [{ strategy = "tack" }]\n'
    results = lab.loads(quiet + "sweep = { 'wan.loss' = [0.0, 0.02] }\n").run(progress=False)
    rows = results.quantiles().rows()
    steps = [n / 20 for n in range(21)]
    for loss, most in ((0.0, lambda most: most == 0), (0.02, lambda most: most > 0)):
        own = [row for row in rows if row["wan.loss"] == loss]
        assert [row["quantile"] for row in own] == steps and {row["figure"] for row in own} == {"blocked"}
        assert most(own[-1]["value"]), own
    udp = lab.loads(quiet.replace("tack", "udp")).run(progress=False)
    assert len(udp.quantiles()) == 0, "nothing is known of what waits"


def test_findings_say_what_agrees_with_a_paper_and_why_not() -> None:
    results = lab.figure("T-12", extent="short").run(progress=False)
    findings = results.findings().rows()
    verdicts = {"agrees", "open", "differs"}
    assert findings and all(f["verdict"] in verdicts and f["paper"] for f in findings)


def test_pictures_are_the_labs_own_and_notebooks_show_them(results: lab.Results, tmp_path: Path) -> None:
    picture = results.plot(
        "goodput_bps", x="wan.delay_ms", lines="flow.0.strategy", title="Goodput over delay"
    )
    root = xml.fromstring(picture.svg)
    assert root.tag.endswith("svg") and "Goodput over delay" in picture.svg
    assert picture._repr_svg_() == picture.svg and picture.titles == ["Goodput over delay"]
    picture.save(tmp_path / "it.svg")
    assert (tmp_path / "it.svg").read_text(encoding="utf-8") == picture.svg
    panels = results.plot("goodput_bps", kind="bars", x="flow.0.strategy", panels=["wan.delay_ms"])
    assert len(panels) == 2
    xml.fromstring(panels.svg)


@pytest.mark.parametrize(
    ("view", "words"),
    [
        ({"metric": "goodput_bit", "x": "wan.delay_ms"}, "`metric` is `goodput_bit`, .*goodput_bps, perhaps"),
        ({"metric": "goodput_bps"}, "`x` is missing: one of wan.delay_ms"),
        ({"metric": "goodput_bps", "x": "wifi.phy"}, "`x` names `wifi.phy`, which is no axis"),
        ({"metric": "goodput_bps", "x": "wan.delay_ms", "line": "a"}, "unknown field `line`"),
        ({"metric": "goodput_bps", "x": 5}, "invalid type: integer `5`, expected a string in `x`"),
        ({"metric": "goodput_bps", "kind": "table"}, "no picture: see means"),
        ({"metric": "cwnd_bytes", "kind": "series"}, "series = true"),
        (
            {"metric": "goodput_bps", "x": "wan.delay_ms", "at": {"flow.0.strategy": "udp"}},
            "`at` has flow.0.strategy = udp, and of that nothing runs",
        ),
    ],
)
def test_a_picture_that_cannot_be_drawn_is_refused_with_why(
    results: lab.Results, view: dict[str, object], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        results.plot(**view)  # type: ignore[arg-type]


def test_notebooks_show_results_plans_and_tables(results: lab.Results) -> None:
    assert "<table>" in results._repr_html_() and "<table>" in results.means()._repr_html_()
    assert repr(results) == "<tack_lab.Results short: 8 runs>"
    assert "8 rows" in repr(results.runs())


def test_words_are_those_of_the_command(results: lab.Results) -> None:
    assert "goodput, Mbit/s" in results.text()
    assert results.markdown().startswith("|")
    assert json.loads(results.json())["id"] == "short"
    assert "<!doctype html>" in results.html()


def test_metrics_have_units_and_meanings() -> None:
    assert lab.about_metric("goodput_bps") == ("bit/s", "application bytes delivered")
    assert lab.about_metric("group.goodput_bps") is not None
    assert lab.about_metric("nothing") is None


def test_a_picture_that_cannot_be_saved_is_pythons_own_error_with_the_path(
    results: lab.Results, tmp_path: Path
) -> None:
    path = tmp_path / "nowhere" / "it.svg"
    picture = results.plot("goodput_bps", x="wan.delay_ms")
    with pytest.raises(FileNotFoundError) as caught:
        picture.save(path)
    assert caught.value.filename == str(path) or caught.value.filename == path

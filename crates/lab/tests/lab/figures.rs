//! Figures of several kinds of flows on one path: each by its own settings and its own way.

use std::collections::BTreeMap;

use tack_lab::metric::figures;
use tack_lab::result::FlowResult;
use tack_lab::scenario::Scenario;
use tack_units::math::log2;

use crate::experiments::run;
use crate::plans::load;

/// A path of 20 ms there and back with these flows.
fn scenario(flows: &str) -> Scenario {
    let path = "wan = { rate_mbps = 100.0, delay_ms = 10.0 }";
    Scenario::parse(&format!("{path}\nflow = [{flows}]")).unwrap()
}

/// 96 Mbit/s over 20 ms, 4 ms of queue.
fn flow() -> FlowResult {
    FlowResult {
        goodput_bps: 96e6,
        rtt_min_us: Some(20e3),
        rtt_p50_us: Some(20e3),
        queue_delay_p95_us: Some(4e3),
        ..FlowResult::default()
    }
}

/// [TON Eq. 4] over 20 ms: beta a round trip.
#[test]
fn each_flow_is_counted_by_its_own_beta_and_none_that_has_none() {
    let rate = |flows: &str, n: usize| {
        figures(&scenario(flows), &vec![flow(); n]).get("eq4_rate").map(|v| v.round())
    };
    let (tack, slow) = ("{ strategy = \"tack\" }", "{ strategy = \"tack\", beta = 2 }");
    assert_eq!(rate(tack, 1), Some(200.0));
    assert_eq!(rate(&format!("{tack}, {slow}"), 2), Some(300.0));
    assert_eq!(rate(&format!("{slow}, {tack}"), 2), Some(300.0));
    assert_eq!(rate("{ strategy = \"tack\", count = 3 }", 3), Some(600.0));
    // What a flow of TCP acknowledges is not by that equation, whoever is beside it.
    assert_eq!(rate(&format!("{tack}, {{ strategy = \"tcp-l2\" }}"), 2), None);
}

#[test]
fn a_flow_s_delay_is_that_of_its_way_and_its_own_link() {
    let power = |flows: &str, way: &str| {
        let mut scenario = scenario(flows);
        scenario.wan = Some(toml::from_str(way).unwrap());
        figures(&scenario, &[flow()])["power"]
    };
    let even = "rate_mbps = 100.0\ndelay_ms = 10.0";
    let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
    near(power("{ strategy = \"tack\" }", even), log2(96.0 / 14.0));
    near(power("{ strategy = \"tack\", delay_ms = 30.0 }", even), log2(96.0 / 44.0));
    let uneven = "rate_mbps = 100.0\ndown.delay_ms = 4.0\nup.delay_ms = 16.0";
    near(power("{ strategy = \"tack\" }", uneven), log2(96.0 / 8.0));
    near(power("{ strategy = \"tack\", direction = \"up\" }", uneven), log2(96.0 / 20.0));
}

#[test]
fn what_waits_behind_a_hole_is_known_as_a_distribution_of_each_kind_of_flows() {
    let text = r#"
id = "kinds"
[base]
duration_s = 4.0
wan = { rate_mbps = 10.0, delay_ms = 20.0, down.loss = 0.03 }
flow = [{ strategy = "tack", group = "a" }, { strategy = "tcp-l2", group = "b" }]
"#;
    let records = run(&load(text));
    let samples: &BTreeMap<_, _> = &records.first_key_value().unwrap().1.samples;
    let most = |name: &str| samples[name].last().copied().unwrap();
    assert!(most("a.blocked") > 0.0 && most("b.blocked") > 0.0, "{samples:?}");
    assert_eq!(most("blocked"), most("a.blocked").max(most("b.blocked")), "of all flows");
    let metrics = &records.first_key_value().unwrap().1.metrics;
    let most = |group: &str| metrics[&format!("{group}blocked_max_bytes")];
    assert_eq!(most(""), most("a.").max(most("b.")));
}

/// In a dumbbell: its own link comes on top of both access links, not instead of one.
#[test]
fn a_flow_with_a_delay_of_its_own_takes_that_longer_than_its_twin() {
    let text = r#"
id = "dumbbell"
[base]
duration_s = 2.0
wan = { rate_mbps = 50.0, delay_ms = 5.0 }
access = { pairs = 2, rate_mbps = 100.0, delay_ms = [2.0, 10.0] }
[[base.flow]]
strategy = "tack"
group = "plain"
station = 1
app = { kind = "cbr", mbps = 1.0 }
[[base.flow]]
strategy = "tack"
group = "own"
station = 1
delay_ms = 1.0
app = { kind = "cbr", mbps = 1.0 }
"#;
    let records = run(&load(text));
    let record = records.first_key_value().unwrap().1;
    let ms = |group: &str| record.metrics[&format!("{group}.rtt_min_us")] / 1e3;
    assert!((50.0..51.0).contains(&ms("plain")), "two links of 10 ms each way: {}", ms("plain"));
    assert!((52.0..53.0).contains(&ms("own")), "and one of 1 ms: {}", ms("own"));
}

#[test]
fn a_flow_that_left_has_no_rate_while_it_was_there_and_a_file_that_was_cut_off_no_end() {
    let text = r#"
id = "left"
[base]
duration_s = 3.0
warmup_s = 1.0
wan = { rate_mbps = 5.0, delay_ms = 50.0 }
flow = [
    { strategy = "tack", group = "stays" },
    { strategy = "tack", group = "left", stop_s = 0.98 },
    { strategy = "tcp-l2", group = "cut", stop_s = 0.5, app = { kind = "file", bytes = 5_000_000 } },
    { strategy = "tcp-l2", group = "whole", stop_s = 2.5, app = { kind = "file", bytes = 5_000 } },
]
"#;
    let records = run(&load(text));
    let metrics = &records.first_key_value().unwrap().1.metrics;
    assert!(metrics["left.goodput_bps"] > 0.0, "what was under way arrives: {metrics:?}");
    assert_eq!(metrics.get("left.present_goodput_bps"), None);
    assert_eq!(metrics["present_goodput_bps"], metrics["stays.present_goodput_bps"]);
    assert!(metrics["cut.delivered"] < 5e6 && metrics["whole.delivered"] == 5e3, "{metrics:?}");
    assert_eq!(metrics.get("cut.completion"), None, "what is missing is not complete");
    assert!(metrics["whole.completion"] < 1.0, "{metrics:?}");
}

#[test]
fn a_flow_that_joins_and_leaves_is_described_by_the_time_in_which_it_was_there() {
    let text = r#"
id = "visit"
series = true
[base]
duration_s = 12.0
warmup_s = 1.0
wan = { rate_mbps = 2.0, delay_ms = 20.0, buffer_bdp = 10.0 }
flow = [
    { strategy = "tack", cc = "cubic", group = "visit", start_s = 2.0, stop_s = 3.0 },
    { strategy = "tack", cc = "cubic", group = "again", start_s = 6.0, stop_s = 7.0 },
]
"#;
    let records = run(&load(text));
    let record = records.first_key_value().unwrap().1;
    let figure = |name: &str| record.metrics[&format!("visit.{name}")];
    let end = figure("completion");
    assert!(end > 3.1, "what was written is still under way when it stops: {end}");
    let rate = figure("present_goodput_bps");
    assert!((1.5e6..2e6).contains(&rate), "no more than the path carries: {rate}");
    let series = &record.series["visit.cwnd_bytes"];
    let (first, last) = (series[0].0, series[series.len() - 1].0);
    assert!(first >= 2.0 && last <= end, "{first} {last} {end}");
    // What it had acknowledged is what was in flight, round trip by round trip.
    let flight = rate / 8.0 * figure("srtt_mean_us") / 1e6 / 1448.0;
    assert!((figure("window") / flight - 1.0).abs() < 1e-9);
    let round_ms = figure("round_ms");
    assert!((figure("srtt_mean_us") / 1e3 / round_ms - 1.0).abs() < 0.5, "{round_ms}");
    let presence = figure("goodput_bps") / rate;
    let while_there = (rate / 8.0 / 2.0 / 1440.0).min(4e6 / figure("rtt_min_us"));
    let formula = figure("formula_per_s") / presence;
    assert!((formula / while_there - 1.0).abs() < 1e-3, "{formula} {while_there}");
}

/// A third of what is offered fits.
#[test]
fn what_udp_sends_and_loses_is_counted() {
    let text = r#"
id = "udp"
[base]
duration_s = 5.0
warmup_s = 1.0
wan = { rate_mbps = 2.0, delay_ms = 20.0, buffer_packets = 10 }
flow = [{ strategy = "udp", app = { kind = "cbr", mbps = 6.0 } }]
"#;
    let records = run(&load(text));
    let metrics = &records.first_key_value().unwrap().1.metrics;
    assert!((metrics["data"] - 2547.5).abs() < 2.0, "6 Mbit/s of 1472 bytes: {metrics:?}");
    assert!((metrics["data_loss"] - 2.0 / 3.0).abs() < 0.02, "{metrics:?}");
    let lost = metrics["queue_drops"] / metrics["data"];
    assert!((metrics["data_loss"] - lost).abs() < 0.02, "{metrics:?}");
}

/// Its handshake takes all of the run.
#[test]
fn a_round_trip_that_nobody_took_is_none() {
    let text = r#"
id = "far"
[base]
duration_s = 1.0
wan = { rate_mbps = 5.0, delay_ms = 2000.0 }
flow = [{ strategy = "quic-tack" }]
"#;
    let records = run(&load(text));
    let metrics = &records.first_key_value().unwrap().1.metrics;
    assert_eq!(metrics.get("rtt_p50_us"), None, "{metrics:?}");
}

/// The client asks for 30 kB and thinks: what it asks is a hundredth of what it gets.
const DIALOGUE: &str = r#"
id = "dialogue"
series = true
[base]
duration_s = 10.0
warmup_s = 1.0
wan = { rate_mbps = 20.0, delay_ms = 10.0, down.loss = 0.03 }
flow = [
    { strategy = "STRATEGY", direction = "up", app = { kind = "request-response", request_bytes = 200, response_bytes = 30_000, think_ms = 10.0 } },
]
"#;

#[test]
fn what_is_sent_again_of_a_dialogue_is_that_of_responses_too() {
    for strategy in ["tack", "tcp-l2", "quic-tack"] {
        let records = run(&load(&DIALOGUE.replace("STRATEGY", strategy)));
        let record = records.first_key_value().unwrap().1;
        let (resent, lost) = (record.metrics["resent"], record.metrics["lost_packets"]);
        assert!(lost > 20.0 && resent > 0.8 * lost, "{strategy}: {resent} of {lost}");
        let line = &record.series["goodput_bps"];
        let mean = line.iter().map(|(_, rate)| rate).sum::<f64>() / line.len() as f64;
        let whole = record.metrics["goodput"];
        assert!((mean / whole - 1.0).abs() < 0.05, "{strategy}: {mean} {whole}");
        if strategy != "quic-tack" {
            assert!(record.metrics["events_per_packet"] > 0.0, "{strategy}");
            assert!(record.metrics["blocked_max_bytes"] > 0.0, "{strategy}");
        }
    }
}

/// One loses a third of its packets, the other none.
#[test]
fn the_loss_of_unlike_flows_is_that_of_all_their_packets() {
    let text = r#"
id = "unlike"
[base]
duration_s = 5.0
warmup_s = 1.0
wan = { rate_mbps = 20.0, delay_ms = 10.0, buffer_packets = 10 }
flow = [
    { strategy = "udp", group = "burst", app = { kind = "cbr", mbps = 30.0 }, stop_s = 1.5 },
    { strategy = "udp", group = "even", app = { kind = "cbr", mbps = 10.0 }, start_s = 2.0, delay_ms = 5.0 },
]
"#;
    let records = run(&load(text));
    let metrics = &records.first_key_value().unwrap().1.metrics;
    let [all, burst, even] = ["", "burst.", "even."].map(|g| metrics[&format!("{g}data_loss")]);
    assert!(burst > 0.3 && even < 0.02, "{burst} {even}");
    let left = metrics["data_packets_per_s"] * metrics["measured"];
    assert!((all - metrics["lost_packets"] / left).abs() < 1e-9, "{all} {metrics:?}");
    // Half a second of 30 Mbit/s and three of 10, less what is no text.
    assert!((left - 45e6 / 8.0 / 1472.0).abs() < 4.0, "{left}");
}

#[test]
fn a_goodput_over_time_is_that_of_a_flow_while_it_was_there() {
    let text = r#"
id = "visitor"
series = true
[base]
duration_s = 10.0
wan = { rate_mbps = 10.0, delay_ms = 10.0 }
flow = [
    { strategy = "tack", group = "host", cc = "cubic" },
    { strategy = "tack", group = "visitor", cc = "cubic", start_s = 4.0, stop_s = 6.0 },
]
"#;
    let records = run(&load(text));
    let record = records.first_key_value().unwrap().1;
    let line = &record.series["visitor.goodput_bps"];
    let (first, last) = (line[0].0, line[line.len() - 1].0);
    assert!(
        first > 4.0 && last > 5.9 && last <= record.metrics["visitor.completion"],
        "{first} {last}"
    );
    let mean = line.iter().map(|(_, rate)| rate).sum::<f64>() / line.len() as f64;
    let present = record.metrics["visitor.present_goodput_bps"];
    assert!((mean / present - 1.0).abs() < 0.1, "{mean} {present}");
}

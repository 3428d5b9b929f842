//! Videos in scenarios: what a viewer sees of them over datagrams and over streams.

use tack_lab::experiment::Extent;
use tack_lab::record::Record;
use tack_lab::reproduce::Loaded;

use crate::experiments::run;

/// 2 Mbit/s: 25 frames a second, a key frame of 50 kB in every 25, others of 8 kB.
fn trace() -> String {
    format!("fps 25\\nI 50000\\n{}", "P 8000\\n".repeat(24))
}

/// What one flow with that video gives over `wan`, by strategy.
fn seen(strategy: &str, wan: &str) -> Record {
    let text = format!(
        "id = \"video\"\n[base]\nduration_s = 12.0\nwarmup_s = 2.0\nwan = {{ delay_ms = 20.0, {wan} }}\n\
         flow = [{{ strategy = \"{strategy}\", app = {{ kind = \"video\", trace = \"{}\" }} }}]\n",
        trace()
    );
    let loaded = Loaded::parse(&text, Extent::Short).unwrap_or_else(|e| panic!("{e}"));
    run(&loaded).into_values().next().unwrap()
}

fn figure(record: &Record, name: &str) -> f64 {
    record.get(name).unwrap_or_else(|| panic!("no {name}: {record:?}"))
}

const STRATEGIES: [&str; 4] = ["udp", "tcp-l2", "tack", "quic-tack"];

#[test]
fn a_video_that_fits_its_path_is_seen_without_a_stall_over_every_transport() {
    for strategy in STRATEGIES {
        let record = seen(strategy, "rate_mbps = 20.0");
        for name in ["rebuffering", "stalls_per_min", "late_frames", "macroblocking"] {
            assert_eq!(figure(&record, name), 0.0, "{strategy}: {name}");
        }
        let rate = figure(&record, "goodput_bps");
        assert!((1.8e6..2.2e6).contains(&rate), "{strategy}: {rate} bit/s");
        let delay = figure(&record, "frame_delay_p50_us");
        assert!((20e3..60e3).contains(&delay), "{strategy}: {delay} us");
    }
}

#[test]
fn what_is_lost_is_seen_wrong_over_datagrams_and_comes_later_over_streams() {
    let record = seen("udp", "rate_mbps = 20.0, loss = 0.01");
    let wrong = figure(&record, "damaged_frames");
    assert!((0.3..1.0).contains(&wrong) && figure(&record, "rebuffering") == 0.0, "{record:?}");
    assert!(figure(&record, "macroblocking") > 180.0, "more often than each tenth second");
    for strategy in ["tcp-l2", "tack"] {
        let record = seen(strategy, "rate_mbps = 20.0, loss = 0.01");
        assert_eq!(figure(&record, "damaged_frames"), 0.0, "{strategy}");
        let delay = figure(&record, "frame_delay_p95_us");
        assert!(delay > 60e3, "{strategy}: {delay} us, with what was sent again");
    }
}

#[test]
fn a_stream_over_half_of_its_rate_stands_still_half_of_the_time_and_datagrams_are_lost() {
    for strategy in ["tcp-l2", "tack"] {
        let record = seen(strategy, "rate_mbps = 1.1");
        let stalled = figure(&record, "rebuffering");
        assert!((0.42..0.58).contains(&stalled), "{strategy}: {stalled}");
        assert!(figure(&record, "late_frames") > 0.99, "{strategy}");
    }
    let record = seen("udp", "rate_mbps = 1.1, buffer_bytes = 20000");
    assert!(figure(&record, "damaged_frames") > 0.8, "{record:?}");
}

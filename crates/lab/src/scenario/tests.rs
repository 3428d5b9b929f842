use super::*;
use crate::experiment::Extent;
use crate::item::Plan;
use crate::plan::{experiment_or_scenario, plan};

const GOOD: &str = r#"
name = "n-80ms"
duration_s = 2.0
warmup_s = 0.5
runs = 3

[wifi]
phy = "n"

[wan]
delay_ms = 40.0
down.loss = 0.01

[[flow]]
strategy = "tack"
"#;

fn read(text: &str) -> Result<Plan, ScenarioError> {
    plan(&experiment_or_scenario(text, "test")?, Extent::Usual, text)
}

fn error(text: &str) -> String {
    read(text).unwrap_err().to_string()
}

#[test]
fn a_scenario_survives_being_written_and_read_again() {
    let scenario = Scenario::parse(GOOD).unwrap();
    let text = toml::to_string(&scenario).unwrap();
    assert_eq!(Scenario::parse(&text).unwrap(), scenario);
}

#[test]
fn a_direction_overrides_both_key_by_key() {
    let wan = Scenario::parse(GOOD).unwrap().wan.unwrap();
    assert_eq!((wan.down().loss, wan.down().delay_ms), (Some(0.01), Some(40.0)));
    assert_eq!((wan.up().loss, wan.up().delay_ms), (None, Some(40.0)));
}

#[test]
fn a_sweep_runs_every_combination_and_seed_in_order() {
    let text = format!(
        "{GOOD}\n[sweep]\n\"wifi.phy\" = [\"g\", \"ac\"]\n\"flow.0.strategy\" = [\"tcp-l2\", \"tack\"]\n"
    );
    let runs = read(&text).unwrap().items;
    assert_eq!(runs.len(), 2 * 2 * 3);
    assert!(runs.iter().all(|r| r.scenario.runs == 1));
    let seen: std::collections::BTreeSet<_> = runs
        .iter()
        .map(|r| {
            let phy = r.scenario.wifi.as_ref().unwrap().phy.clone();
            (phy, r.scenario.flow[0].strategy, r.scenario.seed)
        })
        .collect();
    assert_eq!(seen.len(), 12);
}

#[test]
fn mistakes_name_their_line_their_key_and_the_remedy() {
    for (from, to, line, words) in [
        ("delay_ms = 40.0", "delay_ms = -1.0", 11, ["wan.delay_ms", "between 0"]),
        ("down.loss = 0.01", "down.loss = 1.5", 12, ["wan.down.loss", "between 0 and 1"]),
        ("down.loss = 0.01", "down.losss = 0.1", 12, ["losss", "unknown field"]),
        ("phy = \"n\"", "phy = \"z\"", 8, ["wifi.phy", "b, g, n, ac or ax"]),
        ("warmup_s = 0.5", "warmup_s = 2.0", 4, ["warmup_s", "less than duration_s"]),
        ("runs = 3", "runs = \"3\"", 5, ["runs", "invalid type"]),
        ("runs = 3", "runs = 3\nruns = 4", 6, ["runs", "duplicate key"]),
        ("strategy = \"tack\"", "strategy = \"tcp-l0\"", 15, ["strategy", "is no strategy"]),
        (
            "strategy = \"tack\"",
            "strategy = \"tack\"\nstation = 1",
            16,
            ["flow.0.station", "0 to 0"],
        ),
        (
            "strategy = \"tack\"",
            "strategy = \"tack\"\nbeta = 1",
            16,
            ["flow.0.beta", "between 2 and 64"],
        ),
        ("phy = \"n\"", "phy = \"n\"\nscan_ms = [1.0, 2.0]", 9, ["wifi.scan_ms", "how often"]),
        ("phy = \"n\"", "phy = \"n\"\nap_txop_us = -1.0", 9, ["wifi.ap_txop_us", "between"]),
        ("phy = \"n\"", "phy = \"n\"\nqueue = \"codel\"", 9, ["queue", "`fq-codel`"]),
        ("phy = \"n\"", "phy = \"n\"\nsta_queue = 1", 9, ["sta_queue", "wanted string"]),
        (
            "phy = \"n\"",
            "phy = \"n\"\nround_robin = true\nqueue = \"fq-codel\"",
            9,
            ["wifi.round_robin", "leave it out"],
        ),
        (
            "phy = \"n\"",
            "phy = \"n\"\ncommitted_ppdus = 3",
            9,
            ["wifi.committed_ppdus", "needs queue = \"fq-codel\""],
        ),
        (
            "phy = \"n\"",
            "phy = \"n\"\nqueue = \"fq-codel\"\ncommitted_ppdus = 65",
            10,
            ["wifi.committed_ppdus", "between 1 and 64"],
        ),
        (
            "phy = \"n\"",
            "phy = \"n\"\nap_queue_packets = 0",
            9,
            ["wifi.ap_queue_packets", "hold something"],
        ),
        (
            "phy = \"n\"",
            "phy = \"n\"\nsta_queue_packets = 0",
            9,
            ["wifi.sta_queue_packets", "hold something"],
        ),
        (
            "phy = \"n\"",
            "phy = \"n\"\nap_ampdu_mpdus = 1025",
            9,
            ["wifi.ap_ampdu_mpdus", "between 0 and 1024"],
        ),
        (
            "phy = \"n\"",
            "phy = \"n\"\nscan_every_s = 61.0",
            9,
            ["wifi.scan_every_s", "between 0.001 and 60"],
        ),
        ("delay_ms = 40.0", "reordering_ms = 5.0", 11, ["wan.reordering_ms", "needs reordering,"]),
        (
            "delay_ms = 40.0",
            "down.jitter_time_ms = 5.0",
            11,
            ["wan.down.jitter_time_ms", "needs jitter_ms"],
        ),
        // Of use to `down`, which loses.
        (
            "delay_ms = 40.0",
            "loss_burst = 3.0\nup.loss_burst = 2.0",
            12,
            ["wan.up.loss_burst", "needs loss"],
        ),
        // Apart in numbers, and not in the nanoseconds that links count in.
        (
            "delay_ms = 40.0",
            "outages = [[0.1, 0.1000000000001]]",
            11,
            ["wan.outages", "rising and apart"],
        ),
        (
            "delay_ms = 40.0",
            "rate_steps = [[0.1, 5.0], [0.1000000000001, 6.0]]",
            11,
            ["wan.rate_steps", "seconds rising"],
        ),
        (
            "delay_ms = 40.0",
            "delay_steps = [[0.1, 5.0], [0.1000000000001, 6.0]]",
            11,
            ["wan.delay_steps", "seconds rising"],
        ),
        // What would run for ever.
        (
            "delay_ms = 40.0",
            "rate_steps = [[0.0, 5.0]]\nrate_steps_every_s = 1e-9",
            12,
            ["wan.rate_steps_every_s", "0.000001 to 1000000"],
        ),
        (
            "strategy = \"tack\"",
            "strategy = \"tack\"\napp = { kind = \"on-off\", on_ms = 1e-9, off_ms = 1.0 }",
            16,
            ["flow.0.app.on_ms", "between 0.001"],
        ),
        (
            "strategy = \"tack\"",
            "strategy = \"tack\"\nstop_s = 1e300",
            16,
            ["flow.0.stop_s", "is 1e300, but"],
        ),
        (
            "strategy = \"tack\"",
            "strategy = \"tack\"\ncount = 0",
            16,
            ["flow.0.count", "leave the flow out"],
        ),
        (
            "strategy = \"tack\"",
            "strategy = \"tack\"\nrwnd_segments = 1000000000000",
            16,
            ["flow.0.rwnd_segments", "0 to 4294967295"],
        ),
        ("delay_ms = 40.0", "queue = \"cake\"", 11, ["queue", "`fq-codel`"]),
        ("delay_ms = 40.0", "up = 3", 11, ["wan.up", "expected a table of keys"]),
        (
            "strategy = \"tack\"",
            "strategy = \"tack\"\napp = \"bulk\"",
            16,
            ["flow.0.app", "expected a table with its kind"],
        ),
        (
            "delay_ms = 40.0",
            "ack_filter = true\nqueue = \"fq-codel\"",
            11,
            ["wan.ack_filter", "leave it out"],
        ),
        ("[[flow]]", "[[flow]", 14, ["", "]"]),
    ] {
        let text = GOOD.replacen(from, to, 1);
        let message = error(&text);
        assert!(message.starts_with(&format!("line {line}: ")), "{to}: {message}");
        for word in words {
            assert!(message.contains(word), "{to}: {message} lacks {word}");
        }
    }
}

#[test]
fn a_sweep_names_its_own_mistakes() {
    for (sweep, word) in [
        ("\"wifi.phy\" = \"g\"", "must be a list"),
        ("\"wifi.phy\" = []", "at least one value"),
        ("\"wifi.phy\" = [\"g\", \"q\"]", "b, g, n, ac or ax"),
        ("\"flow.7.strategy\" = [\"tack\"]", "entry 7 of 1"),
        ("\"wifi.nonsense\" = [1]", "nonsense"),
        ("\"duration_s.x\" = [1]", "plain value"),
    ] {
        let message = error(&format!("{GOOD}\n[sweep]\n{sweep}\n"));
        assert!(message.contains(word) && message.starts_with("line 18"), "{sweep}: {message}");
    }
}

#[test]
fn a_link_without_any_limit_is_refused() {
    let text = "[wan]\ndelay_ms = 1.0\n[[flow]]\nstrategy = \"tack\"\n";
    assert!(error(text).contains("wan.rate_mbps"));
    assert!(error("[[flow]]\nstrategy = \"tack\"\n").contains("name a link"));
    assert!(error("[wan]\nrate_mbps = 1.0\n").contains("flow"));
}

/// Mutations of a good file must be read or refused, never panic.
#[test]
fn random_damage_is_read_or_refused() {
    let mut x: u64 = 0x1234_5678_9abc_def1;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x as usize
    };
    for _ in 0..3_000 {
        let mut bytes = GOOD.as_bytes().to_vec();
        for _ in 0..1 + next() % 4 {
            let at = next() % bytes.len();
            match next() % 3 {
                0 => bytes[at] = b" \"[]=.0189abcxyz\n-e#"[next() % 20],
                1 => {
                    bytes.remove(at);
                }
                _ => bytes.insert(at, b"[]\"=.\n9-"[next() % 8]),
            }
        }
        let text = String::from_utf8_lossy(&bytes);
        if let Err(e) = read(&text) {
            assert!(!e.to_string().is_empty());
        }
    }
}

const DUMBBELL: &str = r#"
duration_s = 20.0
warmup_s = 5.0

[access]
pairs = 3
rate_mbps = 100.0
delay_ms = [0.5, 1.0, 1.5]

[wan]
rate_mbps = 8.0
delay_ms = 23.0
queue = "red"
buffer_bdp = 2.5
packet_bytes = 1052
red_bdp = [0.25, 1.25]

[[flow]]
strategy = "tcp-l1"
cc = "newreno"
count = 4
start_jitter_s = 1.0
segment_bytes = 1000

[[flow]]
strategy = "tcp-l2"
direction = "up"
station = 2
count = 2
rwnd_segments = 20
"#;

#[test]
fn a_dumbbell_counts_its_buffers_in_bandwidth_delay_products() {
    use tack_link::queue::{Discipline, Limit};
    let scenario = Scenario::parse(DUMBBELL).unwrap();
    assert_eq!(scenario.base_rtt(), core::time::Duration::from_millis(50));
    let down = scenario.wan.as_ref().unwrap().down().config(scenario.base_rtt());
    // 8 Mbit/s over 50 ms are 50 kB, 47.53 packets.
    assert_eq!(down.queue.limit, Limit::Packets(119));
    let Discipline::Red(red) = down.queue.discipline else { panic!("{down:?}") };
    assert!((red.min_packets - 11.88).abs() < 0.01 && (red.max_packets - 59.41).abs() < 0.01);
    assert_eq!(red.packet_time, core::time::Duration::from_micros(1_052));
    let stations: Vec<u32> = scenario.flows().map(|f| f.station).collect();
    assert_eq!(stations, [0, 1, 2, 0, 2, 0], "one pair after the other, then from the first");
}

#[test]
fn an_fq_codel_access_point_has_linuxs_values_and_takes_the_scenarios_limits() {
    use tack_link::wlan::{Standard, TxqConfig};
    let config = |keys: &str| {
        let text = GOOD.replacen("phy = \"n\"", &format!("phy = \"n\"\n{keys}"), 1);
        Scenario::parse(&text).unwrap().wifi.unwrap().checked_config(1).unwrap()
    };
    let linux = TxqConfig::mac80211(Standard::N);
    let ap = config("queue = \"fq-codel\"");
    assert_eq!((ap.ap_txq, ap.station_txq), (Some(linux), None));
    let both = config(
        "queue = \"fq-codel\"\nsta_queue = \"fq-codel\"\ncommitted_ppdus = 1\nap_queue_packets = 9",
    );
    let one = TxqConfig { committed_ppdus: 1, ..linux };
    assert_eq!(both.station_txq, Some(one));
    assert_eq!(both.ap_txq, Some(TxqConfig { limit_packets: 9, ..one }));
    assert_eq!(config("queue = \"fifo\"").ap_txq, None);
}

#[test]
fn a_wired_fq_codel_has_the_rfcs_defaults_and_marks_unless_told_otherwise() {
    use tack_link::queue::{Discipline, FqCodelConfig, Limit};
    let queue = |keys: &str| {
        let scenario = Scenario::parse(&GOOD.replacen("delay_ms = 40.0", keys, 1)).unwrap();
        scenario.wan.as_ref().unwrap().down().config(scenario.base_rtt()).queue
    };
    let plain = queue("queue = \"fq-codel\"");
    assert_eq!(plain.discipline, Discipline::FqCodel(FqCodelConfig::default()));
    assert_eq!(plain.limit, Limit::Packets(10_240));
    let own = queue("queue = \"fq-codel\"\necn = false\nbuffer_packets = 50");
    let Discipline::FqCodel(fq) = own.discipline else { panic!("{own:?}") };
    assert_eq!((own.limit, fq.codel.ecn), (Limit::Packets(50), false));
}

#[test]
fn a_dumbbell_names_its_mistakes() {
    for (from, to, line, words) in [
        ("pairs = 3", "pairs = 0", 6, ["access.pairs", "between 1 and 512"]),
        ("pairs = 3", "pairs = 2", 8, ["access.delay_ms", "one per pair"]),
        ("0.5, 1.0", "-0.5, 1.0", 8, ["access.delay_ms", "between 0"]),
        ("buffer_bdp = 2.5", "buffer_bdp = 0", 14, ["wan.buffer_bdp", "between"]),
        (
            "buffer_bdp = 2.5",
            "buffer_bdp = 2.5\nbuffer_packets = 9",
            14,
            ["wan.buffer_bdp", "twice"],
        ),
        ("queue = \"red\"", "queue = \"codel\"", 16, ["wan.red_bdp", "queue = \"red\""]),
        ("[0.25, 1.25]", "[1.25, 0.25]", 16, ["wan.red_bdp", "rising"]),
        ("packet_bytes = 1052", "packet_bytes = 9", 15, ["wan.packet_bytes", "between 40"]),
        ("count = 4", "count = 0", 21, ["flow.0.count", "leave"]),
        ("start_jitter_s = 1.0", "start_jitter_s = -1.0", 22, ["start_jitter_s", "between 0"]),
        ("segment_bytes = 1000", "segment_bytes = 10", 23, ["segment_bytes", "between 200"]),
        ("rwnd_segments = 20", "rwnd_segments = 1", 30, ["flow.1.rwnd_segments", "between 2"]),
        ("station = 2", "station = 3", 28, ["flow.1.station", "0 to 2"]),
    ] {
        let message = error(&DUMBBELL.replacen(from, to, 1));
        assert!(message.starts_with(&format!("line {line}: ")), "{to}: {message}");
        for word in words {
            assert!(message.contains(word), "{to}: {message} lacks {word}");
        }
    }
    let both = DUMBBELL.replacen("[access]", "[wifi]\nphy = \"n\"\n[access]", 1);
    assert!(error(&both).contains("exclude each other"));
}

#[test]
fn late_hosts_and_other_routes_mean_what_they_say_and_name_their_mistakes() {
    let text = "[wan]\nrate_mbps = 10.0\ndelay_steps = [[1.0, 60.0], [2.0, 5.0]]\n[hosts]\nlate_ms = 2.0\n\
                client_late_ms = 0.5\n[[flow]]\nstrategy = \"tack\"\n";
    let hosts = Scenario::parse(text).unwrap().hosts.unwrap();
    let late = [hosts.client_late(), hosts.server_late()];
    assert_eq!(late, [Duration::from_micros(500), Duration::from_millis(2)]);
    for (from, to, words) in [
        ("late_ms = 2.0", "late_ms = 2000.0", ["line 5", "`hosts.late_ms`"]),
        ("client_late_ms = 0.5", "client_late_ms = -0.5", ["line 6", "`hosts.client_late_ms`"]),
        ("[2.0, 5.0]", "[0.5, 5.0]", ["line 3", "`wan.delay_steps`"]),
        ("[2.0, 5.0]", "[2.0, -5.0]", ["line 3", "`wan.delay_steps`"]),
    ] {
        let error = Scenario::parse(&text.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{to}: {error}");
    }
}

#[test]
fn the_mean_of_a_rate_in_steps_is_over_the_time_that_is_asked_for() {
    let mean = |steps: &[(f64, f64)], every: Option<f64>, from, to| {
        let way = WanDirection {
            rate_steps: Some(steps.to_vec()),
            rate_steps_every_s: every,
            ..WanDirection::default()
        };
        way.mean_mbps(from, to).unwrap()
    };
    let steps = [(0.0, 20.0), (3.0, 10.0), (8.0, 0.0)];
    assert_eq!(mean(&steps, None, 1.0, 6.0), (2.0 * 20.0 + 3.0 * 10.0) / 5.0);
    assert_eq!(mean(&steps, None, 4.0, 6.0), 10.0);
    assert_eq!(mean(&steps, None, 0.0, 80.0), (3.0 * 20.0 + 5.0 * 10.0) / 80.0);
    assert_eq!(mean(&[(5.0, 4.0)], None, 0.0, 1.0), 4.0, "the first holds before its time");
    let each = (3.0 * 20.0 + 5.0 * 10.0) / 10.0;
    assert!((mean(&steps, Some(10.0), 0.0, 30.0) - each).abs() < 1e-9);
    assert!((mean(&steps, Some(10.0), 13.0, 18.0) - 10.0).abs() < 1e-9);
    let plain =
        |rate_mbps| WanDirection { rate_mbps, ..WanDirection::default() }.mean_mbps(1.0, 2.0);
    assert_eq!([plain(Some(7.0)), plain(None)], [Some(7.0), None]);
}

use core::time::Duration;

use tack_units::Instant;

use super::{port, run, starts};
use crate::scenario::{Problem, Scenario};

const PATH: &str = r#"
duration_s = 3.0
warmup_s = 1.0
wan = { rate_mbps = 10.0, delay_ms = 10.0, down.buffer_bdp = 1.0, up.buffer_packets = 1000 }
flow = [
    { strategy = "tcp-l2", cc = "newreno", paced = false, count = 2, start_jitter_s = 0.2 },
    { strategy = "ae", cc = "cubic", paced = false, direction = "up", start_s = 0.5 },
]
"#;

/// A run of the scenario; `None` where this machine has no namespaces, or is too busy.
fn live(stack: &str) -> Option<super::Live> {
    let scenario = Scenario::parse(&format!("stack = {stack}\n{PATH}")).unwrap();
    scenario.check_live().unwrap();
    match run(&scenario, None, &|| true) {
        Ok(live) if live.void.is_some() => {
            println!("skipped, the machine is busy: {:?}", live.void)
        }
        Ok(live) => return Some(live),
        Err(e) if e.to_string().contains("kernel has no") => {
            crate::skipped::skipped(format!("{e:#}"))
        }
        Err(e) => match e.downcast_ref::<tack_emu::EmulationError>() {
            Some(e) if e.is_unavailable() => crate::skipped::skipped(e),
            _ => panic!("{e:#}"),
        },
    }
    None
}

/// What `wrong` says of each of three runs: one that it finds nothing in will do, for a SYN that a full
/// queue drops is a second of three, and real time is shared.
fn one_in_three(stack: &str, wrong: impl Fn(&super::Live) -> Option<String>) {
    let mut said = Vec::new();
    for _ in 0..3 {
        let Some(live) = live(stack) else { return };
        match wrong(&live) {
            None => return,
            Some(what) => said.push(what),
        }
    }
    panic!("{stack}: {said:?}");
}

#[test]
fn either_stack_fills_the_way_up_and_no_more() {
    for stack in ["\"ours\"", "\"kernel\""] {
        one_in_three(stack, |live| {
            let flows = &live.result.flows;
            assert_eq!(flows.len(), 3, "{stack}");
            let rates = [flows[0].goodput_bps + flows[1].goodput_bps, flows[2].goodput_bps];
            // One ACK per packet of the last, about one per two of the others.
            let per_packet = |i: usize| flows[i].ack_packets_per_s / flows[i].data_packets_per_s;
            let acks = [per_packet(0), per_packet(2)];
            // The acknowledgments of those down wait behind a second of data: they get what that leaves.
            let filled = (5e5..9.7e6).contains(&rates[0]) && (6e6..9.7e6).contains(&rates[1]);
            let counted = (0.4..0.8).contains(&acks[0]) && (0.85..1.15).contains(&acks[1]);
            (!filled || !counted).then(|| format!("{rates:?} of 9.65 Mbit/s, {acks:?} ACKs"))
        });
    }
}

#[test]
fn real_time_and_the_simulator_agree() {
    let simulated = crate::simulate(&Scenario::parse(PATH).unwrap()).unwrap();
    let sum = |r: &crate::result::RunResult| r.flows.iter().map(|f| f.goodput_bps).sum::<f64>();
    let simulated = sum(&simulated);
    one_in_three("\"ours\"", |live| {
        let real = sum(&live.result);
        let near = (real / simulated - 1.0).abs() < 0.1;
        (!near).then(|| format!("{real}, simulated {simulated}"))
    });
}

#[test]
fn what_programs_send_is_counted() {
    let bulk = "until exec 3<>/dev/tcp/$TACK_SERVER/7000; do sleep 0.1; done; cat /dev/zero >&3";
    let line = format!(
        "stack = {{ command = {{ server = \"exec python3 -c 'import socket; s=socket.create_server((\\\"\\\",7000)); c=s.accept()[0]\\nwhile c.recv(65536): pass'\", client = \"exec bash -c '{bulk}'\" }} }}\n"
    );
    let flow = "duration_s = 2.0\nwarmup_s = 1.0\nwan = { rate_mbps = 5.0, delay_ms = 5.0 }\n\
                flow = [{ strategy = \"tcp-l2\", direction = \"up\" }]\n";
    let scenario = Scenario::parse(&format!("{line}{flow}")).unwrap_or_else(|e| panic!("{e}"));
    match run(&scenario, None, &|| true) {
        Ok(live) => {
            let goodput = live.result.flows[0].goodput_bps;
            assert!((3e6..5e6).contains(&goodput), "{goodput}");
        }
        // No bash, no python, no namespaces: nothing to count.
        Err(e) => crate::skipped::skipped(format!("{e:#}")),
    }
}

#[test]
fn flows_start_when_the_simulators_do_each_at_its_own_port() {
    let scenario = Scenario::parse(PATH).unwrap();
    let begin = Instant::from_secs(1);
    let starts = starts(&scenario, begin);
    let entries: Vec<_> = starts.iter().map(|s| (s.entry, port(s.entry))).collect();
    assert_eq!(entries, [(0, 5_001), (0, 5_001), (1, 5_002)]);
    assert_eq!(starts[2].at, begin + Duration::from_millis(500));
    assert!(starts[0].at != starts[1].at && starts[0].at < begin + Duration::from_millis(200));
}

#[test]
fn what_real_time_cannot_do_is_refused_by_key() {
    for (stack, from, to, key) in [
        ("\"ours\"", "\"ae\"", "\"udp\"", "flow.1.strategy"),
        ("\"kernel\"", "\"ae\"", "\"tack\"", "flow.1.strategy"),
        ("\"kernel\"", "\"cubic\"", "\"copa\"", "flow.1.cc"),
        ("\"ours\"", "start_s = 0.5", "app = { kind = \"cbr\", mbps = 1.0 }", "flow.1.app"),
        ("\"ours\"", "start_s = 0.5", "delay_ms = 5.0", "flow.1.delay_ms"),
        ("\"ours\"", "count = 2", "count = 2000", "flow"),
        ("{ command = { server = \"a\", client = \"b\" } }", "count = 2", "count = 1", "flow"),
    ] {
        let text = format!("stack = {stack}\n{}", PATH.replace(from, to));
        let scenario = Scenario::parse(&text).unwrap_or_else(|e| panic!("{e}"));
        let Problem { key: found, what } = scenario.check_live().unwrap_err();
        assert_eq!(found, key, "{what}");
    }
}

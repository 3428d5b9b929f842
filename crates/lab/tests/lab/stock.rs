//! Stock QUIC stacks as strategies of scenarios.

use tack_lab::scenario::{Scenario, Strategy};
use tack_lab::{result::RunResult, simulate};

fn scenario(links: &str, strategy: &str, cc: &str, seconds: f64) -> Scenario {
    let text = format!(
        "name = \"stock\"\nduration_s = {seconds}\nwarmup_s = {}\n{links}\n\
         [[flow]]\nstrategy = \"{strategy}\"\ncc = \"{cc}\"\n",
        seconds / 2.0
    );
    Scenario::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn run(links: &str, strategy: &str, cc: &str, seconds: f64) -> RunResult {
    let scenario = scenario(links, strategy, cc, seconds);
    simulate(&scenario).unwrap_or_else(|e| panic!("{strategy} on {links}: {e}"))
}

#[test]
fn a_strategy_of_a_stock_stack_has_one_word() {
    for word in ["quinn", "quinn-eq4", "quinn-ar10", "noq", "noq-eq4", "noq-ar64"] {
        let strategy: Strategy = word.parse().unwrap();
        assert_eq!(strategy.to_string(), word);
    }
    for word in ["quinn-", "quinn-ar0", "quinn-ar65", "quinn-ar010", "noq-eq5", "quinn-ar", "quin"]
    {
        assert!(word.parse::<Strategy>().is_err(), "{word}");
    }
}

#[test]
fn what_a_stock_stack_does_not_do_is_refused_by_name() {
    let wan = "[wan]\ndelay_ms = 10.0\nrate_mbps = 10.0\n";
    let refused = |flow: &str| {
        let text = format!("name = \"x\"\nduration_s = 1.0\n{wan}[[flow]]\n{flow}\n");
        Scenario::parse(&text).unwrap_err().to_string()
    };
    let copa = refused("strategy = \"quinn\"\ncc = \"copa\"");
    assert!(copa.contains("cc") && copa.contains("newreno, cubic, bbr"), "{copa}");
    let bbr = refused("strategy = \"noq\"\ncc = \"bbr\"");
    assert!(bbr.contains("newreno, cubic, bbr3"), "{bbr}");
    let segment = refused("strategy = \"noq\"\ncc = \"cubic\"\nsegment_bytes = 1000");
    assert!(segment.contains("segment_bytes"), "{segment}");
}

#[test]
fn a_receive_window_is_the_same_to_tcp_and_to_every_quic() {
    const RTT_S: f64 = 0.06;
    let wan = "[wan]\nrate_mbps = 200.0\ndelay_ms = 30.0\n";
    for strategy in ["tcp-l2", "tack", "quic", "quic-tack", "quinn", "noq"] {
        let mut scenario = scenario(wan, strategy, "cubic", 6.0);
        scenario.flow[0].rwnd_segments = Some(100);
        let goodput_bps = simulate(&scenario).unwrap().flows[0].goodput_bps;
        let share = goodput_bps * RTT_S / (100.0 * 1_448.0 * 8.0);
        assert!((0.8..1.2).contains(&share), "{strategy}: {share:.2} of W/RTT");
    }
}

#[test]
fn every_kind_of_link_carries_a_stock_stack() {
    let wired = "[wan]\ndelay_ms = 15.0\nrate_mbps = 20.0\n";
    let mut links = vec![
        wired.to_owned(),
        format!("{wired}loss = 0.01\n"),
        format!("{wired}queue = \"fq-codel\"\n"),
        format!("{wired}queue = \"codel\"\n"),
        format!("{wired}[access]\npairs = 2\nrate_mbps = 100.0\ndelay_ms = 1.0\n"),
    ];
    for phy in ["b", "g", "n", "ac"] {
        for preset in ["textbook", "paper-a"] {
            links.push(format!("[wifi]\nphy = \"{phy}\"\npreset = \"{preset}\"\n"));
        }
    }
    links.push("[wifi]\nphy = \"n\"\nqueue = \"fq-codel\"\n[wan]\ndelay_ms = 10.0\n".to_owned());
    for link in &links {
        for strategy in ["quinn", "noq-eq4"] {
            let total = match simulate(&scenario(link, strategy, "cubic", 1.5)) {
                Ok(result) => result.flows[0].clone(),
                // Where slow start overshoots far; the record of such a run is void.
                Err(e) if e.to_string().contains("too many gaps") => {
                    assert_eq!(strategy, "noq-eq4", "{link}: {e}");
                    continue;
                }
                Err(e) => panic!("{strategy} on {link}: {e}"),
            };
            assert!(total.goodput_bps > 1e6, "{strategy} on {link}: {total:?}");
            assert!(total.ack_packets_per_s > 0.0, "{strategy} on {link}: {total:?}");
        }
    }
}

#[test]
fn eq4_said_once_spares_acknowledgments_and_air() {
    let n = "[wifi]\nphy = \"n\"\n[wan]\ndelay_ms = 40.0\n";
    let usual = run(n, "quinn", "cubic", 8.0);
    let eq4 = run(n, "quinn-eq4", "cubic", 8.0);
    let ar10 = run(n, "quinn-ar10", "cubic", 8.0);
    let acks = |r: &RunResult| r.flows[0].ack_packets_per_s;
    let share = |r: &RunResult| acks(r) / r.flows[0].data_packets_per_s;
    assert!((0.4..0.6).contains(&share(&usual)), "{:?}", usual.flows[0]);
    assert!((0.09..0.15).contains(&share(&ar10)), "{:?}", ar10.flows[0]);
    // Four per 80 ms, and one at once for each loss event.
    assert!((40.0..100.0).contains(&acks(&eq4)), "{:?}", eq4.flows[0]);
    let air = |r: &RunResult| r.airtime.expect("it has Wi-Fi").acks;
    assert!(air(&eq4) < air(&usual) / 5.0, "{:?} {:?}", eq4.airtime, usual.airtime);
}

//! Our QUIC as a strategy: TACK's frequency, and what it costs nobody.

use tack_lab::metric::figures;
use tack_lab::scenario::{Scenario, Strategy};
use tack_lab::{result::RunResult, simulate};

const WIRE: &str = "[wan]\ndelay_ms = 40.0\nrate_mbps = 100.0\n";

fn run(links: &str, strategy: &str, seconds: f64) -> (Scenario, RunResult) {
    let text = format!(
        "name = \"quic\"\nduration_s = {seconds}\nwarmup_s = {}\n{links}\n\
         [[flow]]\nstrategy = \"{strategy}\"\ncc = \"bbr\"\n",
        seconds / 2.0
    );
    let scenario = Scenario::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let result = simulate(&scenario).unwrap_or_else(|e| panic!("{strategy} on {links}: {e}"));
    (scenario, result)
}

#[test]
fn words_of_our_quic_name_it() {
    for word in ["quic-tack", "quic", "quic-quinn", "quic-noq"] {
        assert_eq!(word.parse::<Strategy>().unwrap().to_string(), word);
    }
    assert!("quic-eq4".parse::<Strategy>().is_err());
}

#[test]
fn tack_in_quic_acknowledges_by_eq4_and_fills_a_wire_as_tcp_tack_does() {
    let (scenario, quic) = run(WIRE, "quic-tack", 12.0);
    let figures = figures(&scenario, &quic.flows);
    let (acks, eq4) = (quic.flows[0].ack_packets_per_s, figures["eq4_rate"]);
    assert!((0.97..1.03).contains(&(acks / eq4)), "{acks} a second, Eq. 4 says {eq4}");
    let (_, tcp) = run(WIRE, "tack", 12.0);
    let goodput = |r: &RunResult| r.flows[0].goodput_bps;
    assert!(goodput(&quic) > 0.98 * goodput(&tcp), "{} {}", goodput(&quic), goodput(&tcp));
}

#[test]
fn a_stock_receiver_acknowledges_by_eq4_when_ours_asks() {
    // Slow start on a longer path makes more gaps than noq keeps.
    let short = "[wan]\ndelay_ms = 10.0\nrate_mbps = 100.0\n";
    for (strategy, links) in [("quic-quinn", WIRE), ("quic-noq", short)] {
        let (scenario, result) = run(links, strategy, 12.0);
        let figures = figures(&scenario, &result.flows);
        let (acks, eq4) = (result.flows[0].ack_packets_per_s, figures["eq4_rate"]);
        assert!((0.9..1.1).contains(&(acks / eq4)), "{strategy}: {acks}, Eq. 4 says {eq4}");
    }
}

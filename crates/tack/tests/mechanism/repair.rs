//! How fast holes are repaired.

use std::time::Duration;

use tack::{Params, RbbPolicy};
use tack_units::{Instant, Rate};

use crate::world::{Config, World, quantile};

fn run(cfg: Config, seconds: u64) -> World {
    let mut w = World::new(cfg);
    w.run(Instant::from_secs(seconds));
    w
}

fn in_rtt(w: &World, q: f64) -> f64 {
    quantile(&w.repairs, q).as_secs_f64() / w.cfg.rtt.as_secs_f64()
}

/// Issue 2, measures: one RTT + settling (RTTmin/4) at the median, two RTT at p99 under 1 % loss.
/// One retransmission in a hundred is lost again at that rate, so p99 is where the second round
/// begins: two round trips and the settling of both are the bound that a seed cannot break. This
/// path does not reorder, so all but the first holes settle in RTTmin/128.
#[test]
fn holes_are_repaired_in_one_rtt_and_settling_and_in_two_at_p99_under_one_percent_loss() {
    println!("RTT ms  rho'   holes     p50     p98     p99   in RTT");
    for seed in 1..=5 {
        for ack_loss in [0.0, 0.01] {
            let rtt = Duration::from_millis(20 * seed);
            let w = run(Config { seed, rtt, loss: 0.01, ack_loss, ..Config::default() }, 10);
            assert!(w.repairs.len() > 500);
            let [p50, p98, p99] = [0.5, 0.98, 0.99].map(|q| in_rtt(&w, q));
            let n = w.repairs.len();
            println!("{:6} {ack_loss:5} {n:7} {p50:7.3} {p98:7.3} {p99:7.3}", 20 * seed);
            assert!(p50 <= 1.03, "seed {seed}: median {p50} RTT");
            assert!(p99 <= 2.25, "seed {seed}: p99 {p99} RTT");
            // The first sixteen holes, 2 % of all, settle in RTTmin/4.
            let settled = if ack_loss == 0.0 { 1.4 } else { 1.75 };
            assert!(p98 <= settled, "seed {seed}: p98 {p98} RTT");
            assert!(w.counts.loss_iacks <= w.counts.loss_events, "one IACK per loss event");
            assert_eq!(w.counts.timeouts, 0, "seed {seed}");
            assert_eq!(w.sender.needless(), 0, "seed {seed}: nothing was reordered");
        }
    }
}

/// The Monte-Carlo check behind the Deviation in `receiver/report.rs`: 200 ms, rho 1 %, rho' 10 %.
/// With loss IACKs off, TACKs alone pull; that is where the length of the list shows most.
#[test]
fn listing_every_hole_repairs_in_two_rtt_where_one_hole_per_tack_does_not() {
    let measure = |rbb, loss_iacks, seed| {
        let mut w = World::new(Config {
            seed,
            rtt: Duration::from_millis(200),
            rate: Rate::from_mbps(200),
            params: Params { rbb, loss_iacks, ..Params::default() },
            loss: 0.01,
            ack_loss: 0.1,
            ..Config::default()
        });
        // rho' is known from 16 TACKs on, and has to be told.
        w.run(Instant::from_secs(4));
        w.repairs.clear();
        w.run(Instant::from_secs(8));
        let (p50, p99) = (in_rtt(&w, 0.5), in_rtt(&w, 0.99));
        let name = format!("{rbb:?}");
        println!("{name:10} {loss_iacks:6} {:7} {p50:7.2} {p99:7.2}", w.repairs.len());
        (p50, p99)
    };
    println!("policy      IACKs   holes     p50     p99   in RTT");
    for seed in 1..=2 {
        for loss_iacks in [false, true] {
            let rich = measure(RbbPolicy::Rich, loss_iacks, seed);
            let demand = measure(RbbPolicy::OnDemand, loss_iacks, seed);
            let poor = measure(RbbPolicy::Poor(1), loss_iacks, seed);
            assert!(rich.1 <= 2.75, "seed {seed}: rich {rich:?}");
            assert!(demand.1 <= 2.75, "seed {seed}: on demand {demand:?}");
            assert!(poor.1 > 5.0 * rich.1, "seed {seed}: poor {poor:?}");
        }
    }
}

/// [TON Fig. 6a]: bytes blocked behind a hole when a TACK leaves; rho ~ U(0, 3 %), RTT ~ U(1, 200).
#[test]
fn loss_iacks_shrink_what_is_blocked_at_the_receiver() {
    let mut blocked = [Vec::new(), Vec::new()];
    for seed in 1..=8 {
        let mut rng = crate::rng::Rng::new(seed);
        let rtt = Duration::from_micros(1_000 + rng.below(199_000));
        let loss = 0.03 * rng.unit();
        for (loss_iacks, blocked) in [true, false].into_iter().zip(&mut blocked) {
            // Without loss IACKs a TACK pulls one hole, as the paper's does.
            let params = Params { loss_iacks, rbb: RbbPolicy::Poor(1), ..Params::default() };
            let rate = Rate::from_mbps(200);
            let w = run(Config { seed, rtt, rate, loss, params, ..Config::default() }, 10);
            blocked.extend(w.counts.blocked_at_tack);
        }
    }
    let [with, without] = blocked.map(|mut b| {
        b.sort_unstable();
        [b[b.len() / 2], b[b.len() * 9 / 10]]
    });
    println!("blocked bytes p50, p90: with IACK {with:?}, without {without:?}");
    assert!(without[0] >= 5 * with[0] && without[1] >= 3 * with[1]);
}

//! A toy QUIC that hosts the mechanism: two streams over an in-memory path that loses, reorders and
//! doubles packets both ways, in virtual time. What is lost is packed anew, in packets of other
//! cuts; a packet number is never filled again. It prints how many acknowledgments that took.
//!
//! ```text
//! cargo run -p tack-ack --example toy_quic -- [LOSS] [ACK_LOSS] [MBIT_PER_S] [RTT_MS]
//! ```
//!
//! | QUIC | here | the mechanism |
//! |---|---|---|
//! | packet number `n` | `number` | PKT.SEQ `n + 1`, and SEQ |
//! | ACK frame's ranges | [`tack::Tack::holes`] above a floor | `RbbPolicy::Every` |
//! | ACK of an ACK frame | `Frame::Ack` | the floor rises, and holes are forgotten |
//! | ACK-only packet | `Frame::Ack`, `Frame::Frequency` | `on_uncounted`, `on_unasked` |
//! | skipped number | every 500th or so | `skip` |
//! | STREAM frames of a lost packet | packed anew | `poll_fate` |

mod client;
mod config;
mod frame;
mod server;
mod world;

use std::time::Duration;

use tack::equations;
use tack_units::Rate;

use config::Config;
use world::World;

fn main() {
    let mut args = std::env::args().skip(1).map(|a| a.parse::<f64>().expect("a number"));
    let config = Config {
        loss: args.next().unwrap_or(0.01),
        ack_loss: args.next().unwrap_or(0.01),
        rate: Rate::from_mbps(args.next().unwrap_or(100.0) as u64),
        rtt: Duration::from_secs_f64(args.next().unwrap_or(80.0) / 1e3),
        ..Config::default()
    };
    let r = World::new(config.clone()).run();
    assert!(r.intact, "a byte differs");
    let params = &config.params;
    let l = params.segments_per_ack;
    let eq4 = equations::tack_frequency(config.rate, config.rtt, params.beta, l, params.mss);
    let total: u64 = config.totals.iter().sum();
    let mbps = total as f64 * 8e-6 / r.seconds;
    println!("{total} bytes of two streams intact in {:.3} s: {mbps:.1} Mbit/s", r.seconds);
    println!("data packets {:7}   lost {}, needlessly {}", r.packets, r.lost, r.needless);
    println!("TACKs        {:7}   {:.1} Hz, Eq. 4 says {eq4:.1} Hz", r.tacks, r.tack_hz);
    println!("of them      {:7}   at once, for losses and numbers that were skipped", r.losses);
    println!("ACKs of QUIC {:7}   one per two packets [RFC 9000 §13.2.2]", r.packets / 2);
    println!("ranges       {:7}   of packet numbers remembered at most", r.most_ranges);
    println!("RTTmin       {:?}   of {:?}", r.rtt_min.expect("sampled"), config.rtt);
}

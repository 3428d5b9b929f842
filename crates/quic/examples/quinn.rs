//! How a user of quinn (or noq, whose types have the same names) gets TACK's schedule from the peer.
//!
//! quinn's configuration is fixed for a connection's life: it is made for the path that is expected,
//! and holds on others as far as the printed table shows.
//!
//! ```text
//! cargo run -p tack-quic --example quinn -- [MBIT_PER_S] [RTT_MS]
//! ```

use std::time::Duration;

use quinn_proto::{AckFrequencyConfig, TransportConfig, VarInt};
use tack::{Params, Regime, equations};
use tack_quic::ack_frequency::{Path, Request};
use tack_units::Rate;

/// quinn declares a packet lost three packets later, and allows no delay below 1 ms.
const PACKET_THRESHOLD: u64 = 3;
const MIN_ACK_DELAY: Duration = Duration::from_millis(1);

fn config(request: &Request) -> Result<AckFrequencyConfig, quinn_proto::VarIntBoundsExceeded> {
    let mut config = AckFrequencyConfig::default();
    config
        .ack_eliciting_threshold(VarInt::from_u64(request.ack_eliciting_threshold)?)
        .max_ack_delay(Some(request.max_ack_delay))
        .reordering_threshold(VarInt::from_u64(request.reordering_threshold)?);
    Ok(config)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<f64>());
    let mbps = args.next().unwrap_or(Ok(100.0))?;
    let rtt_ms = args.next().unwrap_or(Ok(80.0))?;
    let params = Params { mss: 1_200, ..Params::default() };
    let path = Path {
        bw: Rate::from_kbps((mbps * 1e3) as u64),
        rtt_min: Duration::try_from_secs_f64(rtt_ms / 1e3)?,
        regime: Regime::Steady,
    };
    let request = Request::new(&path, &params, MIN_ACK_DELAY, PACKET_THRESHOLD);
    let mut transport = TransportConfig::default();
    transport.ack_frequency_config(Some(config(&request)?));

    println!("{request:?}\n{:>12} {:>12} {:>12}", "Mbit/s", "ACK/s", "Eq. 4");
    for factor in [0.01, 0.1, 0.5, 1.0, 2.0, 10.0] {
        let bw = path.bw.mul_f64(factor);
        let Some(interval) = request.interval(bw, params.mss) else { continue };
        let Params { beta, segments_per_ack, mss, .. } = params;
        let eq4 = equations::tack_frequency(bw, path.rtt_min, beta, segments_per_ack, mss);
        let acks = 1.0 / interval.as_secs_f64();
        println!("{:>12.2} {acks:>12.1} {eq4:>12.1}", bw.as_mbps_f64());
    }
    Ok(())
}

//! A congestion controller of one's own on a real socket: so many bits per second, whatever happens.
//!
//! `cargo run --release -p tack-net --example controller`. In simulated company it can be tried
//! beside others: `tack-sim`'s example `own_controller`.

use std::error::Error;
use std::time::Duration;

use tack_device::Clock;
use tack_net::cc::{AckSample, Config, Controller, Factory, Inspect, LossSample, Snapshot};
use tack_net::units::{Instant, Rate};
use tack_net::{ConnConfig, Endpoint};
use tokio::io::{AsyncWriteExt, copy, sink};

/// A path that belongs to us alone, at a rate that was paid for.
#[derive(Debug)]
struct Leased {
    rate: Rate,
    mss: u64,
    srtt: Duration,
}

impl Controller for Leased {
    fn on_sent(&mut self, _bytes: u64, _in_flight: u64, _app_limited: bool, _now: Instant) {}

    fn on_ack(&mut self, ack: &AckSample) {
        self.srtt = ack.srtt.unwrap_or(self.srtt);
    }

    fn on_loss(&mut self, _loss: &LossSample) {}

    /// Twice what the path holds: the pacer, not the window, is to hold us back.
    fn window(&self) -> u64 {
        (2 * self.rate.bytes_in(self.srtt)).max(10 * self.mss)
    }

    fn pacing_rate(&self) -> Option<Rate> {
        Some(self.rate)
    }
}

impl Inspect for Leased {
    fn set_mss(&mut self, mss: u32) {
        self.mss = u64::from(mss);
    }

    fn snapshot(&self, name: &'static str) -> Snapshot {
        Snapshot::new(name, "steady", self.window(), Some(self.rate))
    }
}

const RATE: Rate = Rate::from_mbps(40);
const BYTES: usize = 2_500_000;

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    let server = Endpoint::bind("127.0.0.1:0".parse()?)?;
    // Nothing secret here, so nothing is encrypted; `listen` and `connect` would be.
    let listener = server.listen_plain()?;
    let reading = tokio::spawn(async move {
        let (mut stream, _peer) = listener.accept().await?;
        copy(&mut stream, &mut sink()).await?;
        stream.shutdown().await
    });

    let leased = Factory::new("leased", |config: &Config, _now| {
        let mss = u64::from(config.mss);
        Box::new(Leased { rate: RATE, mss, srtt: Duration::from_millis(100) })
    });
    let config = ConnConfig::default().with(|it| it.controller = Some(leased));
    let client = Endpoint::builder().conn(config).bind("127.0.0.1:0".parse()?)?;
    let mut stream = client.connect_plain(server.local_addr()).await?;
    let clock = Clock::start();
    stream.write_all(&vec![7; BYTES]).await?;
    stream.shutdown().await?;
    stream.finished().await?;
    let took = clock.now() - Instant::ZERO;
    reading.await??;
    println!("{BYTES} bytes at {RATE} took {took:?}");
    // Half a second at that rate; a busy machine may take longer, and no pacer less.
    assert!(took > Duration::from_millis(400), "nothing held it back");
    Ok(())
}

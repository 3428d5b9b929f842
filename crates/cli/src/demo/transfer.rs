//! One transfer over the path.

use std::fmt;
use std::io::{self, Read, Write};
use std::time::Duration;

use tack_device::{Clock, process_cpu_time};
use tack_net::{AckStrategy, ConnConfig, Endpoint, PathFacts, Remote, TackInfo};
use tack_units::{Instant, Rate};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::file::{CHUNK_BYTES, SourceFile, sha256_of};
use super::path::Path;
use super::relay::{Outcome, Relay};
use super::report::{AirShares, Run};
use crate::task::task;

/// How long the ends may take to say goodbye before the relay is taken away.
const LINGER: Duration = Duration::from_secs(2);

/// How the file is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strategy {
    /// With TACK.
    Tack,
    /// As plain TCP: an acknowledgment for every second segment, SACK, RACK-TLP, BBR.
    TcpL2,
}

impl Strategy {
    pub(crate) const BOTH: [Strategy; 2] = [Strategy::Tack, Strategy::TcpL2];

    fn config(self) -> ConnConfig {
        match self {
            Strategy::Tack => ConnConfig::default(),
            Strategy::TcpL2 => ConnConfig::plain(),
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Strategy::Tack => "tack",
            Strategy::TcpL2 => "tcp-l2",
        })
    }
}

/// Sends `file` over `path` and measures.
pub(crate) async fn run(strategy: Strategy, file: &SourceFile, path: &Path) -> io::Result<Run> {
    let clock = Clock::start();
    let loopback = "127.0.0.1:0".parse().expect("an address");
    // What leaves the air together arrives together; the strategy, not the kernel's coalescing,
    // is to decide how often it is acknowledged.
    let end = || Endpoint::builder().conn(strategy.config()).answer_each_datagram(true);
    let server = end().bind(loopback)?;
    let listener = server.listen_plain()?;
    let relay = Relay::start(path, server.local_addr(), clock)?;
    let client = end().bind(loopback)?;
    let remote = Remote { path: relay.address(), port: server.local_addr().port() };

    let bytes = file.bytes;
    let cpu_before = process_cpu_time().unwrap_or_default();
    let receiving = tokio::spawn(task(async move {
        let (mut stream, _relay) = listener.accept().await?;
        let mut received = tempfile::tempfile()?;
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut arrival = Arrival::default();
        loop {
            match stream.read(&mut chunk).await? {
                0 => break,
                n => {
                    received.write_all(&chunk[..n])?;
                    arrival.add(n as u64, bytes / 2, clock.now());
                }
            }
        }
        arrival.done_at = clock.now();
        stream.shutdown().await?;
        io::Result::Ok((received, arrival))
    }));
    let mut stream = client.connect_plain_with(remote, strategy.config()).await?;
    let started_at = clock.now();
    let mut source = file.open()?;
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        match source.read(&mut chunk)? {
            0 => break,
            n => stream.write_all(&chunk[..n]).await?,
        }
    }
    stream.shutdown().await?;
    let (mut received, arrival) = receiving.await.map_err(io::Error::other)??;
    let info = stream.info();
    let cpu = process_cpu_time().unwrap_or_default().saturating_sub(cpu_before);
    drop(stream);
    let goodbye = async { tokio::join!(client.wait_idle(), server.wait_idle()) };
    let _ = tokio::time::timeout(LINGER, goodbye).await;
    let outcome = relay.finish()?;

    let intact = sha256_of(&mut received)? == file.sha256;
    let rates = arrival.rates(started_at);
    Ok(measured(strategy, rates, &info, outcome, cpu, intact))
}

/// How the file came in.
#[derive(Clone, Copy, Debug, Default)]
struct Arrival {
    bytes: u64,
    /// When half of the file was there, and how much that was.
    half: Option<(Instant, u64)>,
    done_at: Instant,
}

/// Goodput in bit/s.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Rates {
    half_at: Instant,
    whole: f64,
    second_half: f64,
}

impl Arrival {
    fn add(&mut self, bytes: u64, half: u64, now: Instant) {
        self.bytes += bytes;
        if self.half.is_none() && self.bytes >= half {
            self.half = Some((now, self.bytes));
        }
    }

    fn rates(&self, started_at: Instant) -> Rates {
        let rate = |bytes: u64, from: Instant| {
            bytes as f64 * 8.0 / (self.done_at - from).as_secs_f64().max(1e-6)
        };
        let (half_at, before) = self.half.unwrap_or((started_at, 0));
        Rates {
            half_at,
            whole: rate(self.bytes, started_at).round(),
            second_half: rate(self.bytes - before, half_at).round(),
        }
    }
}

fn measured(
    strategy: Strategy,
    rates: Rates,
    info: &TackInfo,
    outcome: Outcome,
    cpu: Duration,
    sha256_ok: bool,
) -> Run {
    let mut census = outcome.census;
    census.log_timeline();
    let rtt_min = info.rtt_min.unwrap_or_default();
    let us = |late: Duration| u64::try_from(late.as_micros()).unwrap_or(u64::MAX);
    let never_entered = info.counters.data_segments_sent.saturating_sub(census.data_packets);
    Run {
        strategy: strategy.to_string(),
        goodput_bps: rates.whole,
        data_packets: census.data_packets,
        ack_packets: census.ack_packets(),
        acks_per_s: census.acks_per_s_since(rates.half_at),
        eq4_acks_per_s: eq4(rates.second_half, info.mss, rtt_min),
        retransmissions: info.counters.retransmissions,
        needless_retransmissions: info.counters.needless,
        rtt_min_us: rtt_min.as_micros() as u64,
        true_rtt_min_us: census.rtt_min_us(),
        owd_p95_us: census.owd_p95_us(),
        acks_by_kind: census.acks_by_kind,
        cpu_s: cpu.saturating_sub(outcome.cpu).as_secs_f64(),
        sha256_ok,
        steady_goodput_bps: rates.second_half,
        air: outcome.air.map(AirShares::from),
        late_p50_us: us(outcome.lateness.quantile(0.5)),
        late_p99_us: us(outcome.lateness.quantile(0.99)),
        late_max_us: us(outcome.lateness.greatest()),
        lost_beside_path: outcome.unsent + never_entered,
    }
}

/// [TON §IV-A Eq. 4] at the goodput reached: `min(bw / (L·MSS), beta / RTTmin)`, per second.
fn eq4(goodput_bps: f64, mss: u32, rtt_min: Duration) -> f64 {
    let bw = Rate::from_bps(goodput_bps as u64);
    AckStrategy::TACK.frequency(&PathFacts { bw, rtt_min, window: bw.bytes_in(rtt_min), mss })
}

#[cfg(test)]
mod tests {
    use tack_link::wlan::{Preset, Standard};
    use tack_units::Rate;

    use super::super::path::Medium;
    use super::super::report::Report;
    use super::*;

    #[test]
    fn the_second_half_is_measured_from_when_half_had_arrived() {
        let at = Instant::from_millis;
        let mut arrival = Arrival::default();
        for (ms, bytes) in [(1_000, 400_000), (1_200, 200_000), (1_600, 400_000)] {
            arrival.add(bytes, 500_000, at(ms));
        }
        arrival.done_at = at(1_600);
        let rates = arrival.rates(at(600));
        assert_eq!(rates, Rates { half_at: at(1_200), whole: 8e6, second_half: 8e6 });
        let nothing = Rates { half_at: at(0), whole: 0.0, second_half: 0.0 };
        assert_eq!(Arrival::default().rates(at(0)), nothing);
    }

    /// As above: nothing here depends on speed.
    #[tokio::test]
    async fn over_wifi_every_byte_arrives_and_acknowledgments_take_airtime() {
        let file = SourceFile::random(1_000_000).unwrap();
        let medium = Medium::Wifi { standard: Standard::G, preset: Preset::Textbook };
        let path = Path { medium, rtt: Duration::from_millis(20), loss: 0.0, ack_loss: 0.0 };
        let mut report = Report::default();
        for strategy in Strategy::BOTH {
            report.runs.push(run(strategy, &file, &path).await.unwrap());
        }
        for run in &report.runs {
            assert!(run.sha256_ok && run.true_rtt_min_us >= 20_000, "{run:?}");
            let air = run.air.expect("Wi-Fi accounts for its air");
            assert!(air.data_airtime > 0.0 && air.ack_airtime > 0.0, "{run:?}");
            assert!(air.data_airtime + air.ack_airtime + air.collision_airtime < 1.0, "{run:?}");
        }
        // A-MPDUs arrive whole, and still every second segment is acknowledged. The last may wait.
        let plain = &report.runs[1];
        assert!(
            plain.ack_packets * 2 + 2 >= plain.data_packets - plain.retransmissions,
            "{plain:?}"
        );
        let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
        assert_eq!(json["runs"][0]["strategy"], "tack");
        assert!(json["runs"][1]["ack_airtime"].is_f64(), "{json}");
    }

    /// Real sockets and a real clock: only what holds at any speed is asserted.
    #[tokio::test]
    async fn a_lossy_path_delivers_every_byte_with_far_fewer_acks_under_tack() {
        let file = SourceFile::random(1_500_000).unwrap();
        let path = Path {
            medium: Medium::Wire(Rate::from_mbps(50)),
            rtt: Duration::from_millis(30),
            loss: 0.02,
            ack_loss: 0.02,
        };
        let tack = run(Strategy::Tack, &file, &path).await.unwrap();
        let plain = run(Strategy::TcpL2, &file, &path).await.unwrap();
        for run in [&tack, &plain] {
            assert!(run.sha256_ok);
            // At least every byte once, in segments of at most 1460 bytes.
            assert!(run.data_packets >= 1_500_000 / 1_460, "{run:?}");
            assert!(run.true_rtt_min_us >= 30_000, "{run:?}");
            assert!(run.owd_p95_us >= 15_000, "{run:?}");
            assert!(run.ack_packets > 0 && run.cpu_s > 0.0, "{run:?}");
        }
        assert!(tack.acks_by_kind.contains_key("tack"), "{tack:?}");
        assert_eq!(plain.acks_by_kind.keys().collect::<Vec<_>>(), [&"plain"], "{plain:?}");
    }
}

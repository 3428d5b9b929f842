//! One transfer over the path.

use std::fmt;
use std::io::{self, Read, Write};
use std::time::Duration;

use tack_device::{Clock, process_cpu_time};
use tack_net::{ConnConfig, Endpoint, Remote, TackInfo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::file::{CHUNK_BYTES, SourceFile, sha256_of};
use super::relay::{Path, Relay};
use super::report::Run;

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
    let server = Endpoint::builder().conn(strategy.config()).bind(loopback)?;
    let mut listener = server.listen()?;
    let relay = Relay::start(path, server.local_addr())?;
    let client = Endpoint::builder().conn(strategy.config()).bind(loopback)?;
    let remote = Remote { path: relay.address(), port: server.local_addr().port() };

    let cpu_before = process_cpu_time().unwrap_or_default();
    let receiving = tokio::spawn(async move {
        let (mut stream, _relay) = listener.accept().await?;
        let mut received = tempfile::tempfile()?;
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            match stream.read(&mut chunk).await? {
                0 => break,
                n => received.write_all(&chunk[..n])?,
            }
        }
        let done_at = clock.now();
        stream.shutdown().await?;
        io::Result::Ok((received, done_at))
    });
    let mut stream = client.connect_with(remote, strategy.config()).await?;
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
    let (mut received, done_at) = receiving.await.map_err(io::Error::other)??;
    let info = stream.info();
    let cpu = process_cpu_time().unwrap_or_default().saturating_sub(cpu_before);
    drop(stream);
    let goodbye = async { tokio::join!(client.wait_idle(), server.wait_idle()) };
    let _ = tokio::time::timeout(LINGER, goodbye).await;
    let outcome = relay.finish()?;

    let intact = sha256_of(&mut received)? == file.sha256;
    let elapsed = done_at - started_at;
    Ok(measured(strategy, file.bytes, elapsed, &info, outcome, cpu, intact))
}

fn measured(
    strategy: Strategy,
    bytes: u64,
    elapsed: Duration,
    info: &TackInfo,
    outcome: super::relay::Outcome,
    cpu: Duration,
    sha256_ok: bool,
) -> Run {
    let mut census = outcome.census;
    census.log_timeline();
    let seconds = elapsed.as_secs_f64();
    let goodput_bps = bytes as f64 * 8.0 / seconds;
    let rtt_min = info.rtt_min.unwrap_or_default();
    Run {
        strategy: strategy.to_string(),
        goodput_bps: goodput_bps.round(),
        data_packets: census.data_packets,
        ack_packets: census.ack_packets(),
        acks_per_s: census.steady_acks_per_s(),
        eq4_acks_per_s: eq4(goodput_bps, info.mss, rtt_min),
        retransmissions: info.counters.retransmissions,
        needless_retransmissions: info.counters.needless,
        rtt_min_us: rtt_min.as_micros() as u64,
        true_rtt_min_us: census.rtt_min_us(),
        owd_p95_us: census.owd_p95_us(),
        acks_by_kind: census.acks_by_kind,
        cpu_s: cpu.saturating_sub(outcome.cpu).as_secs_f64(),
        sha256_ok,
        late_us: (outcome.late_p99_us, outcome.late_max_us),
    }
}

/// [TON §IV-A Eq. 4] at the goodput reached: `min(bw / (L·MSS), beta / RTTmin)`, per second.
fn eq4(goodput_bps: f64, mss: u32, rtt_min: Duration) -> f64 {
    let params = ConnConfig::default().tack.expect("TACK is on by default");
    let per_ack_bits = f64::from(params.segments_per_ack) * f64::from(mss) * 8.0;
    let periodic = f64::from(params.beta) / rtt_min.as_secs_f64().max(1e-9);
    (goodput_bps / per_ack_bits).min(periodic)
}

#[cfg(test)]
mod tests {
    use tack_units::Rate;

    use super::*;

    /// Real sockets and a real clock: only what holds at any speed is asserted.
    #[tokio::test]
    async fn a_lossy_path_delivers_every_byte_with_far_fewer_acks_under_tack() {
        let file = SourceFile::random(1_500_000).unwrap();
        let path = Path {
            rate: Rate::from_mbps(50),
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

//! tack-net's ends.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use tack_device::Clock;
use tack_net::tls::{Acceptor, ClientTrust, Connector, ServerIdentity};
use tack_net::{ConnConfig, Endpoint, IoCounters, TackInfo};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::contestant::{Contestant, Share, WRITE_BYTES};

fn endpoint(contestant: Contestant, local: SocketAddr) -> Result<Endpoint> {
    let conn = match contestant {
        Contestant::TackPlain => ConnConfig::plain(),
        _ => ConnConfig::default(),
    };
    Ok(Endpoint::builder().conn(conn).bind(local)?)
}

pub(crate) fn identity(keys: &Path) -> Result<ServerIdentity> {
    Ok(ServerIdentity::from_pem_files(&keys.join("cert.pem"), &keys.join("key.pem"))?)
}

pub(crate) async fn serve(contestant: Contestant, local: SocketAddr, keys: &Path) -> Result<Share> {
    let endpoint = endpoint(contestant, local)?;
    let listener = endpoint.listen_plain()?;
    println!("{}", endpoint.local_addr());
    let (stream, _peer) = listener.accept().await?;
    let (bytes, elapsed, info) = match contestant {
        Contestant::TackClear => {
            let mut stream = stream;
            let (bytes, elapsed) = receive(&mut stream).await?;
            (bytes, elapsed, stream.info())
        }
        _ => {
            let mut stream = Acceptor::new(&identity(keys)?)?.accept(stream).await?;
            let (bytes, elapsed) = receive(&mut stream).await?;
            (bytes, elapsed, stream.get_ref().info())
        }
    };
    let share = Share::new(bytes, elapsed, note(&info, endpoint.io_counters()));
    endpoint.wait_idle().await;
    Ok(share)
}

pub(crate) async fn send(
    contestant: Contestant,
    peer: SocketAddr,
    keys: &Path,
    duration: Duration,
) -> Result<Share> {
    let endpoint = endpoint(contestant, SocketAddr::new(any(peer), 0))?;
    let stream = endpoint.connect_plain(peer).await?;
    let (bytes, elapsed, info) = match contestant {
        Contestant::TackClear => {
            let mut stream = stream;
            let (bytes, elapsed) = transmit(&mut stream, duration).await?;
            (bytes, elapsed, stream.info())
        }
        _ => {
            let trust = ClientTrust::Pinned(identity(keys)?.fingerprint());
            let mut stream = Connector::new(trust)?.connect("localhost", stream).await?;
            let (bytes, elapsed) = transmit(&mut stream, duration).await?;
            (bytes, elapsed, stream.get_ref().info())
        }
    };
    let share = Share::new(bytes, elapsed, note(&info, endpoint.io_counters()));
    // Acknowledges the receiver's end before this process is gone.
    endpoint.wait_idle().await;
    Ok(share)
}

pub(crate) fn any(peer: SocketAddr) -> std::net::IpAddr {
    match peer {
        SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    }
}

pub(crate) async fn receive<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
) -> Result<(u64, Duration)> {
    let clock = Clock::start();
    let mut buffer = vec![0; WRITE_BYTES];
    let mut bytes = 0;
    let mut first = None;
    loop {
        let n = stream.read(&mut buffer).await?;
        let now = clock.now();
        let first = *first.get_or_insert(now);
        if n == 0 {
            // Tells the sender that all of it came.
            stream.shutdown().await?;
            return Ok((bytes, now - first));
        }
        bytes += n as u64;
    }
}

pub(crate) async fn transmit<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    duration: Duration,
) -> Result<(u64, Duration)> {
    let clock = Clock::start();
    let data = vec![0x5a; WRITE_BYTES];
    let start = clock.now();
    let end = start + duration;
    let mut bytes = 0;
    while clock.now() < end {
        stream.write_all(&data).await?;
        bytes += data.len() as u64;
    }
    stream.shutdown().await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.context("waiting for the receiver")?;
    Ok((bytes, clock.now() - start))
}

pub(crate) fn note(info: &TackInfo, io: IoCounters) -> String {
    let c = &info.counters;
    format!(
        "data {} sent {} received, acks {} sent {} received, {} retransmitted, rtt {:?} min {:?}, \
         cwnd {}, {:.1} datagrams per burst sent, {:.1} per message received, blocked {}, \
         refused {}, timeouts {}, limited {:?}, memory {}",
        c.data_segments_sent,
        c.data_segments_received,
        c.acks_sent.total(),
        c.acks_received.total(),
        c.retransmissions,
        info.srtt.unwrap_or_default(),
        info.rtt_min.unwrap_or_default(),
        info.cwnd,
        io.datagrams_sent as f64 / io.bursts_sent.max(1) as f64,
        io.datagrams_received as f64 / io.messages_received.max(1) as f64,
        io.sends_blocked,
        io.datagrams_refused,
        c.timeouts,
        info.limited,
        info.buffer_memory,
    )
}

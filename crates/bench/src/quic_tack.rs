//! tack-net's QUIC: one bidirectional stream, of which the receiver's direction says that all came.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use tack_net::quic::{Config, Connection, Endpoint, Listen};
use tack_net::tls::{Acceptor, ClientTrust, Connector};

use crate::contestant::{Contestant, Share};
use crate::tack::{any, identity, receive, transmit};

const PROTOCOL: &[u8] = b"bench";

fn config(contestant: Contestant) -> Config {
    match contestant {
        Contestant::QuicPlain => Config { tack: None, ask_frequency: false, ..Config::default() },
        _ => Config::default(),
    }
}

pub(crate) async fn serve(contestant: Contestant, local: SocketAddr, keys: &Path) -> Result<Share> {
    let tls = Acceptor::new(&identity(keys)?)?.for_quic(&[PROTOCOL]);
    let endpoint = Endpoint::server(local, Listen::new(tls, config(contestant)))?;
    println!("{}", endpoint.local_addr());
    let connection = endpoint.accept().await.context("the endpoint ended")?;
    let (send, recv) = connection.accept_bi().await?;
    let (bytes, elapsed) = receive(&mut tokio::io::join(recv, send)).await?;
    let share = Share::new(bytes, elapsed, note(&connection, &endpoint));
    connection.closed().await;
    Ok(share)
}

pub(crate) async fn send(
    contestant: Contestant,
    peer: SocketAddr,
    keys: &Path,
    duration: Duration,
) -> Result<Share> {
    let endpoint = Endpoint::client(SocketAddr::new(any(peer), 0))?;
    let connector = Connector::new(ClientTrust::Pinned(identity(keys)?.fingerprint()))?;
    let host = peer.to_string();
    let connecting = endpoint.connect(&host, &connector, &[PROTOCOL], config(contestant));
    let connection = connecting.await?;
    let (send, recv) = connection.open_bi().await?;
    let (bytes, elapsed) = transmit(&mut tokio::io::join(recv, send), duration).await?;
    let share = Share::new(bytes, elapsed, note(&connection, &endpoint));
    connection.close(0, b"all read");
    Ok(share)
}

fn note(connection: &Connection, endpoint: &Endpoint) -> String {
    let (info, io) = (connection.info(), endpoint.io_counters());
    let c = &info.counters;
    format!(
        "data {} sent {} received, acks {} sent ({} TACKs) {} received, {} lost, rtt {:?} min {:?}, \
         cwnd {}, mtu {}, {:.1} datagrams per burst sent, {:.1} per message received, blocked {}, \
         refused {}, timeouts {}",
        c.data_packets_sent,
        c.data_packets_received,
        info.acks,
        info.tacks,
        c.acks_received,
        info.lost_packets,
        info.srtt.unwrap_or_default(),
        info.rtt_min.unwrap_or_default(),
        info.congestion.cwnd,
        info.mtu,
        io.datagrams_sent as f64 / io.bursts_sent.max(1) as f64,
        io.datagrams_received as f64 / io.messages_received.max(1) as f64,
        io.sends_blocked,
        io.datagrams_refused,
        c.timeouts,
    )
}

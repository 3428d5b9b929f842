//! What the stack costs by itself: a bulk transfer between two ends in memory, in virtual time, without a socket.
//!
//! CPU seconds per gigabyte of both ends, encryption included. Nothing waits for anything, so other programs on
//! the machine disturb it little; compare two builds by turns all the same.
//!
//! `cargo run --release -p tack-quic --example memory -- [MEGABYTES] [plain]`

use std::collections::VecDeque;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tack_quic::streams::{Dir, StreamId};
use tack_quic::{Config, ConnId, Endpoint, Listen};
use tack_transport::Endpoint as _;
use tack_units::Instant;

/// One way.
const DELAY: Duration = Duration::from_millis(1);
/// What the path lets through between two looks at it.
const STEP: Duration = Duration::from_micros(100);
const STEP_BYTES: usize = 1_250_000;
/// As segmentation offload takes.
const BURST: usize = 65_000;
const NAME: &str = "memory.test";

/// Datagrams of one length, the last perhaps shorter, and when they arrive.
struct Burst {
    at: Instant,
    bytes: Vec<u8>,
    segment: usize,
}

struct Pair {
    now: Instant,
    ends: [Endpoint; 2],
    addresses: [SocketAddr; 2],
    /// To each.
    wires: [VecDeque<Burst>; 2],
    /// Buffers that are empty again.
    spare: Vec<Vec<u8>>,
}

impl Pair {
    fn step(&mut self) {
        self.now += STEP;
        for who in 0..2 {
            let (from, now) = (self.addresses[1 - who], self.now);
            while self.wires[who].front().is_some_and(|burst| burst.at <= now) {
                let Some(mut burst) = self.wires[who].pop_front() else { break };
                let ecn = tack_transport::Ecn::NotEct;
                tack_transport::Endpoint::handle(
                    &mut self.ends[who],
                    from,
                    &mut burst.bytes,
                    burst.segment,
                    ecn,
                    now,
                );
                burst.bytes.clear();
                self.spare.push(burst.bytes);
            }
            self.ends[who].handle_timeout(now);
            let mut sent = 0;
            while sent < STEP_BYTES {
                let mut bytes = self.spare.pop().unwrap_or_default();
                let Some(burst) = self.ends[who].poll_transmit(&mut bytes, BURST, now) else {
                    self.spare.push(bytes);
                    break;
                };
                sent += bytes.len();
                let (at, segment) = (now + DELAY, burst.segment_size);
                self.wires[1 - who].push_back(Burst { at, bytes, segment });
            }
            while self.ends[who].poll_event().is_some() {}
            self.ends[who].leeway();
        }
    }
}

fn tls() -> Result<(Arc<ClientConfig>, Arc<ServerConfig>), Box<dyn Error>> {
    let key = KeyPair::generate()?;
    let certificate = CertificateParams::new(vec![NAME.to_owned()])?.self_signed(&key)?;
    let mut roots = RootCertStore::empty();
    roots.add(certificate.der().clone())?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = &[&rustls::version::TLS13];
    let client = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(versions)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let server = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)?
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der())?,
        )?;
    Ok((Arc::new(client), Arc::new(server)))
}

fn transfer(
    pair: &mut Pair,
    id: ConnId,
    stream: StreamId,
    total: u64,
) -> Result<(), Box<dyn Error>> {
    let data = vec![0x5a; 256 << 10];
    let mut buffer = vec![0; 256 << 10];
    let (mut written, mut read) = (0, 0);
    let mut reader = None;
    while read < total {
        while written < total {
            let part = data.len().min(usize::try_from(total - written)?);
            let conn = pair.ends[0].connection(id).ok_or("the connection is gone")?;
            let taken = conn.write(stream, &data[..part])?;
            written += taken as u64;
            if taken < part {
                break;
            }
        }
        pair.step();
        let server = pair.ends[1].connections().last();
        let Some(conn) = server.and_then(|id| pair.ends[1].connection(id)) else { continue };
        reader = reader.or_else(|| conn.accept_stream(Dir::Uni));
        let Some(stream) = reader else { continue };
        while let Some(taken @ 1..) = conn.read(stream, &mut buffer)? {
            read += taken as u64;
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let megabytes: u64 = args.next().map_or(Ok(1_000), |n| n.parse())?;
    let mut config = Config { max_streams_uni: 1, ..Config::default() };
    if args.next().is_some() {
        (config.tack, config.ask_frequency) = (None, false);
    }
    let (client, server) = tls()?;
    let listen = Listen::new(server, config.clone());
    let mut pair = Pair {
        now: Instant::ZERO,
        ends: [Endpoint::new([1; 32], None), Endpoint::new([2; 32], Some(listen))],
        addresses: [([10, 0, 0, 1], 5_000).into(), ([10, 0, 0, 2], 443).into()],
        wires: [VecDeque::new(), VecDeque::new()],
        spare: Vec::new(),
    };
    let to = pair.addresses[1];
    let id = pair.ends[0].connect(to, NAME.try_into()?, client, config, pair.now)?;
    while !pair.ends[0].peek(id).is_some_and(|conn| conn.is_established()) {
        pair.step();
    }
    let now = pair.now;
    let conn = pair.ends[0].connection(id).ok_or("the connection is gone")?;
    let stream = conn.open(Dir::Uni, now)?;
    let before = cpu()?;
    transfer(&mut pair, id, stream, megabytes * 1_000_000)?;
    let seconds = cpu()? - before;
    let info = pair.ends[0].peek(id).ok_or("the connection is gone")?.info();
    let gbps = megabytes as f64 * 8e-3 / (pair.now - now).as_secs_f64();
    println!(
        "{:.3} CPU s/GB ({gbps:.2} Gbit/s of virtual time, {} packets, {} acknowledgments, {} lost)",
        seconds * 1e3 / megabytes as f64,
        info.counters.packets_sent,
        info.counters.acks_received,
        info.lost_packets,
    );
    Ok(())
}

/// User time of this process, in seconds.
fn cpu() -> Result<f64, Box<dyn Error>> {
    // Behind the name in parentheses; times are in hundredths.
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let user: f64 = fields.split_whitespace().nth(11).ok_or("no user time")?.parse()?;
    Ok(user / 100.0)
}

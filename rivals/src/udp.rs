//! The bound: sealed datagrams in super-packets, of which nothing is acknowledged or sent again.
//!
//! A client asks with a datagram of two numbers, bytes and bit/s, and says with an empty one that it
//! has as many bytes. With a rate of 0 the server sends as fast as the client takes them: what it
//! counts as received comes back once in a while, and no more than a socket's buffer is under way.

#![expect(
    clippy::disallowed_methods,
    reason = "it has no runtime, which would be part of the bound"
)]

use std::io::{ErrorKind, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use quinn_udp::{RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use serde_json::json;

use crate::Ask;
use crate::stack::{RECV_BUFFER_BYTES, SEND_BUFFER_BYTES};

/// Of a packet: IPv4, UDP, its number, the seal.
const DATAGRAM_BYTES: usize = 1_500 - 20 - 8;
const NUMBER_BYTES: usize = 8;
const SEAL_BYTES: usize = 16;
const TEXT_BYTES: usize = DATAGRAM_BYTES - NUMBER_BYTES - SEAL_BYTES;
/// Most bytes in one call.
const MAX_BURST: usize = 44;
/// Most datagrams beyond what the client told of: less than its buffer holds.
const WINDOW: u64 = 1_000;
/// The client tells after so many.
const TELL_EVERY: u64 = 128;
/// A client that is silent for so long is gone.
const PATIENCE: Duration = Duration::from_secs(5);

fn key() -> LessSafeKey {
    let key = UnboundKey::new(&AES_128_GCM, &[7; 16]).expect("sixteen bytes are a key");
    LessSafeKey::new(key)
}

fn nonce(number: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&number.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}

fn socket(port: u16) -> Result<(UdpSocket, UdpSocketState)> {
    let socket = UdpSocket::bind(("0.0.0.0", port))?;
    let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
    let buffers = socket2::SockRef::from(&socket);
    buffers.set_recv_buffer_size(RECV_BUFFER_BYTES)?;
    buffers.set_send_buffer_size(SEND_BUFFER_BYTES)?;
    socket.set_nonblocking(true)?;
    Ok((socket, state))
}

/// Waits a moment: a datagram may have come, or room may have been made.
fn rest() {
    std::thread::sleep(Duration::from_micros(50));
}

/// Serves one client after the other.
pub(crate) fn serve(port: u16) -> Result<()> {
    let (socket, state) = socket(port)?;
    let mut request = [0; 16];
    loop {
        match socket.recv_from(&mut request) {
            Ok((16, peer)) => {
                let bps = u64::from_be_bytes(request[8..].try_into()?);
                blast(&socket, &state, peer, bps)?;
            }
            Ok(_) => {}
            Err(e) if e.kind() == ErrorKind::WouldBlock => std::thread::sleep(PATIENCE / 5_000),
            Err(e) => return Err(e.into()),
        }
    }
}

fn blast(socket: &UdpSocket, state: &UdpSocketState, peer: SocketAddr, bps: u64) -> Result<()> {
    let (key, mut burst) = (key(), vec![0; MAX_BURST * DATAGRAM_BYTES]);
    let most = MAX_BURST.min(state.max_gso_segments());
    let start = Instant::now();
    let (mut next, mut told, mut heard) = (0_u64, 0_u64, start);
    let mut word = [0; 16];
    loop {
        match socket.recv_from(&mut word) {
            Ok((0, _)) => return Ok(()),
            Ok((8, _)) => {
                told = told.max(u64::from_be_bytes(word[..8].try_into()?));
                heard = Instant::now();
                continue;
            }
            Ok(_) => continue,
            Err(e) if e.kind() == ErrorKind::WouldBlock => {}
            Err(e) => return Err(e.into()),
        }
        if heard.elapsed() > PATIENCE {
            return Ok(());
        }
        let may = if bps > 0 {
            let due = start.elapsed().as_secs_f64() * bps as f64 / 8.0 / 1_500.0;
            (due as u64).saturating_sub(next)
        } else {
            (told + WINDOW).saturating_sub(next)
        };
        let count = usize::try_from(may)?.min(most);
        // Paced bursts are what a sender of a millisecond's worth would send.
        if count < most && (bps == 0 || count == 0 || count < most.min((bps / 12_000_000) as usize))
        {
            rest();
            continue;
        }
        for datagram in burst[..count * DATAGRAM_BYTES].chunks_exact_mut(DATAGRAM_BYTES) {
            let (number, rest) = datagram.split_at_mut(NUMBER_BYTES);
            number.copy_from_slice(&next.to_be_bytes());
            let (text, seal) = rest.split_at_mut(TEXT_BYTES);
            text.fill(0x5a);
            let tag = key
                .seal_in_place_separate_tag(nonce(next), Aad::empty(), text)
                .map_err(|_| anyhow::anyhow!("a datagram cannot be sealed"))?;
            seal.copy_from_slice(tag.as_ref());
            next += 1;
        }
        let transmit = Transmit {
            destination: peer,
            ecn: None,
            contents: &burst[..count * DATAGRAM_BYTES],
            segment_size: Some(DATAGRAM_BYTES),
            src_ip: None,
        };
        while let Err(e) = state.try_send(UdpSockRef::from(socket), &transmit) {
            ensure!(e.kind() == ErrorKind::WouldBlock, "sending: {e}");
            rest();
        }
    }
}

/// Asks for `ask.bytes` and prints when they had come.
pub(crate) fn ask(ask: &Ask) -> Result<()> {
    let (socket, state) = socket(0)?;
    socket.connect(ask.peer())?;
    let bps = (ask.mbps * 1e6) as u64;
    let mut request = [0; 16];
    request[..8].copy_from_slice(&ask.bytes.to_be_bytes());
    request[8..].copy_from_slice(&bps.to_be_bytes());
    socket.send(&request)?;
    let (key, mut buffer) = (key(), vec![0; 64 << 10]);
    let (start, mut heard) = (Instant::now(), Instant::now());
    let (mut received, mut highest, mut told) = (0_u64, 0_u64, 0_u64);
    while received < ask.bytes {
        let mut meta = [RecvMeta::default()];
        let got =
            state.recv(UdpSockRef::from(&socket), &mut [IoSliceMut::new(&mut buffer)], &mut meta);
        match got {
            Ok(_) => heard = Instant::now(),
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                if heard.elapsed() > PATIENCE {
                    bail!("{received} of {} bytes came", ask.bytes);
                }
                rest();
                continue;
            }
            Err(e) => return Err(e.into()),
        }
        for datagram in buffer[..meta[0].len].chunks_mut(meta[0].stride.max(1)) {
            if datagram.len() != DATAGRAM_BYTES {
                continue;
            }
            let (number, sealed) = datagram.split_at_mut(NUMBER_BYTES);
            let number = u64::from_be_bytes(number.try_into()?);
            if key.open_in_place(nonce(number), Aad::empty(), sealed).is_ok() {
                received += TEXT_BYTES as u64;
                highest = highest.max(number + 1);
            }
        }
        // What is told also says that somebody listens.
        let every = if bps > 0 { 10 * TELL_EVERY } else { TELL_EVERY };
        if highest >= told + every {
            told = highest;
            socket.send(&told.to_be_bytes())?;
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    for _ in 0..3 {
        socket.send(&[])?;
    }
    println!("{}", json!({ "bytes": received, "seconds": seconds }));
    Ok(())
}

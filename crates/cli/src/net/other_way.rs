//! What a silent server speaks. One of TCP-TACK and one of QUIC do not hear each other, and of both there is
//! nothing to be heard but silence: so whoever got no answer for a while asks by the other transport as well.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tack_net::race::first_of;
use tack_net::{ConnectError, Endpoint};
use tokio::net::UdpSocket;
use tokio::time::{sleep, timeout};

use super::{Origin, Way};
use crate::random::random;

/// A server that is silent for so long may have been asked by the wrong transport: by then the first packet has
/// been said again.
const SUSPICIOUS: Duration = Duration::from_secs(2);

/// How often the question is repeated.
const AGAIN: Duration = Duration::from_secs(1);

/// The least that a server of QUIC answers [RFC 9000 §14.1].
const QUESTION: usize = 1_200;

/// A version that no server has [RFC 9000 §15], so that each tells those it has.
const NO_VERSION: [u8; 4] = [0x1a, 0x2a, 0x3a, 0x4a];

/// Waits until one of `addresses`, which were asked by `way` from `origin`, proves to speak the other transport:
/// for ever, if none does.
pub(super) async fn answers(way: &Way, origin: &Origin, addresses: Vec<SocketAddr>) {
    sleep(SUSPICIOUS).await;
    let answered = match way {
        Way::Udp => first_of(addresses, |peer| quic(local(origin, peer), peer)).await.is_ok(),
        Way::Quic => first_of(addresses, |peer| tack(local(origin, peer), peer)).await.is_ok(),
        #[cfg(target_os = "linux")]
        Way::Tun(_) => false,
    };
    if !answered {
        std::future::pending().await
    }
}

/// What to do about it.
pub(super) fn advice(way: &Way) -> &'static str {
    match way {
        Way::Quic => {
            "TCP-TACK answers there, and no QUIC: leave out --quic, or start the other side with it"
        }
        _ => {
            "QUIC answers there, and no TCP-TACK: give --quic as well, or start the other side without it"
        }
    }
}

/// Another port than the user may have chosen, which is taken.
fn local(origin: &Origin, peer: SocketAddr) -> SocketAddr {
    Origin { port: 0, ..*origin }.local(peer)
}

/// Whether TCP-TACK takes a connection there, which is reset at once.
async fn tack(local: SocketAddr, peer: SocketAddr) -> Result<(), ConnectError> {
    Endpoint::bind(local)?.connect_plain(peer).await?.abort();
    Ok(())
}

/// Whether somebody there tells versions of QUIC [RFC 8999 §6], and to nobody but us.
async fn quic(local: SocketAddr, peer: SocketAddr) -> io::Result<()> {
    let socket = UdpSocket::bind(local).await?;
    socket.connect(peer).await?;
    let ids: [u8; 16] = random()?;
    let (theirs, ours) = ids.split_at(8);
    let mut question = [&[0xc0], &NO_VERSION[..], &[8], theirs, &[8], ours].concat();
    question.resize(QUESTION, 0);
    let head = [&[0; 4][..], &[8], ours, &[8], theirs].concat();
    let mut answer = [0; QUESTION];
    loop {
        // Nobody may listen there yet.
        let _ = socket.send(&question).await;
        let hearing = async {
            loop {
                match socket.recv(&mut answer).await {
                    Ok(n) if answer[..n].get(1..).is_some_and(|a| a.starts_with(&head)) => return,
                    Ok(_) => {}
                    Err(_) => sleep(AGAIN).await,
                }
            }
        };
        if timeout(AGAIN, hearing).await.is_ok() {
            return Ok(());
        }
    }
}

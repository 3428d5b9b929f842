//! One connection, whichever transport carries it.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tack_net::quic::{ConnectionWatch, QuicStream};
use tack_net::tls::Fingerprint;
use tack_net::{AckCounts, Keepalive, Mode, SecureStream, StreamWatch, TackInfo, TackStream, quic};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::admission::Awaited;
use crate::conn::{Connection, Flow, Meter};

/// A stream.
#[derive(Debug)]
pub struct NetConn {
    carried: Carried,
    /// Its server has yet to say whether we may come in: what is written goes along meanwhile, and what is read first
    /// is its word.
    awaits_word: Option<Awaited>,
}

/// The transport's stream.
#[derive(Debug)]
pub(super) enum Carried {
    /// TCP-TACK as it is. Boxed like the others, so that none makes the enum large.
    Plain(Box<TackStream>),
    /// TCP-TACK under TLS 1.3.
    Tls(Box<SecureStream>),
    /// A QUIC connection's only stream.
    Quic(Box<QuicStream>),
}

/// Runs on TCP-TACK's stream, encrypted or not, or on QUIC's.
macro_rules! whichever {
    ($self:expr, $tack:ident => $on_tack:expr, $quic:ident => $on_quic:expr) => {
        match &$self.carried {
            Carried::Plain(stream) => {
                let $tack = &**stream;
                $on_tack
            }
            Carried::Tls(stream) => {
                let $tack = stream.get_ref();
                $on_tack
            }
            Carried::Quic(stream) => {
                let $quic = &**stream;
                $on_quic
            }
        }
    };
}

impl From<Carried> for NetConn {
    fn from(carried: Carried) -> NetConn {
        NetConn { carried, awaits_word: None }
    }
}

impl NetConn {
    /// The same, whose server was asked to let us in and has not answered yet.
    pub(super) fn awaiting(self, word: Awaited) -> NetConn {
        NetConn { awaits_word: Some(word), ..self }
    }

    /// The peer's key; `None` if it showed none.
    pub fn peer_fingerprint(&self) -> Option<Fingerprint> {
        match &self.carried {
            Carried::Plain(_) => None,
            Carried::Tls(stream) => stream.peer_fingerprint(),
            Carried::Quic(stream) => stream.connection().peer_fingerprint(),
        }
    }

    /// Looks on from beside whoever uses it; a peer that is silent is asked for a sign of life.
    pub fn watched(&self, probes: Keepalive) -> Watch {
        let (peer, line) = whichever!(self,
            tack => (tack.peer_addr(), Line::Tack(tack.watch())),
            quic => (quic.peer_addr(), Line::Quic(quic.connection().watch())));
        let watch = Watch { peer, line };
        watch.set_keepalive(probes);
        watch
    }
}

/// What a connection shows of its progress. Of QUIC's, whose packets nobody can damage or forge unnoticed,
/// only that they come, and are owed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sight {
    /// Whatever they carried.
    pub packets_received: u64,
    /// Of ours.
    pub bytes_acked: u64,
    /// Of theirs.
    pub bytes_received: u64,
    /// Data is on its way to the peer.
    pub in_flight: bool,
    /// Data has come behind a hole.
    pub blocked: bool,
}

/// Looks at a connection that somebody else uses, and may end it.
#[derive(Clone, Debug)]
pub struct Watch {
    /// Where its other end is.
    pub peer: SocketAddr,
    line: Line,
}

#[derive(Clone, Debug)]
enum Line {
    Tack(StreamWatch),
    Quic(ConnectionWatch),
}

impl Watch {
    /// What it shows of its progress, and the round trip, if known; `None` once it was dropped.
    pub fn sight(&self) -> Option<(Sight, Option<Duration>)> {
        match &self.line {
            Line::Tack(watch) => watch.info().map(|info| {
                let sight = Sight {
                    packets_received: info.counters.segments_received,
                    bytes_acked: info.counters.bytes_acked,
                    bytes_received: info.counters.bytes_received,
                    in_flight: info.in_flight > 0,
                    blocked: info.recv_blocked > 0,
                };
                (sight, info.srtt)
            }),
            Line::Quic(watch) => watch.info().map(|info| {
                // Whatever comes, it counts as progress.
                let packets_received = info.counters.packets_received;
                let (bytes_acked, in_flight) = (packets_received, info.in_flight > 0);
                let sight = Sight { packets_received, bytes_acked, in_flight, ..Sight::default() };
                (sight, info.srtt)
            }),
        }
    }

    /// A peer that is silent is asked for a sign of life so soon, and so often.
    pub fn set_keepalive(&self, probes: Keepalive) {
        match &self.line {
            Line::Tack(watch) => watch.set_keepalive(Some(probes)),
            Line::Quic(watch) => watch.set_keep_alive(Some(probes.idle)),
        }
    }

    /// Ends the connection. Whoever uses it finds it ended.
    pub fn abort(&self) {
        match &self.line {
            Line::Tack(watch) => watch.abort(),
            Line::Quic(watch) => watch.close(quic::GIVEN_UP, &[]),
        }
    }
}

impl Connection for NetConn {
    fn flow(&self) -> Option<Flow> {
        Some(whichever!(self,
            tack => flow_of(&tack.info()), quic => quic_flow_of(&quic.connection().info())))
    }

    fn addresses(&self) -> Option<(SocketAddr, SocketAddr)> {
        Some(whichever!(self,
            tack => {
                // The ports that firewalls see: those inside of datagrams are nobody's but ours.
                let (mut ours, mut theirs) = (tack.local_addr(), tack.peer_addr());
                let (near, far) = tack.datagram_ports();
                ours.set_port(near);
                theirs.set_port(far);
                (ours, theirs)
            },
            quic => (quic.local_addr(), quic.peer_addr())))
    }

    fn meter(&self) -> Option<Meter> {
        Some(whichever!(self,
            tack => {
                let watch = tack.watch();
                Box::new(move || watch.buffer_memory())
            },
            quic => {
                let watch = quic.connection().watch();
                Box::new(move || watch.buffer_memory())
            }
        ))
    }

    async fn finished(&self) -> io::Result<()> {
        whichever!(self, tack => tack.finished().await, quic => quic.finished().await)
    }

    fn abort(self) {
        match self.carried {
            Carried::Plain(stream) => stream.abort(),
            Carried::Tls(stream) => stream.into_inner().abort(),
            Carried::Quic(stream) => stream.abort(),
        }
    }
}

fn micros(duration: Option<Duration>) -> u64 {
    duration.map_or(0, |d| u64::try_from(d.as_micros()).unwrap_or(u64::MAX))
}

fn flow_of(info: &TackInfo) -> Flow {
    let counters = &info.counters;
    Flow {
        tack: info.mode == Mode::Tack,
        data_packets_sent: counters.data_segments_sent,
        data_packets_received: counters.data_segments_received,
        retransmits: counters.retransmissions,
        needless_retransmits: counters.needless,
        acks_received: by_kind(&counters.acks_received),
        acks_sent: by_kind(&counters.acks_sent),
        rtt_us: micros(info.srtt),
        rttvar_us: micros(info.rttvar),
        rtt_min_us: micros(info.rtt_min),
        eq4_acks_per_s: info.eq4_frequency.unwrap_or(0.0),
        snd_cwnd: info.cwnd,
        snd_wnd: info.snd_wnd,
        mss: u64::from(info.mss),
    }
}

/// What QUIC calls otherwise: no packet is sent twice, so lost ones stand for retransmissions; a packet's
/// payload is all of the datagram; and limits are told by stream, so none stands for the window.
fn quic_flow_of(info: &quic::Info) -> Flow {
    let counters = &info.counters;
    let kinds = |all: u64, tacks: u64, loss: u64| {
        by_kind(&AckCounts {
            plain: all.saturating_sub(tacks + loss),
            tack: tacks,
            loss,
            ..AckCounts::default()
        })
    };
    Flow {
        tack: info.is_tack,
        data_packets_sent: counters.data_packets_sent,
        data_packets_received: counters.data_packets_received,
        retransmits: info.lost_packets,
        needless_retransmits: 0,
        acks_received: kinds(
            counters.acks_received,
            counters.tacks_received,
            counters.loss_acks_received,
        ),
        // A TACK tells of losses, too.
        acks_sent: kinds(info.acks, info.tacks.into(), 0),
        rtt_us: micros(info.srtt),
        rttvar_us: micros(info.rttvar),
        rtt_min_us: micros(info.rtt_min),
        eq4_acks_per_s: info.eq4_frequency.unwrap_or(0.0),
        snd_cwnd: info.congestion.cwnd,
        snd_wnd: 0,
        mss: info.mtu.into(),
    }
}

fn by_kind(counts: &AckCounts) -> BTreeMap<String, u64> {
    let AckCounts { plain, tack, loss, window, frequency, ce } = *counts;
    [
        ("plain", plain),
        ("tack", tack),
        ("loss_iack", loss),
        ("window_iack", window),
        ("frequency_iack", frequency),
        ("ce_iack", ce),
    ]
    .map(|(kind, count)| (kind.to_owned(), count))
    .into()
}

/// Runs a poll method on whichever stream it is.
macro_rules! either {
    ($self:ident, $method:ident($($arg:expr),*)) => {
        match &mut $self.get_mut().carried {
            Carried::Plain(stream) => Pin::new(stream.as_mut()).$method($($arg),*),
            Carried::Tls(stream) => Pin::new(stream.as_mut()).$method($($arg),*),
            Carried::Quic(stream) => Pin::new(stream.as_mut()).$method($($arg),*),
        }
    };
}

impl AsyncRead for NetConn {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(word) = self.awaits_word.take() {
            let mut verdict = [0];
            let mut room = ReadBuf::new(&mut verdict);
            let this = self.as_mut();
            match either!(this, poll_read(cx, &mut room)) {
                Poll::Pending => {
                    self.awaits_word = Some(word);
                    return Poll::Pending;
                }
                Poll::Ready(read) => word.heard(read.map(|()| room.filled().first().copied()))?,
            }
        }
        either!(self, poll_read(cx, buf))
    }
}

impl AsyncWrite for NetConn {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        either!(self, poll_write(cx, buf))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, poll_shutdown(cx))
    }
}

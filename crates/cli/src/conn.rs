//! What the commands need of a connection, so that they can be tested over any byte stream.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::exit::Failure;

/// Reads how many bytes of memory a connection's buffers take, from beside whoever uses it.
pub type Meter = Box<dyn Fn() -> usize + Send + Sync>;

/// A reliable byte stream in both directions; `shutdown` closes the writing direction only.
pub trait Connection: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// What the transport counted so far; `None` if it doesn't count.
    fn flow(&self) -> Option<Flow> {
        None
    }

    /// Addresses of this end and the other; `None` where there are none.
    fn addresses(&self) -> Option<(SocketAddr, SocketAddr)> {
        None
    }

    /// Reads the memory of its buffers for as long as it lives; `None` if it has none of its own.
    fn meter(&self) -> Option<Meter> {
        None
    }

    /// Waits until both directions have ended and the peer has acknowledged everything, where that can be
    /// known.
    fn finished(&self) -> impl Future<Output = io::Result<()>> + Send {
        std::future::ready(Ok(()))
    }

    /// Ends both directions at once. What was written and has not arrived need not any more, and
    /// the peer hears that it won't, where there is a way.
    fn abort(self)
    where
        Self: Sized,
    {
    }
}

impl Connection for tokio::io::DuplexStream {}

impl Connection for tokio::net::TcpStream {
    fn addresses(&self) -> Option<(SocketAddr, SocketAddr)> {
        Some((self.local_addr().ok()?, self.peer_addr().ok()?))
    }

    /// With RST, as the kernel does where nothing may linger.
    fn abort(self) {
        // If that fails, the connection is over already.
        let _ = self.set_zero_linger();
    }
}

/// Opens connections to one peer.
pub trait Dial {
    /// What is opened.
    type Conn: Connection;

    /// One more connection to the peer; a failure says what to do and how the command ends.
    fn dial(&self) -> impl Future<Output = Result<Self::Conn, Failure>>;
}

/// Takes connections in.
pub trait Accept {
    /// What is taken in.
    type Conn: Connection;

    /// The next connection. An error concerns that connection only, not the listener.
    fn accept(&mut self) -> impl Future<Output = io::Result<Self::Conn>>;

    /// Marks what is sent from now on with a differentiated services codepoint, 6 bits. Returns
    /// whether that can be done.
    fn mark(&mut self, dscp: u8) -> bool {
        dscp == 0
    }
}

/// A snapshot of one connection's counters, as `tack perf` reports them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Flow {
    /// Whether TACK is in use, or plain TCP acknowledgments.
    pub tack: bool,
    /// Data segments sent, retransmissions included.
    pub data_packets_sent: u64,
    /// Data segments received.
    pub data_packets_received: u64,
    /// Data segments sent again.
    pub retransmits: u64,
    /// Retransmissions that proved needless.
    pub needless_retransmits: u64,
    /// Acknowledgments received, by kind (`tack`, `loss_iack`, …).
    pub acks_received: BTreeMap<String, u64>,
    /// Acknowledgments sent, by kind.
    pub acks_sent: BTreeMap<String, u64>,
    /// Smoothed round-trip time in µs.
    pub rtt_us: u64,
    /// Its variation in µs.
    pub rttvar_us: u64,
    /// Least round-trip time in µs; 0 until measured.
    pub rtt_min_us: u64,
    /// What Eq. 4 gives for the present bandwidth and least round-trip time, per second; 0 until
    /// both are known.
    pub eq4_acks_per_s: f64,
    /// Congestion window in bytes.
    pub snd_cwnd: u64,
    /// The peer's receive window in bytes.
    pub snd_wnd: u64,
    /// Largest segment payload in bytes.
    pub mss: u64,
}

impl Flow {
    /// Adds another connection's counters; of the measures it keeps the larger, of the least
    /// round-trip times the smaller that was measured.
    pub fn add(&mut self, other: &Flow) {
        self.tack |= other.tack;
        self.data_packets_sent += other.data_packets_sent;
        self.data_packets_received += other.data_packets_received;
        self.retransmits += other.retransmits;
        self.needless_retransmits += other.needless_retransmits;
        self.eq4_acks_per_s += other.eq4_acks_per_s;
        for (mine, theirs) in [
            (&mut self.acks_received, &other.acks_received),
            (&mut self.acks_sent, &other.acks_sent),
        ] {
            for (kind, count) in theirs {
                *mine.entry(kind.clone()).or_default() += count;
            }
        }
        self.rtt_us = self.rtt_us.max(other.rtt_us);
        self.rttvar_us = self.rttvar_us.max(other.rttvar_us);
        self.rtt_min_us = match (self.rtt_min_us, other.rtt_min_us) {
            (0, measured) | (measured, 0) => measured,
            (mine, theirs) => mine.min(theirs),
        };
        self.snd_cwnd += other.snd_cwnd;
        self.snd_wnd += other.snd_wnd;
        self.mss = self.mss.max(other.mss);
    }

    /// The same connection's counters without what `earlier` had counted; measures stay as they
    /// are.
    pub fn since(mut self, earlier: &Flow) -> Flow {
        for (now, before) in [
            (&mut self.data_packets_sent, earlier.data_packets_sent),
            (&mut self.data_packets_received, earlier.data_packets_received),
            (&mut self.retransmits, earlier.retransmits),
            (&mut self.needless_retransmits, earlier.needless_retransmits),
        ] {
            *now = now.saturating_sub(before);
        }
        for (now, before) in [
            (&mut self.acks_received, &earlier.acks_received),
            (&mut self.acks_sent, &earlier.acks_sent),
        ] {
            for (kind, count) in now {
                *count = count.saturating_sub(before.get(kind).copied().unwrap_or(0));
            }
        }
        self
    }

    /// All acknowledgments received.
    pub fn acks_received_total(&self) -> u64 {
        self.acks_received.values().sum()
    }

    /// All acknowledgments sent.
    pub fn acks_sent_total(&self) -> u64 {
        self.acks_sent.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_add_counts_and_keep_the_least_round_trip_that_was_measured() {
        let one = |rtt_min_us, acks| Flow {
            rtt_min_us,
            data_packets_sent: 10,
            acks_received: BTreeMap::from([("tack".to_owned(), acks)]),
            ..Flow::default()
        };
        let mut sum = one(0, 1);
        sum.add(&one(80, 2));
        sum.add(&one(70, 3));
        sum.add(&one(0, 4));
        assert_eq!((sum.rtt_min_us, sum.data_packets_sent), (70, 40));
        assert_eq!(sum.acks_received_total(), 10);
        let later = sum.clone().since(&one(70, 4));
        assert_eq!((later.data_packets_sent, later.acks_received_total()), (30, 6));
        assert_eq!(later.rtt_min_us, 70);
    }
}

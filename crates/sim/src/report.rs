//! What is told of one end of a flow.

use core::time::Duration;

use tack_link::PacketKind;
use tack_tcp::{ConnectionError, Info};
use tack_units::{Instant, Rate};

use crate::delays::Delays;
use crate::video::Arrival;

/// What one end of a flow did so far.
#[derive(Debug)]
pub struct SideReport<'a> {
    /// What the stack says; `None` before there is a connection.
    pub info: Option<Info>,
    /// What a guest's stack says; `None` of our own, and before there is a connection.
    pub guest: Option<GuestInfo>,
    /// Bytes the application wrote.
    pub written: u64,
    /// Bytes it read, every one of them compared with what was written.
    pub received: u64,
    /// Offset of the first byte read that was not the one written; `None` is what we want.
    pub first_wrong_byte: Option<u64>,
    /// Whether the peer's stream ended, and all of it was read.
    pub at_end: bool,
    /// How the connection ended, if it has.
    pub closed: Option<Result<(), ConnectionError>>,
    /// When the last byte was read.
    pub last_read_at: Option<Instant>,
    /// Request to complete response, in order; at the connecting end of request–response flows.
    pub latencies: &'a [Duration],
    /// Frames that were read, in order; at the listening end of a video.
    pub frames: &'a [Arrival],
    /// One-way delays of the packets with stream data that arrived here.
    pub data_delays: &'a Delays,
    /// One-way delays of all others, acknowledgments first of all.
    pub ack_delays: &'a Delays,
    /// Packets that left this end, whatever became of them.
    pub departed: Traffic,
    /// Packets that arrived here.
    pub arrived: Traffic,
}

/// What a foreign stack says of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuestInfo {
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Pacing rate, if it says.
    pub pacing_rate: Option<Rate>,
    /// Bytes in flight, if it says.
    pub in_flight: Option<u64>,
    /// Smoothed round trip.
    pub srtt: Duration,
    /// Least round trip, if it says.
    pub rtt_min: Option<Duration>,
    /// Packets with stream data that had been sent before; of a stack that does not tell, packets declared lost.
    pub resent: u64,
    /// Times that congestion control was told of congestion, timeouts apart.
    pub congestion_events: u64,
    /// Retransmission timeouts, if it has any: QUIC probes instead [RFC 9002 §6.2].
    pub timeouts: Option<u64>,
    /// Acknowledgments that TACK sent at once, of what was lost or marked.
    pub iacks: u64,
    /// Why the connection failed, in the stack's own words.
    pub failure: Option<String>,
}

/// Packets of one flow in one direction, counted at one end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// With stream data.
    pub data_packets: u64,
    /// Without: acknowledgments of any kind, SYN, FIN, RST.
    pub ack_packets: u64,
    /// IP-level bytes of those with stream data.
    pub data_bytes: u64,
    /// IP-level bytes of all others.
    pub ack_bytes: u64,
}

impl Traffic {
    pub(crate) fn count(&mut self, kind: PacketKind, ip_bytes: u32) {
        let (packets, bytes) = match kind {
            PacketKind::Data => (&mut self.data_packets, &mut self.data_bytes),
            PacketKind::Ack => (&mut self.ack_packets, &mut self.ack_bytes),
        };
        *packets += 1;
        *bytes += u64::from(ip_bytes);
    }

    /// What was counted since `earlier`, a count of the same end.
    #[must_use]
    pub fn since(&self, earlier: &Traffic) -> Traffic {
        Traffic {
            data_packets: self.data_packets - earlier.data_packets,
            ack_packets: self.ack_packets - earlier.ack_packets,
            data_bytes: self.data_bytes - earlier.data_bytes,
            ack_bytes: self.ack_bytes - earlier.ack_bytes,
        }
    }
}

impl core::ops::Add for Traffic {
    type Output = Traffic;

    fn add(self, other: Traffic) -> Traffic {
        Traffic {
            data_packets: self.data_packets + other.data_packets,
            ack_packets: self.ack_packets + other.ack_packets,
            data_bytes: self.data_bytes + other.data_bytes,
            ack_bytes: self.ack_bytes + other.ack_bytes,
        }
    }
}

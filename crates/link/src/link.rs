//! The one interface of every link model.
//!
//! A link has **two ends**. In 802.11 a TCP ACK takes airtime from the data it acknowledges, so a
//! model made of two independent directions cannot show the effect under study.

use tack_units::Instant;

/// Which end of a link. For WLAN + WAN paths, `A` is the side of the WLAN's client stations and
/// `B` the wired side; models that have more than two hosts address them by [`Packet::src`] and
/// [`Packet::dst`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// The first end.
    A,
    /// The second end.
    B,
}

impl End {
    /// The opposite end.
    pub const fn other(self) -> End {
        match self {
            End::A => End::B,
            End::B => End::A,
        }
    }
}

/// A host's number, chosen by whoever builds the topology.
pub type HostId = u32;

/// What travels: an IP packet's size, and its bytes where the experiment has real ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// Unique within a run; follows the packet through taps and traces.
    pub id: u64,
    /// Sending host.
    pub src: HostId,
    /// Receiving host.
    pub dst: HostId,
    /// Size on the IP level, header included. Airtime and serialisation come from this.
    pub ip_bytes: u32,
    /// Application traffic or acknowledgment: airtime is accounted by it, behaviour never differs.
    pub kind: PacketKind,
    /// The packet's bytes from the IP header on; empty for open-loop traffic.
    pub bytes: Vec<u8>,
    /// ECN field of the IP header: 0 not-ECT, 1 ECT(1), 2 ECT(0), 3 CE.
    pub ecn: u8,
    /// When it was offered to the first link of its path.
    pub sent_at: Instant,
}

/// What a packet is for, for accounting only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PacketKind {
    /// Carries application bytes.
    #[default]
    Data,
    /// Acknowledges only.
    Ack,
}

/// What a link has to say when polled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Hand `packet` to whatever is attached at `end`. Several may surface at one instant.
    Deliver {
        /// Where it comes out.
        end: End,
        /// The packet.
        packet: Packet,
    },
    /// Nothing until this instant, or until the next offer if `None`.
    Wait(Option<Instant>),
}

/// A two-ended link: packets and a time in, deliveries and the next event out.
///
/// The driver offers packets, then polls until [`Output::Wait`]. Time never goes backwards between
/// calls. A packet that a queue refuses is dropped and counted by the model; conservation
/// (offered = delivered + queued + dropped) holds at every instant.
pub trait Link {
    /// Takes `packet` in at `end`.
    fn offer(&mut self, end: End, packet: Packet, now: Instant);

    /// The next thing the link has for its driver at `now`.
    fn poll(&mut self, now: Instant) -> Output;
}

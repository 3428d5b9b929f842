//! What travels.

use std::ops::Range;

use tack::{Frequency, Iack, Tack};

/// Part of a stream: the identity of its bytes is what is sent again, never the packet's.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) stream: usize,
    pub(crate) range: Range<u64>,
}

#[derive(Clone, Debug)]
pub(crate) enum Frame {
    Stream(Part, Vec<u8>),
    Frequency(Frequency),
    Tack(Box<Tack>),
    Iack(Iack),
    /// Asks for an acknowledgment of the packet it is in.
    Ping,
    /// The packet of this number arrived, which had a ping.
    Ack(u64),
}

#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) number: u64,
    /// When it left, in its sender's clock: QUIC needs a frame for that.
    pub(crate) departure_us: u32,
    pub(crate) frames: Vec<Frame>,
}

/// Byte `at` of a stream.
pub(crate) fn content(stream: usize, at: u64) -> u8 {
    ((at % 251) as u8).wrapping_add(stream as u8 * 101)
}

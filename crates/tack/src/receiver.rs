//! The receiving half: decides when to acknowledge and what to say.

use core::ops::Range;

use tack_units::Instant;

use crate::feedback::{Frequency, Iack, Tack};
use crate::{Params, Ranges};

/// A data packet arrived.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// Its PKT.SEQ, expanded.
    pub pkt_seq: u64,
    /// The part of SEQ space it carries (may be empty for a bare FIN or probe).
    pub seq: Range<u64>,
    /// Its departure timestamp: microseconds of the sender's clock, modulo 2^32.
    pub departure_us: u32,
    /// Its arrival by our own clock in microseconds, same width; only differences matter.
    pub arrival_us: u32,
    /// It was the last of a push (PSH), see [`Params::ack_on_push`].
    pub push: bool,
    /// Acknowledge at once: FIN, or a request of the host (out-of-window data, keepalive).
    pub immediate: bool,
    /// It was CE-marked.
    pub ce: bool,
    /// It brought nothing new (a needless retransmission or a duplicate).
    pub duplicate: bool,
}

/// What the host holds that a report needs; borrowed, because reassembly is the host's.
#[derive(Clone, Copy, Debug)]
pub struct Buffer<'a> {
    /// Next byte expected.
    pub rcv_nxt: u64,
    /// What is queued out of order, all above `rcv_nxt`.
    pub queued: &'a Ranges,
    /// Receive window now offered, bytes from `rcv_nxt`.
    pub window: u64,
    /// Size of the whole receive buffer, bytes.
    pub capacity: u64,
}

/// What to send now.
#[derive(Clone, Debug, PartialEq)]
pub enum Feedback {
    /// A TACK.
    Tack(Tack),
    /// An IACK.
    Iack(Iack),
}

/// The receiving half of the mechanism. Poll it after every call that changed it.
#[derive(Debug)]
pub struct Receiver {
    _params: Params,
}

impl Receiver {
    /// `first_pkt_seq` is the number of the peer's first data packet if known from negotiation.
    pub fn new(params: Params, first_pkt_seq: u64) -> Self {
        let _ = first_pkt_seq;
        Receiver { _params: params }
    }

    /// A data packet arrived; the host has already put it into its buffer.
    pub fn on_data(&mut self, arrival: &Arrival, buffer: Buffer<'_>, now: Instant) {
        let _ = (arrival, buffer, now);
    }

    /// The application took data from the buffer, or its size changed.
    pub fn on_window(&mut self, buffer: Buffer<'_>, now: Instant) {
        let _ = (buffer, now);
    }

    /// The peer's sender asked for another frequency.
    pub fn on_frequency(&mut self, frequency: &Frequency, now: Instant) {
        let _ = (frequency, now);
    }

    /// What to send now, if anything; call until `None`. `max_holes` bounds the list (what fits
    /// the host's MSS).
    pub fn poll(&mut self, buffer: Buffer<'_>, max_holes: usize, now: Instant) -> Option<Feedback> {
        let _ = (buffer, max_holes, now);
        None
    }

    /// When [`Self::poll`] next has something to say without further input.
    pub fn deadline(&self) -> Option<Instant> {
        None
    }
}

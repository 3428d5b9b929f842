//! Eq. 4 in an ACK_FREQUENCY frame [draft-ietf-quic-ack-frequency].
//!
//! A receiver acknowledges once more than `threshold` packets came **or** the oldest has waited for
//! `delay`. Eq. 4 is the less frequent of a count and a period, an **and**, so the sender switches:
//!
//! ```text
//! gap   = MSS / bw                  from one packet to the next
//! alpha = RTTmin / beta             a sixteenth of RTTmin while bandwidth is probed
//!
//! L gap >= alpha        count       threshold L - 1           delay max(alpha, flush)
//! else                  period      threshold without end     delay alpha - gap / 2
//! delay not allowed     count       threshold alpha/gap - 1   delay max(alpha, flush)
//! ```
//!
//! The timer starts with the first packet after an acknowledgment, which comes half a gap late on
//! average: so much is taken off. The reordering threshold is the sender's own packet threshold
//! [RFC 9002 §6.1.1]: earlier news of a gap changes nothing there, later news would delay a repair.
//!
//! Deviation: TACK's receiver stretches the period by the queue on the path (`tack`'s schedule). A stock
//! receiver does not measure it; who knows of it lengthens `rtt_min`.

use core::time::Duration;

use tack::{Params, Regime, equations};
use tack_units::{Instant, Rate};

/// Greatest value of a variable-length integer: a count that is never reached.
pub const NEVER: u64 = (1 << 62) - 1;
/// `max_ack_delay` must stay below 2^14 ms [RFC 9000 §18.2].
const MAX_ACK_DELAY: Duration = Duration::from_millis((1 << 14) - 1);
/// Nothing waits longer unless the peer allows nothing shorter; as TACK's own receiver has it.
const MOST: Duration = Duration::from_millis(450);
/// Relative change of the interval between acknowledgments that is worth a frame.
const DRIFT: f64 = 0.1;
/// Least time between two frames, and in RTTmin; a factor of two goes after a round trip.
const MIN_SPACING: Duration = Duration::from_millis(200);
const SPACING_RTTS: u32 = 4;

/// What the sender of data knows of its path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Path {
    /// Congestion control's estimate of the bottleneck; zero while unknown.
    pub bw: Rate,
    /// Least round trip; zero while unknown.
    pub rtt_min: Duration,
    /// Whether bandwidth is being probed ([`Params::startup`] then says how often).
    pub regime: Regime,
}

/// The fields of an ACK_FREQUENCY frame but its sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Ack-eliciting packets that may come without an acknowledgment; 0: each is acknowledged.
    pub ack_eliciting_threshold: u64,
    /// How long an acknowledgment may wait, in whole microseconds.
    pub max_ack_delay: Duration,
    /// Packets that may arrive above a missing one before it is told at once; 0: none is.
    pub reordering_threshold: u64,
}

impl Request {
    /// What Eq. 4 asks for on `path`, with `mss` bytes in a full packet, of a peer that allows no
    /// delay below `min_ack_delay`, when the sender calls a packet lost `packet_threshold` after it.
    pub fn new(
        path: &Path,
        params: &Params,
        min_ack_delay: Duration,
        packet_threshold: u64,
    ) -> Request {
        let alpha = alpha(path, params);
        let allowed = |delay: Duration| {
            let us = delay.min(MOST).max(min_ack_delay).as_nanos().div_ceil(1_000);
            Duration::from_micros(u64::try_from(us).unwrap_or(u64::MAX)).min(MAX_ACK_DELAY)
        };
        let of = |packets: u64, delay| Request {
            ack_eliciting_threshold: packets.saturating_sub(1).min(NEVER),
            max_ack_delay: allowed(delay),
            reordering_threshold: packet_threshold,
        };
        let idle = alpha.max(params.flush);
        if path.regime == Regime::Startup && alpha.is_zero() && !path.rtt_min.is_zero() {
            return of(1, idle);
        }
        let packets = u64::from(params.segments_per_ack.max(1));
        let Some(gap) = path.bw.time_for(u64::from(params.mss)) else { return of(packets, idle) };
        let by_count = gap.as_nanos() * u128::from(packets) >= alpha.as_nanos();
        if by_count {
            return of(packets, idle);
        }
        let delay = alpha - gap / 2;
        if delay >= min_ack_delay {
            return of(u64::MAX, delay);
        }
        // Not by zero: the gap is rounded up to a nanosecond.
        of((alpha.div_duration_f64(gap).round() as u64).max(packets), idle)
    }

    /// How long it takes from one acknowledgment to the next while full packets of `mss` bytes arrive
    /// at `bw`; `None` when none do.
    pub fn interval(&self, bw: Rate, mss: u32) -> Option<Duration> {
        let gap = bw.time_for(u64::from(mss))?;
        let count = gap.as_secs_f64() * (self.ack_eliciting_threshold as f64 + 1.0);
        let count = Duration::try_from_secs_f64(count).unwrap_or(Duration::MAX);
        Some(count.min((self.max_ack_delay + gap / 2).max(gap)))
    }
}

fn alpha(path: &Path, params: &Params) -> Duration {
    match path.regime {
        Regime::Startup => equations::startup_interval(path.rtt_min, params.startup),
        Regime::Steady => equations::alpha(path.rtt_min, params.beta),
    }
}

/// A frame to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Later frames override earlier ones, in whichever order they arrive.
    pub sequence: u64,
    /// What it asks for.
    pub request: Request,
}

#[derive(Clone, Copy, Debug)]
struct Told {
    frame: Frame,
    at: Instant,
}

/// Keeps a stock peer at TACK's schedule: says when another frame is worth its packet.
#[derive(Debug)]
pub struct AckFrequency {
    params: Params,
    min_ack_delay: Duration,
    packet_threshold: u64,
    /// The longest delay that may be in force at the peer although it was not told last.
    in_force: Duration,
    told: Option<Told>,
    /// The last frame told was lost.
    lost: bool,
    next_sequence: u64,
}

impl AckFrequency {
    /// For a peer whose transport parameters are `max_ack_delay` [RFC 9000 §18.2] and
    /// `min_ack_delay`; `packet_threshold` as in [`Request::new`].
    pub fn new(
        params: Params,
        max_ack_delay: Duration,
        min_ack_delay: Duration,
        packet_threshold: u64,
    ) -> Self {
        AckFrequency {
            params,
            min_ack_delay,
            packet_threshold,
            in_force: max_ack_delay,
            told: None,
            lost: false,
            next_sequence: 0,
        }
    }

    /// Full packets are so long from now on, in bytes: a receiver counts packets, Eq. 4 what they carry.
    pub fn set_mss(&mut self, mss: u32) {
        self.params.mss = mss.max(1);
    }

    /// The frame to send now, if any; it counts as sent. A change of the interval by a factor of two
    /// goes a round trip after the last frame, one of a tenth `max(4 RTTmin, 200 ms)` after it.
    pub fn poll(&mut self, path: &Path, srtt: Duration, now: Instant) -> Option<Frame> {
        if path.rtt_min.is_zero() || path.bw == Rate::ZERO {
            return None;
        }
        let request = Request::new(path, &self.params, self.min_ack_delay, self.packet_threshold);
        if !self.is_due(&request, path, srtt, now) {
            return None;
        }
        let frame = Frame { sequence: self.next_sequence, request };
        self.next_sequence += 1;
        if let Some(old) = self.told.replace(Told { frame, at: now }) {
            // It may be in force yet, or come to be.
            self.in_force = self.in_force.max(old.frame.request.max_ack_delay);
        }
        self.lost = false;
        Some(frame)
    }

    fn is_due(&self, new: &Request, path: &Path, srtt: Duration, now: Instant) -> bool {
        let Some(told) = &self.told else { return true };
        if self.lost {
            return true;
        }
        let interval = |r: &Request| r.interval(path.bw, self.params.mss).unwrap_or(Duration::MAX);
        let (old, new) = (interval(&told.frame.request), interval(new));
        let ratio = old.max(new).div_duration_f64(old.min(new));
        let since = now.saturating_since(told.at);
        (ratio >= 2.0 && since >= srtt)
            || (ratio > 1.0 + DRIFT && since >= (path.rtt_min * SPACING_RTTS).max(MIN_SPACING))
    }

    /// Frames told so far.
    pub fn told(&self) -> u64 {
        self.next_sequence
    }

    /// The packet with frame `sequence` was acknowledged: what it asked for is in force.
    pub fn on_acked(&mut self, sequence: u64) {
        if let Some(told) = self.told.filter(|told| told.frame.sequence == sequence) {
            self.in_force = told.frame.request.max_ack_delay;
        }
    }

    /// The packet with frame `sequence` was lost. Only the newest matters: the next poll tells anew.
    pub fn on_lost(&mut self, sequence: u64) {
        self.lost |= self.told.is_some_and(|told| told.frame.sequence == sequence);
    }

    /// The `max_ack_delay` that a probe timeout has to allow for [RFC 9002 §6.2.1]: the longest that
    /// may be in force at the peer.
    pub fn max_ack_delay(&self) -> Duration {
        let told = self.told.map_or(Duration::ZERO, |told| told.frame.request.max_ack_delay);
        self.in_force.max(told)
    }
}

#[cfg(test)]
#[path = "ack_frequency_tests.rs"]
mod tests;

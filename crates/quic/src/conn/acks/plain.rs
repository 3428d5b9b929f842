//! Acknowledgments for a peer without TACK [RFC 9000 §13.2], at the frequency that it asks for
//! [draft-ietf-quic-ack-frequency]: the delayed acknowledgment of TCP, counted in packets. What is
//! QUIC's own is which packets are answered at once.

use core::time::Duration;

use tack_strategies::{Acknowledge, Arrival, ByteCounting, Cause, DelayedAck, News, PathSeen};
use tack_units::Instant;

use super::Packet;
use crate::ack_frequency::{self, Request};
use crate::seen::AckReason;

/// Without ACK_FREQUENCY: every second packet, and what is missing or late is told at once.
const USUAL: Request = Request {
    ack_eliciting_threshold: 1,
    max_ack_delay: Duration::from_millis(25),
    reordering_threshold: 1,
};

/// Packets are what is counted: one is as full as any.
const PACKET: u32 = 1;

impl Request {
    /// As a strategy of acknowledgment: one for more than the threshold.
    fn rule(&self) -> ByteCounting {
        let packets = self.ack_eliciting_threshold.saturating_add(1);
        ByteCounting {
            segments_per_ack: u32::try_from(packets).unwrap_or(u32::MAX),
            max_delay: self.max_ack_delay,
            quickack_segments: 0,
        }
    }
}

/// See the [module's text](self).
#[derive(Debug)]
pub(super) struct Plain {
    request: Request,
    /// Of the newest ACK_FREQUENCY.
    sequence: Option<u64>,
    /// Packets that ask for an acknowledgment.
    waiting: DelayedAck,
    /// Why the last that was to be answered at once was.
    at_once: AckReason,
    /// The largest number that was told.
    told: Option<u64>,
}

impl Plain {
    pub(super) fn new(max_ack_delay: Duration) -> Plain {
        let request = Request { max_ack_delay, ..USUAL };
        let waiting = DelayedAck::new(request.rule(), PACKET);
        Plain { request, sequence: None, waiting, at_once: AckReason::Immediate, told: None }
    }

    /// `expected`: one past the largest number before; `missing`: there is a gap below it.
    pub(super) fn on_packet(
        &mut self,
        packet: &Packet,
        expected: u64,
        missing: bool,
        ce: bool,
        now: Instant,
    ) {
        let is_late = packet.number < expected;
        // A gap that this packet made, or one below it that it does not fill.
        let is_ahead = packet.number > expected;
        let threshold = self.request.reordering_threshold;
        let out_of_order = match threshold {
            0 => false,
            1 => is_late || is_ahead,
            _ => missing && (is_late || packet.number >= self.next_report(threshold)),
        };
        let at_once = [
            (packet.immediate, AckReason::Immediate),
            (ce, AckReason::CongestionExperienced),
            (out_of_order, AckReason::Reordering),
        ];
        let at_once = at_once.into_iter().find(|(is, _)| *is);
        if let Some((_, reason)) = at_once {
            self.at_once = reason;
        }
        let (immediate, news) = (at_once.is_some(), News::InOrder);
        let arrival = Arrival { bytes: PACKET, segment: PACKET, immediate, news, polled: false };
        self.waiting.on_data(&arrival, &PathSeen::default(), now);
    }

    /// Packets have arrived so far above a gap from this number on that the gap is to be told.
    fn next_report(&self, threshold: u64) -> u64 {
        self.told.map_or(threshold, |told| told + threshold)
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.waiting.deadline()
    }

    /// Why it is due when it is.
    pub(super) fn reason(&self) -> AckReason {
        match self.waiting.cause() {
            Cause::Asked => self.at_once,
            Cause::Count => AckReason::Count,
            Cause::Delay => AckReason::Delay,
        }
    }

    /// Everything up to number `largest` was told.
    pub(super) fn on_told(&mut self, largest: u64, now: Instant) {
        self.told = Some(largest);
        self.waiting.on_ack_sent(now);
    }

    pub(super) fn on_frequency(&mut self, frame: &ack_frequency::Frame) {
        if self.sequence.is_none_or(|newest| frame.sequence > newest) {
            self.sequence = Some(frame.sequence);
            self.request = frame.request;
            self.waiting.adjust(frame.request.rule());
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::ack_frequency::{Frame, NEVER};

    /// What waits, kept packet by packet.
    #[derive(Default)]
    struct Naive {
        /// When each came, and what its delay would be.
        waiting: Vec<(Instant, Duration)>,
        at_once: Option<Instant>,
    }

    impl Naive {
        fn on_packet(&mut self, at_once: bool, request: &Request, now: Instant) {
            self.waiting.push((now, request.max_ack_delay));
            let is_over = self.waiting.len() as u64 > request.ack_eliciting_threshold;
            if at_once || is_over {
                self.at_once.get_or_insert(now);
            }
        }

        fn due(&self) -> Option<Instant> {
            let (came, delay) = self.waiting.first()?;
            Some(self.at_once.map_or(*came + *delay, |at| at.min(*came + *delay)))
        }
    }

    #[test]
    fn random_packets_are_acknowledged_by_count_and_delay_as_the_peer_asked_last() {
        for seed in 0..300 {
            let mut rng = rand_pcg::Pcg64::seed_from_u64(seed);
            let mut plain = Plain::new(USUAL.max_ack_delay);
            let (mut naive, mut request) = (Naive::default(), USUAL);
            let mut now = Instant::from_secs(1);
            for number in 0..300 {
                now += Duration::from_micros(rng.random_range(0..9_000));
                if rng.random_bool(0.05) {
                    request = Request {
                        ack_eliciting_threshold: [0, 1, 4, 9, NEVER][rng.random_range(0..5)],
                        max_ack_delay: Duration::from_millis(rng.random_range(1..60)),
                        reordering_threshold: 0,
                    };
                    plain.on_frequency(&Frame { sequence: number, request });
                }
                let (immediate, ecn) = (rng.random_bool(0.03), 0);
                let (eliciting, stamp, is_early) = (true, None, false);
                let packet = Packet {
                    number,
                    eliciting,
                    bytes: 1_200,
                    stamp,
                    immediate,
                    is_early,
                    ecn,
                    lay: Duration::ZERO,
                };
                plain.on_packet(&packet, number, false, false, now);
                naive.on_packet(immediate, &request, now);
                assert_eq!(plain.due(), naive.due(), "seed {seed}");
                if naive.due().is_some_and(|at| at <= now) || rng.random_bool(0.03) {
                    plain.on_told(number, now);
                    naive = Naive::default();
                    assert_eq!(plain.due(), None, "seed {seed}");
                }
            }
        }
    }
}

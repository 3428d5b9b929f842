//! What passes the relay: packets by kind and their delays.

use std::collections::BTreeMap;
use std::time::Duration;

use tack_link::End;
use tack_net::wire::{AckType, Codepoints, Flags, Segment};
use tack_units::Instant;

use super::path::{RECEIVER, SENDER};

/// What a segment is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Carries bytes of the stream.
    Data,
    /// Acknowledges and nothing else.
    Ack(&'static str),
    /// Opens, ends or resets a connection, or is not readable.
    Other,
}

impl Kind {
    pub(crate) fn of(datagram: &[u8]) -> Kind {
        let Ok(segment) = Segment::parse_datagram(datagram, Codepoints::Experimental) else {
            return Kind::Other;
        };
        match segment.header.options.ack_type {
            Some(kind) => Kind::Ack(match kind {
                AckType::Tack => "tack",
                AckType::LossIack => "loss",
                AckType::WindowIack => "window",
                AckType::FrequencyIack => "frequency",
                AckType::CeIack => "ce",
                _ => "other",
            }),
            None if !segment.payload.is_empty() => Kind::Data,
            None if is_bare_ack(segment.header.flags) => Kind::Ack("plain"),
            None => Kind::Other,
        }
    }
}

fn is_bare_ack(flags: Flags) -> bool {
    let special = [Flags::SYN, Flags::FIN, Flags::RST];
    flags.has(Flags::ACK) && !special.into_iter().any(|f| flags.has(f))
}

/// Width of a slot of the timeline.
const SLOT: Duration = Duration::from_millis(100);
/// Slots kept: an hour.
const MAX_SLOTS: usize = 36_000;

/// What happened in a tenth of a second.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    data_packets: u64,
    ack_packets: u64,
    greatest_delay_us: u64,
}

/// Counts of one run. Packets are counted as they enter the path, delays as they leave it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Census {
    /// Packets with data, towards the receiver.
    pub(crate) data_packets: u64,
    /// Acknowledgments by the data's receiver.
    pub(crate) acks_by_kind: BTreeMap<&'static str, u64>,
    /// One-way delays of data packets in µs.
    data_delays_us: Vec<u32>,
    least_us: [Option<u64>; 2],
    timeline: Vec<Slot>,
}

/// Most delays kept: a minute at 10 Gbit/s, far beyond what the demo is for.
const MAX_DELAYS: usize = 1 << 26;

impl Census {
    /// A packet entered at `end`.
    pub(crate) fn entered(&mut self, end: End, kind: Kind, now: Instant) {
        match (end, kind) {
            (SENDER, Kind::Data) => {
                self.data_packets += 1;
                self.slot(now).data_packets += 1;
            }
            (RECEIVER, Kind::Ack(name)) => {
                *self.acks_by_kind.entry(name).or_default() += 1;
                self.slot(now).ack_packets += 1;
            }
            _ => {}
        }
    }

    fn slot(&mut self, now: Instant) -> &mut Slot {
        let index = now.as_nanos() / SLOT.as_nanos() as u64;
        let index = usize::try_from(index).map_or(MAX_SLOTS, |i| i.min(MAX_SLOTS));
        if self.timeline.len() <= index {
            self.timeline.resize(index + 1, Slot::default());
        }
        &mut self.timeline[index]
    }

    /// The slots from the first to the last with data.
    fn active(&self) -> &[Slot] {
        let has_data = |s: &Slot| s.data_packets > 0;
        let first = self.timeline.iter().position(has_data).unwrap_or(0);
        let last = self.timeline.iter().rposition(has_data).map_or(0, |i| i + 1);
        &self.timeline[first..last]
    }

    /// Acknowledgments per second from `from` to the last data, to a tenth of a second. A transfer
    /// begins with Startup and its ACK per packet; Eq. 4 speaks of what follows.
    pub(crate) fn acks_per_s_since(&self, from: Instant) -> f64 {
        let has_data = |s: &Slot| s.data_packets > 0;
        let Some(last) = self.timeline.iter().rposition(has_data) else { return 0.0 };
        let first = from.as_nanos().div_ceil(SLOT.as_nanos() as u64);
        let first = usize::try_from(first).map_or(last, |first| first.min(last));
        let slots = &self.timeline[first..=last];
        let acks: u64 = slots.iter().map(|s| s.ack_packets).sum();
        acks as f64 / (slots.len() as f64 * SLOT.as_secs_f64())
    }

    /// Says in the log what happened when.
    pub(crate) fn log_timeline(&self) {
        for (i, slot) in self.active().iter().enumerate() {
            tracing::debug!(
                at_s = i as f64 * SLOT.as_secs_f64(),
                data = slot.data_packets,
                acks = slot.ack_packets,
                greatest_delay_us = slot.greatest_delay_us,
                "path"
            );
        }
    }

    /// A packet left at `end` after `delay`.
    pub(crate) fn left(&mut self, end: End, kind: Kind, delay: Duration, now: Instant) {
        let us = u64::try_from(delay.as_micros()).unwrap_or(u64::MAX);
        let data = kind == Kind::Data && end == RECEIVER;
        if data {
            let slot = self.slot(now);
            slot.greatest_delay_us = slot.greatest_delay_us.max(us);
        }
        if data && self.data_delays_us.len() < MAX_DELAYS {
            self.data_delays_us.push(u32::try_from(us).unwrap_or(u32::MAX));
        }
        if data || matches!(kind, Kind::Ack(_)) && end == SENDER {
            let least = &mut self.least_us[usize::from(data)];
            *least = Some(least.map_or(us, |l| l.min(us)));
        }
    }

    pub(crate) fn ack_packets(&self) -> u64 {
        self.acks_by_kind.values().sum()
    }

    /// Least delay of a data packet plus least delay of an acknowledgment.
    pub(crate) fn rtt_min_us(&self) -> u64 {
        self.least_us.iter().map(|l| l.unwrap_or(0)).sum()
    }

    /// The delay that 95 % of the data packets did not exceed.
    pub(crate) fn owd_p95_us(&mut self) -> u64 {
        let n = self.data_delays_us.len();
        if n == 0 {
            return 0;
        }
        let rank = (n * 95).div_ceil(100).saturating_sub(1);
        u64::from(*self.data_delays_us.select_nth_unstable(rank).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_senders_data_and_the_receivers_acknowledgments_count() {
        let mut census = Census::default();
        for (end, kind) in [
            (SENDER, Kind::Data),
            (RECEIVER, Kind::Data),
            (SENDER, Kind::Ack("plain")),
            (RECEIVER, Kind::Ack("tack")),
            (RECEIVER, Kind::Ack("tack")),
            (RECEIVER, Kind::Ack("loss")),
            (SENDER, Kind::Other),
        ] {
            census.entered(end, kind, Instant::ZERO);
        }
        assert_eq!((census.data_packets, census.ack_packets()), (1, 3));
        assert_eq!(census.acks_by_kind, BTreeMap::from([("loss", 1), ("tack", 2)]));
    }

    #[test]
    fn delays_give_the_true_round_trip_and_the_95th_percentile() {
        let mut census = Census::default();
        for us in (1..=100).rev() {
            census.left(RECEIVER, Kind::Data, Duration::from_micros(us), Instant::ZERO);
        }
        census.left(SENDER, Kind::Ack("tack"), Duration::from_micros(7), Instant::ZERO);
        census.left(SENDER, Kind::Other, Duration::from_micros(1), Instant::ZERO);
        assert_eq!((census.rtt_min_us(), census.owd_p95_us()), (8, 95));
    }

    #[test]
    fn the_steady_rate_leaves_out_what_came_before() {
        let mut census = Census::default();
        for ms in 0..4_000 {
            let now = Instant::from_millis(1_000 + ms);
            census.entered(SENDER, Kind::Data, now);
            if ms < 2_000 || ms % 20 == 0 {
                census.entered(RECEIVER, Kind::Ack("tack"), now);
            }
        }
        for (from_ms, rate) in [(3_000, 50.0), (2_901, 50.0), (4_999, 50.0), (60_000, 50.0)] {
            let got = census.acks_per_s_since(Instant::from_millis(from_ms));
            assert!((got - rate).abs() < 1e-9, "since {from_ms} ms: {got}");
        }
        assert!(census.acks_per_s_since(Instant::from_millis(2_900)) > 90.0);
        assert_eq!(Census::default().acks_per_s_since(Instant::ZERO), 0.0);
    }

    #[test]
    fn garbage_is_neither_data_nor_acknowledgment() {
        assert_eq!(Kind::of(b""), Kind::Other);
        assert_eq!(Kind::of(&[0; 70]), Kind::Other);
    }
}

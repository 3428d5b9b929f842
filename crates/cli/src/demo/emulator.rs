//! The path in real time, without its sockets and clock: datagrams and the time go in, datagrams
//! and the time of the next ones come out.
//!
//! The model runs in virtual time, which is exact: contention on the air is settled in steps of
//! microseconds that no sleeping thread could keep. Only the moments at which packets leave the
//! path are enforced by the clock. Who calls late gets what was due, in its order, and every
//! packet's lateness is recorded; the model's own time does not shift.

use std::collections::VecDeque;
use std::time::Duration;

use tack_link::{End, Link, Output, Packet, PacketKind, path};
use tack_units::Instant;

use super::census::{Census, Kind};
use super::path::{Air, Hop, RECEIVER, host};

/// Header of IPv4. What the model carries is the IP packet that would travel if the same TCP
/// segment were sent without UDP around it: segment and IP header, nothing of the tunnel.
const IP_HEADER_BYTES: u32 = 20;

/// A path in use.
#[derive(Debug)]
pub(crate) struct Emulator {
    link: path::Path<Hop>,
    /// When the model wants to be polled; [`Instant::MAX`] is never.
    next_at: Instant,
    next_id: u64,
    /// What has left the model but not the path.
    ready: VecDeque<Ready>,
    census: Census,
    lateness: Lateness,
    /// The air's account when the first data packet entered and when the last one left.
    air: Option<(Air, Air)>,
}

#[derive(Debug)]
struct Ready {
    end: End,
    packet: Packet,
    due: Instant,
}

impl Emulator {
    pub(crate) fn new(link: path::Path<Hop>) -> Emulator {
        Emulator {
            link,
            next_at: Instant::ZERO,
            next_id: 0,
            ready: VecDeque::new(),
            census: Census::default(),
            lateness: Lateness::default(),
            air: None,
        }
    }

    /// Takes in a datagram that arrived at `end`.
    pub(crate) fn arrive(&mut self, end: End, datagram: &[u8], now: Instant) {
        // What is due at this very instant waits, so that a burst enters whole.
        self.advance(now - Duration::from_nanos(1));
        let kind = Kind::of(datagram);
        self.census.entered(end, kind, now);
        if kind == Kind::Data && end != RECEIVER && self.air.is_none() {
            self.air = self.read_air(now).map(|air| (air, air));
        }
        let packet = Packet {
            id: self.next_id,
            src: host(end),
            dst: host(end.other()),
            ip_bytes: datagram.len() as u32 + IP_HEADER_BYTES,
            kind: if kind == Kind::Data { PacketKind::Data } else { PacketKind::Ack },
            bytes: datagram.to_vec(),
            ecn: 0,
            sent_at: now,
        };
        self.next_id += 1;
        self.link.offer(end, packet, now);
        self.next_at = now;
    }

    /// Hands everything that is due by `now` to `send`.
    pub(crate) fn release(&mut self, now: Instant, mut send: impl FnMut(End, &[u8])) {
        self.advance(now);
        while let Some(Ready { end, packet, due }) = self.ready.pop_front() {
            self.lateness.add(now - due);
            self.census.left(end, Kind::of(&packet.bytes), now - packet.sent_at, now);
            send(end, &packet.bytes);
        }
    }

    /// When [`Emulator::release`] has something to do again.
    pub(crate) fn next_at(&self) -> Option<Instant> {
        (self.next_at < Instant::MAX).then_some(self.next_at)
    }

    /// Moves the model on to `now`, one event at a time.
    fn advance(&mut self, now: Instant) {
        while self.next_at <= now && self.next_at < Instant::MAX {
            match self.link.poll(self.next_at) {
                Output::Wait(at) => self.next_at = at.unwrap_or(Instant::MAX),
                Output::Deliver { end, packet } => {
                    let due = self.next_at;
                    if end == RECEIVER && packet.kind == PacketKind::Data {
                        let air = self.read_air(due);
                        if let (Some((_, last)), Some(air)) = (&mut self.air, air) {
                            *last = air;
                        }
                    }
                    self.ready.push_back(Ready { end, packet, due });
                }
            }
        }
    }

    fn read_air(&self, now: Instant) -> Option<Air> {
        self.link.links().find_map(|hop| hop.air(now))
    }

    /// What was counted: packets, lateness, and the air from the first data packet to the last.
    pub(crate) fn finish(self) -> (Census, Lateness, Option<Air>) {
        (self.census, self.lateness, self.air.map(|(first, last)| last.since(&first)))
    }
}

/// By how much packets left after they were due: a histogram of microseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lateness {
    counts: Vec<u64>,
    greatest_us: u64,
}

/// Lateness beyond this (0.1 s) counts as this, except for the greatest.
const MAX_SLOT_US: u64 = 100_000;

impl Lateness {
    fn add(&mut self, late: Duration) {
        let us = u64::try_from(late.as_micros()).unwrap_or(u64::MAX);
        self.greatest_us = self.greatest_us.max(us);
        let slot = us.min(MAX_SLOT_US) as usize;
        if self.counts.len() <= slot {
            self.counts.resize(slot + 1, 0);
        }
        self.counts[slot] += 1;
    }

    /// What this percentage of packets did not exceed, in µs.
    pub(crate) fn percentile_us(&self, percent: u64) -> u64 {
        let total: u64 = self.counts.iter().sum();
        let rank = (total * percent).div_ceil(100).max(1);
        let mut seen = 0;
        let reaches = |count: &u64| {
            seen += count;
            seen >= rank
        };
        self.counts.iter().position(reaches).unwrap_or(0) as u64
    }

    pub(crate) fn greatest_us(&self) -> u64 {
        self.greatest_us
    }
}

#[cfg(test)]
mod tests {
    use tack_link::wlan::{Preset, Standard, Use};
    use tack_units::Rate;

    use super::super::path::{Medium, Path, SENDER};
    use super::*;

    /// A TCP segment with `payload` bytes of data.
    fn segment(payload: usize) -> Vec<u8> {
        let mut bytes = vec![0; 20 + payload];
        (bytes[12], bytes[13]) = (5 << 4, 0x10);
        bytes
    }

    fn over(medium: Medium) -> Emulator {
        let rtt = Duration::from_millis(20);
        Emulator::new(Path { medium, rtt, loss: 0.01, ack_loss: 0.01 }.build().unwrap())
    }

    fn wifi(standard: Standard) -> Medium {
        Medium::Wifi { standard, preset: Preset::Textbook }
    }

    struct Ran {
        /// Where each packet left, how long it was, and by when it had left.
        out: Vec<(End, usize, Instant)>,
        census: Census,
        lateness: Lateness,
        air: Option<Air>,
    }

    /// Sends data at `gap`s and an ACK per two packets, releasing at `wake`s.
    fn run(
        mut emulator: Emulator,
        gap: Duration,
        end: Instant,
        mut wake: impl FnMut() -> Duration,
    ) -> Ran {
        let (mut out, mut next, mut wakes) = (Vec::new(), Instant::ZERO, Instant::ZERO);
        let mut sent = 0;
        while next < end {
            emulator.arrive(SENDER, &segment(1_452), next);
            sent += 1;
            if sent % 2 == 0 {
                emulator.arrive(RECEIVER, &segment(0), next);
            }
            next += gap;
            while wakes < next {
                emulator.release(wakes, |end, bytes| out.push((end, bytes.len(), wakes)));
                wakes += wake();
            }
        }
        let (census, lateness, air) = emulator.finish();
        Ran { out, census, lateness, air }
    }

    #[test]
    fn waking_late_shifts_nothing_in_the_model_and_is_recorded() {
        for medium in [Medium::Wire(Rate::from_mbps(20)), wifi(Standard::G), wifi(Standard::N)] {
            let gap = Duration::from_micros(700);
            let end = Instant::from_secs(2);
            let prompt = || Duration::from_micros(50);
            let Ran { out: exact, lateness: punctual, .. } = run(over(medium), gap, end, prompt);
            let mut n = 0_u64;
            let tardy = || {
                n += 1;
                Duration::from_micros(100 + n * 7_919 % 3_000)
            };
            let Ran { out: late, lateness, .. } = run(over(medium), gap, end, tardy);
            let packets = |list: &[(End, usize, Instant)], at: End| {
                list.iter().filter(|p| p.0 == at).map(|p| p.1).collect::<Vec<_>>()
            };
            for end in [SENDER, RECEIVER] {
                let (a, b) = (packets(&exact, end), packets(&late, end));
                let both = a.len().min(b.len());
                // All that differs is what the last, unfinished wake-up has not yet seen.
                assert!(a.len().abs_diff(b.len()) <= 8 && both > 1_000, "{medium:?}");
                assert_eq!(a[..both], b[..both], "{medium:?}");
            }
            for (early, tardy) in exact
                .iter()
                .filter(|p| p.0 == RECEIVER)
                .zip(late.iter().filter(|p| p.0 == RECEIVER))
            {
                assert!(tardy.2 + Duration::from_micros(50) >= early.2, "{medium:?}");
                assert!(tardy.2 <= early.2 + Duration::from_micros(3_100), "{medium:?}");
            }
            assert!(punctual.greatest_us() <= 50);
            assert!((1_000..=3_100).contains(&lateness.greatest_us()), "{lateness:?}");
            assert!(lateness.percentile_us(50) < lateness.percentile_us(99));
        }
    }

    #[test]
    fn acknowledgments_take_airtime_from_saturating_data() {
        let every_40us = Duration::from_micros(40);
        let Ran { out, census, air, .. } =
            run(over(wifi(Standard::N)), every_40us, Instant::from_secs(2), || {
                Duration::from_micros(400)
            });
        let data = out.iter().filter(|p| p.0 == RECEIVER).count();
        // Saturation with an ACK per two packets is 230.7 Mbit/s in packets of 1500 bytes; the
        // model's ACKs here follow what is sent, of which the air carries less than 4 in 5.
        let mbps = data as f64 * 1_492.0 * 8.0 / 2e6;
        assert!((205.0..235.0).contains(&mbps), "{mbps}");
        let air = air.expect("Wi-Fi has an account");
        let shares = air.time.shares().iter().sum::<f64>();
        assert!((shares - 1.0).abs() < 1e-6, "{shares}");
        assert!(air.time.share(Use::Ack) > 0.01, "{air:?}");
        assert!(air.time.share(Use::Data) > 0.7, "{air:?}");
        assert!(air.nodes.collision_probability() > 0.02, "{air:?}");
        assert_eq!(census.data_packets, 50_000);
    }

    #[test]
    fn a_wire_has_no_airtime() {
        let Ran { air, .. } = run(
            over(Medium::Wire(Rate::from_mbps(20))),
            Duration::from_millis(1),
            Instant::from_millis(50),
            || Duration::from_micros(100),
        );
        assert!(air.is_none());
    }

    #[test]
    fn a_burst_enters_whole_before_the_air_is_taken() {
        let path =
            Path { medium: wifi(Standard::N), rtt: Duration::ZERO, loss: 0.0, ack_loss: 0.0 };
        let mut emulator = Emulator::new(path.build().unwrap());
        let now = Instant::from_millis(5);
        for _ in 0..20 {
            emulator.arrive(SENDER, &segment(1_452), now);
        }
        let mut at = Vec::new();
        while let Some(next) = emulator.next_at() {
            emulator.release(next, |_, _| at.push(next));
        }
        // One A-MPDU: all packets surface with its end.
        assert_eq!((at.len(), at.first()), (20, at.last()));
    }

    #[test]
    fn lateness_is_told_by_percentile_and_extreme() {
        let mut lateness = Lateness::default();
        assert_eq!((lateness.percentile_us(99), lateness.greatest_us()), (0, 0));
        for us in (1..=100).rev() {
            lateness.add(Duration::from_micros(us));
        }
        lateness.add(Duration::from_secs(9));
        assert_eq!(lateness.percentile_us(50), 51);
        assert_eq!(lateness.percentile_us(99), 100);
        assert_eq!(lateness.percentile_us(100), MAX_SLOT_US);
        assert_eq!(lateness.greatest_us(), 9_000_000);
    }
}

//! The path in real time, without its sockets and clock: datagrams and the time go in, datagrams
//! and the time of the next ones come out.
//!
//! [`Realtime`] runs the model in its own time and tells how late the clock made us; here packets
//! are counted and the air's account is read.

use tack_emu::{Lateness, Realtime};
use tack_link::{End, Link, Output, Packet, PacketKind, path};
use tack_units::Instant;

use super::census::{Census, Kind};
use super::path::{Air, Hop, RECEIVER, SENDER, host};

/// Header of IPv4. What the model carries is the IP packet that would travel if the same TCP
/// segment were sent without UDP around it: segment and IP header, nothing of the tunnel.
const IP_HEADER_BYTES: u32 = 20;

/// A path in use.
#[derive(Debug)]
pub(crate) struct Emulator {
    realtime: Realtime<Watched>,
    next_id: u64,
    census: Census,
}

impl Emulator {
    pub(crate) fn new(link: path::Path<Hop>) -> Emulator {
        let realtime = Realtime::new(Watched { link, air: None });
        Emulator { realtime, next_id: 0, census: Census::default() }
    }

    /// Takes in a datagram that arrived at `end`.
    pub(crate) fn arrive(&mut self, end: End, datagram: &[u8], now: Instant) {
        let kind = Kind::of(datagram);
        self.census.entered(end, kind, now);
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
        self.realtime.offer(end, packet, now);
    }

    /// Hands everything that is due by `now` to `send`.
    pub(crate) fn release(&mut self, now: Instant, mut send: impl FnMut(End, &[u8])) {
        while let Output::Deliver { end, packet } = self.realtime.poll(now) {
            self.census.left(end, Kind::of(&packet.bytes), now - packet.sent_at, now);
            send(end, &packet.bytes);
        }
    }

    /// When [`Emulator::release`] has something to do again.
    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.realtime.next_at()
    }

    /// What was counted: packets, lateness, and the air from the first data packet to the last.
    pub(crate) fn finish(self) -> (Census, Lateness, Option<Air>) {
        let (watched, lateness) = self.realtime.finish();
        (self.census, lateness, watched.air.map(|(first, last)| last.since(&first)))
    }
}

/// A path and its air's account when the first data packet entered and when the last one left.
#[derive(Debug)]
struct Watched {
    link: path::Path<Hop>,
    air: Option<(Air, Air)>,
}

impl Watched {
    fn read_air(&self, now: Instant) -> Option<Air> {
        self.link.links().find_map(|hop| hop.air(now))
    }
}

impl Link for Watched {
    fn offer(&mut self, end: End, packet: Packet, now: Instant) {
        if end == SENDER && packet.kind == PacketKind::Data && self.air.is_none() {
            self.air = self.read_air(now).map(|air| (air, air));
        }
        self.link.offer(end, packet, now);
    }

    fn poll(&mut self, now: Instant) -> Output {
        let output = self.link.poll(now);
        if let Output::Deliver { end: RECEIVER, packet } = &output
            && packet.kind == PacketKind::Data
        {
            let air = self.read_air(now);
            if let (Some((_, last)), Some(air)) = (&mut self.air, air) {
                *last = air;
            }
        }
        output
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tack_link::wlan::{Preset, Standard, Use};
    use tack_units::Rate;

    use super::super::path::{Medium, Path};
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
        assert_eq!(lateness.packets(), out.len() as u64);
        Ran { out, census, air }
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
}

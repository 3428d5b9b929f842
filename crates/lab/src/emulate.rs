//! A scenario's path in real time, for programs that know nothing of it.
//!
//! ```text
//! client's namespace ── A [wifi] B ── A [wan] B ── server's namespace
//! ```
//!
//! The traffic is whatever runs in the namespaces; a scenario's own flows stay in the simulator.

use core::fmt;
use core::time::Duration;

use anyhow::{Result, ensure};
use serde::Serialize;
use tack_device::Netns;
use tack_emu::{Emulation, EmulationConfig, Report, Tally};
use tack_link::path::Path;
use tack_link::{End, PacketKind};
use tack_sim::Seed;
use tack_tcp::wire::checksum::PROTOCOL_TCP;
use tack_tcp::wire::ip::IpPacket;
use tack_tcp::wire::{Codepoints, Segment};
use tack_units::Instant;

use crate::link::Hop;
use crate::reading::shares;
use crate::result::AirtimeShares;
use crate::scenario::{Scenario, Wan, WanDirection, Wifi};

/// [RFC 768]
const PROTOCOL_UDP: u8 = 17;
const UDP_HEADER_BYTES: usize = 8;

/// What lies between client and server.
#[derive(Clone, Debug, PartialEq)]
pub struct EmulatedPath {
    /// The wireless hop, the client being its station.
    pub wifi: Option<Wifi>,
    /// The wired path behind it.
    pub wan: Option<Wan>,
    /// Of all their draws.
    pub seed: u64,
}

impl EmulatedPath {
    /// That of a scenario. There are only two hosts: of access links their mean delay is left.
    pub fn of(scenario: &Scenario) -> EmulatedPath {
        let Scenario { wifi, mut wan, seed, .. } = scenario.clone();
        if let (Some(access), Some(wan)) = (&scenario.access, &mut wan) {
            let ms = 2e3 * access.mean_delay().as_secs_f64();
            let longer = |way: WanDirection| WanDirection {
                delay_ms: Some(way.delay_ms.unwrap_or(0.0) + ms),
                ..way
            };
            (wan.down, wan.up) = (Some(longer(wan.down())), Some(longer(wan.up())));
        }
        EmulatedPath { wifi, wan, seed }
    }

    /// As a link. The same draws as in the simulator.
    pub(crate) fn link(&self) -> Result<Path<Hop>> {
        let seed = Seed(self.seed);
        let wifi = self.wifi.as_ref().map(|wifi| Hop::of_wifi(wifi, seed));
        let wan = self.wan.as_ref().map(|wan| Hop::of_wan(wan, wan.round_trip(), seed));
        let hops: Vec<Hop> = wifi.into_iter().chain(wan).collect::<Result<_>>()?;
        ensure!(!hops.is_empty(), "the path has neither Wi-Fi nor a wire");
        Ok(Path::new(hops))
    }
}

/// As the emulator tells it, and of our own segments, over IP and over UDP, by what they say: TACKs
/// have a body.
pub(crate) fn kind(bytes: &[u8]) -> PacketKind {
    let Ok(ip) = IpPacket::parse(bytes) else { return PacketKind::Data };
    let segment = match ip.protocol {
        PROTOCOL_TCP => Segment::parse(ip.payload, Codepoints::default()).ok(),
        PROTOCOL_UDP => ip
            .payload
            .get(UDP_HEADER_BYTES..)
            .and_then(|datagram| Segment::parse_datagram(datagram, Codepoints::default()).ok()),
        _ => None,
    };
    match segment {
        Some(s) if s.payload.is_empty() || s.header.options.ack_type.is_some() => PacketKind::Ack,
        _ => PacketKind::Data,
    }
}

/// A path in use.
pub struct Emulated(Emulation<Path<Hop>>);

impl Emulated {
    /// How a path is emulated if nothing else is asked for: data and acknowledgments are told apart by
    /// what segments say.
    pub fn config() -> EmulationConfig {
        EmulationConfig { classify: kind, ..EmulationConfig::default() }
    }

    /// Makes namespaces, devices and the path between them.
    ///
    /// # Errors
    /// The path makes no sense, or the machine or its privileges do not suffice; the message says
    /// what would.
    pub fn start(path: &EmulatedPath, config: EmulationConfig) -> Result<Emulated> {
        Ok(Emulated(Emulation::new(path.link()?, config)?))
    }

    /// The namespace at `end`: the client's is A, the server's B.
    pub fn netns(&self, end: End) -> &Netns {
        self.0.netns(end)
    }

    /// Ends it and adds up.
    ///
    /// # Errors
    /// What ended it before, or an incomplete capture.
    pub fn finish(self) -> Result<Account> {
        Ok(Account::of(&self.0.finish()?))
    }
}

/// What an emulated path did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Account {
    /// How long it ran, seconds.
    pub ran_s: f64,
    /// From client to server.
    pub up: Way,
    /// From server to client.
    pub down: Way,
    /// The links, from the client's end.
    pub hops: Vec<HopAccount>,
    /// Who used the air; `None` without Wi-Fi.
    pub airtime: Option<AirtimeShares>,
    /// How late packets left, µs.
    pub lateness_us: LatenessSummary,
    /// Cores the emulator used.
    pub cores: f64,
    /// Why figures from this run are worth nothing, if so.
    pub void: Option<String>,
}

/// One direction, counted at its ends.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Way {
    /// Packets with data that entered.
    pub data_packets: u64,
    /// TCP segments without data, and TACKs, that entered.
    pub ack_packets: u64,
    /// Packets that left.
    pub delivered: u64,
    /// IP-level rate of what left, Mbit/s.
    pub mbps: f64,
}

/// Drops of one link, both directions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HopAccount {
    /// `wifi` or `wan`.
    pub name: &'static str,
    /// Packets dropped by queues.
    pub queue_drops: u64,
    /// Packets lost on the way.
    pub losses: u64,
}

/// Quantiles of lateness in µs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LatenessSummary {
    /// Of half of the packets.
    pub p50: u64,
    /// Of 99 in 100.
    pub p99: u64,
    /// Of 999 in 1000.
    pub p999: u64,
    /// Of all.
    pub max: u64,
}

impl Account {
    fn of(report: &Report<Path<Hop>>) -> Account {
        let ran_s = report.ran.as_secs_f64();
        let way = |from: End| {
            let (sent, got) = (report.passed.entered(from), report.passed.left(from.other()));
            let Tally { data, acks, .. } = sent;
            Way {
                data_packets: data,
                ack_packets: acks,
                delivered: got.data + got.acks,
                mbps: got.ip_bytes as f64 * 8e-6 / ran_s.max(1e-9),
            }
        };
        let hops = report.link.links().map(|hop| HopAccount {
            name: hop.name(),
            queue_drops: hop.queue_drops(),
            losses: hop.losses(),
        });
        let now = Instant::ZERO + report.ran;
        let wlan = report.link.links().find_map(Hop::wlan);
        let us = |d: Duration| u64::try_from(d.as_micros()).unwrap_or(u64::MAX);
        let quantile = |q| us(report.lateness.quantile(q));
        Account {
            ran_s,
            up: way(End::A),
            down: way(End::B),
            hops: hops.collect(),
            airtime: wlan.map(|wlan| shares(&wlan.airtime(now))),
            lateness_us: LatenessSummary {
                p50: quantile(0.5),
                p99: quantile(0.99),
                p999: quantile(0.999),
                max: us(report.lateness.greatest()),
            },
            cores: report.cpu.as_secs_f64() / ran_s.max(1e-9),
            void: report.void().map(|void| void.to_string()),
        }
    }
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, way) in [("to the server", &self.up), ("to the client", &self.down)] {
            writeln!(
                f,
                "{name}: {} data packets and {} ACKs sent, {} arrived, {:.2} Mbit/s",
                way.data_packets, way.ack_packets, way.delivered, way.mbps
            )?;
        }
        for hop in &self.hops {
            let HopAccount { name, queue_drops, losses } = hop;
            writeln!(f, "{name}: {queue_drops} dropped by queues, {losses} lost")?;
        }
        if let Some(air) = &self.airtime {
            let AirtimeShares { data, acks, collisions, idle, .. } = air;
            let percent =
                [data, acks, collisions, idle].map(|share| format!("{:.1} %", share * 100.0));
            let [data, acks, collisions, idle] = percent;
            let shares = format!("data {data}, ACKs {acks}, collisions {collisions}, idle {idle}");
            writeln!(f, "airtime: {shares}")?;
        }
        let late = &self.lateness_us;
        writeln!(
            f,
            "emulated for {:.1} s on {:.2} cores; packets left late by {} µs (median), {} µs \
             (p99), {} µs (p99.9), {} µs at most",
            self.ran_s, self.cores, late.p50, late.p99, late.p999, late.max
        )?;
        match &self.void {
            Some(why) => writeln!(f, "do not use figures from this run: {why}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use tack_tcp::Ecn;
    use tack_tcp::wire::header::FIXED_LEN;
    use tack_tcp::wire::ip::IpHeader;
    use tack_tcp::wire::{AckType, Flags, Header};

    use super::*;

    /// A segment of ours with `text` bytes behind it, over IP or in a datagram.
    fn packet(udp: bool, ack_type: Option<AckType>, text: usize) -> Vec<u8> {
        let mut header = Header { flags: Flags::ACK, ..Header::default() };
        header.options.ack_type = ack_type;
        let mut segment = Vec::new();
        header.emit(Codepoints::default(), &mut segment);
        assert!(segment.len() >= FIXED_LEN);
        segment.resize(segment.len() + text, 0);
        let ip = IpHeader {
            src: std::net::Ipv4Addr::new(10, 77, 0, 1).into(),
            dst: std::net::Ipv4Addr::new(10, 77, 0, 2).into(),
            protocol: if udp { PROTOCOL_UDP } else { PROTOCOL_TCP },
            hop_limit: 64,
            dscp: 0,
            ecn: Ecn::NotEct,
            flow_label: 0,
        };
        let udp_header = if udp { UDP_HEADER_BYTES } else { 0 };
        let mut bytes = Vec::new();
        ip.emit(udp_header + segment.len(), &mut bytes).expect("it is short");
        bytes.resize(bytes.len() + udp_header, 0);
        bytes.extend(segment);
        bytes
    }

    #[test]
    fn acknowledgments_of_ours_count_as_such_over_udp_and_with_a_body() {
        for udp in [false, true] {
            assert_eq!(kind(&packet(udp, None, 0)), PacketKind::Ack, "{udp}");
            assert_eq!(kind(&packet(udp, Some(AckType::Tack), 24)), PacketKind::Ack, "{udp}");
            assert_eq!(kind(&packet(udp, None, 1_000)), PacketKind::Data, "{udp}");
        }
        assert_eq!(kind(b"no packet"), PacketKind::Data);
    }
}

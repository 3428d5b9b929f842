//! One direction of a path: rate, delay, queue and everything that can go wrong.

use core::ops::Range;
use core::time::Duration;
use std::collections::BTreeMap;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tack_tcp::Ecn;
use tack_units::{Instant, Rate};

use crate::device;

/// What a middlebox does to segments from some moment on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strip {
    PktSeq,
    AckType,
    Permitted,
    AllOfTack,
    AllOptions,
    /// No option: the poll mark in the header.
    PollMark,
}

/// Behaviour of a direction.
#[derive(Clone, Debug)]
pub(crate) struct PipeConfig {
    pub(crate) rate: Rate,
    pub(crate) delay: Duration,
    pub(crate) queue_bytes: u64,
    pub(crate) loss: f64,
    pub(crate) duplicate: f64,
    /// Probability of being held back, and for how long at most.
    pub(crate) reorder: f64,
    pub(crate) reorder_by: Duration,
    pub(crate) corrupt: f64,
    /// Bits are turned in so many first bytes only.
    pub(crate) corrupt_within: usize,
    /// Probability that a box cuts a segment with text into smaller ones, over IP.
    pub(crate) cut: f64,
    /// What arrives is handed up so often, and what it can merged by then; `None`: as it comes.
    pub(crate) merge_every: Option<Duration>,
    /// Share of ECN-capable packets marked CE.
    pub(crate) mark: f64,
    pub(crate) blackouts: Vec<Range<Instant>>,
    pub(crate) strip: Option<(Strip, Instant)>,
    pub(crate) drop_tack_segments: bool,
    pub(crate) drop_permitted_syns: bool,
    /// Probability that a segment with a poll mark is lost.
    pub(crate) drop_marked: f64,
    /// Uniform extra delay that keeps the order.
    pub(crate) jitter: Duration,
    /// Jitter on top of a standing queue, but for moments of calm.
    pub(crate) crowd: Option<Crowd>,
}

/// A queue that others keep filled: it empties for `calm_for` once in `calm_every`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crowd {
    pub(crate) least: Duration,
    pub(crate) spread: Duration,
    pub(crate) calm_every: Duration,
    pub(crate) calm_for: Duration,
}

impl PipeConfig {
    pub(crate) fn clean(rate: Rate, delay: Duration, queue_bytes: u64) -> PipeConfig {
        PipeConfig {
            rate,
            delay,
            queue_bytes,
            loss: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
            reorder_by: Duration::ZERO,
            corrupt: 0.0,
            corrupt_within: usize::MAX,
            cut: 0.0,
            merge_every: None,
            mark: 0.0,
            blackouts: Vec::new(),
            strip: None,
            drop_tack_segments: false,
            drop_permitted_syns: false,
            drop_marked: 0.0,
            jitter: Duration::ZERO,
            crowd: None,
        }
    }
}

/// Counts of a direction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PipeCounters {
    pub(crate) offered: u64,
    pub(crate) bytes: u64,
    pub(crate) lost: u64,
    pub(crate) overflowed: u64,
}

/// One direction.
pub(crate) struct Pipe {
    pub(crate) config: PipeConfig,
    pub(crate) counters: PipeCounters,
    pub(crate) ip: bool,
    /// Per-datagram overhead below what is handed over, in bytes.
    pub(crate) overhead: u64,
    rng: Pcg64Mcg,
    /// The link is busy until then.
    busy: Instant,
    latest: Instant,
    flying: BTreeMap<(Instant, u64), (Vec<u8>, Ecn)>,
    serial: u64,
    spare: Vec<Vec<u8>>,
}

impl Pipe {
    pub(crate) fn new(config: PipeConfig, seed: u64, ip: bool) -> Pipe {
        let overhead = if ip { 0 } else { 28 };
        Pipe {
            config,
            counters: PipeCounters::default(),
            ip,
            overhead,
            rng: Pcg64Mcg::seed_from_u64(seed),
            busy: Instant::ZERO,
            latest: Instant::ZERO,
            flying: BTreeMap::new(),
            serial: 0,
            spare: Vec::new(),
        }
    }

    fn chance(&mut self, p: f64) -> bool {
        p > 0.0 && self.rng.random_bool(p.min(1.0))
    }

    pub(crate) fn offer(&mut self, datagram: &[u8], ecn: Ecn, now: Instant) {
        let cuts = self.chance(self.config.cut) && !has_option(datagram, true, &[Strip::AckType]);
        let text = if cuts { device::text_len(datagram) } else { 0 };
        if text < 2 {
            return self.carry(datagram, ecn, now);
        }
        let size = self.rng.random_range(text.div_ceil(4)..text);
        for part in device::cut(datagram, size) {
            self.carry(&part, ecn, now);
        }
    }

    fn carry(&mut self, datagram: &[u8], ecn: Ecn, now: Instant) {
        let size = datagram.len() as u64 + self.overhead;
        self.counters.offered += 1;
        self.counters.bytes += size;
        let queued = self.config.rate.bytes_in(self.busy.saturating_since(now));
        if queued + size > self.config.queue_bytes {
            self.counters.overflowed += 1;
            return;
        }
        self.busy = self.busy.max(now) + self.config.rate.time_for(size).expect("a rate");
        let dark = self.config.blackouts.iter().any(|b| b.contains(&now));
        if dark || self.chance(self.config.loss) {
            self.counters.lost += 1;
            return;
        }
        let data = [Strip::AckType, Strip::PktSeq];
        let marked = is_marked(datagram, self.ip) && self.chance(self.config.drop_marked);
        let dropped = marked
            || self.config.drop_tack_segments && has_option(datagram, self.ip, &data)
            || self.config.drop_permitted_syns
                && has_option(datagram, self.ip, &[Strip::Permitted]);
        if dropped {
            self.counters.lost += 1;
            return;
        }
        let marked = ecn == Ecn::Ect0 && !self.ip && self.chance(self.config.mark);
        let ecn = if marked { Ecn::Ce } else { ecn };
        let copies = if self.chance(self.config.duplicate) { 2 } else { 1 };
        for copy in 0..copies {
            let mut at = self.busy + self.config.delay;
            at = (at + self.jitter(at)).max(self.latest);
            self.latest = self.latest.max(at);
            if copy > 0 || self.chance(self.config.reorder) {
                let by = self.config.reorder_by.as_nanos() as u64;
                at += Duration::from_nanos(self.rng.random_range(0..=by));
            }
            if let Some(every) = self.config.merge_every {
                at = Instant::from_nanos(at.as_nanos().next_multiple_of(every.as_nanos() as u64));
            }
            let mut bytes = self.spare.pop().unwrap_or_default();
            bytes.clear();
            bytes.extend_from_slice(datagram);
            if let Some((strip, from)) = self.config.strip
                && now >= from
            {
                strip_options(&mut bytes, strip, self.ip);
            }
            if self.chance(self.config.corrupt) {
                let within = bytes.len().min(self.config.corrupt_within);
                let bit = self.rng.random_range(0..within * 8);
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            self.serial += 1;
            self.flying.insert((at, self.serial), (bytes, ecn));
        }
    }

    /// Something that joins the path on the way arrives at `at`.
    pub(crate) fn inject(&mut self, packet: Vec<u8>, at: Instant) {
        self.serial += 1;
        self.flying.insert((at, self.serial), (packet, Ecn::NotEct));
    }

    fn jitter(&mut self, at: Instant) -> Duration {
        let mut random = |most: Duration| match most.as_nanos() as u64 {
            0 => Duration::ZERO,
            most => Duration::from_nanos(self.rng.random_range(0..=most)),
        };
        let Some(crowd) = self.config.crowd else { return random(self.config.jitter) };
        let phase = u128::from(at.as_nanos()) % crowd.calm_every.as_nanos();
        let calm = phase < crowd.calm_for.as_nanos();
        if calm { Duration::ZERO } else { crowd.least + random(crowd.spread) }
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        self.flying.first_key_value().map(|((at, _), _)| *at)
    }

    pub(crate) fn arrive(&mut self, now: Instant) -> Option<(Vec<u8>, Ecn)> {
        let first = self.flying.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    pub(crate) fn recycle(&mut self, bytes: Vec<u8>) {
        if self.spare.len() < 4_096 {
            self.spare.push(bytes);
        }
    }
}

/// Offset of the TCP header.
pub(crate) fn tcp_start(bytes: &[u8], ip: bool) -> usize {
    match (ip, bytes.first().map(|b| b >> 4)) {
        (false, _) => 0,
        (true, Some(4)) => usize::from(bytes[0] & 15) * 4,
        _ => 40,
    }
}

/// Calls `f` with the place and kind of every option.
fn each_option(tcp: &mut [u8], mut f: impl FnMut(&mut [u8])) {
    let Some(len) = tcp.get(12).map(|b| usize::from(b >> 4) * 4) else { return };
    let mut at = 20;
    while at < len && at < tcp.len() {
        let size = match tcp[at] {
            0 => return,
            1 => 1,
            _ if at + 1 < len => usize::from(tcp[at + 1]),
            _ => return,
        };
        if size == 0 || at + size > len {
            return;
        }
        f(&mut tcp[at..at + size]);
        at += size;
    }
}

fn kind_of(option: &[u8]) -> Option<Strip> {
    match (option[0], option.len()) {
        (253, 4 | 6) | (40, 2 | 4) => Some(Strip::Permitted),
        (253, 5) | (41, 3) => Some(Strip::AckType),
        (253, 8 | 12) | (42, 6 | 10) => Some(Strip::PktSeq),
        _ => None,
    }
}

/// The poll mark in the octet of the data offset.
const POLL_MARK: u8 = 0x08;

fn is_marked(bytes: &[u8], ip: bool) -> bool {
    bytes.get(tcp_start(bytes, ip) + 12).is_some_and(|octet| octet & POLL_MARK != 0)
}

fn has_option(bytes: &[u8], ip: bool, kinds: &[Strip]) -> bool {
    let mut copy = bytes.to_vec();
    let start = tcp_start(bytes, ip);
    let mut found = false;
    each_option(&mut copy[start..], |option| {
        found |= kind_of(option).is_some_and(|kind| kinds.contains(&kind));
    });
    found
}

/// Overwrites options by no-operations or clears the mark, as middleboxes do, and mends the checksum.
fn strip_options(bytes: &mut [u8], strip: Strip, ip: bool) {
    let start = tcp_start(bytes, ip);
    if strip == Strip::PollMark && is_marked(bytes, ip) {
        bytes[start + 12] &= !POLL_MARK;
    }
    each_option(&mut bytes[start..], |option| {
        let kind = kind_of(option);
        let goes = match strip {
            Strip::AllOptions => true,
            Strip::PollMark => false,
            Strip::AllOfTack => kind.is_some(),
            one => kind == Some(one),
        };
        if goes {
            option.fill(1);
        }
    });
    if ip {
        let (src, dst) = addresses(bytes);
        bytes[start + 16..start + 18].fill(0);
        tack_tcp::wire::checksum::fill_tcp(src, dst, &mut bytes[start..]);
    }
}

pub(crate) fn addresses(bytes: &[u8]) -> (std::net::IpAddr, std::net::IpAddr) {
    let packet = tack_tcp::wire::ip::IpPacket::parse(bytes).expect("our own packet");
    (packet.src, packet.dst)
}

//! Contenders that carry none of our packets: neighbours and beacons.

use core::time::Duration;

use rand_pcg::Pcg64;

use super::ampdu::{AmpduLimits, aggregate};
use super::config::{Beacons, Load, Neighbour};
use super::phy::{Band, DataRate, Ns};
use super::timing::{Timing, mpdu_overhead};
use crate::draw::{exponential, nanos};

/// Most packets a neighbour queues.
const NEIGHBOUR_QUEUE: u32 = 1_000;

/// A neighbour's queue: all its packets are alike, so a number will do.
#[derive(Debug)]
pub(super) struct NeighbourState {
    load: Load,
    waiting: u32,
    retries: u32,
    /// Mean time between arrivals; `None` without arrivals.
    mean_gap: Option<Duration>,
    mpdu_bytes: u32,
    limits: AmpduLimits,
    max_psdu_bytes: u32,
    pub(super) rate: DataRate,
    pub(super) timeout: Ns,
    ack: Ns,
    block_ack: Ns,
    band: Band,
}

/// A neighbour's next PPDU.
#[derive(Clone, Copy, Debug)]
pub(super) struct NeighbourPpdu {
    pub(super) mpdus: u32,
    pub(super) ppdu: Ns,
    pub(super) response: Ns,
}

impl NeighbourState {
    pub(super) fn new(config: &Neighbour, timing: &Timing, qos: bool) -> NeighbourState {
        let mpdu_bytes = config.packet_bytes + mpdu_overhead(qos, false);
        let response = timing.response_rate(config.rate);
        let by_duration = config.rate.max_psdu_bytes(config.ampdu.max_duration_ns(), timing.band);
        let mut state = NeighbourState {
            load: config.load,
            waiting: u32::from(config.load == Load::Saturated),
            retries: 0,
            mean_gap: None,
            mpdu_bytes,
            limits: config.ampdu,
            max_psdu_bytes: config.ampdu.max_bytes.min(by_duration),
            rate: config.rate,
            timeout: timing.response_timeout_ns(config.rate),
            ack: nanos(timing.ack(response)),
            block_ack: nanos(timing.block_ack(response, 64)),
            band: timing.band,
        };
        state.mean_gap = match config.load {
            Load::Saturated => None,
            Load::Mbps(mbps) => gap(f64::from(config.packet_bytes) * 8.0 / mbps / 1e6),
            Load::Airtime(share) => {
                let alone = config.rate.ppdu_ns(mpdu_bytes, timing.band);
                let sifs = nanos(timing.sifs);
                gap((alone + sifs + state.ack) as f64 / share / 1e9)
            }
        };
        state
    }

    /// When the next packet arrives after `now`.
    pub(super) fn next_arrival(&self, now: Ns, rng: &mut Pcg64) -> Option<Ns> {
        let gap = nanos(exponential(rng, self.mean_gap?)).max(1);
        Some(now.saturating_add(gap))
    }

    pub(super) fn on_arrival(&mut self) {
        self.waiting = (self.waiting + 1).min(NEIGHBOUR_QUEUE);
    }

    pub(super) fn has_packets(&self) -> bool {
        self.waiting > 0
    }

    pub(super) fn next_ppdu(&self) -> NeighbourPpdu {
        let saturated = self.load == Load::Saturated;
        let waiting = if saturated { usize::MAX } else { self.waiting as usize };
        let sizes = std::iter::repeat_n(self.mpdu_bytes, waiting.min(1_024));
        let a = aggregate(sizes, self.max_psdu_bytes, usize::from(self.limits.max_mpdus));
        NeighbourPpdu {
            mpdus: a.mpdus as u32,
            ppdu: self.rate.ppdu_ns(a.psdu_bytes, self.band),
            response: if a.mpdus > 1 { self.block_ack } else { self.ack },
        }
    }

    pub(super) fn succeeded(&mut self, mpdus: u32) {
        self.retries = 0;
        if self.load != Load::Saturated {
            self.waiting = self.waiting.saturating_sub(mpdus);
        }
    }

    /// A PPDU was lost; true if its packets are given up for it.
    pub(super) fn failed(&mut self, mpdus: u32, retry_limit: u32) -> bool {
        self.retries += 1;
        let give_up = self.retries > retry_limit;
        if give_up {
            self.succeeded(mpdus);
        }
        give_up
    }
}

/// One network's beacons.
#[derive(Debug)]
pub(super) struct BeaconState {
    interval: Ns,
    pub(super) ppdu: Ns,
    pub(super) rate: DataRate,
    pub(super) due: bool,
    /// Next target transmission time.
    pub(super) next: Ns,
}

impl BeaconState {
    /// The `i`th of the networks: their beacons are spread over an interval.
    pub(super) fn new(config: &Beacons, i: u32, timing: &Timing, data: DataRate) -> BeaconState {
        let rate = timing.control_rate(config.kbps, data);
        let interval = nanos(config.interval);
        BeaconState {
            interval,
            ppdu: rate.ppdu_ns(config.bytes, timing.band),
            rate,
            due: false,
            next: interval * Ns::from(i) / Ns::from(config.networks) + interval / 2,
        }
    }

    /// A target transmission time has come; a beacon that still waits is replaced.
    pub(super) fn on_time(&mut self) {
        self.due = true;
        self.next += self.interval;
    }
}

/// A mean time between arrivals; `None` if there are practically none.
fn gap(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok()
}

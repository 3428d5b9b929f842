//! Time series in bounded memory.
//!
//! A series takes a sample per period. When it is full it forgets every second one and takes half
//! as many from there on, so a run of any length ends with between half of its capacity and all
//! of it, evenly spaced.

use core::time::Duration;

use tack_tcp::Glance;
use tack_units::{Instant, Rate};

use crate::report::GuestInfo;

/// Samples a series holds.
pub const CAPACITY: usize = 4_096;

/// Evenly spaced samples of anything.
#[derive(Clone, Debug)]
pub struct Series<T> {
    samples: Vec<(Instant, T)>,
    /// One of so many offers is kept; a power of two.
    stride: u64,
    offered: u64,
}

impl<T> Default for Series<T> {
    fn default() -> Self {
        Series { samples: Vec::new(), stride: 1, offered: 0 }
    }
}

impl<T> Series<T> {
    /// The samples, in order of time.
    pub fn samples(&self) -> &[(Instant, T)] {
        &self.samples
    }

    /// Offers the sample that `make` would make. It is made only if it is kept.
    pub(crate) fn offer(&mut self, now: Instant, make: impl FnOnce() -> T) {
        let number = self.offered;
        self.offered += 1;
        if !number.is_multiple_of(self.stride) {
            return;
        }
        if self.samples.len() == CAPACITY {
            let mut index = 0;
            self.samples.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.stride *= 2;
            // The capacity is even, so this sample's number fits the new stride as well.
        }
        self.samples.push((now, make()));
    }
}

/// The state of a flow at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlowSample {
    /// Sender's congestion window, bytes.
    pub cwnd: u64,
    /// Sender's pacing rate; `None`: as the window allows.
    pub pacing_rate: Option<Rate>,
    /// Sender's bytes in flight; `None`: its stack does not say.
    pub in_flight: Option<u64>,
    /// Sender's smoothed RTT.
    pub srtt: Option<Duration>,
    /// Sender's least RTT.
    pub rtt_min: Option<Duration>,
    /// Stream bytes the applications read so far: of a dialogue, requests and responses.
    pub delivered: u64,
    /// Bytes that either end holds and its application cannot read, for want of earlier ones; `None`: the far end's
    /// stack does not say.
    pub blocked: Option<u64>,
}

/// What a sample takes of one end of a flow.
#[derive(Debug)]
pub(crate) struct SampledEnd {
    /// Bytes the application read.
    pub(crate) received: u64,
    /// What our stack says; `None` of a guest, and before there is a connection.
    pub(crate) ours: Option<Glance>,
    pub(crate) guest: Option<GuestInfo>,
}

impl FlowSample {
    pub(crate) fn new(from: &SampledEnd, to: &SampledEnd) -> Self {
        let info = from.ours.as_ref();
        let guest = from.guest.as_ref();
        FlowSample {
            cwnd: info.map(|i| i.cwnd).or(guest.map(|g| g.cwnd)).unwrap_or(0),
            pacing_rate: info.map_or(guest.and_then(|g| g.pacing_rate), |i| i.pacing_rate),
            in_flight: info.map(|i| i.in_flight).or(guest.and_then(|g| g.in_flight)),
            // A guest without a sample says zero.
            srtt: info
                .and_then(|i| i.srtt)
                .or(guest.map(|g| g.srtt).filter(|srtt| !srtt.is_zero())),
            rtt_min: info.and_then(|i| i.rtt_min).or(guest.and_then(|g| g.rtt_min)),
            delivered: from.received + to.received,
            blocked: to.ours.as_ref().map(|i| i.recv_blocked + info.map_or(0, |i| i.recv_blocked)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_of_any_length_is_bounded_and_evenly_spaced() {
        for n in [0, 1, 4_096, 4_097, 10_000, 1_000_003u64] {
            let mut series = Series::default();
            let mut made = 0;
            for i in 0..n {
                series.offer(Instant::from_millis(i), || {
                    made += 1;
                    i
                });
            }
            let kept: Vec<u64> = series.samples().iter().map(|s| s.1).collect();
            assert!(kept.len() <= CAPACITY);
            assert!(n < 4_096 || kept.len() >= CAPACITY / 2, "{n}: {}", kept.len());
            let stride = kept.get(1).map_or(1, |second| second - kept[0]);
            assert!(kept.iter().enumerate().all(|(i, v)| *v == i as u64 * stride), "{n}");
            assert!(made < CAPACITY as u64 * 16, "few are made for nothing");
        }
    }
}

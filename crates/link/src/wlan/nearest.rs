//! From a number of Mbit/s, as people say it, to a rate the PHY has.

use super::phy::{DataRate, DsssPreamble, GuardInterval, Mcs, Standard, Width};

/// Spatial streams looked at: the papers' hardware is 2x2.
const STREAMS: [u8; 2] = [2, 1];

impl DataRate {
    /// The rate of `standard` nearest to `mbps`, in the channel width and guard interval of its
    /// presets, one or two streams (two where both fit). `None` unless `mbps` is positive.
    pub fn nearest(standard: Standard, mbps: f64) -> Option<DataRate> {
        if mbps.is_nan() || mbps <= 0.0 {
            return None;
        }
        let distance = |rate: &DataRate| (rate.kbps() as f64 / 1e3 - mbps).abs();
        // The first of equals wins.
        candidates(standard)
            .into_iter()
            .reduce(|best, next| if distance(&next) < distance(&best) { next } else { best })
    }
}

fn candidates(standard: Standard) -> Vec<DataRate> {
    let each = |last: u8, width: Width, guard: GuardInterval, rate: fn(Mcs) -> DataRate| {
        STREAMS
            .into_iter()
            .flat_map(|streams| (0..=last).map(move |index| Mcs { index, streams, width, guard }))
            .map(rate)
            .collect()
    };
    match standard {
        Standard::B => [1_000, 2_000, 5_500, 11_000]
            .into_iter()
            .map(|kbps| DataRate::Dsss { kbps, preamble: DsssPreamble::Long })
            .collect(),
        Standard::G => {
            [6, 9, 12, 18, 24, 36, 48, 54].into_iter().map(|mbps| DataRate::Ofdm { mbps }).collect()
        }
        Standard::N => each(7, Width::Mhz40, GuardInterval::Ns400, DataRate::Ht),
        Standard::Ac => each(9, Width::Mhz80, GuardInterval::Ns400, DataRate::Vht),
        Standard::Ax => each(11, Width::Mhz80, GuardInterval::Ns800, DataRate::He),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wlan::{Preset, WlanConfig};

    #[test]
    fn the_rates_of_the_papers_presets_are_found_by_their_numbers() {
        for (standard, preset, mbps) in [
            (Standard::B, Preset::PaperA, 2.0),
            (Standard::G, Preset::PaperA, 12.0),
            (Standard::N, Preset::PaperA, 60.0),
            (Standard::N, Preset::PaperB, 150.0),
            (Standard::Ac, Preset::PaperA, 195.0),
            (Standard::Ac, Preset::PaperB, 866.7),
            (Standard::N, Preset::Textbook, 300.0),
        ] {
            let uplink = WlanConfig::preset(preset, standard).uplink;
            assert_eq!(DataRate::nearest(standard, mbps), Some(uplink), "{standard:?} {mbps}");
        }
    }

    #[test]
    fn no_rate_is_near_nothing() {
        assert_eq!(DataRate::nearest(Standard::N, 0.0), None);
        assert_eq!(DataRate::nearest(Standard::N, f64::NAN), None);
        assert_eq!(DataRate::nearest(Standard::G, 1e9), Some(DataRate::Ofdm { mbps: 54 }));
    }
}

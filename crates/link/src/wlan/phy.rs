//! 802.11 physical layers: rates, symbols, preambles, and how long a PPDU lasts.
//!
//! ```text
//! DSSS/CCK          pre + ceil(8·B / R)
//! OFDM              20 + 4·ceil((16 + 8·B + 6) / N_DBPS)               [+ 6 at 2.4 GHz]
//! HT / VHT / HE     pre + T_SYM·ceil((16 + 8·PSDU + 6) / N_DBPS)       [+ 6 at 2.4 GHz, HT/HE]
//! N_DBPS            N_SD · bits · coding rate · streams
//! ```
//!
//! With the 3.6 µs symbols of the short guard interval the data field is rounded up to 4 µs. One
//! BCC encoder is assumed: more of them add less than one symbol.

use core::time::Duration;

use crate::draw::nanos;

/// Nanoseconds, the model's integer unit of time.
pub(crate) type Ns = u64;

pub(crate) const US: Ns = 1_000;

/// An 802.11 generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Standard {
    /// 802.11b: DSSS and CCK.
    B,
    /// 802.11g: OFDM at 2.4 GHz.
    G,
    /// 802.11n: HT.
    N,
    /// 802.11ac: VHT.
    Ac,
    /// 802.11ax: HE, single user.
    Ax,
}

impl Standard {
    /// Every generation, oldest first.
    pub const ALL: [Standard; 5] =
        [Standard::B, Standard::G, Standard::N, Standard::Ac, Standard::Ax];

    /// The usual letter: `b`, `g`, `n`, `ac`, `ax`.
    pub const fn name(self) -> &'static str {
        match self {
            Standard::B => "b",
            Standard::G => "g",
            Standard::N => "n",
            Standard::Ac => "ac",
            Standard::Ax => "ax",
        }
    }

    /// The generation called `name`, as [`Standard::name`] prints it.
    pub fn from_name(name: &str) -> Option<Standard> {
        Standard::ALL.into_iter().find(|s| s.name() == name)
    }

    /// Whether frames may be aggregated (HT and later).
    pub const fn aggregates(self) -> bool {
        matches!(self, Standard::N | Standard::Ac | Standard::Ax)
    }
}

/// The frequency band: it decides SIFS and the signal extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Band {
    /// 2.4 GHz: SIFS 10 µs, and 6 µs of signal extension after OFDM frames.
    Ghz2,
    /// 5 GHz (and 6 GHz): SIFS 16 µs.
    Ghz5,
}

/// What precedes a DSSS frame's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DsssPreamble {
    /// 192 µs.
    Long,
    /// 96 µs; 1 Mb/s frames use the long one all the same.
    Short,
    /// Another PHY of the same shape, such as frequency hopping's 128 µs.
    Other(Duration),
}

/// Channel width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Width {
    /// 20 MHz.
    Mhz20,
    /// 40 MHz.
    Mhz40,
    /// 80 MHz (VHT and HE).
    Mhz80,
    /// 160 MHz (VHT and HE).
    Mhz160,
}

/// Guard interval between symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GuardInterval {
    /// 0.4 µs: the short one of HT and VHT.
    Ns400,
    /// 0.8 µs: the long one of HT and VHT, the short one of HE.
    Ns800,
    /// 1.6 µs (HE).
    Ns1600,
    /// 3.2 µs (HE).
    Ns3200,
}

impl GuardInterval {
    const fn ns(self) -> Ns {
        match self {
            GuardInterval::Ns400 => 400,
            GuardInterval::Ns800 => 800,
            GuardInterval::Ns1600 => 1_600,
            GuardInterval::Ns3200 => 3_200,
        }
    }
}

/// A multi-carrier rate of HT, VHT or HE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mcs {
    /// Modulation and coding: 0..=7 (HT), 0..=9 (VHT), 0..=11 (HE). HT's numbers above 7 are this
    /// one plus eight per further stream.
    pub index: u8,
    /// Spatial streams: 1..=4 (HT), 1..=8 (VHT, HE).
    pub streams: u8,
    /// Channel width.
    pub width: Width,
    /// Guard interval.
    pub guard: GuardInterval,
}

/// How a frame is modulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DataRate {
    /// DSSS or CCK at this many kb/s.
    Dsss {
        /// Payload rate in kb/s: 1000, 2000, 5500, 11000.
        kbps: u32,
        /// What precedes the payload.
        preamble: DsssPreamble,
    },
    /// Legacy OFDM at this many Mb/s: 6, 9, 12, 18, 24, 36, 48, 54.
    Ofdm {
        /// Rate in Mb/s.
        mbps: u32,
    },
    /// 802.11n.
    Ht(Mcs),
    /// 802.11ac.
    Vht(Mcs),
    /// 802.11ax, single user, no packet extension.
    He(Mcs),
}

/// Bits per subcarrier and the code rate as a fraction, MCS 0..=11.
const MODULATION: [(u64, u64, u64); 12] = [
    (1, 1, 2),
    (2, 1, 2),
    (2, 3, 4),
    (4, 1, 2),
    (4, 3, 4),
    (6, 2, 3),
    (6, 3, 4),
    (6, 5, 6),
    (8, 3, 4),
    (8, 5, 6),
    (10, 3, 4),
    (10, 5, 6),
];

/// Non-HT rate in Mb/s with the modulation of each MCS: what a response is derived from.
const REFERENCE_MBPS: [u32; 12] = [6, 12, 18, 24, 36, 48, 54, 54, 54, 54, 54, 54];

const OFDM_MBPS: [u32; 8] = [6, 9, 12, 18, 24, 36, 48, 54];

/// Bits added around the PSDU: 16 of SERVICE, 6 of tail.
const SERVICE_AND_TAIL_BITS: u64 = 22;

/// What OFDM frames at 2.4 GHz are followed by, so that their receivers can finish decoding.
const SIGNAL_EXTENSION: Ns = 6 * US;

impl DataRate {
    /// Data bits per OFDM symbol; `None` for DSSS.
    pub fn bits_per_symbol(self) -> Option<u64> {
        let m = match self {
            DataRate::Dsss { .. } => return None,
            DataRate::Ofdm { mbps } => return Some(u64::from(mbps) * 4),
            DataRate::Ht(m) | DataRate::Vht(m) | DataRate::He(m) => m,
        };
        let (bits, num, den) = MODULATION[usize::from(m.index).min(11)];
        Some(self.data_subcarriers(m.width) * bits * num * u64::from(m.streams) / den)
    }

    fn data_subcarriers(self, width: Width) -> u64 {
        let he = matches!(self, DataRate::He(_));
        match width {
            Width::Mhz20 if he => 234,
            Width::Mhz40 if he => 468,
            Width::Mhz80 if he => 980,
            Width::Mhz160 if he => 1960,
            Width::Mhz20 => 52,
            Width::Mhz40 => 108,
            Width::Mhz80 => 234,
            Width::Mhz160 => 468,
        }
    }

    fn symbol_ns(self) -> Ns {
        match self {
            DataRate::Dsss { .. } => 0,
            DataRate::Ofdm { .. } => 4 * US,
            DataRate::Ht(m) | DataRate::Vht(m) => 3_200 + m.guard.ns(),
            DataRate::He(m) => 12_800 + m.guard.ns(),
        }
    }

    /// What precedes the payload: preamble and PHY headers.
    pub fn preamble(self) -> Duration {
        Duration::from_nanos(self.preamble_ns())
    }

    pub(crate) fn preamble_ns(self) -> Ns {
        match self {
            DataRate::Dsss { preamble: DsssPreamble::Other(d), .. } => nanos(d),
            DataRate::Dsss { preamble: DsssPreamble::Short, kbps } if kbps > 1_000 => 96 * US,
            DataRate::Dsss { .. } => 192 * US,
            DataRate::Ofdm { .. } => 20 * US,
            // Legacy 20, HT-SIG 8, HT-STF 4, HT-LTFs of 4.
            DataRate::Ht(m) => (32 + 4 * training_fields(m.streams)) * US,
            // Legacy 20, SIG-A 8, STF 4, LTFs of 4, SIG-B 4.
            DataRate::Vht(m) => (36 + 4 * training_fields(m.streams)) * US,
            // Legacy 20, RL-SIG 4, SIG-A 8, STF 4, twice compressed LTFs of 6.4 and a guard.
            DataRate::He(m) => 36 * US + training_fields(m.streams) * (6_400 + m.guard.ns()),
        }
    }

    /// Payload rate in kb/s: data bits per symbol over the symbol's length.
    pub fn kbps(self) -> u64 {
        match self {
            DataRate::Dsss { kbps, .. } => u64::from(kbps),
            _ => self.bits_per_symbol().unwrap_or(0) * 1_000_000 / self.symbol_ns(),
        }
    }

    /// How long a PPDU with `psdu_bytes` occupies the medium, preamble and extension included.
    pub fn ppdu(self, psdu_bytes: u32, band: Band) -> Duration {
        Duration::from_nanos(self.ppdu_ns(psdu_bytes, band))
    }

    pub(crate) fn ppdu_ns(self, psdu_bytes: u32, band: Band) -> Ns {
        let bits = u64::from(psdu_bytes) * 8;
        let Some(per_symbol) = self.bits_per_symbol() else {
            // Whole microseconds, as the standard's LENGTH field counts them.
            let us = (bits * 1_000).div_ceil(self.kbps().max(1));
            return self.preamble_ns() + us * US;
        };
        let symbols = (bits + SERVICE_AND_TAIL_BITS).div_ceil(per_symbol.max(1));
        self.preamble_ns() + self.padded(symbols * self.symbol_ns()) + self.extension_ns(band)
    }

    /// Short-guard data fields end on a 4 µs boundary.
    fn padded(self, data_ns: Ns) -> Ns {
        match self {
            DataRate::Ht(m) | DataRate::Vht(m) if m.guard == GuardInterval::Ns400 => {
                data_ns.next_multiple_of(4 * US)
            }
            _ => data_ns,
        }
    }

    fn extension_ns(self, band: Band) -> Ns {
        match (self, band) {
            (DataRate::Dsss { .. }, _) | (_, Band::Ghz5) => 0,
            (_, Band::Ghz2) => SIGNAL_EXTENSION,
        }
    }

    /// The largest PSDU in bytes whose PPDU lasts at most `limit`; zero if not even an empty one.
    pub(crate) fn max_psdu_bytes(self, limit: Ns, band: Band) -> u32 {
        let Some(data) = limit.checked_sub(self.preamble_ns() + self.extension_ns(band)) else {
            return 0;
        };
        let Some(per_symbol) = self.bits_per_symbol() else {
            return u32::try_from(data / US * self.kbps() / 8_000).unwrap_or(u32::MAX);
        };
        // Rounding up to 4 us makes what is left of the last 4 us unusable.
        let data = if self.padded(1) > 1 { data / (4 * US) * (4 * US) } else { data };
        let bits = (data / self.symbol_ns() * per_symbol).saturating_sub(SERVICE_AND_TAIL_BITS);
        u32::try_from(bits / 8).unwrap_or(u32::MAX)
    }

    /// The rate in kb/s that a response may not exceed: the data rate itself for DSSS and OFDM,
    /// the non-HT rate of the same modulation for MCSs.
    pub fn reference_kbps(self) -> u32 {
        match self {
            DataRate::Dsss { kbps, .. } => kbps,
            DataRate::Ofdm { mbps } => mbps * 1_000,
            DataRate::Ht(m) | DataRate::Vht(m) | DataRate::He(m) => {
                REFERENCE_MBPS[usize::from(m.index).min(11)] * 1_000
            }
        }
    }

    /// What is wrong with this rate, if anything.
    pub fn problem(self) -> Option<&'static str> {
        let (m, top_mcs, top_streams) = match self {
            DataRate::Dsss { kbps: 0, .. } => return Some("a rate of zero"),
            DataRate::Dsss { .. } => return None,
            DataRate::Ofdm { mbps } if OFDM_MBPS.contains(&mbps) => return None,
            DataRate::Ofdm { .. } => return Some("OFDM rates are 6, 9, 12, 18, 24, 36, 48, 54"),
            DataRate::Ht(m) => (m, 7, 4),
            DataRate::Vht(m) => (m, 9, 8),
            DataRate::He(m) => (m, 11, 8),
        };
        let he = matches!(self, DataRate::He(_));
        if m.index > top_mcs {
            return Some("MCS index: at most 7 for HT, 9 for VHT, 11 for HE");
        }
        if !(1..=top_streams).contains(&m.streams) {
            return Some("streams: 1 to 4 for HT, 1 to 8 for VHT and HE");
        }
        match (self, m.width, m.guard) {
            (DataRate::Ht(_), Width::Mhz80 | Width::Mhz160, _) => Some("HT is 20 or 40 MHz wide"),
            (_, _, GuardInterval::Ns400) if he => Some("HE guard intervals are 0.8, 1.6, 3.2 us"),
            (_, _, GuardInterval::Ns1600 | GuardInterval::Ns3200) if !he => {
                Some("HT and VHT guard intervals are 0.4 and 0.8 us")
            }
            _ => None,
        }
    }
}

/// Long training fields for a number of streams.
fn training_fields(streams: u8) -> u64 {
    match streams {
        0 | 1 => 1,
        2 => 2,
        3 | 4 => 4,
        5 | 6 => 6,
        _ => 8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates() -> Vec<DataRate> {
        let mut all: Vec<_> = OFDM_MBPS.map(|mbps| DataRate::Ofdm { mbps }).to_vec();
        all.extend(
            [1_000, 2_000, 5_500, 11_000]
                .map(|kbps| DataRate::Dsss { kbps, preamble: DsssPreamble::Short }),
        );
        for index in 0..12 {
            for streams in 1..=8 {
                for width in [Width::Mhz20, Width::Mhz40, Width::Mhz80, Width::Mhz160] {
                    for guard in [
                        GuardInterval::Ns400,
                        GuardInterval::Ns800,
                        GuardInterval::Ns1600,
                        GuardInterval::Ns3200,
                    ] {
                        let m = Mcs { index, streams, width, guard };
                        all.extend([DataRate::Ht(m), DataRate::Vht(m), DataRate::He(m)]);
                    }
                }
            }
        }
        all.retain(|r| r.problem().is_none());
        all
    }

    #[test]
    fn the_largest_psdu_for_a_duration_fits_and_one_byte_more_does_not() {
        for rate in rates() {
            for band in [Band::Ghz2, Band::Ghz5] {
                for limit in [1_000 * US, 1_504 * US, 5_484 * US] {
                    let bytes = rate.max_psdu_bytes(limit, band);
                    assert!(rate.ppdu_ns(bytes, band) <= limit, "{rate:?} {limit}");
                    assert!(rate.ppdu_ns(bytes + 1, band) > limit, "{rate:?} {limit} {bytes}");
                }
            }
        }
    }
}

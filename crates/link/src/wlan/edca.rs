//! Access categories and their contention parameters.

use core::time::Duration;

use crate::link::Packet;

/// Contention parameters of one access category.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcParams {
    /// Contention window of a first attempt: backoff is drawn from `0..=cw_min` slots.
    pub cw_min: u32,
    /// Largest contention window.
    pub cw_max: u32,
    /// Slots after SIFS before backoff counts down; 2 makes DIFS.
    pub aifsn: u8,
    /// Transmission opportunity; zero allows one PPDU per access.
    pub txop: Duration,
}

impl AcParams {
    /// Parameters without a TXOP.
    pub const fn new(cw_min: u32, cw_max: u32, aifsn: u8) -> AcParams {
        AcParams { cw_min, cw_max, aifsn, txop: Duration::ZERO }
    }

    /// The defaults of a station with WMM: background, best effort, video, voice.
    pub const WMM_STATION: [AcParams; 4] = [
        AcParams::new(15, 1023, 7),
        AcParams::new(15, 1023, 3),
        AcParams { cw_min: 7, cw_max: 15, aifsn: 2, txop: Duration::from_micros(3_008) },
        AcParams { cw_min: 3, cw_max: 7, aifsn: 2, txop: Duration::from_micros(1_504) },
    ];

    /// What access points usually keep for themselves.
    pub const WMM_AP: [AcParams; 4] = [
        AcParams::new(15, 1023, 7),
        AcParams::new(15, 63, 3),
        AcParams { cw_min: 7, cw_max: 15, aifsn: 1, txop: Duration::from_micros(3_008) },
        AcParams { cw_min: 3, cw_max: 7, aifsn: 1, txop: Duration::from_micros(1_504) },
    ];
}

/// Which packets share a queue and its priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Classifier {
    /// All in one category: 0 background, 1 best effort, 2 video, 3 voice.
    Fixed(u8),
    /// By the three precedence bits of the IP header's DSCP, where a packet has bytes; best effort
    /// otherwise.
    Dscp,
}

/// Number of access categories, and of contenders per node.
pub(crate) const CATEGORIES: usize = 4;

/// Best effort's place among the categories.
pub(crate) const BEST_EFFORT: usize = 1;

/// Access category by the IP precedence of a packet: `[BE, BK, BK, BE, VI, VI, VO, VO]`.
const BY_PRECEDENCE: [usize; 8] = [1, 0, 0, 1, 2, 2, 3, 3];

/// The access category of `packet`.
pub(crate) fn category(classifier: Classifier, packet: &Packet) -> usize {
    let tos = match (classifier, packet.bytes.as_slice()) {
        (Classifier::Fixed(ac), _) => return usize::from(ac),
        (Classifier::Dscp, [version, tos, ..]) if version >> 4 == 4 => *tos,
        (Classifier::Dscp, [first, second, ..]) if first >> 4 == 6 => (first << 4) | (second >> 4),
        (Classifier::Dscp, _) => return BEST_EFFORT,
    };
    BY_PRECEDENCE[usize::from(tos >> 5)]
}

#[cfg(test)]
mod tests {

    use super::*;

    fn packet(bytes: &[u8]) -> Packet {
        Packet { dst: 1, ip_bytes: 40, bytes: bytes.to_vec(), ..Packet::default() }
    }

    #[test]
    fn dscp_chooses_the_category_in_both_ip_versions() {
        // Expedited forwarding is DSCP 46, precedence 5: video by the default mapping.
        assert_eq!(category(Classifier::Dscp, &packet(&[0x45, 46 << 2])), 2);
        assert_eq!(category(Classifier::Dscp, &packet(&[0x45, 48 << 2])), 3);
        assert_eq!(category(Classifier::Dscp, &packet(&[0x6c, 0x00])), 3);
        assert_eq!(category(Classifier::Dscp, &packet(&[0x45, 8 << 2])), 0);
        assert_eq!(category(Classifier::Dscp, &packet(&[])), BEST_EFFORT);
        assert_eq!(category(Classifier::Fixed(0), &packet(&[0x45, 46 << 2])), 0);
    }
}

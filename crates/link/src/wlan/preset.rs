//! Parameter sets: what a textbook WLAN does, and two that come near the papers' testbed.
//!
//! The paper-like sets are fits, not facts: none of their values is stated in a paper. They share
//! one idea, a client uplink at about 0.2 of the downlink's rate and short A-MPDUs.

use core::time::Duration;

use super::ampdu::AmpduLimits;
use super::config::{
    EIFS_SHARE, Errors, FreezeRule, HostDelay, Protection, Scheduling, Station, WlanConfig,
};
use super::edca::{AcParams, Classifier};
use super::phy::{DataRate, DsssPreamble, GuardInterval, Mcs, Standard, Width};
use super::timing::Timing;

/// A named set of parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Preset {
    /// Default parameters of the standard, equal rates both ways, no loss, no protection.
    Textbook,
    /// Slow uplink, short A-MPDUs, CTS-to-self on g, short preamble on b's downlink.
    PaperA,
    /// As `PaperA` with a faster uplink and a host that takes 100 µs per PPDU and 3 µs per packet.
    PaperB,
}

impl Preset {
    /// Every set.
    pub const ALL: [Preset; 3] = [Preset::Textbook, Preset::PaperA, Preset::PaperB];

    /// `textbook`, `paper-a` or `paper-b`.
    pub const fn name(self) -> &'static str {
        match self {
            Preset::Textbook => "textbook",
            Preset::PaperA => "paper-a",
            Preset::PaperB => "paper-b",
        }
    }

    /// The set called `name`.
    pub fn from_name(name: &str) -> Option<Preset> {
        Preset::ALL.into_iter().find(|p| p.name() == name)
    }
}

const fn mcs(index: u8, streams: u8, width: Width, guard: GuardInterval) -> Mcs {
    Mcs { index, streams, width, guard }
}

/// The downlink rate of the papers' testbed: 11, 54, 300, 866.7 Mb/s, and HE's counterpart.
const fn top_rate(standard: Standard) -> DataRate {
    let short = GuardInterval::Ns400;
    match standard {
        Standard::B => DataRate::Dsss { kbps: 11_000, preamble: DsssPreamble::Long },
        Standard::G => DataRate::Ofdm { mbps: 54 },
        Standard::N => DataRate::Ht(mcs(7, 2, Width::Mhz40, short)),
        Standard::Ac => DataRate::Vht(mcs(9, 2, Width::Mhz80, short)),
        Standard::Ax => DataRate::He(mcs(11, 2, Width::Mhz80, GuardInterval::Ns800)),
    }
}

impl WlanConfig {
    /// `preset` for `standard` with one station, whose host is number 1, and seed 1.
    ///
    /// The papers have no ax: there both paper-like sets are `PaperA`'s and `PaperB`'s ideas on
    /// ac's A-MPDU of 34 packets.
    pub fn preset(preset: Preset, standard: Standard) -> WlanConfig {
        let mut config = WlanConfig::textbook(standard);
        if preset != Preset::Textbook {
            config.shorten(standard);
            if standard.aggregates() {
                // The sets are defined with 24 Mb/s; the rules would answer PaperA's QPSK at 12.
                config.timing.response_kbps = Some(24_000);
            }
            config.uplink = match preset {
                Preset::PaperB => config.paper_b_uplink(standard),
                _ => config.paper_a_uplink(standard),
            };
        }
        if preset == Preset::PaperB {
            config.host_delay = HostDelay {
                delay: Duration::from_micros(100),
                spread: 0.5,
                per_packet: Duration::from_micros(3),
            };
        }
        config
    }

    fn textbook(standard: Standard) -> WlanConfig {
        let qos = standard.aggregates();
        let cw_min = if standard == Standard::B { 31 } else { 15 };
        let best_effort =
            if qos { AcParams::WMM_STATION } else { [AcParams::new(cw_min, 1_023, 2); 4] };
        let ampdu = match standard {
            Standard::B | Standard::G => AmpduLimits::NONE,
            Standard::N => AmpduLimits::new(65_535, 64),
            Standard::Ac | Standard::Ax => AmpduLimits::new(1_048_575, 64),
        };
        WlanConfig {
            standard,
            timing: Timing::of(standard),
            downlink: top_rate(standard),
            uplink: top_rate(standard),
            qos,
            freeze: if qos { FreezeRule::Edca } else { FreezeRule::Dcf },
            ap_edca: best_effort,
            station_edca: best_effort,
            classifier: Classifier::Fixed(1),
            ap_ampdu: ampdu,
            station_ampdu: ampdu,
            block_ack_window: 64,
            explicit_bar: false,
            retry_limit: Some(7),
            protection: Protection::None,
            eifs_share: EIFS_SHARE,
            idle_before_response: false,
            capture: true,
            errors: Errors::default(),
            hidden: None,
            beacons: None,
            neighbours: Vec::new(),
            stations: vec![Station { hosts: vec![1], ..Station::default() }],
            ap_queue_packets: 1_000,
            station_queue_packets: 1_000,
            scheduling: Scheduling::Fifo,
            ap_txq: None,
            station_txq: None,
            ccmp: false,
            host_delay: HostDelay::default(),
            scan: None,
            seed: 1,
        }
    }

    /// The A-MPDU sizes and protection that both paper-like sets share.
    fn shorten(&mut self, standard: Standard) {
        match standard {
            Standard::B => {
                let preamble = DsssPreamble::Short;
                self.downlink = DataRate::Dsss { kbps: 11_000, preamble };
                self.timing.response_preamble = Some(preamble);
            }
            Standard::G => self.protection = Protection::CtsToSelf { kbps: Some(6_000) },
            Standard::N => {
                self.ap_ampdu = AmpduLimits::new(20_100, 64);
                self.station_ampdu = self.ap_ampdu;
            }
            Standard::Ac | Standard::Ax => {
                self.ap_ampdu = AmpduLimits::new(52_500, 64);
                self.station_ampdu = self.ap_ampdu;
            }
        }
    }

    fn paper_a_uplink(&self, standard: Standard) -> DataRate {
        let short = GuardInterval::Ns400;
        match standard {
            Standard::B => DataRate::Dsss { kbps: 2_000, preamble: DsssPreamble::Long },
            Standard::G => DataRate::Ofdm { mbps: 12 },
            Standard::N => DataRate::Ht(mcs(1, 2, Width::Mhz40, short)),
            Standard::Ac => DataRate::Vht(mcs(2, 2, Width::Mhz80, short)),
            Standard::Ax => DataRate::He(mcs(2, 2, Width::Mhz80, GuardInterval::Ns800)),
        }
    }

    fn paper_b_uplink(&self, standard: Standard) -> DataRate {
        match standard {
            Standard::B => self.paper_a_uplink(standard),
            Standard::G => DataRate::Ofdm { mbps: 24 },
            Standard::N => DataRate::Ht(mcs(7, 1, Width::Mhz40, GuardInterval::Ns400)),
            Standard::Ac | Standard::Ax => self.downlink,
        }
    }
}

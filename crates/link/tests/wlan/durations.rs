//! Check 1: the durations of every frame kind, to the microsecond (HE: 0.1 µs).

use std::time::Duration;

use tack_link::wlan::{Band, DataRate, DsssPreamble, Preset, Standard, Timing, WlanConfig};

fn us(d: Duration) -> f64 {
    d.as_nanos() as f64 / 1e3
}

fn textbook(standard: Standard) -> WlanConfig {
    WlanConfig::preset(Preset::Textbook, standard)
}

/// IP to MPDU: 36 bytes of header, FCS and LLC without QoS, 38 with.
fn one_frame(config: &WlanConfig, ip_bytes: u32) -> f64 {
    let overhead = if config.qos { 38 } else { 36 };
    us(config.downlink.ppdu(ip_bytes + overhead, config.timing.band))
}

fn dsss(kbps: u32, preamble: DsssPreamble) -> DataRate {
    DataRate::Dsss { kbps, preamble }
}

#[test]
fn check_1_interframe_spaces() {
    let aifs = |s, n| us(Timing::of(s).aifs(n));
    assert_eq!((aifs(Standard::B, 2), aifs(Standard::B, 3)), (50.0, 70.0));
    assert_eq!((aifs(Standard::G, 2), aifs(Standard::G, 3)), (28.0, 37.0));
    for standard in [Standard::N, Standard::Ac, Standard::Ax] {
        assert_eq!((aifs(standard, 2), aifs(standard, 3)), (34.0, 43.0));
    }
}

#[test]
fn check_1_preambles_and_bits_per_symbol() {
    let of = |s| textbook(s).downlink;
    assert_eq!(us(of(Standard::B).preamble()), 192.0);
    assert_eq!(us(dsss(11_000, DsssPreamble::Short).preamble()), 96.0);
    assert_eq!(us(dsss(1_000, DsssPreamble::Short).preamble()), 192.0);
    assert_eq!(us(of(Standard::G).preamble()), 20.0);
    assert_eq!(us(of(Standard::N).preamble()), 40.0);
    assert_eq!(us(of(Standard::Ac).preamble()), 44.0);
    assert_eq!(us(of(Standard::Ax).preamble()), 50.4);
    assert_eq!(of(Standard::G).bits_per_symbol(), Some(216));
    assert_eq!(of(Standard::N).bits_per_symbol(), Some(1_080));
    assert_eq!(of(Standard::Ac).bits_per_symbol(), Some(3_120));
    assert_eq!(of(Standard::Ax).bits_per_symbol(), Some(16_333));
    let paper = |p, s| WlanConfig::preset(p, s).uplink.bits_per_symbol();
    assert_eq!(paper(Preset::PaperA, Standard::N), Some(216));
    assert_eq!(paper(Preset::PaperA, Standard::Ac), Some(702));
    assert_eq!(paper(Preset::PaperB, Standard::N), Some(540));
}

#[test]
fn check_1_one_frame_of_data() {
    assert_eq!(one_frame(&textbook(Standard::B), 1_500), 1_310.0);
    let short = dsss(11_000, DsssPreamble::Short).ppdu(1_536, Band::Ghz2);
    assert_eq!(us(short), 1_214.0);
    assert_eq!(one_frame(&textbook(Standard::G), 1_500), 254.0);
    assert_eq!(one_frame(&textbook(Standard::N), 1_500), 84.0);
    assert_eq!(one_frame(&textbook(Standard::Ac), 1_500), 60.0);
    assert!((one_frame(&textbook(Standard::Ax), 1_500) - 64.0).abs() < 0.05);
}

#[test]
fn check_1_responses() {
    let b = Timing::of(Standard::B);
    let ack = |kbps, preamble| us(b.ack(dsss(kbps, preamble)));
    assert_eq!(ack(1_000, DsssPreamble::Long), 304.0);
    assert_eq!(ack(2_000, DsssPreamble::Long), 248.0);
    assert_eq!(ack(2_000, DsssPreamble::Short), 152.0);
    assert_eq!(ack(11_000, DsssPreamble::Short), 107.0);
    let ofdm = |mbps| DataRate::Ofdm { mbps };
    let g = Timing::of(Standard::G);
    assert_eq!((us(g.ack(ofdm(24))), us(g.ack(ofdm(6)))), (34.0, 50.0));
    // RTS, CTS.
    assert_eq!((us(g.rts(ofdm(24))), us(g.ack(ofdm(24)))), (34.0, 34.0));
    for standard in [Standard::N, Standard::Ac, Standard::Ax] {
        let t = Timing::of(standard);
        assert_eq!((us(t.ack(ofdm(24))), us(t.rts(ofdm(24)))), (28.0, 28.0));
        assert_eq!((us(t.block_ack(ofdm(24), 64)), us(t.block_ack(ofdm(6), 64))), (32.0, 68.0));
        assert_eq!(us(t.block_ack(ofdm(24), 256)), 40.0);
    }
}

#[test]
fn check_1_response_rates_follow_the_data() {
    let rate_of = |preset, standard| {
        let config = WlanConfig::preset(preset, standard);
        config.timing.response_rate(config.uplink).reference_kbps()
    };
    assert_eq!(rate_of(Preset::Textbook, Standard::B), 2_000);
    assert_eq!(rate_of(Preset::Textbook, Standard::G), 24_000);
    assert_eq!(rate_of(Preset::PaperA, Standard::G), 12_000);
    for standard in [Standard::N, Standard::Ac, Standard::Ax] {
        assert_eq!(rate_of(Preset::Textbook, standard), 24_000);
        // 60 Mb/s on two streams is QPSK 1/2, as 12 Mb/s is; ns-3 answers it so too. The paper-like
        // sets are defined otherwise.
        let uplink = WlanConfig::preset(Preset::PaperA, standard).uplink;
        assert_eq!(Timing::of(standard).response_rate(uplink).reference_kbps(), 12_000);
        assert_eq!(rate_of(Preset::PaperA, standard), 24_000);
    }
}

#[test]
fn check_1_signal_extension_is_for_ofdm_at_2_4_ghz() {
    let n = textbook(Standard::N).downlink;
    assert_eq!(us(n.ppdu(1_538, Band::Ghz2)) - us(n.ppdu(1_538, Band::Ghz5)), 6.0);
    let b = textbook(Standard::B).downlink;
    assert_eq!(b.ppdu(1_536, Band::Ghz2), b.ppdu(1_536, Band::Ghz5));
}

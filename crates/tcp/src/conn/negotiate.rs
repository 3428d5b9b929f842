//! What the two SYNs agree on, and the way back from TACK to plain TCP.
//!
//! TACK holds when both SYNs carried TACK-Permitted and both carried timestamps, which it needs
//! for departure times. Nothing else of TACK is sent before. What vanishes later is noticed:
//!
//! ```text
//! what a path strips      what the other end sees                       reason
//! PKT.SEQ                 data, FIN or probe without PKT.SEQ            PktSeqMissing
//! ACK-Type                a bare ACK that no TACK endpoint sends, or    AckTypeMissing
//!                         the body as text wholly before RCV.NXT
//! both, or segments       three timeouts before any sign of TACK, or    Unanswered
//! with them are dropped   eight in a row later, and more than the loss
//!                         of both ways explains; within UDP neither
//! SYNs with them are      three SYNs without an answer: the fourth is plain;
//! dropped                 within UDP never
//! ```
//!
//! Poll marks are offered and agreed to by the mark itself in the SYNs. They need no way back: a
//! receiver that hears none goes on by its timer, see [`tack_strategies`].
//!
//! A body travels at `SEG.SEQ = SND.UNA - len`: numbers whose text the peer has acknowledged. A
//! body whose ACK-Type was stripped is therefore an old duplicate and can never become stream
//! data, at no point of the connection and whatever the peer believes about the mode.

use crate::config::{ConnConfig, Encapsulation, HostConfig};
use crate::wire::{Flags, Header, Options, Timestamps};
use tack_strategies::Needs;

/// What our SYN or SYN/ACK says.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    pub(crate) tack: bool,
    /// Acknowledgments on request, by poll marks.
    pub(crate) polls: bool,
    /// Short headers, if TACK.
    compact: bool,
    /// Series of numbers, if TACK.
    series: bool,
    sack: bool,
    timestamps: bool,
    ecn: bool,
    /// `None`: the peer's SYN had none, so ours has none.
    window_scale: Option<u8>,
    mss: u16,
}

/// What holds for the connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Agreed {
    pub(crate) tack: bool,
    /// Each end acknowledges what the other marks.
    pub(crate) polls: bool,
    /// Short headers are understood by both.
    pub(crate) compact: bool,
    /// Both have devices that cut and merge segments: all text has numbers of a series.
    pub(crate) series: bool,
    pub(crate) sack: bool,
    pub(crate) timestamps: bool,
    pub(crate) ecn: bool,
    /// Shift of windows the peer announces.
    pub(crate) snd_shift: u8,
    /// Shift of windows we announce.
    pub(crate) rcv_shift: u8,
    /// Largest segment, options included, TCP header excluded.
    pub(crate) mss: u16,
}

impl Agreed {
    /// Before any SYN came.
    pub(crate) fn nothing(mss: u16) -> Agreed {
        Agreed {
            tack: false,
            polls: false,
            compact: false,
            series: false,
            sack: false,
            timestamps: false,
            ecn: false,
            snd_shift: 0,
            rcv_shift: 0,
            mss,
        }
    }

    /// After a simultaneous open: what the peer's SYN/ACK no longer names is off.
    pub(crate) fn with(self, peer: &Header) -> Agreed {
        let tack = self.tack && peer.options.tack_permitted;
        let compact = self.compact && peer.options.compact_permitted;
        let series = self.series && peer.options.series_permitted;
        Agreed { tack, compact, series, polls: self.polls && peer.flags.has(Flags::POLL), ..self }
    }
}

/// What the control bits of the peer's SYN or SYN/ACK offer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SynBits {
    ecn: bool,
    polls: bool,
}

impl SynBits {
    pub(crate) fn of(flags: Flags) -> SynBits {
        let (ece, cwr) = (flags.has(Flags::ECE), flags.has(Flags::CWR));
        SynBits { ecn: ece && cwr != flags.has(Flags::ACK), polls: flags.has(Flags::POLL) }
    }
}

/// No segment is smaller, whatever a peer says: options must fit, and every byte in a packet of
/// its own is an attack.
pub(crate) const LEAST_MSS: u16 = 88;

impl Offer {
    /// What a first SYN offers.
    pub(crate) fn new(config: &ConnConfig, default_mss: u16) -> Offer {
        Offer {
            tack: config.ack.needs() == Needs::Tack && config.timestamps,
            polls: config.ack.needs() == Needs::Polls,
            compact: false,
            series: false,
            sack: config.sack,
            timestamps: config.timestamps,
            ecn: config.ecn,
            window_scale: Some(shift_for(config.greatest_window())),
            mss: config.mss.unwrap_or(default_mss).max(LEAST_MSS),
        }
    }

    /// The same with short headers, or without.
    pub(crate) fn with_compact(self, compact: bool) -> Offer {
        Offer { compact, ..self }
    }

    /// The same with series, or without.
    pub(crate) fn with_series(self, series: bool) -> Offer {
        Offer { series, ..self }
    }

    /// What a SYN/ACK answers: only what the SYN offered too.
    pub(crate) fn answer(&self, syn: &Options, bits: SynBits) -> Offer {
        let tack = self.tack && syn.tack_permitted && syn.timestamps.is_some();
        Offer {
            tack,
            polls: self.polls && bits.polls,
            compact: tack && self.compact && syn.compact_permitted,
            series: tack && self.series && syn.series_permitted,
            sack: self.sack && syn.sack_permitted,
            timestamps: self.timestamps && syn.timestamps.is_some(),
            ecn: self.ecn && bits.ecn,
            window_scale: self.window_scale.filter(|_| syn.window_scale.is_some()),
            mss: self.mss,
        }
    }

    /// Control bits of the SYN or, with `answers`, SYN/ACK.
    pub(crate) fn flags(&self, answers: bool) -> Flags {
        let syn = if answers { Flags::SYN | Flags::ACK } else { Flags::SYN };
        // An ECN-setup SYN has both bits, an ECN-setup SYN/ACK only ECE [RFC 3168 §6.1.1].
        let ecn = match (self.ecn, answers) {
            (false, _) => Flags::default(),
            (true, true) => Flags::ECE,
            (true, false) => Flags::ECE | Flags::CWR,
        };
        syn | ecn | if self.polls { Flags::POLL } else { Flags::default() }
    }

    pub(crate) fn give_up_ecn(&mut self) {
        self.ecn = false;
    }

    pub(crate) fn mss(&self) -> u16 {
        self.mss
    }

    /// Options of the SYN or SYN/ACK.
    pub(crate) fn options(&self, timestamps: Timestamps) -> Options {
        Options {
            mss: Some(self.mss),
            window_scale: self.window_scale,
            sack_permitted: self.sack,
            tack_permitted: self.tack,
            compact_permitted: self.tack && self.compact,
            series_permitted: self.tack && self.series,
            timestamps: self.timestamps.then_some(timestamps),
            ..Options::default()
        }
    }

    /// What holds, given the peer's SYN or SYN/ACK.
    pub(crate) fn agree(&self, peer: &Options, bits: SynBits) -> Agreed {
        let both = self.answer(peer, bits);
        let (snd_shift, rcv_shift) = match (both.window_scale, peer.window_scale) {
            (Some(ours), Some(theirs)) => (theirs.min(14), ours),
            _ => (0, 0),
        };
        Agreed {
            tack: both.tack,
            polls: both.polls,
            compact: both.compact,
            series: both.series,
            sack: both.sack,
            timestamps: both.timestamps,
            ecn: both.ecn,
            snd_shift,
            rcv_shift,
            mss: peer.mss.unwrap_or(LEAST_MSS).clamp(LEAST_MSS, self.mss),
        }
    }
}

/// The least shift that lets `bytes` be announced [RFC 7323 §2.3].
pub(crate) fn shift_for(bytes: usize) -> u8 {
    (0..14).find(|&shift| bytes >> shift <= usize::from(u16::MAX)).unwrap_or(14)
}

/// Receive buffer offered at first: no less than what the window field can say once it is scaled. A window of
/// nothing brings nothing, and would never grow.
pub(crate) fn initial_window(config: &ConnConfig) -> usize {
    config.initial_recv_buffer.max(1 << shift_for(config.greatest_window()))
}

/// MSS that fits the interface: Ethernet's 1500 bytes over UDP, whose interface is not ours to
/// know.
pub(crate) fn default_mss(config: &HostConfig, ipv6: bool) -> u16 {
    let ip = if ipv6 { 40 } else { 20 };
    match &config.encapsulation {
        Encapsulation::Udp => 1_500 - ip - 8 - 20,
        Encapsulation::Ip { .. } => config.ip.mtu_of(ipv6) - ip - 20,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shift_is_the_least_that_announces_the_buffer() {
        assert_eq!(shift_for(65_535), 0);
        assert_eq!(shift_for(65_536), 1);
        assert_eq!(shift_for(32 << 20), 10);
        assert_eq!(shift_for(usize::MAX), 14);
    }

    #[test]
    fn tack_needs_both_offers_and_timestamps() {
        let offer = Offer::new(&ConnConfig::default(), 1_460);
        let ts = Timestamps { val: 1, ecr: 0 };
        let mut peer = offer.options(ts);
        assert!(offer.agree(&peer, SynBits::default()).tack);
        peer.tack_permitted = false;
        assert!(!offer.agree(&peer, SynBits::default()).tack);
        peer.tack_permitted = true;
        peer.timestamps = None;
        assert!(!offer.agree(&peer, SynBits::default()).tack);
        assert!(!Offer::new(&ConnConfig::plain(), 1_460).tack);
    }

    #[test]
    fn short_headers_need_both_offers_and_tack() {
        let plain = Offer::new(&ConnConfig::default(), 1_460);
        let offer = plain.clone().with_compact(true);
        let ts = Timestamps { val: 1, ecr: 0 };
        let peer = offer.options(ts);
        assert!(peer.compact_permitted && offer.agree(&peer, SynBits::default()).compact);
        assert!(!plain.agree(&peer, SynBits::default()).compact);
        assert!(!offer.agree(&plain.options(ts), SynBits::default()).compact);
        let no_tack = Options { tack_permitted: false, ..peer };
        assert!(!offer.agree(&no_tack, SynBits::default()).compact);
        let given_up = Offer { tack: false, ..offer };
        assert!(!given_up.options(ts).compact_permitted);
    }

    #[test]
    fn series_need_both_offers_and_tack() {
        let plain = Offer::new(&ConnConfig::default(), 1_460);
        let offer = plain.clone().with_series(true);
        let ts = Timestamps { val: 1, ecr: 0 };
        let peer = offer.options(ts);
        assert!(peer.series_permitted && offer.agree(&peer, SynBits::default()).series);
        assert!(!plain.agree(&peer, SynBits::default()).series);
        assert!(!offer.agree(&plain.options(ts), SynBits::default()).series);
        assert!(!offer.agree(&plain.with_compact(true).options(ts), SynBits::default()).series);
        let given_up = Offer { tack: false, ..offer };
        assert!(!given_up.options(ts).series_permitted);
    }

    #[test]
    fn ethernet_leaves_what_the_headers_do_not_take() {
        let udp = HostConfig::default();
        let encapsulation = Encapsulation::Ip { local: Vec::new() };
        let mut ip = HostConfig { encapsulation, ..HostConfig::default() };
        assert_eq!(default_mss(&udp, false), 1_452);
        assert_eq!(default_mss(&udp, true), 1_432);
        assert_eq!(default_mss(&ip, false), 1_460);
        assert_eq!(default_mss(&ip, true), 1_440);
        // No interface is so small, whatever a configuration says.
        ip.ip.mtu = 0;
        assert_eq!(default_mss(&ip, false), 28);
        assert_eq!(default_mss(&ip, true), 1_220);
        ip.ip.mtu = u16::MAX;
        assert_eq!(default_mss(&ip, false), 65_495);
    }
}

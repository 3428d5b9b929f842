//! Strategies of QUIC under virtual time: of stock stacks, and of ours.
//!
//! `quic-tack` is ours with TACK at both ends, `quic` ours without; `quic-quinn` and `quic-noq` are ours
//! sending to a stock peer, which it asks for Eq. 4 as it goes.
//!
//! `quinn` and `noq` acknowledge as they come; `quinn-eq4` has its sender ask for Eq. 4 on the path
//! without queues; `quinn-ar10` for an acknowledgment per ten packets [Custura et al.]. What is asked
//! for goes in ACK_FREQUENCY frames, and never changes.

use core::fmt;
use core::str::FromStr;

use tack_cc::Algorithm;

/// Which stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StockStack {
    /// quinn-proto.
    Quinn,
    /// noq-proto.
    Noq,
    /// Ours at both ends.
    Ours,
    /// Ours connects to quinn-proto.
    OursToQuinn,
    /// Ours connects to noq-proto.
    OursToNoq,
}

/// What the sender of data asks of a stock stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StockAcks {
    /// Nothing: every second packet is acknowledged [RFC 9000 §13.2.2].
    Usual,
    /// Eq. 4 on the path without queues.
    Eq4,
    /// An acknowledgment per so many packets, 1 to 64, or after 25 ms.
    Every(u8),
}

/// A stock QUIC stack, and how often it is to acknowledge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stock {
    /// Which stack.
    pub stack: StockStack,
    /// What is asked of it.
    pub acks: StockAcks,
}

impl Stock {
    /// The words, for messages.
    pub const WORDS: &str = "quic-tack, quic, quic-quinn, quic-noq, quinn, quinn-eq4, quinn-ar10, noq, noq-eq4, noq-ar10";

    /// Words of those that are ours.
    const OURS: [(&str, Stock); 4] = [
        ("quic-tack", Stock { stack: StockStack::Ours, acks: StockAcks::Eq4 }),
        ("quic", Stock { stack: StockStack::Ours, acks: StockAcks::Usual }),
        ("quic-quinn", Stock { stack: StockStack::OursToQuinn, acks: StockAcks::Eq4 }),
        ("quic-noq", Stock { stack: StockStack::OursToNoq, acks: StockAcks::Eq4 }),
    ];

    /// The controllers that the stack has.
    pub fn controllers(self) -> &'static [Algorithm] {
        match self.stack {
            StockStack::Quinn => &[Algorithm::NewReno, Algorithm::Cubic, Algorithm::Bbr],
            StockStack::Noq => &[Algorithm::NewReno, Algorithm::Cubic, Algorithm::Bbr3],
            StockStack::Ours | StockStack::OursToQuinn | StockStack::OursToNoq => Algorithm::ALL,
        }
    }
}

impl fmt::Display for Stock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((word, _)) = Self::OURS.iter().find(|(_, ours)| ours == self) {
            return f.pad(word);
        }
        let stack = match self.stack {
            StockStack::Noq => "noq",
            _ => "quinn",
        };
        match self.acks {
            StockAcks::Usual => f.pad(stack),
            StockAcks::Eq4 => f.pad(&format!("{stack}-eq4")),
            StockAcks::Every(packets) => f.pad(&format!("{stack}-ar{packets}")),
        }
    }
}

impl FromStr for Stock {
    type Err = ();

    fn from_str(s: &str) -> Result<Self, ()> {
        if let Some((_, ours)) = Self::OURS.iter().find(|(word, _)| *word == s) {
            return Ok(*ours);
        }
        let (stack, acks) =
            s.split_once('-').map_or((s, None), |(stack, acks)| (stack, Some(acks)));
        let stack = match stack {
            "quinn" => StockStack::Quinn,
            "noq" => StockStack::Noq,
            _ => return Err(()),
        };
        let acks = match acks {
            None => StockAcks::Usual,
            Some("eq4") => StockAcks::Eq4,
            Some(acks) => {
                let packets = acks.strip_prefix("ar").and_then(|n| n.parse().ok()).ok_or(())?;
                StockAcks::Every(packets)
            }
        };
        let stock = Stock { stack, acks };
        let is_sound = !matches!(acks, StockAcks::Every(n) if !(1..=64).contains(&n));
        // One word for each.
        (is_sound && stock.to_string() == s).then_some(stock).ok_or(())
    }
}

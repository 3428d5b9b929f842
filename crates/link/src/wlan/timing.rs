//! Interframe spaces, control frames and the constants a PPDU sequence is made of.

use core::time::Duration;

use super::phy::{Band, DataRate, DsssPreamble, Ns, Standard, US};
use crate::draw::nanos;

/// Longest PPDU the receivers' length fields allow (HT mixed, VHT, HE).
pub const MAX_PPDU: Duration = Duration::from_micros(5_484);

/// An Ack or a CTS, FCS included, in bytes.
pub(crate) const ACK_BYTES: u32 = 14;
/// An RTS in bytes.
pub(crate) const RTS_BYTES: u32 = 20;
/// A compressed BlockAckReq in bytes.
pub(crate) const BLOCK_ACK_REQ_BYTES: u32 = 24;
/// A compressed BlockAck with a bitmap of 64 bits.
const BLOCK_ACK_BYTES: u32 = 32;
/// The same with 256 bits.
const BLOCK_ACK_256_BYTES: u32 = 56;
/// What CCMP adds to every MPDU: 8 bytes of header, 8 of MIC.
pub(crate) const CCMP_BYTES: u32 = 16;
/// MPDU delimiter in front of every A-MPDU subframe.
const DELIMITER_BYTES: u32 = 4;

/// Times and sizes that hold for every station of a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Slot time.
    pub slot: Duration,
    /// Short interframe space.
    pub sifs: Duration,
    /// Within this time of each other, two starts are too close for carrier sense: a collision.
    pub cca: Duration,
    /// A sender without a response sees the medium idle from this long after its own PPDU, and
    /// waits an AIFS from then. `None`: 25 µs after OFDM, a preamble's length after DSSS.
    ///
    /// The standard leaves room: DCF may count its DIFS while the timeout (SIFS + slot + receive
    /// start, 45 µs at 5 GHz) runs, EDCA and ns-3 add AIFS to all of it.
    pub response_timeout: Option<Duration>,
    /// Band: decides the signal extension.
    pub band: Band,
    /// Rate of every response in kb/s; `None` for the highest basic rate that is not above the
    /// frame's own (for an MCS: above the non-HT rate of the same modulation).
    pub response_kbps: Option<u32>,
    /// Preamble of DSSS responses; `None` for that of the frame they answer.
    pub response_preamble: Option<DsssPreamble>,
    /// Rates every station supports, in kb/s, ascending: responses and control frames use them.
    pub basic_kbps: Vec<u32>,
}

impl Timing {
    /// The usual times of a generation: b and g at 2.4 GHz, the others at 5 GHz.
    pub fn of(standard: Standard) -> Timing {
        let ofdm = |band, sifs_us| Timing {
            slot: Duration::from_micros(9),
            sifs: Duration::from_micros(sifs_us),
            cca: Duration::from_micros(4),
            response_timeout: None,
            band,
            response_kbps: None,
            response_preamble: None,
            basic_kbps: vec![6_000, 12_000, 24_000],
        };
        match standard {
            Standard::B => Timing {
                slot: Duration::from_micros(20),
                sifs: Duration::from_micros(10),
                cca: Duration::from_micros(15),
                response_timeout: None,
                band: Band::Ghz2,
                response_kbps: None,
                response_preamble: None,
                basic_kbps: vec![1_000, 2_000],
            },
            Standard::G => ofdm(Band::Ghz2, 10),
            Standard::N | Standard::Ac | Standard::Ax => ofdm(Band::Ghz5, 16),
        }
    }

    /// The control rate that answers `data`: the one configured, the highest basic rate not above
    /// the data's reference, or the lowest basic rate.
    pub fn response_rate(&self, data: DataRate) -> DataRate {
        let reference = data.reference_kbps();
        let within = self.basic_kbps.iter().copied().filter(|&k| k <= reference).max();
        let within = self.response_kbps.or(within);
        let kbps = within.or(self.basic_kbps.iter().copied().min()).unwrap_or(reference);
        match (self.control_rate(kbps, data), self.response_preamble) {
            (DataRate::Dsss { kbps, .. }, Some(preamble)) => DataRate::Dsss { kbps, preamble },
            (rate, _) => rate,
        }
    }

    /// The slowest basic rate, with `data`'s kind of modulation: EIFS assumes it.
    pub(crate) fn lowest_rate(&self, data: DataRate) -> DataRate {
        let kbps = self.basic_kbps.iter().copied().min().unwrap_or(data.reference_kbps());
        self.control_rate(kbps, data)
    }

    /// A control rate of `kbps` beside frames sent at `data`.
    pub(crate) fn control_rate(&self, kbps: u32, data: DataRate) -> DataRate {
        match data {
            DataRate::Dsss { preamble, .. } => DataRate::Dsss { kbps, preamble },
            // DSSS rates among an OFDM network's basic rates need their own preamble.
            _ if !kbps.is_multiple_of(3_000) => {
                DataRate::Dsss { kbps, preamble: DsssPreamble::Long }
            }
            _ => DataRate::Ofdm { mbps: kbps / 1_000 },
        }
    }

    /// Duration of an Ack (or CTS) at `rate`.
    pub fn ack(&self, rate: DataRate) -> Duration {
        rate.ppdu(ACK_BYTES, self.band)
    }

    /// Duration of an RTS at `rate`.
    pub fn rts(&self, rate: DataRate) -> Duration {
        rate.ppdu(RTS_BYTES, self.band)
    }

    /// Duration of a BlockAck for a window of `window` MPDUs at `rate`.
    pub fn block_ack(&self, rate: DataRate, window: u16) -> Duration {
        let bytes = if window > 64 { BLOCK_ACK_256_BYTES } else { BLOCK_ACK_BYTES };
        rate.ppdu(bytes, self.band)
    }

    /// Duration of a BlockAckReq at `rate`.
    pub fn block_ack_req(&self, rate: DataRate) -> Duration {
        rate.ppdu(BLOCK_ACK_REQ_BYTES, self.band)
    }

    /// Arbitration interframe space: `SIFS + aifsn · slot`. DIFS is the one with 2.
    pub fn aifs(&self, aifsn: u8) -> Duration {
        self.sifs + self.slot * u32::from(aifsn)
    }

    /// How long a sender waits after its PPDU before it gives the response up.
    pub(crate) fn response_timeout_ns(&self, data: DataRate) -> Ns {
        if let Some(timeout) = self.response_timeout {
            return nanos(timeout);
        }
        match data {
            DataRate::Dsss { .. } => data.preamble_ns(),
            _ => 25 * US,
        }
    }
}

/// Bytes of the MPDU around an IP packet: header, FCS and LLC/SNAP.
pub(crate) fn mpdu_overhead(qos: bool, ccmp: bool) -> u32 {
    let header = if qos { 26 } else { 24 };
    header + 4 + 8 + if ccmp { CCMP_BYTES } else { 0 }
}

/// An MPDU's share of an A-MPDU: delimiter, and padding to four bytes.
pub(crate) fn subframe_bytes(mpdu_bytes: u32) -> u32 {
    DELIMITER_BYTES + mpdu_bytes.next_multiple_of(4)
}

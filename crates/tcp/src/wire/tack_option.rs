//! TACK's options in both codepoint profiles of the design (section 6).
//!
//! ```text
//! experimental (kind 253, 16-bit ExID [RFC 6994], told apart by length)
//!   SYN   253 4 ExID            TACK-Permitted
//!   data  253 8 ExID PKT.SEQ
//!   ACK   253 5 ExID type
//! paper [TON Fig. 8], closed networks only
//!   SYN   40 2                  TACK-Permitted
//!   ACK   41 3 type
//!   data  42 6 PKT.SEQ
//! ```

/// Which option kinds carry TACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub enum Codepoints {
    /// Kind 253 with an ExID.
    #[default]
    Experimental,
    /// Kinds 40, 41, 42, which IANA reserves.
    Paper,
}

/// Kind of an acknowledgment [TON §VI-A].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AckType {
    /// 0x01
    Tack,
    /// 0x02
    LossIack,
    /// 0x03
    WindowIack,
    /// 0x04
    FrequencyIack,
    /// 0x05, reserved for RTT updates.
    RttIack,
    /// 0x06
    CeIack,
    /// A code we do not know: cumulative ACK and window still count.
    Unknown(u8),
}

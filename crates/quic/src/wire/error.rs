/// Why bytes from the network are not what they claim. Never our fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The bytes end inside of it.
    #[error("{what} is cut off")]
    Truncated {
        /// What was being read.
        what: &'static str,
    },
    /// A number that its field cannot have.
    #[error("{what} is {value}")]
    Value {
        /// Which field.
        what: &'static str,
        /// What was read.
        value: u64,
    },
    /// A frame type that is not known [RFC 9000 §12.4].
    #[error("frame type {0:#x} is not known")]
    FrameType(u64),
    /// A frame type in more bytes than it needs [RFC 9000 §12.4].
    #[error("frame type {0:#x} is not in its fewest bytes")]
    LongFrameType(u64),
    /// A transport parameter that was there before [RFC 9000 §7.4].
    #[error("transport parameter {0:#x} comes twice")]
    Twice(u64),
    /// A transport parameter that only the other side may send [RFC 9000 §18.2].
    #[error("transport parameter {0:#x} comes from a client")]
    ServerOnly(u64),
    /// A long header of a version that is not ours.
    #[error("version {0:#010x} is not known")]
    Version(u32),
    /// The fixed bit is 0: this is not QUIC.
    #[error("the fixed bit is 0")]
    FixedBit,
}

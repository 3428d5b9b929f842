//! What is wrong with a packet of either version of IP.

/// Why bytes are not an IP packet we read, or a packet cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IpError {
    /// Shorter than the fixed header.
    #[error("{have} bytes, but the header has {need}")]
    Truncated {
        /// Bytes of the fixed header.
        need: usize,
        /// Bytes there.
        have: usize,
    },
    /// Neither 4 nor 6, or not the one asked for.
    #[error("IP version {version}")]
    Version {
        /// The version found.
        version: u8,
    },
    /// The header length is below the fixed header or past the total length.
    #[error("header of {header} bytes in a packet of {total}")]
    HeaderLength {
        /// Bytes of header claimed.
        header: usize,
        /// Bytes of packet claimed.
        total: usize,
    },
    /// The total length is more than the bytes there: the packet was cut short.
    #[error("total length {total}, but {have} bytes are there")]
    TotalLength {
        /// Bytes claimed.
        total: usize,
        /// Bytes there.
        have: usize,
    },
    /// The header checksum is wrong.
    #[error("header checksum {found:#06x} is wrong")]
    Checksum {
        /// The field as found.
        found: u16,
    },
    /// A fragment. We send with path MTU discovery and reassemble nothing: fragments are an
    /// attacker's way to make a receiver hold memory.
    #[error("a fragment at offset {offset}, {}", if *more { "more follow" } else { "the last" })]
    Fragment {
        /// Its offset in bytes.
        offset: u16,
        /// More fragments follow.
        more: bool,
    },
    /// More extension headers than any honest packet has.
    #[error("more than {limit} extension headers")]
    TooManyExtensions {
        /// The bound.
        limit: usize,
    },
    /// An extension header that runs past the end, is out of place, or source-routes.
    #[error("extension header {kind} is malformed, misplaced or refused")]
    Extension {
        /// Its protocol number.
        kind: u8,
    },
    /// What is to be sent does not fit a packet.
    #[error("{payload} bytes do not fit an IP packet (at most {limit})")]
    TooLong {
        /// Bytes to be sent.
        payload: usize,
        /// Most bytes behind the header.
        limit: usize,
    },
}

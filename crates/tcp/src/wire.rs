//! Segments as bytes: parse, don't validate twice; emit without allocating.

pub mod body;
pub mod checksum;
pub mod compact;
pub mod header;
pub mod icmp;
pub mod ip;
pub mod ipv4;
pub mod ipv6;
pub mod options;
pub mod pieces;
pub mod series;
pub mod tack_option;

pub use compact::{CompactHeader, Form};
pub use header::{Flags, Header, ParseError, Segment};
pub use options::{Options, SackBlocks, Timestamps};
pub use series::Series;
pub use tack_option::{AckType, Codepoints};

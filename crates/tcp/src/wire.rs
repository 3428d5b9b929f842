//! Segments as bytes: parse, don't validate twice; emit without allocating.

pub mod body;
pub mod checksum;
pub mod compact;
pub mod header;
pub mod icmp;
pub mod ip;
mod ip_error;
pub mod ipv4;
pub mod ipv6;
pub mod options;
pub mod pieces;
pub mod series;
pub mod tack_option;
mod words;

pub use compact::CompactHeader;
pub use header::{Flags, Form, Header, ParseError, Segment};
pub use options::{Options, SackBlocks, Timestamps};
pub use series::Series;
pub use tack_option::{AckType, Codepoints};

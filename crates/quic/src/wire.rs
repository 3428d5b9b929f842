//! What travels in QUIC versions 1 and 2, and the frames of TACK: bytes to values and back.
//!
//! Parsers take bytes of strangers: each says what is wrong, none panics, and what they build is
//! bounded by the bytes they were given.

mod ack;
mod error;
mod frame;
mod head;
mod header;
mod hello;
mod parameters;
mod read;
mod report;
mod sender;
mod versions;
mod whole;

pub use ack::{Ack, EcnCounts};
pub use error::ParseError;
pub use frame::{Close, Frame};
pub(crate) use head::{Form, Head};
pub(crate) use header::MAX_CID_LEN;
pub use header::{ConnectionId, Header, LongKind, PacketNumber, Protected, Version};
pub(crate) use hello::Hello;
pub use parameters::{Parameters, TACK_VERSION};
pub(crate) use read::varint_len;
pub use read::{MAX_VARINT, Reader, put_varint};
pub use report::{Loss, Report, emit_frequency, parse_frequency};
pub use sender::Sender;
pub use versions::VersionInformation;
pub use whole::{invariant_cids, put_retry, put_version_negotiation};

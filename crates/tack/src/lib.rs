//! The TACK acknowledgment mechanism, independent of TCP, sockets and clocks.

pub mod equations;
mod feedback;
mod params;
mod pkt_seq;
mod ranges;
mod receiver;
mod sender;

pub use feedback::{Acked, Frequency, Iack, IackReason, Regime, Tack, Timing};
pub use params::{Params, RbbPolicy};
pub use pkt_seq::PktSeq;
pub use ranges::Ranges;
pub use receiver::{Arrival, Buffer, Feedback, Receiver};
pub use sender::{Outstanding, Sender, Timeout};

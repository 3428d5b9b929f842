//! A user-space, sans-IO TCP that speaks TACK and falls back to plain TCP.

pub mod delayed_ack;
pub mod recovery;
pub mod seq;
pub mod wire;

//! Two-ended link models: 802.11 airtime and wired paths.
//!
//! Every model is a plain machine: packets and a time go in, deliveries and the next event come
//! out. The same model runs under a virtual clock (tack-sim) and a real one (the emulator).

pub mod link;
pub mod wired;
pub mod wlan;

pub use link::{End, HostId, Link, Output, Packet, PacketKind};

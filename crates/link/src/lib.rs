//! Two-ended link models: 802.11 airtime and wired paths.
//!
//! Every model is a plain machine: packets and a time go in, deliveries and the next event come
//! out. The same model runs under a virtual clock (tack-sim) and a real one (the emulator).

mod counters;
mod draw;
mod error;
mod flow_hash;
mod ip;
pub mod link;
pub mod loss;
pub mod open_loop;
pub mod path;
pub mod queue;
pub mod tap;
pub mod trace;
pub mod wired;
pub mod wlan;

pub use link::{End, HostId, Link, Output, Packet, PacketKind};

//! Deterministic simulator: real tack-tcp hosts over tack-link under a virtual clock.
//!
//! Two layers. [`World`] moves packets and time between hosts and links of any kind and knows
//! nothing of TCP. [`Simulation`] fills it with real stacks that exchange their real bytes, and
//! with applications that check every byte they read.
//!
//! Everything random comes from one [`Seed`], and simultaneous events happen in the order in which
//! they were asked for: the same settings give the same run, byte for byte, which
//! [`Totals::fingerprint`] tells at a glance.

mod app;
mod delays;
mod endpoint;
mod events;
mod flow;
mod guest;
mod guests;
mod late;
mod node;
mod open_loop;
mod record;
mod report;
mod seed;
mod side;
mod simulation;
mod stall;
mod topology;
mod video;
mod world;

pub use app::App;
pub use delays::Delays;
pub use endpoint::{Endpoint, Outgoing, Spare};
pub use flow::{FlowConfig, FlowId, Transport};
pub use guest::{Guest, GuestFlow};
pub use late::Late;
pub use node::{MAX_FLOWS, Node, address};
pub use open_loop::{AckRule, Blast, DEFAULT_ACK_IP_BYTES, Received};
pub use record::{CAPACITY, FlowSample, Series};
pub use report::{GuestInfo, SideReport, Traffic};
pub use seed::Seed;
pub use side::Stream;
pub use simulation::Simulation;
pub use stall::{Stall, Stillness};
pub use topology::{LinkId, Site};
pub use video::{Arrival, Cast, Frame, Video};
pub use world::{Totals, World};

pub use tack_tcp::AckStrategy;
pub use tack_tcp::recovery::LossDetection;

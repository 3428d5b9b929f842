//! What each fuzz target does with its bytes: plain functions that panic when a promise breaks.
//!
//! libFuzzer calls them from `fuzz_targets/`; an ordinary test of `tack-tcp` calls the same ones
//! with seeded random bytes and with mutations of valid input, on a stable compiler. Each says
//! whether its input was well-formed, so that the test can tell that something was tested.

mod conversation;
pub mod corpus;
mod input;
mod islands;
mod packets;
mod peers;
mod recovery;
pub mod target;
mod wire;

pub use conversation::conversation;
pub use islands::islands;
pub use packets::packets;
pub use peers::peers;
pub use recovery::recovery;
pub use target::Target;
pub use wire::{iack_body, icmp, ip_packet, options, segment, tack_body};

/// Every target there is.
pub const TARGETS: &[Target] = &[
    Target { name: "segment", run: segment, valid: corpus::segment, cost: 1 },
    Target { name: "options", run: options, valid: corpus::options, cost: 1 },
    Target { name: "tack_body", run: tack_body, valid: corpus::tack_body, cost: 1 },
    Target { name: "iack_body", run: iack_body, valid: corpus::iack_body, cost: 1 },
    Target { name: "ip_packet", run: ip_packet, valid: corpus::ip_packet, cost: 1 },
    Target { name: "icmp", run: icmp, valid: corpus::icmp, cost: 1 },
    Target { name: "packets", run: packets, valid: corpus::packets, cost: 20 },
    Target { name: "peers", run: peers, valid: corpus::peers, cost: 20 },
    Target { name: "recovery", run: recovery, valid: corpus::noise, cost: 2 },
    Target { name: "conversation", run: conversation, valid: corpus::script, cost: 100 },
    Target { name: "islands", run: islands, valid: corpus::islands, cost: 1_000 },
];

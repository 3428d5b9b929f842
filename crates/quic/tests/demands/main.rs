//! What RFC 9000 and 9001 demand of an endpoint, held by a peer that breaks it on purpose. The list of
//! demands is `docs/quic-requirements.md`, whose tests are looked for here.

mod early;
mod floods;
mod frames;
mod ids;
mod keys;
mod listed;
mod met;
mod moves;
mod packets;
mod parameters;
mod puppet;
mod recovery;
mod streams;
#[allow(unreachable_pub, reason = "shared with the conversations, by its path")]
#[path = "../conversation/tls.rs"]
mod tls;
mod uses;

//! The mechanism as a whole: both halves over a simulated path, hostile peers, the papers' cases.

mod conversation;
mod eq4;
mod hostile;
mod rate;
mod repair;
mod rng;
mod rtt_min;
mod toy_quic;
mod world;

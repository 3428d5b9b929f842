//! Real programs against each other over the same path: each run starts a rival's server and client in
//! two namespaces, counts what passes between them, and reads what they used and what the client says.
//!
//! A rival is a file ([`rival::Rival`]); what it is asked for are the scenario's flows ([`load::Asked`]);
//! the path is the scenario's, emulated in real time, or a veth pair with `veth = true`.

mod ends;
pub mod load;
pub mod order;
pub mod rival;
mod run;
mod usage;

pub use run::{Faced, places, run};

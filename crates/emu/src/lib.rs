//! Link models in real time: two network namespaces joined by one.
//!
//! ```text
//!  namespace "client"                  this process                  namespace "server"
//!  sockets - kernel - TUN ->  relay: offer to the link   <- TUN - kernel - sockets
//!                         <-  release when it is due     ->
//! ```
//!
//! The model runs in virtual time, which is exact: contention on the air is settled in steps of
//! microseconds that no sleeping thread could keep. Only the moments at which packets leave are
//! enforced by the clock. What the thread wakes late for leaves late, in its order; the model's own
//! time does not shift, and every packet's lateness is recorded.
//!
//! * [`Realtime`]: a link released by a clock; sans-IO.
//! * [`Lateness`] and [`LatenessBound`]: how late real time made us, and when a run is worthless.
//! * [`Emulation`]: namespaces, devices, routes and the thread between them (Linux).
//! * [`Cable`]: the same namespaces with a veth pair between them.

#[cfg(target_os = "linux")]
mod cable;
#[cfg(target_os = "linux")]
mod capture;
#[cfg(target_os = "linux")]
mod emulation;
mod lateness;
mod packet;
mod passed;
mod realtime;
#[cfg(target_os = "linux")]
mod relay;
mod report;

#[cfg(target_os = "linux")]
pub use cable::{Cable, Sent};
#[cfg(target_os = "linux")]
pub use emulation::{Emulation, EmulationConfig, EmulationError, INTERFACE, ipv4, ipv6};
pub use lateness::{Lateness, LatenessBound};
pub use packet::{Classify, tcp_kind};
pub use passed::{Passed, Tally};
pub use realtime::Realtime;
pub use report::{Report, Void};

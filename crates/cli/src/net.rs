//! The commands' connections over [`tack_net`]: encrypted unless the user said otherwise, over TCP-TACK
//! or QUIC. Who is believed and who may come in is decided here, once for both.
//!
//! ```text
//! way      which way packets go, as the user says it      origin   from where
//! carrier  the endpoint that is opened for a way          conn     one connection
//! dial     opens them, at the address that answers first   accept   takes them in
//! sockets  from which it does                            whom     a host, and where it was
//! network  which one this machine is in             other_way   what a silent server speaks
//! ```

mod accept;
mod carrier;
mod conn;
mod dial;
mod network;
mod origin;
mod other_way;
mod own_address;
mod refusals;
mod sockets;
mod way;
mod whom;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use crate::stop::Stop;
use carrier::Carrier;

pub use accept::NetAccept;
pub use conn::{NetConn, Sight, Watch};
pub use dial::NetDial;
pub use network::{Network, source_towards, unhurried};
pub use origin::{Family, Origin};
pub use own_address::{OwnAddress, OwnAddressError};
pub use refusals::Refusals;
pub use way::Way;
pub use whom::Whom;

/// How long to wait, at the end, for the peer to acknowledge our last bytes.
const LINGER: Duration = Duration::from_secs(5);

async fn settle(carrier: &Carrier, stop: &Stop) {
    // Who does not acknowledge it by then is left alone.
    let _ = stop.or_soon(LINGER, carrier.wait_idle()).await;
}

/// Any address of this machine.
pub fn unspecified(v6: bool) -> IpAddr {
    if v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() }
}

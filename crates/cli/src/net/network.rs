//! Whether this machine is still in the network that it was in.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use socket2::{Domain, Socket, Type};
use tokio::time::{Interval, MissedTickBehavior, interval};

/// A machine that slept for longer cannot rely on what it had.
const NAP: Duration = Duration::from_secs(5);

/// How this machine reaches a peer, looked at now and then: nothing tells when it changes.
#[derive(Debug)]
pub struct Network {
    /// It.
    pub peer: SocketAddr,
    /// The address that packets to it leave from.
    source: Option<IpAddr>,
    slept: Duration,
    looks: Interval,
}

impl Network {
    /// As it is now, to be looked at so often.
    pub fn now(peer: SocketAddr, every: Duration) -> Network {
        let source = source_towards(peer);
        Network { peer, source, slept: asleep(), looks: unhurried(every) }
    }

    /// Waits until this machine has another address towards the peer, or has slept; which.
    ///
    /// Cancel safe.
    pub async fn changed(&mut self) -> &'static str {
        loop {
            self.looks.tick().await;
            let slept = asleep();
            if slept.saturating_sub(std::mem::replace(&mut self.slept, slept)) > NAP {
                return "this machine has slept";
            }
            let source = source_towards(self.peer);
            // Without any network there is nothing to connect by.
            if source.is_some() && source != std::mem::replace(&mut self.source, source) {
                return "the network changed";
            }
        }
    }
}

/// Ticks at once and then so often; one that comes late delays the others.
pub fn unhurried(every: Duration) -> Interval {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// The address that packets to `peer` leave from; nothing is sent.
pub fn source_towards(peer: SocketAddr) -> Option<IpAddr> {
    let socket = Socket::new(Domain::for_address(peer), Type::DGRAM, None).ok()?;
    socket.connect(&peer.into()).ok()?;
    Some(socket.local_addr().ok()?.as_socket()?.ip())
}

/// How long this machine has been asleep since it was started.
fn asleep() -> Duration {
    let read = |clock| {
        let at = clock_gettime(clock);
        let (seconds, nanos) = (u64::try_from(at.tv_sec), u32::try_from(at.tv_nsec));
        Duration::new(seconds.unwrap_or(0), nanos.unwrap_or(0))
    };
    read(ClockId::Boottime).saturating_sub(read(ClockId::Monotonic))
}

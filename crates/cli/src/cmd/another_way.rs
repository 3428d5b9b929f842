//! A second connection, for when the first stands still.
//!
//! A network that changed says so only sometimes: an address that is gone, a NAT that forgot us or a
//! path that lost its way are silence. So, as soon as nothing has been heard for a moment, others are
//! dialled beside it, each from a socket and over a route of its own. Whichever is there first goes on;
//! if the old one is heard again before, they are let go of.

use std::future::pending;
use std::time::Duration;

use tack_net::{Keepalive, StreamWatch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

/// Silence beyond a round trip that a path in order does not have: probes ask more often.
const STILL: Duration = Duration::from_secs(1);

/// How often to look, and how far apart attempts begin.
const LOOK: Duration = Duration::from_millis(100);
const APART: Duration = Duration::from_millis(500);

/// How long one may take, which bounds how many there are: a SYN is repeated ever more rarely, and
/// a path that is back should be found at once.
const ATTEMPT_LIMIT: Duration = Duration::from_secs(10);

/// Lets a side that has nothing to say hear from the other, and so from its network.
pub const PROBES: Keepalive = Keepalive {
    idle: Duration::from_millis(500),
    interval: Duration::from_millis(500),
    probes: 240,
};

/// Waits until the stream has stood still and one of the connections that `dial` makes is there.
/// The stream is ended then.
///
/// Cancel safe.
pub async fn another_way<T, E, F>(watch: &StreamWatch, dial: impl Fn() -> F) -> T
where
    F: Future<Output = Result<T, E>> + Send + 'static,
    T: Send + 'static,
    E: Send + 'static,
{
    let mut attempts = JoinSet::new();
    let (mut heard, mut since, mut next) = (None, Instant::now(), Instant::now());
    loop {
        let made = tokio::select! {
            Some(made) = attempts.join_next() => made.ok().and_then(Result::ok).and_then(Result::ok),
            () = sleep(LOOK) => None,
        };
        let Some(info) = watch.info() else { return pending().await };
        if heard.replace(info.counters.segments_received) != Some(info.counters.segments_received) {
            since = Instant::now();
            attempts = JoinSet::new();
            continue;
        }
        if let Some(made) = made {
            tracing::info!("another connection is there, and this one stands still");
            watch.abort();
            return made;
        }
        let now = Instant::now();
        if now >= since + STILL + info.srtt.unwrap_or_default() && now >= next {
            attempts.spawn(timeout(ATTEMPT_LIMIT, dial()));
            next = now + APART;
        }
    }
}

//! A second connection, for when the first stands still.
//!
//! A network that changed says so only sometimes: an address that is gone, a NAT that forgot us or a
//! path that lost its way are silence. So, as soon as nothing has been heard for a moment, others are
//! dialled beside it, each from a socket and over a route of its own. Whichever is there first goes on;
//! if the old one is heard again before, they are let go of.
//!
//! A peer may also be heard and yet get nowhere: where a damaged number passed for a right one, one side
//! takes for delivered what the other waits for, and neither ever gives in.

use std::future::pending;
use std::net::SocketAddr;
use std::time::Duration;

use tack_net::Keepalive;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::net::{Network, Sight, Watch};
use crate::task::task;

/// A connection that somebody else uses, looked at from beside.
pub trait Watched {
    /// What it shows of its progress, and the round trip, if known; `None` once it was dropped.
    fn sight(&self) -> Option<(Sight, Option<Duration>)>;

    /// Ends it. Whoever uses it finds it ended.
    fn abort(&self);

    /// Where its other end is, if the way there can be looked at.
    fn peer(&self) -> Option<SocketAddr>;
}

impl Watched for Watch {
    fn sight(&self) -> Option<(Sight, Option<Duration>)> {
        Watch::sight(self)
    }

    fn abort(&self) {
        Watch::abort(self);
    }

    fn peer(&self) -> Option<SocketAddr> {
        Some(self.peer)
    }
}

/// Silence beyond a round trip that a path in order does not have: probes ask more often.
const STILL: Duration = Duration::from_secs(1);

/// The same while the peer owes acknowledgments, which came at every look until then. Where they come more
/// seldom, on a slow path, it takes [`STILL`].
const QUIET: Duration = Duration::from_millis(500);

/// How many times as long as signs of life were apart there has to be silence.
const PATIENT: u32 = 4;

/// Looks at a peer that is heard until a pause of it counts for little more than a third.
const MEMORY: u32 = 32;

/// Bytes in flight of which none is acknowledged for so long, and a hole that is not filled, are not
/// repaired any more: retransmissions take a few round trips.
const STUCK: Duration = Duration::from_secs(3);

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
/// The stream is ended then. Without a stream to watch, they are dialled at once.
///
/// Cancel safe.
///
/// # Errors
/// A failure after which no other attempt `is_of_use`.
pub async fn another_way<T, E, F>(
    watch: Option<&impl Watched>,
    dial: impl Fn() -> F,
    mut is_of_use: impl FnMut(&E) -> bool,
) -> Result<T, E>
where
    F: Future<Output = Result<T, E>> + Send + 'static,
    T: Send + 'static,
    E: Send + 'static,
{
    let (mut attempts, mut pulse, mut next) = (JoinSet::new(), None, Instant::now());
    let mut network = watch.and_then(Watched::peer).map(|peer| Network::now(peer, LOOK));
    let mut moved = None;
    loop {
        if watch.is_none() && Instant::now() >= next {
            attempts.spawn(task(timeout(ATTEMPT_LIMIT, dial())));
            next = Instant::now() + APART;
        }
        let made = tokio::select! {
            Some(made) = attempts.join_next() => made.ok().and_then(Result::ok),
            Some(how) = changed(&mut network) => {
                tracing::info!(how, "what is heard from here on tells whether that matters");
                moved = Some(Instant::now());
                None
            }
            () = sleep(LOOK) => None,
        };
        if let Some(watch) = watch {
            let Some((sight, srtt)) = watch.sight() else { return pending().await };
            let (now, wait) = (Instant::now(), srtt.unwrap_or_default());
            let pulse = pulse.get_or_insert_with(|| Pulse::new(sight, now));
            pulse.moved = moved.take().or(pulse.moved);
            if !pulse.stands_still(sight, wait, now) {
                attempts = JoinSet::new();
                continue;
            }
            if now >= next {
                attempts.spawn(task(timeout(ATTEMPT_LIMIT, dial())));
                next = now + APART;
            }
        }
        match made {
            Some(Ok(made)) => {
                tracing::info!("another connection is there");
                watch.inspect(|watch| watch.abort());
                return Ok(made);
            }
            Some(Err(error)) if !is_of_use(&error) => return Err(error),
            _ => {}
        }
    }
}

/// Waits until `network` has changed, if there is one.
async fn changed(network: &mut Option<Network>) -> Option<&'static str> {
    Some(network.as_mut()?.changed().await)
}

/// Since when each sign of a path in order is missing.
#[derive(Clone, Copy, Debug)]
struct Pulse {
    last: Sight,
    heard: Instant,
    delivered: Instant,
    filled: Instant,
    /// Since when there has been something in flight.
    owing: Instant,
    /// How far apart signs of life were lately, at most; nothing is supposed of a connection that is new.
    apart: Duration,
    /// When this machine changed networks, unless what was heard later shows that it is of no importance.
    moved: Option<Instant>,
}

impl Pulse {
    fn new(sight: Sight, now: Instant) -> Pulse {
        let apart = STILL / PATIENT;
        Pulse {
            last: sight,
            heard: now,
            delivered: now,
            filled: now,
            owing: now,
            apart,
            moved: None,
        }
    }

    /// Whether the connection whose round trip is `srtt` has come to nothing.
    fn stands_still(&mut self, sight: Sight, srtt: Duration, now: Instant) -> bool {
        if sight.packets_received != self.last.packets_received {
            self.apart = (now - self.heard).max(self.apart - self.apart / MEMORY);
            self.heard = now;
            // What was under way then comes within a round trip.
            self.moved = self.moved.filter(|&at| now <= at + srtt);
        }
        if !sight.in_flight {
            self.owing = now;
        }
        // Nothing in flight is no sign: the peer may be busy, and its window shut.
        if sight.bytes_acked != self.last.bytes_acked || !sight.in_flight {
            self.delivered = now;
        }
        if sight.bytes_received != self.last.bytes_received || !sight.blocked {
            self.filled = now;
        }
        self.last = sight;
        let stuck = STUCK + 4 * srtt;
        // Probes of a peer that owes nothing are half a second apart themselves.
        let quiet = (PATIENT * self.apart).clamp(QUIET, STILL);
        now >= self.heard + STILL + srtt
            || sight.in_flight && now >= self.heard.max(self.owing) + quiet + srtt
            || self.moved.is_some_and(|at| now >= self.heard.max(at) + LOOK + srtt)
            || now >= self.delivered + stuck
            || now >= self.filled + stuck
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::sync::atomic::Ordering::Relaxed;

    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;

    /// For how many seconds `sights`, one every 100 ms, are watched until they stand still.
    fn still_after(sights: impl Fn(u64) -> Sight) -> Option<f64> {
        let start = Instant::now();
        let mut pulse = Pulse::new(sights(0), start);
        (0..600).find_map(|n| {
            let at = Duration::from_millis(100 * n);
            pulse.stands_still(sights(n), Duration::ZERO, start + at).then_some(at.as_secs_f64())
        })
    }

    #[test]
    fn silence_shows_after_a_second() {
        assert_eq!(still_after(|_| Sight::default()), Some(1.0));
    }

    /// The same of data under way all the time, whose acknowledgments come every `apart` for so many
    /// seconds: for how long there is silence then, if not while they come.
    fn quiet_for(apart: f64, seconds: f64) -> f64 {
        let heard = |n: u64| (n as f64 / 10.0).min(seconds) / apart;
        let sight = |n| {
            let packets_received = heard(n) as u64;
            let bytes_acked = packets_received;
            Sight { packets_received, bytes_acked, in_flight: true, ..Sight::default() }
        };
        let last = (seconds / apart).floor() * apart;
        still_after(sight).unwrap() - last
    }

    #[test]
    fn silence_shows_after_half_a_second_where_acknowledgments_that_are_owed_came_at_every_look() {
        for (apart, least, most) in [(0.01, 0.45, 0.65), (0.06, 0.45, 0.65), (0.19, 0.75, 1.05)] {
            let quiet = quiet_for(apart, 20.0);
            assert!((least..most).contains(&quiet), "{apart} s apart: {quiet}");
        }
        // Nobody knows yet how often they come, or it is seldom.
        for (apart, seconds) in [(0.01, 0.3), (0.3, 20.0), (0.5, 20.0), (0.9, 20.0)] {
            let quiet = quiet_for(apart, seconds);
            assert!((0.85..1.15).contains(&quiet), "{apart} s apart: {quiet}");
        }
    }

    #[test]
    fn what_is_owed_counts_from_when_it_was_sent() {
        // Acknowledgments at every look; a pause of the user's, in which probes are answered; and on it goes.
        let sight = |n| {
            let packets_received = match n {
                0..200 => n,
                200..300 => 200 + (n - 200) / 5,
                _ => n,
            };
            let in_flight = !(200..304).contains(&n);
            Sight { packets_received, bytes_acked: n, in_flight, ..Sight::default() }
        };
        assert_eq!(still_after(sight), None);
    }

    #[test]
    fn a_change_of_networks_is_silence_after_a_round_trip_unless_something_comes_later_than_that() {
        let (start, srtt) = (Instant::now(), Duration::from_millis(200));
        let ms = Duration::from_millis;
        // For how long after the change, two seconds from the start, something is heard; and a pause later on.
        for (heard_for, pause, still) in [
            (0, 0..0, Some(300)),
            (200, 0..0, Some(500)),
            (60_000, 0..0, None),
            (60_000, 5_000..5_400, None),
            (60_000, 5_000..6_000, Some(3_700)),
        ] {
            let sight = |at: u64| {
                let heard = at.min(2_000 + heard_for);
                let heard = if pause.contains(&heard) { pause.start } else { heard };
                Sight {
                    packets_received: heard,
                    bytes_acked: heard,
                    in_flight: true,
                    ..Sight::default()
                }
            };
            let mut pulse = Pulse::new(sight(0), start);
            let stands_still = |&at: &u64| {
                pulse.moved = if at == 2_000 { Some(start + ms(at)) } else { pulse.moved };
                pulse.stands_still(sight(at), srtt, start + ms(at))
            };
            let found = (0..30_000).step_by(100).find(stands_still).map(|at| at - 2_000);
            assert_eq!(found, still, "heard for {heard_for} ms, silent in {pause:?}");
        }
    }

    #[test]
    fn a_peer_that_is_heard_and_acknowledges_nothing_stands_still_after_three_seconds() {
        let heard = |n| Sight { packets_received: n, ..Sight::default() };
        assert_eq!(still_after(|n| Sight { in_flight: true, ..heard(n) }), Some(3.0));
        assert_eq!(still_after(|n| Sight { blocked: true, ..heard(n) }), Some(3.0));
    }

    #[test]
    fn a_slow_path_and_a_peer_that_is_busy_do_not_stand_still() {
        let heard = |n| Sight { packets_received: n, ..Sight::default() };
        // Its window is shut for a minute, and it answers probes.
        assert_eq!(still_after(heard), None);
        // A packet in two seconds, each way.
        let slow = |n| Sight {
            bytes_acked: n / 20,
            bytes_received: n / 20,
            in_flight: true,
            blocked: true,
            ..heard(n)
        };
        assert_eq!(still_after(slow), None);
    }

    /// A connection that was last heard then, and whether it was ended.
    struct Line {
        round_trip: Duration,
        changed: Instant,
        /// Data is sent and acknowledged all the time.
        is_busy: bool,
        is_ended: AtomicBool,
    }

    impl Watched for Line {
        fn sight(&self) -> Option<(Sight, Option<Duration>)> {
            // Probes have it heard twice a second.
            let begun = self.changed - Duration::from_secs(60);
            let (heard, every) =
                (Instant::now().min(self.changed), if self.is_busy { 20 } else { 500 });
            let packets_received = u64::try_from((heard - begun).as_millis() / every).unwrap();
            let bytes_acked = packets_received;
            let in_flight = self.is_busy;
            let sight = Sight { packets_received, bytes_acked, in_flight, ..Sight::default() };
            Some((sight, Some(self.round_trip)))
        }

        fn abort(&self) {
            self.is_ended.store(true, Relaxed);
        }

        fn peer(&self) -> Option<SocketAddr> {
            None
        }
    }

    /// Whenever the network changes, and however it lies to the looks and the probes.
    #[tokio::test(start_paused = true)]
    async fn another_connection_is_there_within_two_seconds_of_a_change_of_networks() {
        tokio::time::advance(Duration::from_secs(60)).await;
        let mut slowest = [Duration::ZERO; 2];
        for seed in 0..300 {
            let mut rng = Pcg64::seed_from_u64(seed);
            let mut ms = |range| Duration::from_millis(rng.random_range(range));
            let (round_trip, until) = (ms(1..200), ms(0..10_000));
            let is_busy = seed % 2 == 0;
            let changed = Instant::now() + until;
            let line = Line { round_trip, changed, is_busy, is_ended: AtomicBool::new(false) };
            // A handshake of two round trips, by the old network nowhere.
            let dial = move || async move {
                if Instant::now() < changed {
                    return pending().await;
                }
                sleep(2 * round_trip).await;
                Ok::<_, ()>(Instant::now())
            };
            let there = another_way(Some(&line), dial, |()| true).await.unwrap();
            assert!(line.is_ended.load(Relaxed), "seed {seed}: the old one lingers");
            assert!(there >= changed, "seed {seed}");
            // Such a one was busy for long enough to be known as such.
            let slowest = &mut slowest[usize::from(is_busy && until >= Duration::from_secs(5))];
            *slowest = (there - changed).max(*slowest);
        }
        let most = [2_000, 1_300].map(Duration::from_millis);
        assert!(slowest[0] <= most[0] && slowest[1] <= most[1], "{slowest:?}");
    }

    /// It may be back itself before another one is there.
    #[tokio::test(start_paused = true)]
    async fn a_connection_that_is_heard_again_is_kept() {
        let begun = Instant::now();
        struct Back(Instant, AtomicBool);
        impl Watched for Back {
            fn sight(&self) -> Option<(Sight, Option<Duration>)> {
                let quiet = Duration::from_millis(500)..Duration::from_millis(1_700);
                let now = self.0.elapsed();
                let heard = if quiet.contains(&now) { quiet.start } else { now };
                let packets_received = u64::try_from(heard.as_millis()).unwrap();
                Some((Sight { packets_received, ..Sight::default() }, None))
            }

            fn abort(&self) {
                self.1.store(true, Relaxed);
            }

            fn peer(&self) -> Option<SocketAddr> {
                None
            }
        }
        let line = Back(begun, AtomicBool::new(false));
        let dial = || async {
            sleep(Duration::from_millis(900)).await;
            Ok::<_, ()>(())
        };
        let waiting = another_way(Some(&line), dial, |()| true);
        assert!(timeout(Duration::from_secs(60), waiting).await.is_err());
        assert!(!line.1.load(Relaxed));
    }
}

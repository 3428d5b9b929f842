//! How many connections to the server to keep ready, and when to open more.
//!
//! Connections stand ready so that a stream needs no handshake. As many are kept as were lately
//! taken within a second, since programs ask for several at once: a page's, say. What is asked for
//! beyond them waits for connections of its own. After an attempt that failed, or a connection that
//! ended before anybody used it, there is a pause, which doubles until one is used; whoever waits
//! hears of the failure at once.

use std::collections::VecDeque;
use std::time::Duration;

use tack_units::{Instant, WindowedMax};

/// Fewest connections kept ready.
pub const LEAST_SPARES: usize = 4;
/// Most connections kept ready.
pub const MOST_SPARES: usize = 64;
/// Most attempts at once. Each takes three round trips, so that over a path of 80 ms as many as these in a quarter
/// of a second are what streams that are opened one after the other get.
pub const MOST_ATTEMPTS: usize = 64;

/// How long a burst of demand is remembered.
const MEMORY: Duration = Duration::from_secs(60);
/// What counts as one burst.
const BURST: Duration = Duration::from_secs(1);
/// A stream that has just got a connection begins before another handshake takes the processor.
const COURTESY: Duration = Duration::from_millis(5);
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// Spare connections `S`, and who waits for one, `W`.
#[derive(Debug)]
pub struct Pool<S, W> {
    spares: Vec<S>,
    waiting: VecDeque<W>,
    attempts: usize,
    /// Greatest number asked for within [`BURST`].
    demand: WindowedMax<u64>,
    burst_started: Instant,
    burst: u64,
    /// When a connection was last asked for.
    asked: Option<Instant>,
    /// No attempt before then, after one that failed.
    not_before: Option<Instant>,
    pause: Duration,
}

/// What a pool asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Open one more connection, and tell [`Pool::opened`] or [`Pool::failed`].
    Open,
    /// Nothing until something happens, or this time.
    Wait(Option<Instant>),
}

impl<S, W> Pool<S, W> {
    /// Without a connection.
    pub fn new(now: Instant) -> Pool<S, W> {
        Pool {
            spares: Vec::new(),
            waiting: VecDeque::new(),
            attempts: 0,
            demand: WindowedMax::new(MEMORY.as_nanos() as u64),
            burst_started: now,
            burst: 0,
            asked: None,
            not_before: None,
            pause: FIRST_PAUSE,
        }
    }

    /// `who` asks for a connection: gets the latest of those that are ready, or waits.
    pub fn ask(&mut self, who: W, now: Instant) -> Option<(W, S)> {
        if now - self.burst_started >= BURST {
            (self.burst_started, self.burst) = (now, 0);
        }
        self.burst += 1;
        self.asked = Some(now);
        self.demand.update(now.as_nanos(), self.burst);
        match self.spares.pop() {
            Some(spare) => {
                self.pause = FIRST_PAUSE;
                Some((who, spare))
            }
            None => {
                self.waiting.push_back(who);
                None
            }
        }
    }

    /// An attempt succeeded. Who gets the connection, if somebody waits.
    pub fn opened(&mut self, spare: S) -> Option<(W, S)> {
        self.attempts = self.attempts.saturating_sub(1);
        self.not_before = None;
        match self.waiting.pop_front() {
            Some(who) => {
                self.pause = FIRST_PAUSE;
                Some((who, spare))
            }
            None => {
                self.spares.push(spare);
                None
            }
        }
    }

    /// An attempt failed. Those who wait hear of it: all of them.
    pub fn failed(&mut self, now: Instant) -> Vec<W> {
        self.attempts = self.attempts.saturating_sub(1);
        self.hesitate(now);
        self.waiting.drain(..).collect()
    }

    /// Spares that `is_gone` says so of are no more: a server that is full ends them at once, and
    /// is not to be asked again without end.
    pub fn lost(&mut self, is_gone: impl Fn(&S) -> bool, now: Instant) {
        let before = self.spares.len();
        self.spares.retain(|spare| !is_gone(spare));
        if self.spares.len() < before {
            self.hesitate(now);
        }
    }

    /// What began together fails together; that is one failure.
    fn hesitate(&mut self, now: Instant) {
        if self.not_before.is_none_or(|at| at <= now) {
            self.not_before = Some(now + self.pause);
            self.pause = (2 * self.pause).min(LONGEST_PAUSE);
        }
    }

    /// The network is another one: no spare and no attempt is of use, and a new one may succeed at
    /// once. The caller gives up the attempts under way.
    pub fn start_again(&mut self) -> Vec<S> {
        (self.not_before, self.pause, self.attempts) = (None, FIRST_PAUSE, 0);
        std::mem::take(&mut self.spares)
    }

    /// What to do now. Ask again until it says to wait.
    pub fn poll(&mut self, now: Instant) -> Action {
        let target = self.target(now);
        let wanted = self.waiting.len() + target;
        let have = self.spares.len() + self.attempts;
        if have >= wanted || self.attempts >= MOST_ATTEMPTS {
            return Action::Wait(None);
        }
        if let Some(at) = self.asked.map(|asked| asked + COURTESY)
            && at > now
            && self.waiting.is_empty()
            && self.spares.len() >= target / 2
        {
            return Action::Wait(Some(at));
        }
        match self.not_before {
            Some(at) if at > now => Action::Wait(Some(at)),
            _ => {
                self.attempts += 1;
                Action::Open
            }
        }
    }

    /// Spares to be kept.
    fn target(&mut self, now: Instant) -> usize {
        let current = if now - self.burst_started < BURST { self.burst } else { 0 };
        let demand = self.demand.update(now.as_nanos(), current);
        usize::try_from(demand).unwrap_or(MOST_SPARES).clamp(LEAST_SPARES, MOST_SPARES)
    }

    /// Connections that stand ready.
    pub fn spares(&self) -> usize {
        self.spares.len()
    }

    /// Who waits.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    /// Attempts that the pool asks for now.
    fn attempts(pool: &mut Pool<u32, u32>, now: Instant) -> usize {
        std::iter::from_fn(|| (pool.poll(now) == Action::Open).then_some(())).count()
    }

    #[test]
    fn a_few_connections_stand_ready_and_more_after_a_burst_of_demand() {
        let mut pool = Pool::new(at(0));
        assert_eq!(attempts(&mut pool, at(0)), LEAST_SPARES);
        (0..4).for_each(|spare| assert_eq!(pool.opened(spare), None));
        for who in 0..10 {
            assert_eq!(pool.ask(who, at(10)).is_some(), who < 4);
        }
        // Six wait, and ten should stand ready the next time.
        assert_eq!(attempts(&mut pool, at(10)), 16);
        (0..16).for_each(|spare| assert_eq!(pool.opened(spare).is_some(), spare < 6));
        assert_eq!((pool.spares(), pool.waiting()), (10, 0));
        assert_eq!(attempts(&mut pool, at(30_000)), 0);
        // A minute later that is forgotten, and what stands ready is left there.
        pool.lost(|&spare| spare > 8, at(70_000));
        assert_eq!(attempts(&mut pool, at(70_000)), 0);
        assert_eq!(attempts(&mut pool, at(70_250)), LEAST_SPARES.saturating_sub(pool.spares()));
    }

    #[test]
    fn a_stream_begins_before_the_connection_it_took_is_replaced() {
        let mut pool = Pool::new(at(0));
        attempts(&mut pool, at(0));
        (0..4).for_each(|spare| assert_eq!(pool.opened(spare), None));
        assert!(pool.ask(1, at(100)).is_some());
        assert_eq!(pool.poll(at(100)), Action::Wait(Some(at(100) + COURTESY)));
        assert_eq!(attempts(&mut pool, at(100) + COURTESY), 1);
        // Where few are left, the next stream matters more.
        assert!(pool.ask(2, at(106)).is_some() && pool.ask(3, at(106)).is_some());
        assert_eq!(attempts(&mut pool, at(106)), 2);
    }

    #[test]
    fn a_server_that_ends_what_stands_ready_is_asked_less_and_less_until_one_is_used() {
        let mut pool: Pool<u32, u32> = Pool::new(at(0));
        let (mut now, mut rounds) = (at(0), 0);
        while now < at(60_000) {
            rounds += 1;
            for spare in 0..attempts(&mut pool, now) {
                pool.opened(spare as u32);
            }
            pool.lost(|_| true, now);
            let Action::Wait(Some(next)) = pool.poll(now) else { panic!("no pause") };
            now = next;
        }
        assert!(rounds < 12, "{rounds} rounds in a minute");
        attempts(&mut pool, now);
        pool.opened(1);
        assert!(pool.ask(1, now).is_some());
        pool.lost(|_| true, now);
        pool.opened(2);
        pool.lost(|_| true, now);
        assert_eq!(pool.poll(now), Action::Wait(Some(now + FIRST_PAUSE)));
    }

    #[test]
    fn a_server_that_is_away_is_asked_after_pauses_that_double_and_at_once_on_a_new_network() {
        let mut pool: Pool<u32, u32> = Pool::new(at(0));
        let (mut now, mut pauses) = (at(0), Vec::new());
        for _ in 0..8 {
            let begun = attempts(&mut pool, now);
            assert_eq!(begun, LEAST_SPARES);
            assert_eq!(pool.ask(1, now), None);
            let told: usize = (0..begun).map(|_| pool.failed(now).len()).sum();
            assert_eq!(told, 1, "who waits hears of it once");
            let Action::Wait(Some(next)) = pool.poll(now) else { panic!("no pause") };
            pauses.push((next - now).as_millis());
            now = next;
        }
        assert_eq!(pauses, [250, 500, 1_000, 2_000, 4_000, 8_000, 15_000, 15_000]);
        attempts(&mut pool, now);
        pool.failed(now);
        pool.start_again();
        assert_eq!(pool.poll(now), Action::Open);
    }

    #[test]
    fn in_random_operation_everybody_is_answered_once_and_bounds_hold() {
        for seed in 0..200 {
            let mut rng = Pcg64::seed_from_u64(seed);
            let mut pool: Pool<u32, u32> = Pool::new(at(0));
            let (mut now, mut next, mut under_way) = (0, 0, 0);
            let (mut waiting, mut spares) = (VecDeque::new(), Vec::new());
            for _ in 0..500 {
                now += rng.random_range(0..300);
                next += 1;
                match rng.random_range(0..5) {
                    0 | 1 => {
                        let got = pool.ask(next, at(now));
                        assert_eq!(got, spares.pop().map(|spare| (next, spare)), "seed {seed}");
                        if got.is_none() {
                            waiting.push_back(next);
                        }
                    }
                    2 if under_way > 0 => {
                        under_way -= 1;
                        let got = pool.opened(next);
                        assert_eq!(got, waiting.pop_front().map(|who| (who, next)));
                        if got.is_none() {
                            spares.push(next);
                        }
                    }
                    3 if under_way > 0 => {
                        under_way -= 1;
                        assert_eq!(pool.failed(at(now)), Vec::from(std::mem::take(&mut waiting)));
                    }
                    4 if !spares.is_empty() => {
                        let gone = spares.swap_remove(rng.random_range(0..spares.len()));
                        pool.lost(|&spare| spare == gone, at(now));
                        spares.clear();
                        spares.extend(pool.spares.iter());
                    }
                    _ => {}
                }
                while pool.poll(at(now)) == Action::Open {
                    under_way += 1;
                }
                assert!(under_way <= MOST_ATTEMPTS && spares.len() <= MOST_SPARES + MOST_ATTEMPTS);
                assert_eq!((pool.spares(), pool.waiting()), (spares.len(), waiting.len()));
                // Whoever waits has an attempt under way, or will.
                let hopeless = matches!(pool.poll(at(now)), Action::Wait(None)) && under_way == 0;
                assert!(waiting.is_empty() || !hopeless, "seed {seed}");
            }
        }
    }
}

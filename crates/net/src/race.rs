//! Which of a host's addresses answers first: all are tried, the next one while those before it are
//! silent still [RFC 8305].
//!
//! Deviation: names are resolved as the system does it, both families in one answer, so there is no
//! delay of resolution [RFC 8305 §3], and the addresses come ordered already [RFC 6724].

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tack_units::Instant;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Time that an address has before the next one is tried beside it [RFC 8305 §8].
pub const ATTEMPT_DELAY: Duration = Duration::from_millis(250);
/// Addresses of one name that are tried: whoever answers for the name chooses how many there are.
pub const MAX_ADDRESSES: usize = 8;

/// Why none of the addresses that were tried answered: each with what came of it, in the order in
/// which that was known.
#[derive(Debug)]
pub struct NoneAnswered<E>(Vec<(SocketAddr, E)>);

impl<E> NoneAnswered<E> {
    /// All of them.
    pub fn attempts(&self) -> &[(SocketAddr, E)] {
        &self.0
    }

    /// The failure of the only address.
    ///
    /// # Errors
    /// Itself, if there were more, or none.
    pub fn only(mut self) -> Result<E, Self> {
        if self.0.len() != 1 {
            return Err(self);
        }
        self.0.pop().map(|(_, error)| error).ok_or(self)
    }
}

impl<E: fmt::Display> fmt::Display for NoneAnswered<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (address, error)) in self.0.iter().enumerate() {
            let comma = if n == 0 { "" } else { ", " };
            write!(f, "{comma}{}: {error}", canonical(*address))?;
        }
        Ok(())
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for NoneAnswered<E> {}

/// The addresses in the order in which they are tried, at most [`MAX_ADDRESSES`]: families in turn,
/// beginning with that of the first, in which the resolver's order stays [RFC 8305 §4].
pub fn in_turn(found: impl IntoIterator<Item = SocketAddr>) -> Vec<SocketAddr> {
    let mut found = found.into_iter().peekable();
    let is_v4 = |address: &SocketAddr| canonical(*address).is_ipv4();
    let first = found.peek().is_some_and(is_v4);
    let (ones, others): (Vec<_>, Vec<_>) = found.partition(|address| is_v4(address) == first);
    let (mut ones, mut others) = (ones.into_iter(), others.into_iter());
    let pairs = std::iter::from_fn(|| match (ones.next(), others.next()) {
        (None, None) => None,
        pair => Some(pair),
    });
    pairs.flat_map(|(one, other)| one.into_iter().chain(other)).take(MAX_ADDRESSES).collect()
}

/// What an IPv6 socket calls IPv4 is IPv4.
fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => SocketAddr::new(ip.into(), address.port()),
        // With its zone.
        IpAddr::V6(_) => address,
    }
}

/// What `dial` makes of the first of `addresses`, tried in this order, that answers. The other
/// attempts are dropped then.
///
/// Cancel safe if `dial` is. Takes a tokio runtime with time.
///
/// # Errors
/// None did: what came of each.
///
/// # Panics
/// As `dial` does.
pub async fn first_of<T, E, F>(
    addresses: Vec<SocketAddr>,
    dial: impl Fn(SocketAddr) -> F,
) -> Result<T, NoneAnswered<E>>
where
    T: Send + 'static,
    E: Send + 'static,
    F: Future<Output = Result<T, E>> + Send + 'static,
{
    let begun = tokio::time::Instant::now();
    let now = || Instant::ZERO + begun.elapsed();
    let (mut race, mut attempts) = (Race::new(addresses), JoinSet::new());
    loop {
        let next = match race.poll(now()) {
            Step::Begin(address) => {
                let attempt = dial(address);
                attempts.spawn(async move { (address, attempt.await) });
                continue;
            }
            Step::Wait(next) => next,
            Step::Lost => return Err(NoneAnswered(race.failures)),
        };
        let pause = next.map_or(Duration::ZERO, |at| at.saturating_since(now()));
        tokio::select! {
            Some(ended) = attempts.join_next() => match ended {
                Ok((_, Ok(made))) => return Ok(made),
                Ok((address, Err(error))) => race.failed(address, error, now()),
                Err(ended) => std::panic::resume_unwind(ended.into_panic()),
            },
            () = sleep(pause), if next.is_some() => {}
        }
    }
}

/// What is to be done next.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// Try this address, too.
    Begin(SocketAddr),
    /// Wait for an attempt to end, until then if there is anything to do then.
    Wait(Option<Instant>),
    /// None is left.
    Lost,
}

/// Decides when which address is tried.
#[derive(Debug)]
struct Race<E> {
    left: std::vec::IntoIter<SocketAddr>,
    under_way: usize,
    next: Instant,
    failures: Vec<(SocketAddr, E)>,
}

impl<E> Race<E> {
    fn new(addresses: Vec<SocketAddr>) -> Race<E> {
        let left = addresses.into_iter();
        Race { left, under_way: 0, next: Instant::ZERO, failures: Vec::new() }
    }

    fn poll(&mut self, now: Instant) -> Step {
        let is_left = !self.left.as_slice().is_empty();
        if now >= self.next
            && let Some(address) = self.left.next()
        {
            (self.under_way, self.next) = (self.under_way + 1, now + ATTEMPT_DELAY);
            return Step::Begin(address);
        }
        if self.under_way == 0 && !is_left {
            return Step::Lost;
        }
        Step::Wait(is_left.then_some(self.next))
    }

    /// It need not be waited for any more: the next one's turn is now.
    fn failed(&mut self, address: SocketAddr, error: E, now: Instant) {
        self.failures.push((address, error));
        (self.under_way, self.next) = (self.under_way - 1, now);
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn families_take_turns_and_the_resolver_s_order_stays() {
        let [a, b, c, x] = ["[::1]:1", "[::2]:1", "[::3]:1", "10.0.0.1:1"].map(address);
        assert_eq!(in_turn([a, b, c, x]), [a, x, b, c]);
        assert_eq!(in_turn([x, a, b]), [x, a, b]);
        assert_eq!(in_turn([a; 20]).len(), MAX_ADDRESSES);
        assert_eq!(in_turn([]), []);
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_that_is_silent_holds_the_next_one_up_for_a_moment_only() {
        let (silent, there) = (address("[::1]:1"), address("10.0.0.1:1"));
        let begun = tokio::time::Instant::now();
        let made: Result<_, NoneAnswered<()>> = first_of(vec![silent, there], |to| async move {
            if to == silent { pending().await } else { Ok(to) }
        })
        .await;
        assert_eq!(made.unwrap(), there);
        assert_eq!(begun.elapsed(), ATTEMPT_DELAY);
    }

    #[tokio::test(start_paused = true)]
    async fn of_many_failures_all_are_told_and_none_is_waited_for() {
        let begun = tokio::time::Instant::now();
        let addresses = ["10.0.0.1:1", "[::ffff:10.0.0.2]:2"].map(address).to_vec();
        let made: Result<(), _> =
            first_of(addresses, |to| async move { Err(format!("no {}", to.port())) }).await;
        assert_eq!(made.unwrap_err().to_string(), "10.0.0.1:1: no 1, 10.0.0.2:2: no 2");
        assert_eq!(begun.elapsed(), Duration::ZERO);
        let made: Result<(), NoneAnswered<()>> = first_of(vec![], |_| pending()).await;
        assert_eq!(made.unwrap_err().attempts().len(), 0);
    }

    /// Which address wins and when, in milliseconds, found by looking at each of them: `ends` has for
    /// each after how long it answers or fails.
    fn oracle(ends: &[(u64, bool)]) -> Option<(usize, u64)> {
        let (mut begun, mut next) = (Vec::<u64>::new(), 0);
        for now in 0..10_000 {
            for (n, at) in begun.clone().into_iter().enumerate() {
                match ends[n] {
                    (after, true) if at + after == now => return Some((n, now)),
                    (after, false) if at + after == now => next = now,
                    _ => {}
                }
            }
            if now >= next && begun.len() < ends.len() {
                begun.push(now);
                next = now + 250;
            }
        }
        None
    }

    #[tokio::test(start_paused = true)]
    async fn who_wins_and_when_is_as_the_rule_says_whatever_the_addresses_do() {
        for seed in 0..300 {
            let mut rng = Pcg64::seed_from_u64(seed);
            let count = rng.random_range(1..=MAX_ADDRESSES);
            // No two ends at once, and none with a beginning: which is looked at first is open.
            let mut end = |n: usize| {
                let ms = 10 * rng.random_range(0..120) + n as u64 + 1;
                (ms, rng.random_bool(0.4))
            };
            let ends: Vec<_> = (0..count).map(&mut end).collect();
            let addresses = (0..count).map(|n| SocketAddr::new([10, 0, 0, 1].into(), n as u16));
            let begun = tokio::time::Instant::now();
            let made = first_of(addresses.collect(), |to| {
                let (n, ends) = (usize::from(to.port()), ends.clone());
                async move {
                    sleep(Duration::from_millis(ends[n].0)).await;
                    if ends[n].1 { Ok(n) } else { Err(n) }
                }
            })
            .await;
            let took = u64::try_from(begun.elapsed().as_millis()).unwrap();
            match (made, oracle(&ends)) {
                (Ok(n), wanted) => assert_eq!(Some((n, took)), wanted, "seed {seed}: {ends:?}"),
                (Err(all), None) => assert_eq!(all.attempts().len(), count, "seed {seed}"),
                (Err(_), wanted) => panic!("seed {seed}: {wanted:?} of {ends:?}"),
            }
        }
    }
}

//! What applications do with a connection, as a function of time.
//!
//! An application is reduced to one number: how many bytes it would have written by now. What the
//! bytes are is settled too: [`Pattern`], so that both ends know every byte of the stream.

use core::time::Duration;

use rand::Rng as _;
use rand_pcg::Pcg64;
use tack_units::{Instant, Rate, math};

use crate::video::Video;

/// Traffic over one TCP connection, from the host that connects to the host that listens.
#[derive(Clone, Debug, PartialEq)]
pub enum App {
    /// As fast as the connection takes it.
    Bulk {
        /// How much; `None` until the flow's stop.
        bytes: Option<u64>,
    },
    /// A request, its response, a pause, and again.
    RequestResponse {
        /// Bytes of a request, at least 1.
        request_bytes: u64,
        /// Bytes of a response, at least 1.
        response_bytes: u64,
        /// From the end of a response to the next request.
        think: Duration,
        /// How many; `None` until the flow's stop.
        count: Option<u64>,
    },
    /// Bulk for a while, silence for a while, both exponentially distributed. What the connection
    /// has not taken when a silence begins is never written.
    OnOff {
        /// Mean time of activity.
        on: Duration,
        /// Mean silence.
        off: Duration,
    },
    /// One chunk of stream bytes after the other at a constant mean rate.
    ConstantRate {
        /// In stream bytes.
        rate: Rate,
        /// Bytes written at once, at least 1.
        chunk_bytes: u64,
    },
    /// Each frame when it was captured, however many wait.
    Video(Video),
}

/// A running application at the connecting end.
#[derive(Debug)]
pub(crate) struct Client {
    app: App,
    rng: Pcg64,
    start: Instant,
    /// From here on nothing more is written.
    stop: Option<Instant>,
    stopped: bool,
    /// Bytes it would have written by the last time it was asked.
    target: u64,
    /// When the target will grow without anything arriving; `None` is never.
    next: Option<Instant>,
    state: State,
}

#[derive(Debug)]
enum State {
    Simple,
    /// Whether the phase is an active one, and its end.
    OnOff {
        active: bool,
        until: Instant,
    },
    /// Requests issued, when the last one was, and how long each response took.
    Requests {
        issued: u64,
        at: Instant,
        answered: u64,
        latencies: Vec<Duration>,
    },
}

/// Latencies kept per flow; later ones are not.
const MAX_LATENCIES: usize = 1 << 20;

impl Client {
    pub(crate) fn new(app: App, rng: Pcg64, start: Instant, stop: Option<Instant>) -> Self {
        let state = match app {
            App::OnOff { .. } => {
                // The first silence has no length: activity starts with the flow.
                State::OnOff { active: false, until: start }
            }
            App::RequestResponse { .. } => {
                State::Requests { issued: 0, at: start, answered: 0, latencies: Vec::new() }
            }
            App::Bulk { .. } | App::ConstantRate { .. } | App::Video(_) => State::Simple,
        };
        Client { app, rng, start, stop, stopped: false, target: 0, next: Some(start), state }
    }

    /// Bytes written by `now` if the connection takes everything, where it took `written` so far and
    /// `received` bytes came.
    pub(crate) fn target(&mut self, written: u64, received: u64, now: Instant) -> u64 {
        if now < self.start || self.has_stopped(now) {
            return self.target;
        }
        self.target = match self.app {
            App::Video(ref video) => {
                let frames = video.captured_by(now - self.start);
                self.next = Some(self.start + video.captured_at(frames));
                video.bytes_before(frames)
            }
            App::Bulk { bytes } => {
                self.next = None;
                bytes.unwrap_or(u64::MAX)
            }
            App::ConstantRate { rate, chunk_bytes } => {
                let chunk = chunk_bytes.max(1);
                let chunks = rate.bytes_in(now - self.start) / chunk + 1;
                let total = chunks.saturating_mul(chunk);
                self.next = rate.time_for(total).map(|d| self.start + d);
                total
            }
            App::OnOff { on, off } => {
                if self.is_on(on, off, now) {
                    u64::MAX
                } else {
                    written
                }
            }
            App::RequestResponse { request_bytes, response_bytes, think, count } => {
                let answered = received / response_bytes.max(1);
                self.requests(answered, think, count, now).saturating_mul(request_bytes.max(1))
            }
        };
        self.target
    }

    /// When to ask again though nothing arrived.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        if self.stopped {
            return None;
        }
        match (self.next, self.stop) {
            (Some(next), Some(stop)) => Some(next.min(stop)),
            (next, stop) => next.or(stop),
        }
    }

    /// Nothing more will be written than the target, ever.
    pub(crate) fn is_done(&mut self, received: u64, now: Instant) -> bool {
        let complete = match self.app {
            App::Bulk { bytes } => bytes.is_some(),
            App::RequestResponse { response_bytes, count: Some(count), .. } => {
                received >= count.saturating_mul(response_bytes.max(1))
            }
            _ => false,
        };
        complete || self.has_stopped(now)
    }

    /// Whether the flow's stop has come.
    pub(crate) fn has_stopped(&mut self, now: Instant) -> bool {
        self.stopped |= self.stop.is_some_and(|stop| stop <= now);
        self.stopped
    }

    /// How long each response took from its request, in order.
    pub(crate) fn latencies(&self) -> &[Duration] {
        match &self.state {
            State::Requests { latencies, .. } => latencies,
            _ => &[],
        }
    }

    fn is_on(&mut self, mean_on: Duration, mean_off: Duration, now: Instant) -> bool {
        let State::OnOff { active, until } = &mut self.state else {
            unreachable!("the state is made with the application");
        };
        while *until <= now {
            *active = !*active;
            let mean = if *active { mean_on } else { mean_off };
            // At least a nanosecond, or a mean of zero would never end.
            *until += exponential(&mut self.rng, mean).max(Duration::from_nanos(1));
        }
        self.next = Some(*until);
        *active
    }

    /// Requests issued by `now` when `answered` of them have their response.
    fn requests(
        &mut self,
        answered: u64,
        think: Duration,
        count: Option<u64>,
        now: Instant,
    ) -> u64 {
        let State::Requests { issued, at, answered: known, latencies } = &mut self.state else {
            unreachable!("the state is made with the application");
        };
        if *issued == 0 {
            *issued = 1;
            *at = now;
            self.next = None;
        }
        if answered > *known {
            *known = answered;
            if latencies.len() < MAX_LATENCIES {
                latencies.push(now - *at);
            }
            self.next = Some(now + think).filter(|_| count.is_none_or(|count| *issued < count));
        }
        if *known == *issued && self.next.is_some_and(|next| next <= now) {
            *issued += 1;
            *at = now;
            self.next = None;
        }
        *issued
    }
}

/// Bytes the listening end would have written after `received` bytes came.
pub(crate) fn server_target(app: &App, received: u64) -> u64 {
    match app {
        App::RequestResponse { request_bytes, response_bytes, .. } => {
            (received / (*request_bytes).max(1)).saturating_mul((*response_bytes).max(1))
        }
        _ => 0,
    }
}

fn exponential(rng: &mut Pcg64, mean: Duration) -> Duration {
    let unit = (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    Duration::from_nanos((mean.as_nanos() as f64 * -math::ln(1.0 - unit)) as u64)
}

/// A stream whose every byte is known: a block of random bytes, over and over.
///
/// The block's length is a prime number, so that data a segment, a buffer or a window off is
/// found; writing and checking cost no more than a copy and a comparison. It is short enough for the
/// processor's nearest cache.
#[derive(Debug)]
pub(crate) struct Pattern {
    block: Box<[u8]>,
}

const PATTERN_BYTES: usize = 16_381;

impl Pattern {
    pub(crate) fn new(mut rng: Pcg64) -> Self {
        let mut block = vec![0; PATTERN_BYTES];
        rng.fill_bytes(&mut block);
        Pattern { block: block.into_boxed_slice() }
    }

    /// The stream's bytes from `offset` on: at most `max`, at least one if `max` is positive.
    pub(crate) fn at(&self, offset: u64, max: u64) -> &[u8] {
        let from = (offset % PATTERN_BYTES as u64) as usize;
        let len = usize::try_from(max).unwrap_or(usize::MAX).min(PATTERN_BYTES - from);
        &self.block[from..from + len]
    }

    /// Whether `bytes` are the stream's from `offset` on.
    pub(crate) fn matches(&self, mut offset: u64, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            let expected = self.at(offset, bytes.len() as u64);
            let (head, rest) = bytes.split_at(expected.len());
            if head != expected {
                return false;
            }
            offset += head.len() as u64;
            bytes = rest;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seed;

    const MS: Duration = Duration::from_millis(1);

    fn client(app: App, stop: Option<Instant>) -> Client {
        Client::new(app, Seed(1).stream("app"), Instant::from_secs(1), stop)
    }

    /// Asks at every deadline; (time, target) whenever the target grew.
    fn run(client: &mut Client, end: Instant) -> Vec<(Instant, u64)> {
        let mut grew = Vec::new();
        while let Some(now) = client.deadline().filter(|t| *t <= end) {
            let before = grew.last().map_or(0, |g: &(Instant, u64)| g.1);
            let target = client.target(0, 0, now);
            if target > before {
                grew.push((now, target));
            }
        }
        grew
    }

    #[test]
    fn bulk_starts_on_time_and_stops_on_time() {
        let mut c = client(App::Bulk { bytes: None }, Some(Instant::from_secs(2)));
        assert_eq!(c.target(0, 0, Instant::ZERO), 0);
        assert_eq!(c.deadline(), Some(Instant::from_secs(1)));
        assert_eq!(c.target(0, 0, Instant::from_secs(1)), u64::MAX);
        assert!(!c.is_done(0, Instant::from_secs(1)));
        assert!(c.is_done(0, Instant::from_secs(2)));
    }

    #[test]
    fn constant_rate_is_exact_over_time() {
        let app = App::ConstantRate { rate: Rate::from_mbps(8), chunk_bytes: 1_000 };
        let grew = run(&mut client(app, None), Instant::from_secs(2));
        // 1 MB/s in kilobytes: one at the start, then one per millisecond.
        assert_eq!(grew.len(), 1_001);
        for (n, (at, target)) in grew.into_iter().enumerate() {
            assert_eq!(at, Instant::from_secs(1) + MS * n as u32);
            assert_eq!(target, 1_000 * (n as u64 + 1));
        }
    }

    #[test]
    fn on_off_is_active_its_share_of_the_time_and_leaves_unwritten_what_was_not_taken() {
        let mut c = client(App::OnOff { on: 100 * MS, off: 300 * MS }, None);
        let (mut since, mut active, mut written) = (Instant::from_secs(1), Duration::ZERO, 0);
        let mut was_on = false;
        for phase in 0..20_000 {
            let now = c.deadline().expect("it goes on");
            active += if was_on { now - since } else { Duration::ZERO };
            let target = c.target(written, 0, now);
            was_on = phase % 2 == 0;
            assert_eq!(target, if was_on { u64::MAX } else { written });
            (since, written) = (now, written + 1_000);
        }
        let share = active.as_secs_f64() / (since - Instant::from_secs(1)).as_secs_f64();
        assert!((share / 0.25 - 1.0).abs() < 0.05, "{share}");
    }

    #[test]
    fn a_request_follows_its_response_and_the_pause() {
        let app = App::RequestResponse {
            request_bytes: 100,
            response_bytes: 5_000,
            think: 50 * MS,
            count: Some(2),
        };
        let mut c = client(app.clone(), None);
        let at = |ms| Instant::from_millis(ms);
        assert_eq!(c.target(0, 0, at(1_000)), 100);
        assert_eq!(server_target(&app, 99), 0);
        assert_eq!(server_target(&app, 100), 5_000);
        assert_eq!(c.target(0, 4_999, at(1_080)), 100);
        assert_eq!(c.deadline(), None);
        assert_eq!(c.target(0, 5_000, at(1_090)), 100);
        assert_eq!(c.deadline(), Some(at(1_140)));
        assert_eq!(c.target(0, 5_000, at(1_140)), 200);
        assert!(!c.is_done(5_000, at(1_140)));
        assert_eq!(c.target(0, 10_000, at(1_200)), 200);
        assert!(c.is_done(10_000, at(1_200)));
        assert_eq!(c.deadline(), None);
        assert_eq!(c.latencies(), [90 * MS, 60 * MS]);
    }

    #[test]
    fn a_pattern_knows_its_bytes_and_notices_a_shift() {
        let pattern = Pattern::new(Seed(1).stream("pattern"));
        let mut stream = Vec::new();
        while stream.len() < 200_000 {
            let chunk = pattern.at(stream.len() as u64, 7_777);
            stream.extend_from_slice(chunk);
        }
        assert!(pattern.matches(0, &stream));
        assert!(pattern.matches(123, &stream[123..]));
        for shift in [1, 1_448, 65_536] {
            assert!(!pattern.matches(shift, &stream[..100]), "{shift}");
        }
        stream[150_000] ^= 1;
        assert!(!pattern.matches(0, &stream));
    }
}

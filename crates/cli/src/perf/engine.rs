//! Runs the streams of a test on one side: starts them, samples them at intervals, stops them.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, Interval as Ticks, MissedTickBehavior, interval_at, sleep_until};

use crate::conn::{Connection, Flow};
use crate::perf::PerfError;
use crate::perf::control::{Results, StreamResult};
use crate::perf::cpu::CpuMeter;
use crate::perf::params::TestParams;
use crate::perf::pump::{self, Budget, Gauge, Movement, Signal, Supply};
use crate::perf::report::{Interrupted, Interval, Span};

/// Time without a byte on any stream after which a test is given up.
const STALL_LIMIT: Duration = Duration::from_secs(60);

/// What ended a test on one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Its time was over, or all streams were through.
    Complete,
    /// The other side said that it was.
    Asked,
    /// The user of a side did.
    Interrupted(Interrupted),
}

/// The streams of one side, running.
pub struct Engine {
    params: TestParams,
    gauges: Vec<Arc<Gauge>>,
    pumps: JoinSet<std::io::Result<()>>,
    signals: watch::Sender<Signal>,
    ticks: u64,
    cpu: CpuMeter,
    /// When counting (or the warm-up) began.
    epoch: Instant,
    /// What had been counted when it began.
    base: Vec<Counted>,
    /// What had been counted at the end of the last interval, and when that was.
    last: (Instant, Vec<Counted>),
    in_warm_up: bool,
    movement: Movement,
}

#[derive(Clone, Debug, Default)]
struct Counted {
    bytes: u64,
    flow: Option<Flow>,
}

impl Counted {
    fn of(gauge: &Gauge) -> Self {
        Self { bytes: gauge.bytes(), flow: gauge.flow() }
    }

    fn retransmits(&self) -> u64 {
        self.flow.as_ref().map_or(0, |f| f.retransmits)
    }

    /// The transport's counters since `base`.
    fn flow_since(self, base: &Counted) -> Option<Flow> {
        let flow = self.flow?;
        Some(match &base.flow {
            Some(earlier) => flow.since(earlier),
            None => flow,
        })
    }
}

impl Engine {
    /// Starts all streams; each says whether this side sends on it.
    pub fn start<C: Connection>(params: &TestParams, streams: Vec<(C, bool)>) -> Self {
        let (signals, listen) = watch::channel(Signal::Tick(0));
        let block_bytes = params.block_bytes as usize;
        let budget = Budget::new(params.bytes());
        let supply = Supply { block_bytes, budget, pace: params.pace };
        let mut pumps = JoinSet::new();
        let mut gauges = Vec::new();
        for (conn, sends) in streams {
            let gauge = Arc::new(Gauge::default());
            gauges.push(Arc::clone(&gauge));
            let listen = listen.clone();
            if sends {
                pumps.spawn(pump::send(conn, supply.clone(), gauge, listen));
            } else {
                pumps.spawn(pump::receive(conn, block_bytes, gauge, listen));
            }
        }
        let now = Instant::now();
        let movement = Movement::of(&gauges);
        let base = vec![Counted::default(); gauges.len()];
        Self {
            in_warm_up: params.omit_seconds > 0.0,
            params: params.clone(),
            gauges,
            pumps,
            signals,
            ticks: 0,
            cpu: CpuMeter::start(),
            epoch: now,
            last: (now, base.clone()),
            base,
            movement,
        }
    }

    /// Runs until `ended` says so, until `duration` has been counted or, in a test by bytes, until
    /// all streams are through. Hands each interval to `observe`. Returns what ended it.
    ///
    /// # Errors
    /// A stream or `ended` failed, or nothing moved for a minute.
    pub async fn run(
        &mut self,
        interval: Option<Duration>,
        duration: Option<Duration>,
        ended: impl Future<Output = Result<Ended, PerfError>>,
        mut observe: impl FnMut(Interval),
    ) -> Result<Ended, PerfError> {
        let mut ended = std::pin::pin!(ended);
        let mut said = Ended::Complete;
        let interval_or_limit = interval.unwrap_or(STALL_LIMIT);
        let mut reports = reports(self.epoch, interval_or_limit);
        loop {
            let warm_up_ends = self.epoch + self.params.omit();
            let deadline = self.epoch + duration.unwrap_or_default();
            tokio::select! {
                // What is due at once is in this order: no report of the nothing between a report and the end.
                biased;
                end = &mut ended, if said == Ended::Complete => {
                    said = end?;
                    // What is asked for in time may still be on its way.
                    if said != Ended::Asked || self.params.bytes().is_none() {
                        break;
                    }
                }
                Some(pump) = self.pumps.join_next() => {
                    let pump = pump.map_err(std::io::Error::other).flatten();
                    pump.map_err(PerfError::connection("a stream broke"))?;
                    if self.pumps.is_empty() && self.params.bytes().is_some() {
                        break;
                    }
                }
                () = sleep_until(warm_up_ends), if self.in_warm_up => {
                    self.tick().await;
                    if interval.is_some() {
                        self.close_interval(&mut observe);
                    }
                    self.begin_counting();
                    reports = self::reports(self.epoch, interval_or_limit);
                }
                () = sleep_until(deadline), if duration.is_some() && !self.in_warm_up => break,
                _ = reports.tick() => {
                    self.tick().await;
                    if interval.is_some() {
                        self.close_interval(&mut observe);
                    }
                    self.check_progress()?;
                }
            }
        }
        self.tick().await;
        // A short rest is worth a report only if something moved in it.
        let moved = self.counted().iter().zip(&self.last.1).any(|(n, l)| n.bytes > l.bytes);
        let is_long = interval.is_some_and(|every| self.last.0.elapsed() * 2 > every);
        // Without reports on the way there is one of the whole, whose extremes are the test's.
        let is_whole = interval.is_none() && !self.in_warm_up;
        if is_whole || interval.is_some() && (moved || is_long) {
            self.close_interval(&mut observe);
        }
        if self.in_warm_up {
            // Nothing of it counts.
            self.begin_counting();
        }
        Ok(said)
    }

    /// Tells whether its streams move, beside [`Engine::run`].
    pub fn movement(&self) -> Movement {
        self.movement.clone()
    }

    /// What has been counted since the warm-up.
    pub fn results(&self) -> Results {
        let seconds = self.epoch.elapsed().as_secs_f64();
        let streams = self.counted().into_iter().zip(&self.base).map(|(now, base)| StreamResult {
            bytes: now.bytes - base.bytes,
            seconds,
            flow: now.flow_since(base),
        });
        Results { streams: streams.collect(), cpu: self.cpu.read() }
    }

    /// Stops the streams and waits for them to close, for so long at most; those that have not by
    /// then are cut off. Their errors no longer matter.
    pub async fn stop(mut self, limit: Duration) {
        self.signals.send_replace(Signal::Stop(Instant::now() + limit));
        while self.pumps.join_next().await.is_some() {}
    }

    /// Lets every stream publish its counters.
    async fn tick(&mut self) {
        self.ticks += 1;
        self.signals.send_replace(Signal::Tick(self.ticks));
        // On this one thread, the streams that were woken run before we do again.
        yield_now().await;
    }

    fn counted(&self) -> Vec<Counted> {
        self.gauges.iter().map(|gauge| Counted::of(gauge)).collect()
    }

    fn close_interval(&mut self, observe: &mut impl FnMut(Interval)) {
        let now = Instant::now();
        let counted = self.counted();
        let spans = counted.iter().zip(&self.last.1).map(|(n, last)| Span {
            bytes: n.bytes - last.bytes,
            retransmits: n.retransmits().saturating_sub(last.retransmits()),
            flow: n.flow.clone(),
        });
        let since = |t: Instant| t.duration_since(self.epoch).as_secs_f64();
        observe(Interval {
            start: since(self.last.0),
            end: since(now),
            omitted: self.in_warm_up,
            spans: spans.collect(),
        });
        self.last = (now, counted);
    }

    fn begin_counting(&mut self) {
        let now = Instant::now();
        self.in_warm_up = false;
        self.epoch = now;
        self.base = self.counted();
        self.last = (now, self.base.clone());
        self.cpu = CpuMeter::start();
    }

    fn check_progress(&mut self) -> Result<(), PerfError> {
        if self.movement.silence() < STALL_LIMIT {
            return Ok(());
        }
        Err(PerfError::Stalled(STALL_LIMIT.as_secs()))
    }
}

/// When there is something to report. A process that stood still has one report of all that time, not one of
/// nothing for each that it missed.
fn reports(epoch: Instant, every: Duration) -> Ticks {
    let mut reports = interval_at(epoch + every, every);
    reports.set_missed_tick_behavior(MissedTickBehavior::Skip);
    reports
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncWriteExt, duplex};
    use tokio::time::{advance, sleep};

    use super::*;
    use crate::perf::params::Until;

    const SECOND: Duration = Duration::from_secs(1);

    /// The intervals of five seconds of receiving, during which this process stands still for `still`.
    async fn intervals(
        every: Option<Duration>,
        omit_seconds: f64,
        still: Duration,
    ) -> Vec<(f64, f64)> {
        let until = Until::Seconds(5.0);
        let params = TestParams { until, omit_seconds, ..TestParams::default() };
        let (ours, mut theirs) = duplex(1 << 16);
        let mut engine = Engine::start(&params, vec![(ours, false)]);
        let mut seen = Vec::new();
        let tenths = |seconds: f64| (seconds * 10.0).round() / 10.0;
        let observe = |it: Interval| seen.push((tenths(it.start), tenths(it.end)));
        let sending = async {
            loop {
                theirs.write_all(&[0; 100]).await.unwrap();
                sleep(Duration::from_millis(10)).await;
            }
        };
        let standing = async {
            sleep(SECOND * 5 / 2).await;
            advance(still).await;
            std::future::pending().await
        };
        let running = engine.run(every, params.duration(), standing, observe);
        tokio::select! {
            ended = running => assert_eq!(ended.unwrap(), Ended::Complete),
            () = sending => {}
        }
        seen
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_that_stood_still_reports_that_time_once() {
        let seen = intervals(Some(SECOND), 0.0, SECOND * 2).await;
        assert_eq!(seen, [(0.0, 1.0), (1.0, 2.0), (2.0, 4.5), (4.5, 5.0)]);
    }

    #[tokio::test(start_paused = true)]
    async fn without_reports_on_the_way_there_is_one_of_all_that_counts() {
        for omit_seconds in [0.0, 2.0] {
            assert_eq!(intervals(None, omit_seconds, Duration::ZERO).await, [(0.0, 5.0)]);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_warm_up_and_a_test_of_whole_intervals_end_with_a_whole_one() {
        for _ in 0..20 {
            let seen = intervals(Some(SECOND), 2.0, Duration::ZERO).await;
            let counted = [(0.0, 1.0), (1.0, 2.0), (2.0, 3.0), (3.0, 4.0), (4.0, 5.0)];
            assert_eq!((&seen[..2], &seen[2..]), (&counted[..2], &counted[..]));
        }
    }
}

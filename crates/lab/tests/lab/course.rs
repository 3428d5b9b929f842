//! Controllers on a bottleneck of 20 Mbit/s: what tests of them run.

use std::io::Write;
use std::sync::{Arc, Mutex};

use tack_cc::Algorithm;
use tack_lab::Recordings;
use tack_lab::result::RunResult;
use tack_lab::scenario::Scenario;
use tack_lab::simulate_recorded;

/// Application bytes of a segment.
pub(crate) const SEGMENT_BYTES: f64 = 1_448.0;
pub(crate) const RATE_BPS: f64 = 20e6;

/// A path and who is on it; `rest` has more keys of `[wan]`.
pub(crate) struct Course<'a> {
    pub(crate) flows: &'a [Algorithm],
    pub(crate) rtt_ms: f64,
    pub(crate) buffer_bdp: f64,
    pub(crate) warmup_s: f64,
    pub(crate) duration_s: f64,
    pub(crate) ecn: bool,
    pub(crate) rest: &'a str,
}

/// What came of it.
pub(crate) struct Outcome {
    pub(crate) result: RunResult,
    /// Windows of the first flow over time: seconds, segments.
    pub(crate) windows: Vec<(f64, f64)>,
    /// Dropped by the queue and lost behind it, the whole run.
    pub(crate) lost: u64,
}

impl Default for Course<'_> {
    fn default() -> Self {
        Course {
            flows: &[],
            rtt_ms: 40.0,
            buffer_bdp: 1.0,
            warmup_s: 10.0,
            duration_s: 50.0,
            ecn: false,
            rest: "",
        }
    }
}

/// Takes what is written, to be read after the run.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Course<'_> {
    /// Several flows have hosts of their own, which take up to a packet's time over a packet:
    /// without, phases decide who loses [Floyd & Jacobson 1992 §3.3].
    pub(crate) fn run(&self) -> Outcome {
        let Course { rtt_ms, buffer_bdp, warmup_s, duration_s, ecn, rest, .. } = self;
        let flow = |(i, cc): (usize, &Algorithm)| {
            let start = i as f64 * 0.5;
            format!(
                "{{ strategy = \"tcp-l2\", cc = \"{cc}\", station = {i}, start_s = {start:?}, ecn = {ecn} }}"
            )
        };
        let flows: Vec<String> = self.flows.iter().enumerate().map(flow).collect();
        let several = flows.len() > 1;
        let access = format!("access = {{ pairs = {}, processing_ms = 0.6 }}\n", flows.len());
        let text = format!(
            "warmup_s = {warmup_s:?}\nduration_s = {duration_s:?}\n\
             wan = {{ rate_mbps = 20.0, delay_ms = {:?}, down.buffer_bdp = {buffer_bdp:?}, \
             up.buffer_packets = 10000{rest} }}\n{}flow = [{}]\n",
            rtt_ms / 2.0,
            if several { &access } else { "" },
            flows.join(", ")
        );
        let scenario = Scenario::parse(&text).unwrap_or_else(|e| panic!("{text}: {e}"));
        let series = Shared::default();
        let recordings = Recordings { packets: None, series: Some(Box::new(series.clone())) };
        let result = simulate_recorded(&scenario, recordings).expect("it can run");
        let csv = String::from_utf8(series.0.lock().unwrap().clone()).unwrap();
        let window = |line: &str| {
            let mut cells = line.split(',');
            let (at, flow, cwnd) = (cells.next()?, cells.next()?, cells.next()?);
            let cwnd: f64 = cwnd.parse().ok()?;
            (flow == "0").then_some((at.parse().ok()?, cwnd / SEGMENT_BYTES))
        };
        let lost = result.queue_drops + result.link_losses;
        Outcome { windows: csv.lines().skip(1).filter_map(window).collect(), result, lost }
    }
}

impl Outcome {
    /// Goodput of a flow, Mbit/s.
    pub(crate) fn mbps(&self, flow: usize) -> f64 {
        self.result.flows[flow].goodput_bps / 1e6
    }

    /// Part of the goodput that the first of two has.
    pub(crate) fn share(&self) -> f64 {
        self.mbps(0) / (self.mbps(0) + self.mbps(1))
    }

    /// 95th percentile of the first flow's one-way delay above its least, ms.
    pub(crate) fn queue_ms(&self) -> f64 {
        self.result.flows[0].queue_delay_p95_us.expect("it has data") / 1e3
    }

    /// Windows from a time on.
    pub(crate) fn windows_from(&self, from_s: f64) -> Vec<(f64, f64)> {
        self.windows.iter().copied().filter(|w| w.0 >= from_s).collect()
    }
}

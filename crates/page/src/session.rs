//! The runs of one file side by side, a slice of time after the other.

use std::collections::BTreeMap;

use serde::Serialize;
use tack_lab::experiment::Extent;
use tack_lab::item::distinct;
use tack_lab::plan::experiment_or_scenario;
use tack_lab::record::Record;
use tack_lab::reproduce::Loaded;
use tack_lab::watch::{Look, Watched};
use tack_link::wlan::{Span, Use};
use tack_units::Instant;

/// Slices of a run.
pub const STEPS: u32 = 200;

/// How much of a slice's end is shown frame by frame, nanoseconds.
const STRIP_NS: u64 = 20_000_000;

/// In which the wire's queue, which counts bytes, is told.
const PACKET_BYTES: u64 = 1_500;

/// Most runs that go side by side.
const MAX_RUNS: usize = 8;

/// Runs under way.
pub struct Session {
    loaded: Loaded,
    runs: Vec<(Watched, Look)>,
    /// Which of them each item of the plan is: equal ones run once.
    of_item: Vec<usize>,
    steps: u32,
}

/// What is known before anything ran.
#[derive(Debug, Serialize)]
pub struct Opening {
    /// Of each item of the plan.
    names: Vec<String>,
    /// Virtual seconds of each.
    seconds: f64,
    /// Slices of that.
    steps: u32,
    /// How long the strips are, nanoseconds.
    strip_ns: u64,
    /// Names of the medium's uses, by number.
    uses: [&'static str; 9],
}

/// A slice of all runs.
#[derive(Debug, Serialize)]
pub struct Step {
    /// Its end, seconds.
    at: f64,
    /// By item of the plan.
    runs: Vec<Slice>,
}

/// A slice of one run; rates are means over it.
#[derive(Clone, Debug, Serialize)]
pub struct Slice {
    /// Shares of the medium's time by use.
    air: [f64; 9],
    /// The medium at the slice's end: uses by number and their nanoseconds, without a gap.
    strip: Vec<(u8, u64)>,
    /// Application bytes delivered, bit/s.
    goodput_bps: f64,
    /// Packets that only acknowledge.
    acks_per_s: f64,
    /// Packets that wait: at the access point, at the stations, at the wire (in full ones).
    waiting: [u64; 3],
    /// Mean smoothed round trip of the flows.
    srtt_ms: Option<f64>,
}

impl Session {
    /// Sets up the runs that a file asks for.
    ///
    /// # Errors
    /// What is wrong with it, with line and key.
    pub fn open(text: &str) -> Result<Session, String> {
        let experiment = experiment_or_scenario(text, "page").map_err(|e| e.to_string())?;
        let loaded = Loaded::of(experiment, text, Extent::Usual).map_err(|e| e.to_string())?;
        let items = distinct(&[&loaded.plan]);
        if items.len() > MAX_RUNS {
            return Err(format!("asks for {} runs, at most {MAX_RUNS} go here", items.len()));
        }
        let place = |id: &String| items.iter().position(|item| item.id == *id).unwrap_or_default();
        let of_item = loaded.plan.items.iter().map(|item| place(&item.id)).collect();
        let run = |item| {
            let watched = Watched::new(item)?;
            let look = watched.look(Instant::ZERO);
            anyhow::Ok((watched, look))
        };
        let runs = items.iter().map(run).collect::<Result<_, _>>().map_err(|e| format!("{e:#}"))?;
        Ok(Session { loaded, runs, of_item, steps: 0 })
    }

    /// What is known before anything ran.
    pub fn opening(&self) -> Opening {
        let items = &self.loaded.plan.items;
        let name = |key: &BTreeMap<String, _>| match key.get("variant") {
            Some(word) => format!("{word}"),
            None => self.loaded.experiment.id.clone(),
        };
        Opening {
            names: items.iter().map(|item| name(&item.key)).collect(),
            seconds: items.iter().map(|item| item.scenario.duration_s).fold(0.0, f64::max),
            steps: STEPS,
            strip_ns: STRIP_NS,
            uses: Use::ALL.map(Use::name),
        }
    }

    /// Goes on by a slice; `None` at the end.
    pub fn step(&mut self) -> Option<Step> {
        if self.steps == STEPS {
            return None;
        }
        self.steps += 1;
        let steps = self.steps;
        let slices: Vec<(Instant, Slice)> = self.runs.iter_mut().map(|r| go_on(r, steps)).collect();
        let at = slices.iter().map(|(at, _)| seconds(*at)).fold(0.0, f64::max);
        let runs = self.of_item.iter().map(|i| slices[*i].1.clone()).collect();
        Some(Step { at, runs })
    }

    /// Runs what is left, and says what `tack lab run FILE --json` prints.
    ///
    /// # Errors
    /// When a run broke a promise of the simulator.
    pub fn finish(self) -> Result<String, String> {
        let mut records: BTreeMap<String, Record> = BTreeMap::new();
        for (watched, _) in self.runs {
            let record = watched.record().map_err(|e| format!("{e:#}"))?;
            records.insert(record.run.clone(), record);
        }
        let report = self.loaded.report(&records).ok_or("runs are missing")?;
        let json = self.loaded.json(&report, &records);
        Ok(serde_json::to_string_pretty(&json).map_err(|e| e.to_string())? + "\n")
    }
}

/// Runs the next slice.
fn go_on((watched, before): &mut (Watched, Look), steps: u32) -> (Instant, Slice) {
    let end = watched.end().as_nanos();
    let until = (u128::from(end) * u128::from(steps) / u128::from(STEPS)) as u64;
    watched.advance(Instant::from_nanos(until));
    let from = Instant::from_nanos(until.saturating_sub(STRIP_NS));
    let now = watched.look(from);
    let time = (seconds(now.at) - seconds(before.at)).max(1e-9);
    let per_s = |a: u64, b: u64| a.saturating_sub(b) as f64 / time;
    let airtime = now.airtime.zip(before.airtime).map(|(now, before)| now.since(&before));
    let slice = Slice {
        air: airtime.unwrap_or_default().shares(),
        strip: strip(&now.medium, from, now.at),
        goodput_bps: per_s(now.delivered_bytes, before.delivered_bytes) * 8.0,
        acks_per_s: per_s(now.ack_packets, before.ack_packets),
        waiting: [
            now.waiting.ap_packets,
            now.waiting.station_packets,
            now.waiting.wan_bytes.div_ceil(PACKET_BYTES),
        ],
        srtt_ms: now.srtt.map(|srtt| srtt.as_secs_f64() * 1e3),
    };
    *before = now;
    (before.at, slice)
}

/// The medium's uses in `[from, to]`.
fn strip(medium: &[Span], from: Instant, to: Instant) -> Vec<(u8, u64)> {
    let clipped = medium.iter().map(|span| {
        let (start, end) = (span.from.clamp(from, to), span.to.clamp(from, to));
        (span.what as u8, end.as_nanos() - start.as_nanos())
    });
    clipped.filter(|(_, ns)| *ns > 0).collect()
}

fn seconds(at: Instant) -> f64 {
    at.saturating_since(Instant::ZERO).as_secs_f64()
}

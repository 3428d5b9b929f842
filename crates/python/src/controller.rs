//! Congestion controllers written in Python.
//!
//! A flow says `controller = "mine"`, and whoever runs the file brings `{"mine": Mine}`: what makes a
//! controller from a [`ControllerConfig`]. After each sample its `window` and `pacing_bps` are read,
//! and only then: a transport asks for both far more often than they change.
//!
//! What a controller raises ends the run it is of, and is what the call raises.

use core::fmt;
use core::time::Duration;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tack_cc::{
    AckSample as Ack, Config, Controller, Factory, Inspect, LossKind, LossSample as Loss, Snapshot,
};
use tack_lab::host::Controllers;
use tack_units::{Instant, Rate};

/// Greatest rate that is taken, bit/s: what an `f64` still counts by ones.
const MOST_BPS: f64 = 9e15;

/// What a controller is made from.
#[pyclass(frozen, get_all, module = "tack_lab")]
pub(crate) struct ControllerConfig {
    /// Bytes of text in a full segment.
    mss: u32,
    /// Window before the first acknowledgment, bytes.
    initial_window: u64,
    /// The window never exceeds this, bytes.
    max_window: u64,
    /// For what is random: the same for the same run.
    seed: u64,
}

/// What an acknowledgment told the sender. Times are virtual seconds.
#[pyclass(frozen, get_all, module = "tack_lab")]
pub(crate) struct AckSample {
    /// Its arrival.
    now_s: f64,
    /// Bytes newly acknowledged.
    acked_bytes: u64,
    /// Bytes newly declared lost.
    lost_bytes: u64,
    /// All bytes delivered so far, these included.
    delivered: u64,
    /// Bytes in flight before it was applied.
    prior_in_flight: u64,
    /// Bytes in flight after it.
    in_flight: u64,
    /// A round trip, free of the receiver's delay; `None` when ambiguous.
    rtt_s: Option<f64>,
    /// How long the packet of `rtt_s` waited on the data path; `None` when nobody tells.
    queued_s: Option<f64>,
    /// Smoothed round trip.
    srtt_s: Option<f64>,
    /// Least round trip over the filter's window.
    rtt_min_s: Option<f64>,
    /// Delivery rate, bit/s; `None` when this acknowledgment allows none.
    delivery_rate_bps: Option<f64>,
    /// That rate is a lower bound: there was nothing to send.
    app_limited: bool,
    /// When the newest packet acknowledged here left.
    newest_sent_s: Option<f64>,
    /// Time between two TACKs in force; zero for plain TCP.
    ack_interval_s: f64,
    /// The window held the sender back, not the application.
    cwnd_limited: bool,
    /// Loss recovery is under way.
    in_recovery: bool,
    /// It carried ECN-Echo.
    ece: bool,
}

/// A congestion event: one per episode, not per packet.
#[pyclass(frozen, get_all, module = "tack_lab")]
pub(crate) struct LossSample {
    /// When it was declared, virtual seconds.
    now_s: f64,
    /// `recovery`, `timeout`, `congestion-experienced`, or `spurious`: it was none.
    kind: &'static str,
    /// Bytes declared lost.
    lost_bytes: u64,
    /// Bytes in flight, the lost ones excluded.
    in_flight: u64,
}

fn seconds(at: Instant) -> f64 {
    at.as_secs_f64()
}

fn bps(rate: Rate) -> f64 {
    rate.as_bps() as f64
}

impl From<&Ack> for AckSample {
    fn from(ack: &Ack) -> Self {
        let time = |time: Option<Duration>| time.map(|t| t.as_secs_f64());
        AckSample {
            now_s: seconds(ack.now),
            acked_bytes: ack.acked_bytes,
            lost_bytes: ack.lost_bytes,
            delivered: ack.delivered,
            prior_in_flight: ack.prior_in_flight,
            in_flight: ack.in_flight,
            rtt_s: time(ack.rtt),
            queued_s: time(ack.queued),
            srtt_s: time(ack.srtt),
            rtt_min_s: time(ack.rtt_min),
            delivery_rate_bps: ack.rate.and_then(|rate| rate.delivery_rate).map(bps),
            app_limited: ack.rate.is_some_and(|rate| rate.app_limited),
            newest_sent_s: ack.newest_sent_at.map(seconds),
            ack_interval_s: ack.ack_interval.as_secs_f64(),
            cwnd_limited: ack.cwnd_limited,
            in_recovery: ack.in_recovery,
            ece: ack.ece,
        }
    }
}

impl From<&Loss> for LossSample {
    fn from(loss: &Loss) -> Self {
        let kind = match loss.kind {
            LossKind::Recovery => "recovery",
            LossKind::Timeout => "timeout",
            LossKind::CongestionExperienced => "congestion-experienced",
            LossKind::Spurious => "spurious",
        };
        let (lost_bytes, in_flight) = (loss.lost_bytes, loss.in_flight);
        LossSample { now_s: seconds(loss.now), kind, lost_bytes, in_flight }
    }
}

/// The first exception that a controller raised.
type Failed = Arc<Mutex<Option<PyErr>>>;

fn lock(failed: &Failed) -> MutexGuard<'_, Option<PyErr>> {
    failed.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The controllers of a call.
pub(crate) struct Brought {
    factories: Controllers,
    failed: Failed,
}

impl Brought {
    /// From a dictionary of names and what makes a controller.
    pub(crate) fn new(_py: Python<'_>, given: Option<&Bound<'_, PyDict>>) -> PyResult<Brought> {
        let failed = Failed::default();
        let mut factories = Controllers::new();
        for (name, make) in given.into_iter().flatten() {
            let name: String = name
                .extract()
                .map_err(|_| PyTypeError::new_err(format!("controllers: {name} is no name")))?;
            if !make.is_callable() {
                let what =
                    format!("controllers[\"{name}\"] must be what makes a controller: a class");
                return Err(PyTypeError::new_err(what));
            }
            let factory = factory(interned(&name), make.unbind(), Arc::clone(&failed));
            factories.insert(name, factory);
        }
        Ok(Brought { factories, failed })
    }

    pub(crate) fn factories(&self) -> &Controllers {
        &self.factories
    }

    /// What one of them raised.
    pub(crate) fn failed(&self) -> MutexGuard<'_, Option<PyErr>> {
        lock(&self.failed)
    }
}

/// A name for the rest of the process, as snapshots have them. There are as many as are used.
fn interned(name: &str) -> &'static str {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.get(name) {
        return known;
    }
    let name: &'static str = Box::leak(name.to_owned().into_boxed_str());
    names.insert(name);
    name
}

fn factory(name: &'static str, make: Py<PyAny>, failed: Failed) -> Factory {
    Factory::new(name, move |config: &Config, _now| {
        let mut made = OfPython {
            name,
            object: None,
            hears_sent: false,
            failed: Arc::clone(&failed),
            mss: u64::from(config.mss),
            window: config.initial_window,
            pacing: None,
            startup: false,
            srtt: None,
        };
        let config = ControllerConfig {
            mss: config.mss,
            initial_window: config.initial_window,
            max_window: config.max_window,
            seed: config.seed,
        };
        let object = Python::attach(|py| {
            let object = make.call1(py, (config,))?;
            made.hears_sent = object.bind(py).hasattr("on_sent")?;
            made.read(object.bind(py))?;
            Ok(object)
        });
        made.object = made.heard(object);
        Box::new(made)
    })
}

/// A controller whose words are Python's.
struct OfPython {
    name: &'static str,
    /// `None`: it could not be made.
    object: Option<Py<PyAny>>,
    /// It wants to know of every packet that leaves.
    hears_sent: bool,
    failed: Failed,
    mss: u64,
    window: u64,
    pacing: Option<Rate>,
    startup: bool,
    srtt: Option<Duration>,
}

impl fmt::Debug for OfPython {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, window, pacing, .. } = self;
        f.debug_struct(name).field("window", window).field("pacing", pacing).finish()
    }
}

impl OfPython {
    /// The value, or the exception kept.
    fn heard<T>(&self, value: PyResult<T>) -> Option<T> {
        match value {
            Ok(value) => Some(value),
            Err(e) => {
                lock(&self.failed).get_or_insert(e);
                None
            }
        }
    }

    /// Tells it something, and reads what it makes of that.
    fn tell(&mut self, say: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<()>) {
        // After an exception the run is at its end: nothing more is asked.
        if lock(&self.failed).is_some() {
            return;
        }
        let Some(object) = self.object.take() else { return };
        let told = Python::attach(|py| {
            let object = object.bind(py);
            say(object)?;
            self.read(object)
        });
        self.object = Some(object);
        self.heard(told);
    }

    fn read(&mut self, object: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = object.py();
        let window = object.getattr(intern!(py, "window"))?;
        self.window = window.extract().map_err(|_| {
            let what = format!("`window` of controller \"{}\" is {window}: whole bytes", self.name);
            PyValueError::new_err(what)
        })?;
        let pacing = object.getattr_opt(intern!(py, "pacing_bps"))?.filter(|v| !v.is_none());
        self.pacing = match pacing {
            None => None,
            Some(value) => {
                let bps = value.extract::<f64>().ok().filter(|v| *v > 0.0 && *v <= MOST_BPS);
                let bps = bps.ok_or_else(|| {
                    let name = self.name;
                    let what = format!(
                        "`pacing_bps` of controller \"{name}\" is {value}: bit/s above 0, or None"
                    );
                    PyValueError::new_err(what)
                })?;
                Some(Rate::from_bps(bps as u64))
            }
        };
        let startup = object.getattr_opt(intern!(py, "startup"))?;
        self.startup = startup.map_or(Ok(false), |value| value.is_truthy())?;
        Ok(())
    }
}

impl Controller for OfPython {
    fn on_sent(&mut self, bytes: u64, in_flight: u64, app_limited: bool, now: Instant) {
        if self.hears_sent {
            let args = (bytes, in_flight, app_limited, seconds(now));
            self.tell(|object| {
                object.call_method1(intern!(object.py(), "on_sent"), args).map(drop)
            });
        }
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.srtt = ack.srtt.or(self.srtt);
        let ack = AckSample::from(ack);
        self.tell(|object| object.call_method1(intern!(object.py(), "on_ack"), (ack,)).map(drop));
    }

    fn on_loss(&mut self, loss: &Loss) {
        let loss = LossSample::from(loss);
        self.tell(|object| object.call_method1(intern!(object.py(), "on_loss"), (loss,)).map(drop));
    }

    fn window(&self) -> u64 {
        self.window.max(self.mss)
    }

    fn pacing_rate(&self) -> Option<Rate> {
        self.pacing
    }
}

impl Inspect for OfPython {
    fn set_mss(&mut self, mss: u32) {
        self.mss = u64::from(mss);
        self.tell(|object| match object.getattr_opt(intern!(object.py(), "set_mss"))? {
            Some(method) => method.call1((mss,)).map(drop),
            None => Ok(()),
        });
    }

    fn snapshot(&self, name: &'static str) -> Snapshot {
        let state = if self.startup { "startup" } else { "steady" };
        let of_window = || Rate::from_bytes_over(self.window(), self.srtt?);
        Snapshot {
            startup: self.startup,
            bandwidth: self.pacing.or_else(of_window),
            ..Snapshot::new(name, state, self.window(), self.pacing)
        }
    }
}

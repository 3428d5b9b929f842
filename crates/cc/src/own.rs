//! Controllers that are not ours.

use core::fmt;
use std::sync::Arc;

use tack_units::Instant;

use crate::config::Config;
use crate::inspect::Inspect;

/// Makes a controller for every connection that asks for it.
///
/// A controller is anything that implements [`Controller`](crate::Controller) and [`Inspect`]. It
/// has no clock: time is what samples say. It has no randomness but what it makes of
/// [`Config::seed`], so that a run repeats. A transport takes a factory in its configuration, next
/// to the names of [`Algorithm`](crate::Algorithm).
///
/// ```
/// use tack_cc::{
///     AckSample, CongestionControl, Config, Controller, Factory, Inspect, LossSample, Snapshot,
/// };
/// use tack_units::{Instant, Rate};
///
/// /// Twenty segments in flight, whatever happens.
/// #[derive(Debug)]
/// struct Constant {
///     mss: u64,
/// }
///
/// impl Controller for Constant {
///     fn on_sent(&mut self, _bytes: u64, _in_flight: u64, _app_limited: bool, _now: Instant) {}
///     fn on_ack(&mut self, _ack: &AckSample) {}
///     fn on_loss(&mut self, _loss: &LossSample) {}
///     fn window(&self) -> u64 {
///         20 * self.mss
///     }
///     fn pacing_rate(&self) -> Option<Rate> {
///         None
///     }
/// }
///
/// impl Inspect for Constant {
///     fn set_mss(&mut self, mss: u32) {
///         self.mss = u64::from(mss);
///     }
///     fn snapshot(&self, name: &'static str) -> Snapshot {
///         Snapshot::new(name, "constant", self.window(), None)
///     }
/// }
///
/// let factory = Factory::new("constant", |config: &Config, _now| {
///     Box::new(Constant { mss: u64::from(config.mss) })
/// });
/// let cc = CongestionControl::own(&factory, Config::new(1_000), Instant::ZERO);
/// assert_eq!((cc.name(), cc.window()), ("constant", 20_000));
/// ```
#[derive(Clone)]
pub struct Factory {
    name: &'static str,
    make: Arc<Make>,
}

type Make = dyn Fn(&Config, Instant) -> Box<dyn Inspect + Send> + Send + Sync;

impl Factory {
    /// Controllers named `name`, each made by `make` from a sane configuration for a connection
    /// that begins at the given time.
    pub fn new(
        name: &'static str,
        make: impl Fn(&Config, Instant) -> Box<dyn Inspect + Send> + Send + Sync + 'static,
    ) -> Self {
        Factory { name, make: Arc::new(make) }
    }

    /// What they are called in statistics and plots.
    pub fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn make(&self, config: &Config, now: Instant) -> Box<dyn Inspect + Send> {
        (self.make)(config, now)
    }
}

impl fmt::Debug for Factory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Factory").field(&self.name).finish()
    }
}

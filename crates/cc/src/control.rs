//! The controllers to choose from, by name, as one concrete type.
//!
//! The table below, `algorithms!`, is the only place that lists them: a new controller is one file
//! and one line there.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use tack_units::{Instant, Rate};

use crate::bbr::{Bbr, Profile};
use crate::config::Config;
use crate::controller::Controller;
use crate::cubic::Cubic;
use crate::cubic_linux::CubicLinux;
use crate::reno::NewReno;
use crate::sample::{AckSample, LossSample};

/// What a controller believes, for statistics and plots. Nothing decides by it but the TACK
/// schedule, which needs `bandwidth` and `startup` [TON §VI-C].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Snapshot {
    /// Name of the algorithm, as [`Algorithm`] prints it.
    pub algorithm: Algorithm,
    /// Name of the state it is in, e.g. `probe_bw`.
    pub state: &'static str,
    /// Still looking for the bandwidth of the path: the receiver should acknowledge every packet.
    pub startup: bool,
    /// Gain applied to the rate now.
    pub pacing_gain: f64,
    /// Bandwidth of the path: estimated, or `cwnd/srtt` of a window-based controller. `None` before
    /// the first sample.
    pub bandwidth: Option<Rate>,
    /// The window in bytes.
    pub cwnd: u64,
    /// Slow-start threshold in bytes; `None` while infinite or when the algorithm has none.
    pub ssthresh: Option<u64>,
    /// RTTmin as the controller knows it; `None` when it keeps none or has no sample.
    pub rtt_min: Option<Duration>,
    /// Pacing rate in force.
    pub pacing_rate: Option<Rate>,
}

/// What the table needs of a controller beyond [`Controller`]: nothing a transport calls.
pub(crate) trait Inspect: Controller {
    /// Replaces the MSS, when path MTU discovery found another.
    fn set_mss(&mut self, mss: u32);
    /// What it believes.
    fn snapshot(&self, algorithm: Algorithm) -> Snapshot;
}

/// A name that is no controller's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no congestion controller is named `{name}`; there are {}", Algorithm::names())]
pub struct UnknownAlgorithm {
    name: Box<str>,
}

// A macro, against the habit of this house, because enum, names and dispatch are one list: written
// out, every new controller would touch seven places, and a forgotten one need not fail to compile.
macro_rules! algorithms {
    ($($(#[$doc:meta])* $variant:ident = $name:literal: $type:ty = $make:expr;)*) => {
        /// Which controller to use.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Algorithm {
            $($(#[$doc])* $variant,)*
        }

        impl Algorithm {
            /// All there are.
            pub const ALL: &[Algorithm] = &[$(Algorithm::$variant,)*];

            /// The name users type.
            pub const fn name(self) -> &'static str {
                match self { $(Algorithm::$variant => $name,)* }
            }
        }

        /// A congestion controller of any kind.
        #[derive(Clone, Debug)]
        pub enum CongestionControl {
            $($(#[$doc])* $variant(Box<$type>),)*
        }

        impl CongestionControl {
            /// The controller `algorithm` names, for a connection that begins at `now`.
            pub fn new(algorithm: Algorithm, config: Config, now: Instant) -> Self {
                let config = config.sane();
                match algorithm {
                    $(Algorithm::$variant => {
                        let make: fn(&Config, Instant) -> $type = $make;
                        Self::$variant(Box::new(make(&config, now)))
                    })*
                }
            }

            /// Which one this is.
            pub fn algorithm(&self) -> Algorithm {
                match self { $(Self::$variant(_) => Algorithm::$variant,)* }
            }

            fn inspect(&self) -> &dyn Inspect {
                match self { $(Self::$variant(c) => c.as_ref(),)* }
            }

            fn inspect_mut(&mut self) -> &mut dyn Inspect {
                match self { $(Self::$variant(c) => c.as_mut(),)* }
            }
        }
    };
}

algorithms! {
    /// BBRv1; with receiver-measured rates, the receiver-based BBR [TON §VI-D].
    Bbr = "bbr": Bbr = |config, now| Bbr::new(config, Profile::Bulk, now);
    /// BBR that converges in half the time and never falls silent, for real-time video
    /// [TON §VII-D].
    BbrInteractive = "bbr-interactive": Bbr = |config, now| {
        Bbr::new(config, Profile::Interactive, now)
    };
    /// NewReno with byte counting [RFC 5681, RFC 3465].
    NewReno = "newreno": NewReno = |config, _| NewReno::new(config);
    /// CUBIC [RFC 9438] with HyStart++ [RFC 9406].
    Cubic = "cubic": Cubic = |config, _| Cubic::new(config);
    /// CUBIC as Linux has it, to meet the kernel's TCP with.
    CubicLinux = "cubic-linux": CubicLinux = |config, _| CubicLinux::new(config);
}

impl CongestionControl {
    /// What it believes, for statistics and plots.
    pub fn snapshot(&self) -> Snapshot {
        self.inspect().snapshot(self.algorithm())
    }

    /// Replaces the MSS, when path MTU discovery found another. Zero counts as one byte.
    pub fn set_mss(&mut self, mss: u32) {
        self.inspect_mut().set_mss(mss.max(1));
    }
}

impl Controller for CongestionControl {
    fn on_sent(&mut self, bytes: u64, in_flight: u64, app_limited: bool, now: Instant) {
        self.inspect_mut().on_sent(bytes, in_flight, app_limited, now);
    }

    fn on_ack(&mut self, ack: &AckSample) {
        self.inspect_mut().on_ack(ack);
    }

    fn on_loss(&mut self, loss: &LossSample) {
        self.inspect_mut().on_loss(loss);
    }

    fn window(&self) -> u64 {
        self.inspect().window()
    }

    fn pacing_rate(&self) -> Option<Rate> {
        self.inspect().pacing_rate()
    }
}

impl Default for Algorithm {
    /// BBR, by whoever measures rates: the receiver under TACK.
    fn default() -> Self {
        Self::Bbr
    }
}

impl Algorithm {
    /// All names, for messages and help.
    pub fn names() -> String {
        Self::ALL.iter().map(|a| a.name()).collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    /// Names are matched without regard to case; `reno` is NewReno, as in Linux.
    fn from_str(s: &str) -> Result<Self, UnknownAlgorithm> {
        let s = s.trim();
        if s.eq_ignore_ascii_case("reno") {
            return Ok(Self::NewReno);
        }
        let found = Self::ALL.iter().find(|a| a.name().eq_ignore_ascii_case(s));
        found.copied().ok_or_else(|| UnknownAlgorithm { name: s.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_as_what_they_name() {
        for &a in Algorithm::ALL {
            assert_eq!(a.to_string().parse(), Ok(a));
            assert_eq!(a.name().to_uppercase().parse(), Ok(a));
            assert_eq!(CongestionControl::new(a, Config::new(1_460), Instant::ZERO).algorithm(), a);
        }
        assert_eq!("reno".parse(), Ok(Algorithm::NewReno));
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let error = "vegas".parse::<Algorithm>().unwrap_err().to_string();
        assert!(error.contains("`vegas`"), "{error}");
        for a in Algorithm::ALL {
            assert!(error.contains(a.name()), "{error}");
        }
    }

    #[test]
    fn every_controller_starts_with_the_initial_window_and_no_rate() {
        for &a in Algorithm::ALL {
            let cc = CongestionControl::new(a, Config::new(1_000), Instant::ZERO);
            assert_eq!(cc.window(), 10_000, "{a}");
            assert_eq!(cc.pacing_rate(), None, "{a}");
            assert!(cc.snapshot().startup, "{a}");
        }
    }
}

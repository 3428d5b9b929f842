//! The controllers to choose from, by name, as one concrete type.
//!
//! The table below, `algorithms!`, is the only place that lists them: a new controller is one file
//! and one line there.

use core::fmt;
use core::str::FromStr;

use tack_units::{Instant, Rate};

use crate::bbr::{Bbr, Profile};
use crate::bbr3::Bbr3;
use crate::config::Config;
use crate::controller::Controller;
use crate::copa::Copa;
use crate::cubic::Cubic;
use crate::cubic_linux::CubicLinux;
use crate::inspect::{Inspect, Snapshot};
use crate::own::Factory;
use crate::pcc::{Allegro, Vivace};
use crate::reno::NewReno;
use crate::sample::{AckSample, LossSample};
use crate::sprout::Sprout;
use crate::vegas::Vegas;
use crate::verus::Verus;

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

            /// Their names, in the same order.
            pub const NAMES: &'static [&'static str] = &[$($name,)*];

            /// The name users type.
            pub const fn name(self) -> &'static str {
                match self { $(Algorithm::$variant => $name,)* }
            }
        }

        /// A congestion controller of any kind.
        #[derive(Debug)]
        pub enum CongestionControl {
            $($(#[$doc])* $variant(Box<$type>),)*
            /// One of the user's own ([`Factory`]), under its name.
            Own(&'static str, Box<dyn Inspect + Send>),
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

            /// The name it runs under.
            pub fn name(&self) -> &'static str {
                match self { $(Self::$variant(_) => $name,)* Self::Own(name, _) => name }
            }

            fn inspect(&self) -> &dyn Inspect {
                match self { $(Self::$variant(c) => c.as_ref(),)* Self::Own(_, c) => c.as_ref() }
            }

            fn inspect_mut(&mut self) -> &mut dyn Inspect {
                match self { $(Self::$variant(c) => c.as_mut(),)* Self::Own(_, c) => c.as_mut() }
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
    /// BBRv3, which learns from loss how much may be in flight [draft-ietf-ccwg-bbr].
    Bbr3 = "bbr3": Bbr3 = |config, now| Bbr3::new(config, now);
    /// NewReno with byte counting [RFC 5681, RFC 3465].
    NewReno = "newreno": NewReno = |config, _| NewReno::new(config);
    /// CUBIC [RFC 9438] with HyStart++ [RFC 9406].
    Cubic = "cubic": Cubic = |config, _| Cubic::new(config);
    /// CUBIC as Linux has it, to meet the kernel's TCP with.
    CubicLinux = "cubic-linux": CubicLinux = |config, _| CubicLinux::new(config);
    /// Vegas: by the round trip, a few segments in the queue [Brakmo et al. 1994].
    Vegas = "vegas": Vegas = |config, _| Vegas::new(config);
    /// Copa, with the mode that competes [Arun & Balakrishnan 2018].
    Copa = "copa": Copa = |config, now| Copa::new(config, now);
    /// PCC Allegro: trials of rates, judged by throughput and loss [Dong et al. 2015].
    Allegro = "allegro": Allegro = |config, now| Allegro::new(config, now);
    /// PCC Vivace: the same by gradients, and by queues that grow [Dong et al. 2018].
    Vivace = "vivace": Vivace = |config, now| Vivace::new(config, now);
    /// Verus: the window by a profile of delays, for cellular links [Zaki et al. 2015].
    Verus = "verus": Verus = |config, now| Verus::new(config, now);
    /// Sprout: what arrives in time with 95 % certainty, for cellular links [Winstein et al. 2013].
    Sprout = "sprout": Sprout = |config, _| Sprout::new(config);
}

impl CongestionControl {
    /// The controller that `factory` makes, for a connection that begins at `now`.
    pub fn own(factory: &Factory, config: Config, now: Instant) -> Self {
        Self::Own(factory.name(), factory.make(&config.sane(), now))
    }

    /// What it believes, for statistics and plots.
    pub fn snapshot(&self) -> Snapshot {
        self.inspect().snapshot(self.name())
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
        Self::NAMES.join(", ")
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
    use crate::sample::LossKind;

    #[test]
    fn names_read_back_as_what_they_name() {
        for &a in Algorithm::ALL {
            assert_eq!(a.to_string().parse(), Ok(a));
            assert_eq!(a.name().to_uppercase().parse(), Ok(a));
            assert_eq!(
                CongestionControl::new(a, Config::new(1_460), Instant::ZERO).name(),
                a.name()
            );
        }
        assert_eq!("reno".parse(), Ok(Algorithm::NewReno));
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let error = "remy".parse::<Algorithm>().unwrap_err().to_string();
        assert!(error.contains("`remy`"), "{error}");
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

    #[test]
    fn where_the_first_flight_was_answered_by_nothing_it_does_not_leave_whole_again() {
        for &a in Algorithm::ALL {
            let mut cc = CongestionControl::new(a, Config::new(1_000), Instant::ZERO);
            let (lost_bytes, in_flight) = (10_000, 0);
            let now = Instant::from_secs(1);
            cc.on_loss(&LossSample { now, kind: LossKind::Timeout, lost_bytes, in_flight });
            assert!(cc.window() <= 4_000, "{a}: {} bytes at once", cc.window());
        }
    }
}

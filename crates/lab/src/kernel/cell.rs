//! One setting of the table: a controller and a path.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use serde::{Deserialize, Serialize};
use tack_cc::Algorithm;
use tack_link::loss::LossConfig;
use tack_link::queue::Limit;
use tack_link::wired::{DirectionConfig, Wired};
use tack_units::Rate;

/// The controllers both stacks have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Controller {
    /// NewReno.
    Reno,
    /// CUBIC.
    Cubic,
    /// BBRv1.
    Bbr,
}

impl Controller {
    /// All of them.
    pub const ALL: [Controller; 3] = [Controller::Reno, Controller::Cubic, Controller::Bbr];

    /// The kernel's name for it.
    pub const fn name(self) -> &'static str {
        match self {
            Controller::Reno => "reno",
            Controller::Cubic => "cubic",
            Controller::Bbr => "bbr",
        }
    }

    /// Ours: of CUBIC the edition that Linux has.
    pub(crate) const fn algorithm(self) -> Algorithm {
        match self {
            Controller::Reno => Algorithm::NewReno,
            Controller::Cubic => Algorithm::CubicLinux,
            Controller::Bbr => Algorithm::Bbr,
        }
    }
}

impl fmt::Display for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Controller {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let found = Controller::ALL.into_iter().find(|c| c.name() == s);
        found.ok_or_else(|| format!("`{s}` is not one of reno, cubic and bbr"))
    }
}

/// A controller and a path.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub struct Cell {
    /// Congestion control of both stacks.
    pub cc: Controller,
    /// Bottleneck in either direction, Mbit/s on the IP level.
    pub mbps: u32,
    /// Round trip of the empty path, milliseconds.
    pub rtt_ms: u32,
    /// Share of packets lost behind the bottleneck, towards the receiver, percent.
    pub loss_percent: f64,
}

impl Cell {
    /// Bottleneck.
    pub fn rate(&self) -> Rate {
        Rate::from_mbps(self.mbps.into())
    }

    /// Round trip of the empty path.
    pub fn rtt(&self) -> Duration {
        Duration::from_millis(self.rtt_ms.into())
    }

    /// The path. Data goes from end A to end B.
    pub(super) fn path(&self, seed: u64) -> Wired {
        let (rate, delay) = (self.rate(), self.rtt() / 2);
        let buffer = Limit::Bytes(rate.bytes_in(self.rtt()));
        let data = DirectionConfig {
            loss: LossConfig::Bernoulli(self.loss_percent / 100.0),
            ..DirectionConfig::clean(rate, delay, buffer)
        };
        let acks = DirectionConfig::clean(rate, delay, Limit::Packets(10_000));
        Wired::new(data, acks, seed).expect("cells are checked where they are made")
    }
}

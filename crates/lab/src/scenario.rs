//! A scenario: an experiment as data, read from TOML and checked before anything runs.
//!
//! ```toml
//! name = "n-80ms"
//! duration_s = 10.0      # of virtual time
//! warmup_s = 3.0         # left out of every rate
//! seed = 1
//! runs = 5               # seeds 1, 2, 3, 4, 5
//!
//! [wifi]                 # station(s) -- AP; left out: no Wi-Fi
//! phy = "n"              # b g n ac ax
//! preset = "textbook"    # textbook, paper-a, paper-b
//! queue = "fq-codel"     # at the AP: fifo (1000 packets), or Linux's per station and flow;
//! sta_queue = "fifo"     # the same choice at the stations
//!
//! [wan]                  # AP -- server; left out: the server sits on the AP
//! delay_ms = 40.0        # each way
//! down.loss = 0.01       # [wan] holds both directions' defaults, down and up override them
//!
//! [access]               # instead of [wifi]: a dumbbell around [wan]
//! pairs = 8              # hosts on each side
//! rate_mbps = 100.0      # of each host's own link
//! delay_ms = 1.0         # one way over it; a list has one value per pair
//!
//! [hosts]                # left out: hosts that notice everything at once
//! late_ms = 2.0          # packets and timers are noticed up to so much later
//!
//! [[flow]]
//! strategy = "tack"      # udp, tcp-l1, tcp-l2, tcp-l4, tcp-l8, tcp-l16, tack, quinn, noq-eq4, ...
//! count = 4              # that many of it, on station (pair) 0, 1, 2 and 3
//! start_s = 1.0          # joins here, and leaves at stop_s; the next of `count` stagger_s later
//! delay_ms = 20.0        # one way, on top of the path's: flows with unlike round trips
//! group = "a"            # what its figures are called where several kinds of flows run
//! tack = { beta = 4, l = 2, rbb = "poor:1", loss_iacks = false, owd_timing = false,
//!          settling_divisor = 4, startup = "per-packet" }    # on one line
//! app = { kind = "file", bytes = 1000000 }    # bulk, file, request-response, on-off, cbr, video
//!
//! [sweep]                # any key above, by its dotted name; every combination runs
//! "wifi.phy" = ["g", "n"]
//! "flow.0.strategy" = ["tcp-l2", "tack"]
//! ```
//!
//! Mistakes are reported with their line, their key and what would be right; nothing runs then.

mod access;
mod error;
mod flow;
mod hosts;
mod keys;
mod stack;
mod stock;
mod tack;
pub(crate) mod video;
mod wan;
mod wifi;

use core::time::Duration;

use serde::{Deserialize, Serialize};

pub use access::{Access, PerPair};
pub use error::ScenarioError;
pub(crate) use error::line_of;
pub use flow::{App, Direction, Flow, Strategy};
pub use hosts::Hosts;
pub(crate) use keys::{has, set};
pub use stack::Stack;
pub use stock::{Stock, StockAcks, StockStack};
pub use tack::TackWords;
pub use wan::{QueueKind, Wan, WanDirection};
pub use wifi::{Wifi, WifiQueue};

pub(crate) use error::{Problem, plain, within};

use error::above_zero;

/// Most combinations times seeds one file may ask for: hours on many cores, and read in seconds.
pub const MAX_RUNS: usize = 100_000;
/// Most flows in one scenario.
pub const MAX_FLOWS: usize = 10_000;

/// One experiment, every key as meant.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// For reports.
    #[serde(default = "unnamed")]
    pub name: String,
    /// Virtual seconds, in (0, 86400].
    #[serde(default = "ten_seconds")]
    pub duration_s: f64,
    /// Seconds at the start left out of every rate; less than `duration_s`.
    #[serde(default)]
    pub warmup_s: f64,
    /// First seed.
    #[serde(default = "one")]
    pub seed: u64,
    /// How many seeds, counted up from `seed`.
    #[serde(default = "one")]
    pub runs: u64,
    /// The wireless hop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wifi: Option<Wifi>,
    /// The wired path behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wan: Option<Wan>,
    /// Hosts of their own on both sides of the wired path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<Access>,
    /// What the hosts are like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Hosts>,
    /// Traffic; at least one.
    pub flow: Vec<Flow>,
    /// Whose TCP a run in real time has; ours if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack: Option<Stack>,
    /// A veth pair instead of a modelled path, in real time; see [`Stack::Rival`].
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub veth: bool,
}

fn unnamed() -> String {
    "unnamed".to_owned()
}

fn ten_seconds() -> f64 {
    10.0
}

fn one() -> u64 {
    1
}

impl Scenario {
    /// Reads one scenario without a sweep.
    ///
    /// # Errors
    /// What is wrong, with line, key and the remedy.
    pub fn parse(text: &str) -> Result<Scenario, ScenarioError> {
        // By way of a table, as sweeps do: each way to read one is a hundred kilobytes of program.
        let table = toml::from_str(text).map_err(|e| ScenarioError::from_toml(text, &e))?;
        Self::from_table(table).map_err(|p| ScenarioError::of(text, p))
    }

    /// A scenario as a table of keys, checked.
    ///
    /// # Errors
    /// The dotted key, if it is known, and what is wrong with it.
    pub(crate) fn from_table(table: toml::Table) -> Result<Scenario, Problem> {
        let flows = table.get("flow").cloned();
        let scenario: Scenario = table.try_into().map_err(|e| {
            let problem = error::of_table(&e);
            let rest = problem.key.strip_prefix("flow").map(|rest| rest.trim_start_matches('.'));
            match rest.zip(flows.and_then(|flows| first_wrong(&flows))) {
                Some((rest, i)) => {
                    let key = format!("flow.{i}.{rest}");
                    Problem::new(key.trim_end_matches('.'), problem.what)
                }
                None => problem,
            }
        })?;
        scenario.check()?;
        Ok(scenario)
    }

    /// The names of controllers that a program must bring to run it.
    pub fn controllers(&self) -> impl Iterator<Item = &str> {
        self.flow.iter().filter_map(|flow| flow.controller.as_deref())
    }

    /// Kinds of flows: a name, and the positions of its flows in [`Self::flows`]. An entry without
    /// a `group` is called after its strategy, with its number where two would have one name.
    pub fn groups(&self) -> Vec<(String, Vec<usize>)> {
        let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
        let mut next = 0;
        for (i, flow) in self.flow.iter().enumerate() {
            let own = next..next + flow.count as usize;
            next = own.end;
            let strategy = flow.strategy.to_string();
            let twin =
                |(j, f): (usize, &Flow)| j != i && f.group.is_none() && f.strategy == flow.strategy;
            let is_one_of = self.flow.iter().enumerate().any(twin);
            let name = match &flow.group {
                Some(name) => name.clone(),
                None if is_one_of => format!("{strategy}#{i}"),
                None => strategy,
            };
            match groups.iter_mut().find(|(n, _)| *n == name) {
                Some((_, flows)) => flows.extend(own),
                None => groups.push((name, own.collect())),
            }
        }
        groups
    }

    /// Checks what types alone cannot; the first problem, with its dotted key.
    fn check(&self) -> Result<(), Problem> {
        above_zero("duration_s", self.duration_s, 86_400.0)?;
        if !(self.warmup_s >= 0.0 && self.warmup_s < self.duration_s) {
            return Err(Problem::new(
                "warmup_s",
                format!(
                    "is {}, but must be 0 or more and less than duration_s",
                    plain(self.warmup_s)
                ),
            ));
        }
        above_zero("runs", self.runs as f64, 100_000.0)?;
        let flows: u64 = self.flow.iter().map(|f| u64::from(f.count)).sum();
        if self.flow.is_empty() || flows > MAX_FLOWS as u64 {
            let what = format!("asks for {flows}, 1 to {MAX_FLOWS} can run");
            return Err(Problem::new("flow", what));
        }
        if self.veth && (self.wifi.is_some() || self.wan.is_some() || self.access.is_some()) {
            let what = "excludes [wifi], [wan] and [access]: there is no modelled path";
            return Err(Problem::new("veth", what));
        }
        if self.wifi.is_none() && self.wan.is_none() && !self.veth {
            return Err(Problem::new("wan", "is missing, and so is [wifi]: name a link"));
        }
        if let Some(wifi) = &self.wifi {
            wifi.check()?;
        }
        if let Some(wan) = &self.wan {
            wan.check(self.wifi.is_none())?;
        }
        self.check_access()?;
        if let Some(hosts) = &self.hosts {
            hosts.check().map_err(|p| p.of("hosts"))?;
        }
        for (i, flow) in self.flow.iter().enumerate() {
            let checked = flow.check(self.stations(), self.duration_s);
            checked.map_err(|p| p.of(&format!("flow.{i}")))?;
        }
        self.check_datagrams()
    }

    /// Packets of UDP are told apart by the hosts between which they go, and by nothing else.
    fn check_datagrams(&self) -> Result<(), Problem> {
        let entries = self.flow.iter().enumerate().flat_map(|(i, f)| (0..f.count).map(move |_| i));
        let mut seen = std::collections::BTreeSet::new();
        for (i, flow) in entries.zip(self.flows()) {
            let shares = flow.strategy == Strategy::Udp && flow.delay_ms == 0.0;
            if shares && !seen.insert((flow.station, flow.direction == Direction::Up)) {
                let what = format!(
                    "is udp, as is another flow of station {}: they cannot be told apart; give it \
                     another station or a delay_ms",
                    flow.station
                );
                return Err(Problem::new(format!("flow.{i}.strategy"), what));
            }
        }
        Ok(())
    }

    fn check_access(&self) -> Result<(), Problem> {
        let Some(access) = &self.access else { return Ok(()) };
        if self.wifi.is_some() {
            let what = "and [wifi] exclude each other: stations are the hosts there";
            return Err(Problem::new("access", what));
        }
        access.check().map_err(|p| p.of("access"))
    }

    /// How many stations a flow can belong to: those of the Wi-Fi, pairs of hosts, or one.
    pub fn stations(&self) -> u32 {
        match (&self.wifi, &self.access) {
            (Some(wifi), _) => wifi.stations,
            (None, Some(access)) => access.pairs,
            (None, None) => 1,
        }
    }

    /// There and back over the wired path and its access links, without queues; of differing
    /// access links the mean. Bandwidth-delay products are counted with it.
    pub fn base_rtt(&self) -> Duration {
        let wan = self.wan.as_ref().map_or(Duration::ZERO, Wan::round_trip);
        // There and back, a link on each side.
        wan + 4 * self.access.as_ref().map_or(Duration::ZERO, Access::mean_delay)
    }

    /// One way for a flow's data without queues; of differing access links the mean.
    pub fn base_delay(&self, flow: &Flow) -> Duration {
        let wan = self.wan.as_ref().and_then(|wan| match flow.direction {
            Direction::Down => wan.down().delay_ms,
            Direction::Up => wan.up().delay_ms,
        });
        let own = Duration::from_secs_f64((wan.unwrap_or(0.0) + flow.delay_ms) / 1e3);
        own + 2 * self.access.as_ref().map_or(Duration::ZERO, Access::mean_delay)
    }

    /// Every single flow in order: an entry with a `count` stands for several, on one station
    /// after the other, from the first again after the last.
    pub fn flows(&self) -> impl Iterator<Item = Flow> + '_ {
        let stations = self.stations().max(1);
        self.flow.iter().flat_map(move |flow| {
            (0..flow.count).map(move |n| {
                let later = f64::from(n) * flow.stagger_s;
                Flow {
                    station: ((u64::from(flow.station)
                        + u64::from(n) * u64::from(flow.station_step))
                        % u64::from(stations)) as u32,
                    count: 1,
                    start_s: flow.start_s + later,
                    stop_s: flow.stop_s.map(|stop| stop + later),
                    ..flow.clone()
                }
            })
        })
    }
}

/// Which entry of the list is no flow: serde names the list alone.
fn first_wrong(flows: &toml::Value) -> Option<usize> {
    flows.as_array()?.iter().position(|flow| flow.clone().try_into::<Flow>().is_err())
}

#[cfg(test)]
mod tests;

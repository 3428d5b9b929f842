//! What the hosts do.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tack::Params;
use tack_cc::Algorithm;
use tack_sim::{AckStrategy, LossDetection};

use super::error::{Problem, above_zero, plain, within};
use super::keys::{is_zero, one};
use super::stock::{Stock, StockAcks};
use super::tack::TackWords;
use super::video;

/// How a flow is carried and acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Strategy {
    /// Datagrams without acknowledgments: the upper bound.
    Udp,
    /// TCP of our stack, acknowledged so; TCP-TACK among them.
    Tcp(AckStrategy),
    /// A stock QUIC stack.
    Quic(Stock),
}

impl Strategy {
    /// TCP-TACK.
    pub const TACK: Strategy = Strategy::Tcp(AckStrategy::TACK);

    /// TCP with an acknowledgment per `L` full-sized segments.
    pub const fn every(segments_per_ack: u32) -> Strategy {
        Strategy::Tcp(AckStrategy::every(segments_per_ack))
    }

    /// Acknowledged by Eq. 4: TACK, and stock stacks that are asked for it.
    pub fn is_eq4(self) -> bool {
        match self {
            Strategy::Udp => false,
            Strategy::Tcp(ack) => ack.tack().is_some(),
            Strategy::Quic(stock) => stock.acks == StockAcks::Eq4,
        }
    }

    /// Every strategy with the parameters of papers and stacks.
    pub fn all() -> impl Iterator<Item = Strategy> {
        AckStrategy::ALL.iter().copied().map(Strategy::Tcp)
    }

    /// The reference of [Landström & Larzon]: AE.
    pub fn every_segment() -> Strategy {
        let is_it = |s: &Strategy| matches!(s, Strategy::Tcp(AckStrategy::EverySegment(_)));
        Strategy::all().find(is_it).unwrap_or(Strategy::every(1))
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Strategy::Udp => f.pad("udp"),
            Strategy::Tcp(ack) => ack.fmt(f),
            Strategy::Quic(stock) => stock.fmt(f),
        }
    }
}

impl FromStr for Strategy {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        if s == "udp" {
            return Ok(Strategy::Udp);
        }
        if let Ok(stock) = s.parse() {
            return Ok(Strategy::Quic(stock));
        }
        let stock = Stock::WORDS;
        let known = || format!("`{s}` is no strategy: udp, {}, {stock}", AckStrategy::names());
        s.parse().map(Strategy::Tcp).map_err(|_| known())
    }
}

macro_rules! serde_as_text {
    ($name:ty) => {
        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

serde_as_text!(Strategy);

/// Controllers by the names their own crate gives them.
mod by_name {
    use serde::{Deserialize, Deserializer, Serializer};
    use tack_cc::Algorithm;

    pub(super) fn serialize<S: Serializer>(cc: &Algorithm, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(cc.name())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Algorithm, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

/// What the application does.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(
    rename_all = "kebab-case",
    tag = "kind",
    deny_unknown_fields,
    expecting = "a table with its kind: { kind = \"bulk\" }"
)]
pub enum App {
    /// As much as the path takes, until the flow's stop.
    #[default]
    Bulk,
    /// So many bytes, as fast as the path takes them.
    File {
        /// At least 1.
        bytes: u64,
    },
    /// A request of `request_bytes`, answered with `response_bytes`, again after `think_ms`.
    RequestResponse {
        /// Client to server, bytes.
        request_bytes: u64,
        /// Server to client, bytes.
        response_bytes: u64,
        /// Pause before the next request, milliseconds.
        #[serde(default)]
        think_ms: f64,
    },
    /// Bulk for `on_ms`, silence for `off_ms`, and again.
    OnOff {
        /// Milliseconds of sending.
        on_ms: f64,
        /// Milliseconds of silence.
        off_ms: f64,
    },
    /// Constant rate of application bytes.
    Cbr {
        /// Mbit/s.
        mbps: f64,
    },
    /// A video's frames, each when it was captured, over and over.
    Video {
        /// Name of a trace of the repository, or its lines: `fps 60`, then `I BYTES` or `P BYTES` for
        /// each frame.
        trace: String,
        /// From a frame's capture until it is due at the viewer, milliseconds.
        #[serde(default = "playout")]
        playout_ms: f64,
    },
}

/// As much as a projected screen may lag.
fn playout() -> f64 {
    200.0
}

/// Which way the data goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// Server to station.
    #[default]
    Down,
    /// Station to server.
    Up,
}

/// How plain TCP with SACK finds what is lost: [`LossDetection`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Detection {
    /// [RFC 8985].
    #[default]
    RackTlp,
    /// [RFC 6675]: three segments above, and timeouts for what is lost again.
    DupThresh,
}

impl From<Detection> for LossDetection {
    fn from(detection: Detection) -> LossDetection {
        match detection {
            Detection::RackTlp => LossDetection::RackTlp,
            Detection::DupThresh => LossDetection::DupThresh,
        }
    }
}

/// One flow.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// How it is carried.
    pub strategy: Strategy,
    /// Congestion control (TCP and TACK).
    #[serde(default, with = "by_name")]
    pub cc: Algorithm,
    /// Instead of `cc`, one that the program which runs the file brings, by its name:
    /// [`crate::host::Host`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<String>,
    /// What the application does.
    #[serde(default)]
    pub app: App,
    /// Which way its data goes.
    #[serde(default)]
    pub direction: Direction,
    /// Which station it belongs to, from 0; with `[access]` which pair of hosts.
    #[serde(default)]
    pub station: u32,
    /// How many such flows, each on the next station, or `station_step` further.
    #[serde(default = "one")]
    pub count: u32,
    /// From the station of one of `count` to that of the next.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub station_step: u32,
    /// Start, seconds.
    #[serde(default)]
    pub start_s: f64,
    /// The n-th of `count` starts, and stops, n times this later, seconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub stagger_s: f64,
    /// The start is later by a random part of this, seconds, drawn from the seed for each flow.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub start_jitter_s: f64,
    /// End, seconds; the scenario's end if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_s: Option<f64>,
    /// Offer ECN [RFC 3168]; matters where a queue marks.
    #[serde(default)]
    pub ecn: bool,
    /// `beta` of a TACK flow.
    #[serde(default = "four")]
    pub beta: u32,
    /// `L` of a TACK flow.
    #[serde(default = "two")]
    pub segments_per_ack: u32,
    /// Application bytes in a full segment; what fits 1500 bytes if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segment_bytes: Option<u16>,
    /// Window-based controllers pace what the window allows; `false` leaves the clock to the
    /// acknowledgments, as in ns-2 and in Linux without `fq`. BBR is always paced.
    #[serde(default = "yes")]
    pub paced: bool,
    /// Receive window in full segments; practically unlimited if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rwnd_segments: Option<u32>,
    /// Full segments that leave before the first acknowledgment; ten of at most 14 600 bytes if left
    /// out (TCP).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_window_segments: Option<u32>,
    /// How plain TCP finds what is lost.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub loss_detection: Detection,
    /// One way over a link of its own behind the path, milliseconds: flows with unlike round trips.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub delay_ms: f64,
    /// What its figures are called where several kinds of flows run; its strategy if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Parameters of a TACK flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tack: Option<TackWords>,
}

fn is_usual(detection: &Detection) -> bool {
    *detection == Detection::default()
}

fn yes() -> bool {
    true
}

fn is_one(n: &u32) -> bool {
    *n == 1
}

fn four() -> u32 {
    4
}

fn two() -> u32 {
    2
}

impl Flow {
    /// A bulk download by `strategy`.
    pub fn bulk(strategy: Strategy) -> Flow {
        Flow {
            strategy,
            cc: Algorithm::default(),
            controller: None,
            app: App::Bulk,
            direction: Direction::Down,
            station: 0,
            count: one(),
            start_s: 0.0,
            start_jitter_s: 0.0,
            stop_s: None,
            ecn: false,
            beta: four(),
            segments_per_ack: two(),
            segment_bytes: None,
            paced: yes(),
            rwnd_segments: None,
            initial_window_segments: None,
            loss_detection: Detection::default(),
            station_step: one(),
            stagger_s: 0.0,
            delay_ms: 0.0,
            group: None,
            tack: None,
        }
    }

    /// TACK's parameters as this flow has them, on top of `usual`. Checked before: it cannot fail
    /// for a scenario that was parsed.
    pub fn tack_params(&self, usual: Params) -> Params {
        let mut params =
            Params { beta: self.beta, segments_per_ack: self.segments_per_ack, ..usual };
        // What is wrong was reported when the scenario was read.
        let _ = self.tack.as_ref().map(|words| words.apply(&mut params));
        params
    }

    /// The first key that is wrong.
    pub(super) fn check(&self, stations: u32, duration_s: f64) -> Result<(), Problem> {
        let bad = |key: &str, what: String| Err(Problem::new(key, what));
        if self.station >= stations {
            let what =
                format!("is {}, but stations count from 0 to {}", self.station, stations - 1);
            return bad("station", what);
        }
        within("stagger_s", self.stagger_s, 0.0, 1e5)?;
        within("delay_ms", self.delay_ms, 0.0, 1e5)?;
        if let Some(words) = &self.tack {
            words.apply(&mut Params::default()).map_err(|p| p.of("tack"))?;
        }
        if self.group.as_ref().is_some_and(|g| g.is_empty() || g.len() > 64 || g.contains('.')) {
            return bad("group", "must be a name of 1 to 64 letters without a dot".to_owned());
        }
        if let Some(name) = &self.controller {
            if name.is_empty() || name.len() > 64 {
                return bad("controller", "must be a name of 1 to 64 letters".to_owned());
            }
            if !matches!(self.strategy, Strategy::Tcp(_)) {
                let what =
                    format!("cannot be set for {}: it is for flows of our TCP", self.strategy);
                return bad("controller", what);
            }
        }
        within("station_step", f64::from(self.station_step), 0.0, 1e3)?;
        if self.count == 0 {
            return bad("count", "is 0: leave the flow out instead".to_owned());
        }
        within("start_jitter_s", self.start_jitter_s, 0.0, 1e6)?;
        // A TACK must find room for a few blocks, and jumbo frames bound it above.
        within("segment_bytes", self.segment_bytes.map(f64::from), 200.0, 8_900.0)?;
        within("rwnd_segments", self.rwnd_segments.map(f64::from), 2.0, 1e6)?;
        let initial = self.initial_window_segments.map(f64::from);
        within("initial_window_segments", initial, 1.0, 1e4)?;
        let is_plain = matches!(self.strategy, Strategy::Tcp(ack) if ack.tack().is_none());
        if self.loss_detection != Detection::default() && !is_plain {
            let what = format!("is plain TCP's, but the flow is {}", self.strategy);
            return bad("loss_detection", what);
        }
        self.check_times(duration_s)?;
        if let Strategy::Quic(stock) = self.strategy {
            self.check_stock(stock)?;
        }
        within("beta", f64::from(self.beta), 2.0, 64.0)?;
        within("segments_per_ack", f64::from(self.segments_per_ack), 1.0, 64.0)?;
        self.check_app()
    }

    fn check_times(&self, duration_s: f64) -> Result<(), Problem> {
        let (start, jitter) = (self.start_s, self.start_jitter_s);
        if !(start >= 0.0 && start < duration_s) {
            return Err(Problem::new(
                "start_s",
                format!("is {}, outside 0 to duration_s", plain(start)),
            ));
        }
        let stagger = f64::from(self.count - 1) * self.stagger_s;
        let last = start + stagger + jitter;
        if last > duration_s {
            let key = if stagger > 0.0 { "stagger_s" } else { "start_jitter_s" };
            let what = format!("lets the last flow start as late as {last} s, after the run's end");
            return Err(Problem::new(key, what));
        }
        if let Some(stop) = self.stop_s.filter(|s| !(*s > start + jitter && *s <= 1e6)) {
            let what = format!(
                "is {}, but must come after start_s ({start}) and start_jitter_s ({jitter}), \
                 1000000 at the latest",
                plain(stop)
            );
            return Err(Problem::new("stop_s", what));
        }
        Ok(())
    }

    /// What a stock stack does not do is not asked of it.
    fn check_stock(&self, stock: Stock) -> Result<(), Problem> {
        let bad = |key: &str, what: String| Err(Problem::new(key, what));
        let has = stock.controllers();
        if !has.contains(&self.cc) {
            let has = has.iter().map(|cc| cc.name()).collect::<Vec<_>>().join(", ");
            return bad("cc", format!("is {}, but {stock} has {has}", self.cc.name()));
        }
        let only_ours = [
            ("paced", !self.paced),
            ("initial_window_segments", self.initial_window_segments.is_some()),
            ("segment_bytes", self.segment_bytes.is_some()),
        ];
        match only_ours.into_iter().find(|(_, set)| *set) {
            Some((key, _)) => bad(key, format!("cannot be set for {stock}: it has its own way")),
            None => Ok(()),
        }
    }

    fn check_app(&self) -> Result<(), Problem> {
        let positive = |key: &str, v: f64| above_zero(key, v, 1e6);
        match &self.app {
            App::Bulk | App::File { bytes: 1.. } => Ok(()),
            App::File { bytes: 0 } => Err(Problem::new("app.bytes", "must be at least 1")),
            App::Video { trace, playout_ms } => {
                positive("app.playout_ms", *playout_ms)?;
                video::read(trace).map_err(|what| Problem::new("app.trace", what)).map(drop)
            }
            App::Cbr { mbps } => positive("app.mbps", *mbps),
            App::OnOff { on_ms, off_ms } => {
                // A run of shorter turns would not end in anybody's time.
                within("app.on_ms", *on_ms, 1e-3, 1e6)?;
                within("app.off_ms", *off_ms, 1e-3, 1e6)
            }
            App::RequestResponse { request_bytes, response_bytes, think_ms } => {
                positive("app.request_bytes", (*request_bytes as f64).min(1e6))?;
                positive("app.response_bytes", (*response_bytes as f64).min(1e6))?;
                within("app.think_ms", *think_ms, 0.0, 1e9)
            }
        }
    }
}

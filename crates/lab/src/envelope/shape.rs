//! From the words of a draw to a scenario that ends in seconds.
//!
//! Words say what a path is (a rate, a round trip, a share), not how a run must be cut to be
//! affordable: that is done here, by the limits. Every combination of words in range is a scenario
//! that runs; what a combination has no use for (stations without Wi-Fi) is passed over.

use anyhow::{Context, Result, bail};
use tack_cc::Algorithm;

use crate::draw::{Word, Words, significant, three_digits};
use crate::experiment::{Experiment, Limits};
use crate::scenario::{
    App, Direction, Flow, Hosts, QueueKind, Scenario, ScenarioError, Strategy, Wan, WanDirection,
    Wifi, WifiQueue,
};

/// Every word there is, with its range and unit: `least`, `most`; texts list their choices.
pub const WORDS: &[(&str, Range, &str)] = &[
    ("wifi", Range::Text(&["none", "b", "g", "n", "ac", "ax"]), "the first hop"),
    ("stations", Range::Number(1.0, 30.0), "stations of the Wi-Fi"),
    ("mpdu_error", Range::Number(0.0, 0.5), "share of MPDUs with bit errors"),
    ("neighbours", Range::Number(0.0, 100.0), "other networks on the channel, always sending"),
    (
        "hidden_bursts",
        Range::Number(0.0, 1_000.0),
        "of interference a second that nobody hears coming",
    ),
    ("scan_every_s", Range::Number(0.2, 60.0), "how often stations leave the channel"),
    ("queue", Range::Text(&["drop-tail", "red", "codel", "fq-codel"]), "of the bottlenecks"),
    ("ecn", Range::Text(&["yes", "no"]), "whether flows offer it and queues mark"),
    ("rate_mbps", Range::Number(0.01, 100_000.0), "of the wired bottleneck"),
    ("wan_limit", Range::Text(&["yes", "no"]), "whether the path behind Wi-Fi is a bottleneck"),
    ("rtt_ms", Range::Number(0.01, 5_000.0), "there and back, without queues"),
    ("buffer_bdp", Range::Number(0.01, 100.0), "bottleneck buffer"),
    ("buffer_packets", Range::Number(1.0, 1e6), "the same in packets, instead"),
    ("ack_filter", Range::Text(&["yes", "no"]), "whether bottlenecks thin acknowledgments"),
    ("return_ratio", Range::Number(1.0, 1_000.0), "rate there over rate back"),
    ("loss", Range::Number(0.0, 0.3), "share of packets lost, data's way"),
    ("ack_loss", Range::Number(0.0, 0.3), "the same, acknowledgments' way"),
    ("loss_burst", Range::Number(1.0, 100.0), "mean packets in a burst of losses"),
    ("jitter_ms", Range::Number(0.0, 1_000.0), "queueing noise, both ways"),
    ("reordering", Range::Number(0.0, 0.5), "share of packets held back"),
    ("reordering_ms", Range::Number(0.0, 1_000.0), "how long at most"),
    ("duplication", Range::Number(0.0, 0.5), "share of packets that arrive twice"),
    ("corruption", Range::Number(0.0, 0.5), "share of packets that arrive with wrong bits"),
    ("delay_steps", Range::List(0.01, 100.0), "delays, of the path's, one after the other"),
    ("late_ms", Range::Number(0.0, 100.0), "how late at most both hosts notice what is due"),
    ("rate_steps", Range::List(0.001, 10.0), "levels of the rate, of rate_mbps, over the run"),
    ("outages", Range::List(0.0, 1.0), "where in the run the path is cut"),
    ("outage_rtts", Range::Number(0.0, 1_000.0), "how long each time"),
    ("outage_way", Range::Text(&["both", "down", "up"]), "in which direction"),
    ("direction", Range::Text(&["down", "up"]), "of the data; down is to the station"),
    ("cc", Range::Text(Algorithm::NAMES), "controller"),
    ("flows", Range::Number(1.0, 100.0), "under test"),
    ("company", Range::Number(0.0, 100.0), "plain TCP's bulk flows beside them"),
    ("company_cc", Range::Text(Algorithm::NAMES), "their controller"),
    ("company_way", Range::Text(&["same", "other"]), "theirs, beside `direction`"),
    ("company_from", Range::Number(0.0, 0.9), "when in the run they begin"),
    ("app", Range::Text(&["bulk", "file", "cbr", "request-response", "on-off"]), "traffic"),
    ("file_bytes", Range::Number(1.0, 1e10), "size of a file"),
    ("load", Range::Number(0.001, 2.0), "of cbr, of the bottleneck's share"),
    ("request_bytes", Range::Number(1.0, 1e8), ""),
    ("response_bytes", Range::Number(1.0, 1e8), ""),
    ("think_ms", Range::Number(0.0, 1e5), "pause between response and request"),
    ("on_ms", Range::Number(1.0, 1e5), "mean activity"),
    ("off_ms", Range::Number(1.0, 1e5), "mean silence"),
    ("rwnd_segments", Range::Number(2.0, 1e6), "fixed receive window"),
    ("segment_bytes", Range::Number(200.0, 1_448.0), "what full segments carry"),
    ("initial_window", Range::Number(1.0, 1_000.0), "segments before the first acknowledgment"),
    ("paced", Range::Text(&["yes", "no"]), "whether windows are paced"),
    ("run_share", Range::Number(0.01, 1.0), "of the run's usual length"),
];

/// What a word may be.
#[derive(Clone, Copy, Debug)]
pub enum Range {
    /// From least to most.
    Number(f64, f64),
    /// One of these.
    Text(&'static [&'static str]),
    /// Each value from least to most.
    List(f64, f64),
}

impl Range {
    /// Whether `word` lies in it; else what would be right.
    pub fn check(&self, word: &Word) -> Result<(), String> {
        match (self, word) {
            (Range::Number(least, most), Word::Number(v)) if (least..=most).contains(&v) => Ok(()),
            (Range::Text(known), Word::Text(text)) if known.contains(&text.as_str()) => Ok(()),
            (Range::List(least, most), Word::List(values))
                if values.iter().all(|v| (least..=most).contains(&v)) =>
            {
                Ok(())
            }
            (Range::Number(least, most), _) => Err(format!("a number from {least} to {most}")),
            (Range::Text(known), _) => Err(format!("one of {}", known.join(", "))),
            (Range::List(least, most), _) => Err(format!("numbers from {least} to {most}")),
        }
    }
}

/// The range of a word.
pub fn range(name: &str) -> Option<Range> {
    WORDS.iter().find(|w| w.0 == name).map(|w| w.1)
}

/// Whether `experiment` is one that draws paths, and by words in their range. `text` is its file.
///
/// # Errors
/// What is wrong, with line, key and the remedy.
pub fn check(experiment: &Experiment, text: &str) -> Result<(), ScenarioError> {
    if experiment.base.is_some() {
        let what = "is a scenario to run, with `tack lab run`: an envelope draws its paths";
        return Err(ScenarioError::at(text, "base", what.to_owned()));
    }
    for (name, from) in &experiment.draw {
        let wrong = |what| Err(ScenarioError::at(text, &format!("draw.{name}"), what));
        let Some(range) = range(name) else {
            let words: Vec<&str> = WORDS.iter().map(|word| word.0).collect();
            return wrong(format!("is no word of an envelope: {}", words.join(", ")));
        };
        if let Some(right) = from.extremes().iter().find_map(|word| range.check(word).err()) {
            return wrong(format!("must be {right}"));
        }
    }
    Ok(())
}

/// IP-level size of a full packet.
const PACKET_BITS: f64 = 12_000.0;
/// Application rate that a PHY with one station and large aggregates comes to, Mbit/s, roughly.
const WIFI_MBPS: [(&str, f64); 5] =
    [("b", 6.0), ("g", 24.0), ("n", 150.0), ("ac", 500.0), ("ax", 600.0)];
/// What waiting for the air, both ways, and an aggregate on it add to a round trip, seconds.
const AIR_S: f64 = 0.004;
/// Least rate for each flow, Mbit/s: with less there is no flow to speak of.
const LEAST_FLOW_MBPS: f64 = 0.1;
/// Packets that any buffer holds.
const LEAST_BUFFER: f64 = 4.0;
/// Longest run for a file, virtual seconds.
const MAX_SECONDS: f64 = 240.0;
/// Window of the RTTmin filters less a little: what is measured of delays must lie within it.
const MEASURED_S: f64 = 9.0;

/// The words with what follows from them.
struct Shape<'a> {
    words: &'a Words,
    limits: &'a Limits,
}

/// The scenario of a draw, with `seed`; the flows under test are its first entry.
///
/// # Errors
/// A word that is not there, or out of range.
pub fn scenario(words: &Words, limits: &Limits, seed: u64) -> Result<Scenario> {
    for (name, word) in words {
        let range = range(name).with_context(|| format!("`{name}` is no word of a draw"))?;
        if let Err(right) = range.check(word) {
            bail!("`{name}` must be {right}");
        }
    }
    Shape { words, limits }.scenario(seed)
}

impl Shape<'_> {
    fn number(&self, name: &str) -> Option<f64> {
        match self.words.get(name) {
            Some(Word::Number(v)) => Some(*v),
            _ => None,
        }
    }

    fn text(&self, name: &str) -> Option<&str> {
        match self.words.get(name) {
            Some(Word::Text(text)) => Some(text),
            _ => None,
        }
    }

    fn list(&self, name: &str) -> Option<&[f64]> {
        match self.words.get(name) {
            Some(Word::List(values)) if !values.is_empty() => Some(values),
            _ => None,
        }
    }

    fn wifi(&self) -> Option<&str> {
        self.text("wifi").filter(|phy| *phy != "none")
    }

    fn scenario(&self, seed: u64) -> Result<Scenario> {
        let drawn = self.number("rtt_ms").context("`rtt_ms` is missing: a path has a delay")?;
        let others = 1.0 + self.neighbours();
        let air = self.wifi().map(|phy| self.air_mbps(phy) / others);
        // As long as the limits let a path be, at the rate it has or at the air's.
        let rtt_s = match air {
            Some(mbps) => (drawn / 1e3).min(self.most_bdp_s(mbps)),
            None => drawn / 1e3,
        };
        let wired = self.wired_mbps(rtt_s)?;
        let rate = [air, wired].into_iter().flatten().fold(f64::INFINITY, f64::min);
        let fitting = (rate / LEAST_FLOW_MBPS).floor().max(1.0);
        let flows = self.number("flows").unwrap_or(1.0).round().clamp(1.0, fitting);
        let room = (fitting - flows).max(0.0);
        let company = self.number("company").unwrap_or(0.0).round().min(room);
        let app = self.app(rate / (flows + company), flows)?;
        // A round trip takes the packets' own time, too: all of it on slow and near paths.
        let packets_s = 2.0 * PACKET_BITS / (rate * 1e6) + air.map_or(0.0, |_| AIR_S * others);
        let loaded_s = rtt_s + packets_s;
        let duration_s = three_digits(self.duration_s(&app, rate, loaded_s, flows));
        let warmup_s = three_digits((10.0 * loaded_s).max(duration_s - MEASURED_S).max(0.0));
        Ok(Scenario {
            stack: None,
            veth: false,
            name: "envelope".to_owned(),
            duration_s,
            warmup_s: if warmup_s < duration_s { warmup_s } else { 0.0 },
            seed,
            runs: 1,
            wifi: self.wifi().map(|phy| self.station(phy, flows)),
            wan: Some(self.wan(wired, rtt_s, duration_s)),
            access: None,
            hosts: self.number("late_ms").map(|ms| Hosts { late_ms: Some(ms), ..Hosts::default() }),
            flow: self.flows(app, flows, company, rtt_s, duration_s)?,
        })
    }

    /// Networks that share the air.
    fn neighbours(&self) -> f64 {
        self.number("neighbours").unwrap_or(0.0).round()
    }

    fn air_mbps(&self, phy: &str) -> f64 {
        WIFI_MBPS.iter().find(|(name, _)| *name == phy).map_or(6.0, |(_, mbps)| *mbps)
    }

    /// Longest round trip of which the limits allow as many as they ask for.
    fn most_bdp_s(&self, mbps: f64) -> f64 {
        self.limits.packets * PACKET_BITS / (mbps * 1e6) / self.limits.rtts
    }

    /// Rate of the wired bottleneck, if there is one, as high as the limits let it be.
    fn wired_mbps(&self, rtt_s: f64) -> Result<Option<f64>> {
        if self.wifi().is_some() && self.text("wan_limit") != Some("yes") {
            return Ok(None);
        }
        let drawn = self.number("rate_mbps").context("`rate_mbps` is missing: without Wi-Fi")?;
        let most = self.limits.packets * PACKET_BITS / 1e6 / (rtt_s * self.limits.rtts);
        Ok(Some(three_digits(drawn.min(most))))
    }

    fn station(&self, phy: &str, flows: f64) -> Wifi {
        let stations = self.number("stations").unwrap_or(1.0).round().clamp(1.0, 30.0);
        Wifi {
            // A station without a flow is none.
            stations: stations.min(flows.max(1.0)) as u32,
            mpdu_error: self.number("mpdu_error").filter(|p| *p > 0.0),
            saturated_neighbours: Some(self.neighbours() as u32).filter(|n| *n > 0),
            hidden_bursts_per_s: self.number("hidden_bursts").filter(|n| *n > 0.0),
            scan_every_s: self.number("scan_every_s"),
            queue: self.text("queue").filter(|q| *q == "fq-codel").map(|_| WifiQueue::FqCodel),
            ..Wifi::preset(phy, "textbook")
        }
    }

    fn wan(&self, rate: Option<f64>, rtt_s: f64, duration_s: f64) -> Wan {
        let positive = |name: &str| self.number(name).filter(|v| *v > 0.0);
        let there = self.lane("loss", rate, rtt_s);
        let ratio = self.number("return_ratio").unwrap_or(1.0).max(1.0);
        let back = self.lane("ack_loss", rate.map(|mbps| (mbps / ratio).max(1e-3)), rtt_s);
        let there = self.with_steps(there, duration_s);
        let data_is_down = self.text("direction") != Some("up");
        let (mut down, mut up) = if data_is_down { (there, back) } else { (back, there) };
        let way = self.text("outage_way").unwrap_or("both");
        let windows = self.outages(rtt_s, duration_s);
        for (name, direction) in [("down", &mut down), ("up", &mut up)] {
            if way == "both" || way == name {
                direction.outages.clone_from(&windows);
            }
        }
        Wan {
            delay_ms: Some(three_digits(rtt_s * 500.0)),
            delay_steps: self.steps("delay_steps", rtt_s * 500.0, duration_s),
            corruption: positive("corruption"),
            ack_filter: self.thins_acks().filter(|_| rate.is_some()),
            jitter_ms: positive("jitter_ms"),
            reordering: positive("reordering"),
            reordering_ms: positive("reordering").and(self.number("reordering_ms")),
            duplication: positive("duplication"),
            queue: self.queue().filter(|_| rate.is_some()),
            ecn: self.is_marking().filter(|_| rate.is_some()),
            down: Some(down).filter(|d| *d != WanDirection::default()),
            up: Some(up).filter(|d| *d != WanDirection::default()),
            ..Wan::default()
        }
    }

    /// A bottleneck's discipline, where it is not the usual one.
    fn queue(&self) -> Option<QueueKind> {
        match self.text("queue")? {
            "red" => Some(QueueKind::Red),
            "codel" => Some(QueueKind::Codel),
            "fq-codel" => Some(QueueKind::FqCodel),
            _ => None,
        }
    }

    /// Whether a queue that could mark does.
    fn is_marking(&self) -> Option<bool> {
        self.queue().map(|_| self.text("ecn") == Some("yes"))
    }

    /// Whether a queue of one kind of packets thins acknowledgments; flows' own queues do not.
    fn thins_acks(&self) -> Option<bool> {
        let is_one = self.queue() != Some(QueueKind::FqCodel);
        self.text("ack_filter").filter(|_| is_one).map(|text| text == "yes")
    }

    /// One direction with its losses, rate and buffer.
    fn lane(&self, loss: &str, rate: Option<f64>, rtt_s: f64) -> WanDirection {
        let loss = self.number(loss).filter(|p| *p > 0.0);
        let bdp = rate.map_or(0.0, |mbps| mbps * 1e6 * rtt_s / PACKET_BITS);
        let usual = (bdp * self.number("buffer_bdp").unwrap_or(1.0)).clamp(LEAST_BUFFER, 1e9);
        let buffer = self.number("buffer_packets").unwrap_or(usual).round();
        WanDirection {
            rate_mbps: rate.map(three_digits),
            buffer_packets: rate.map(|_| buffer as u32),
            loss,
            loss_burst: self.number("loss_burst").filter(|b| *b > 1.0 && loss.is_some()),
            ..WanDirection::default()
        }
    }

    /// The levels of `rate_steps` one after the other, in place of the rate.
    fn with_steps(&self, mut lane: WanDirection, duration_s: f64) -> WanDirection {
        if let Some(mbps) = lane.rate_mbps {
            lane.rate_steps = self.steps("rate_steps", mbps, duration_s);
            lane.rate_mbps = lane.rate_mbps.filter(|_| lane.rate_steps.is_none());
        }
        lane
    }

    /// The levels of a word over the run, in parts of equal length: from when on, and what.
    fn steps(&self, name: &str, of: f64, duration_s: f64) -> Option<Vec<(f64, f64)>> {
        let levels = self.list(name)?;
        let length = duration_s / levels.len() as f64;
        let step = |(i, level): (usize, &f64)| {
            (three_digits(i as f64 * length), three_digits((of * level).max(1e-3)))
        };
        Some(levels.iter().enumerate().map(step).collect())
    }

    fn outages(&self, rtt_s: f64, duration_s: f64) -> Option<Vec<(f64, f64)>> {
        // A fifth of the run at most: after a longer one there is nothing left to see.
        let length = (self.number("outage_rtts").unwrap_or(1.0) * rtt_s).min(duration_s / 5.0);
        let starts = self.list("outages")?.iter().map(|s| three_digits(s * duration_s));
        let mut starts: Vec<f64> = starts.collect();
        starts.sort_by(f64::total_cmp);
        let mut windows: Vec<(f64, f64)> = Vec::new();
        for start in starts {
            let end = significant(start + length, 6);
            if end > start && windows.last().is_none_or(|w| w.1 <= start) {
                windows.push((start, end));
            }
        }
        Some(windows).filter(|w| !w.is_empty())
    }

    fn app(&self, share_mbps: f64, flows: f64) -> Result<App> {
        let number = |name: &str| {
            self.number(name).with_context(|| format!("`{name}` is missing: this app needs it"))
        };
        let bytes = |name: &str| Ok::<u64, anyhow::Error>(number(name)?.round().max(1.0) as u64);
        let most = (self.limits.packets * PACKET_BITS / 8.0 / flows) as u64;
        Ok(match self.text("app").unwrap_or("bulk") {
            "file" => App::File { bytes: bytes("file_bytes")?.min(most) },
            "cbr" => App::Cbr { mbps: three_digits((number("load")? * share_mbps).max(1e-3)) },
            "request-response" => App::RequestResponse {
                request_bytes: bytes("request_bytes")?.min(most),
                response_bytes: bytes("response_bytes")?.min(most),
                think_ms: number("think_ms")?,
            },
            "on-off" => App::OnOff { on_ms: number("on_ms")?, off_ms: number("off_ms")? },
            _ => App::Bulk,
        })
    }

    fn duration_s(&self, app: &App, mbps: f64, rtt_s: f64, flows: f64) -> f64 {
        let least = self.limits.rtts * rtt_s;
        let affordable = self.limits.packets * PACKET_BITS / (mbps * 1e6);
        let usual = affordable.min(self.limits.seconds).max(least).max(0.05);
        let usual = match app {
            // So long that even a slow one arrives; afterwards time costs nothing.
            App::File { bytes } => {
                let alone = *bytes as f64 * flows * 8.0 / (mbps * 1e6);
                (8.0 * alone + 2.0 * least).clamp(2.0, MAX_SECONDS)
            }
            _ => usual,
        };
        usual * self.number("run_share").unwrap_or(1.0)
    }

    fn flows(
        &self,
        app: App,
        flows: f64,
        company: f64,
        rtt_s: f64,
        duration_s: f64,
    ) -> Result<Vec<Flow>> {
        let controller = |name: &str| -> Result<Algorithm> {
            let text = self.text(name).unwrap_or("bbr");
            text.parse().map_err(|e| anyhow::anyhow!("`{name}`: {e}"))
        };
        let way = |is_up| if is_up { Direction::Up } else { Direction::Down };
        let is_up = self.text("direction") == Some("up");
        let count = |name: &str| self.number(name).map(|n| n.round() as u32);
        let jitter = |n: f64| if n > 1.0 { three_digits(rtt_s) } else { 0.0 };
        let tested = Flow {
            cc: controller("cc")?,
            app,
            direction: way(is_up),
            count: flows as u32,
            start_jitter_s: jitter(flows + company),
            ecn: self.text("ecn") == Some("yes"),
            rwnd_segments: count("rwnd_segments"),
            segment_bytes: count("segment_bytes").map(|bytes| bytes as u16),
            initial_window_segments: count("initial_window"),
            paced: self.text("paced") != Some("no"),
            ..Flow::bulk(Strategy::TACK)
        };
        let mut all = vec![tested];
        if company >= 1.0 {
            all.push(Flow {
                cc: controller("company_cc")?,
                direction: way(is_up != (self.text("company_way") == Some("other"))),
                count: company as u32,
                start_s: three_digits(self.number("company_from").unwrap_or(0.0) * duration_s),
                start_jitter_s: jitter(flows + company),
                ecn: self.text("ecn") == Some("yes"),
                ..Flow::bulk(Strategy::every(2))
            });
        }
        Ok(all)
    }
}

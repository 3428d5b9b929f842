//! What makes figures of a scenario: the simulator, open-loop traffic, a formula, or real time.

use core::time::Duration;
use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use tack_link::open_loop::{AckRule, Mode, OpenLoop};
use tack_sim::Stall;
use tack_tcp::PathFacts;
use tack_units::Rate;

use crate::formula;
use crate::metric;
use crate::plan::Item;
use crate::record::Record;
use crate::response;
use crate::scenario::{App, Scenario, Stack, StockAcks, Strategy};
use crate::simulate::{Wanted, simulate_wanted};
use crate::stock::GaveUp;

/// What makes figures of a scenario.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backend {
    /// The real stack in virtual time.
    #[default]
    Sim,
    /// The same, and what open-loop traffic with as many ACKs reaches on the same air.
    SimAndIdeal,
    /// The same, and the mean window that its losses allow by theory: see `response.rs`.
    SimAndResponse,
    /// Open-loop traffic over the first hop, acknowledged as the strategy's formula says.
    OpenLoop,
    /// The same from the first station to the second through the access point.
    OpenLoopRelay,
    /// The strategy's formula of frequency at the scenario's rate and round trip.
    Formula,
    /// Real packets over an emulated path, of the scenario's `stack`. Needs namespaces.
    Live,
}

/// How often a run in real time is made on a machine that is busy with something else.
const TRIES: u32 = 3;

/// Raised when the same scenario gives other figures than before: stores of older ones are not
/// resumed then.
const EPOCH: u32 = 2;

/// IP bytes of a full-sized packet; application bytes in one: UDP, TCP with timestamps, TCP with
/// TACK's packet number.
const PACKET_BYTES: f64 = 1_500.0;
const UDP_PAYLOAD_BYTES: f64 = 1_472.0;
const TCP_PAYLOAD_BYTES: f64 = 1_448.0;
const TACK_PAYLOAD_BYTES: f64 = 1_440.0;

/// What a run is known by: everything its figures depend on.
pub fn identity(scenario: &Scenario, backend: Backend, series: bool) -> Result<String> {
    let nameless = Scenario { name: String::new(), ..scenario.clone() };
    let version = env!("CARGO_PKG_VERSION");
    let mut text = serde_json::to_string(&(version, EPOCH, backend, series, nameless))?;
    #[cfg(target_os = "linux")]
    if let Some(Stack::Rival(name)) = &scenario.stack {
        text += &crate::versus::rival::Rival::text(name).map_err(anyhow::Error::msg)?;
    }
    Ok(blake3::hash(text.as_bytes()).to_hex()[..16].to_owned())
}

impl Backend {
    /// Whether it can run `scenario`; else the key in the way, and what is wrong with it.
    ///
    /// # Errors
    /// That.
    pub(crate) fn check(self, scenario: &Scenario) -> Result<(), (String, String)> {
        let is_live = self == Backend::Live;
        if is_live && cfg!(not(target_os = "linux")) {
            return Err(("backend".to_owned(), "live needs Linux".to_owned()));
        }
        for (key, is_there) in [("stack", scenario.stack.is_some()), ("veth", scenario.veth)] {
            if !is_live && is_there {
                let what = "is for real time: say backend = \"live\" at the top".to_owned();
                return Err((key.to_owned(), what));
            }
        }
        if is_live { scenario.check_live() } else { Ok(()) }
    }

    /// The record of one item of a plan. A flow that stalled makes it void.
    ///
    /// # Errors
    /// When the run cannot be built or broke a promise of the simulator.
    pub fn run(self, item: &Item) -> Result<Record> {
        let mut record = Record { key: item.key.clone(), ..Record::default() };
        record.run = item.id.clone();
        record.scenario = serde_json::to_value(&item.scenario)?;
        let figures = match self {
            Backend::Sim => simulated(item, &mut record),
            Backend::SimAndIdeal => simulated(item, &mut record).and_then(|mut figures| {
                if record.void.is_none() {
                    let ideal = open_loop(&item.scenario, Mode::UdpAck)?;
                    let goodput = ideal.get("goodput_bps").copied();
                    figures.extend(goodput.map(|v| ("ideal_goodput_bps".to_owned(), v)));
                }
                Ok(figures)
            }),
            Backend::SimAndResponse => simulated(item, &mut record).map(|mut figures| {
                let measured = record_rtt(&figures).zip(response::losses(&item.scenario));
                if let Some((rtt, losses)) = measured {
                    figures.extend(response::figures(item.scenario.flow[0].cc, losses, rtt));
                }
                figures
            }),
            Backend::OpenLoop => open_loop(&item.scenario, Mode::UdpAck),
            Backend::OpenLoopRelay => open_loop(&item.scenario, Mode::Relay),
            Backend::Formula => formula::figures(&item.scenario),
            Backend::Live if item.scenario.stack == Some(Stack::Simulated) => {
                simulated(item, &mut record)
            }
            Backend::Live => live(&item.scenario, &mut record),
        };
        record.metrics = figures.with_context(|| format!("run {}", describe(item)))?;
        Ok(record)
    }
}

fn describe(item: &Item) -> String {
    let words = item.key.iter().map(|(key, word)| format!("{key} = {word}"));
    format!(
        "{} ({}seed {})",
        item.id,
        words.map(|w| w + ", ").collect::<String>(),
        item.scenario.seed
    )
}

/// The round trip over which a window of theory is counted: delays of acknowledgments are part.
fn record_rtt(figures: &Figures) -> Option<Duration> {
    let us = figures.get("srtt_mean_us").filter(|us| **us > 0.0)?;
    Some(Duration::from_secs_f64(us / 1e6))
}

type Figures = BTreeMap<String, f64>;

fn simulated(item: &Item, record: &mut Record) -> Result<Figures> {
    let wanted = if item.series { Wanted::Series } else { Wanted::Figures };
    match simulate_wanted(&item.scenario, wanted) {
        Ok(run) => {
            record.series = run.series;
            record.samples = run.samples;
            Ok(metric::of_run(&item.scenario, &run.result, &run.extra))
        }
        Err(e) if e.is::<Stall>() || e.is::<GaveUp>() => {
            record.void = Some(format!("seed {}: {e}", item.scenario.seed));
            Ok(Figures::new())
        }
        Err(e) => Err(e),
    }
}

/// In real time, again until the machine was quiet enough or it was tried often enough.
#[cfg(target_os = "linux")]
fn live(scenario: &Scenario, record: &mut Record) -> Result<Figures> {
    if let Some(Stack::Rival(name)) = &scenario.stack {
        return versus(scenario, name, record);
    }
    for _ in 0..TRIES {
        let run = crate::live::run(scenario, None)?;
        record.void = run.void;
        if record.void.is_none() {
            return Ok(metric::of_live(scenario, &run.result, &run.extra));
        }
    }
    Ok(Figures::new())
}

/// Of a rival the same, but what goes wrong with the rival itself is not tried again.
#[cfg(target_os = "linux")]
fn versus(scenario: &Scenario, name: &str, record: &mut Record) -> Result<Figures> {
    for _ in 0..TRIES {
        let run = crate::versus::run(scenario, name)?;
        (record.void, record.about) = (run.void, run.about);
        if !run.again {
            return Ok(run.figures);
        }
    }
    Ok(Figures::new())
}

#[cfg(not(target_os = "linux"))]
fn live(_: &Scenario, _: &mut Record) -> Result<Figures> {
    bail!("real time needs Linux, not {TRIES} tries")
}

/// Open-loop traffic over the Wi-Fi of a scenario with the ACKs of its first flow: the "ideal
/// goodput" of [TON §VII-C]. Its rate is that of the flow's application where that has one.
fn open_loop(scenario: &Scenario, way: Mode) -> Result<Figures> {
    let (Some(wifi), Some(flow)) = (&scenario.wifi, scenario.flow.first()) else {
        bail!("open-loop traffic needs [wifi] and a flow");
    };
    let offered = match flow.app {
        App::Cbr { mbps } => Some(mbps),
        _ => None,
    };
    let time = Duration::from_secs_f64(scenario.duration_s - scenario.warmup_s);
    let run = |ack: AckRule| {
        let mode = if ack == AckRule::Never && way == Mode::UdpAck { Mode::Udp } else { way };
        let mut experiment = OpenLoop::new(wifi.checked_config(scenario.seed)?, mode);
        experiment.ack = ack;
        experiment.duration = time;
        experiment.offered_mbps = offered;
        anyhow::Ok(experiment.run()?)
    };
    let rtt = scenario.base_rtt();
    let unacknowledged = || anyhow::Ok(run(AckRule::Never)?.l3_mbps * 1e6);
    let (ack, payload) = match flow.strategy {
        Strategy::Udp => (AckRule::Never, UDP_PAYLOAD_BYTES),
        _ if flow.strategy.is_eq4() => {
            let params = flow.tack_params(tack::Params::default());
            let per_time = rtt / params.beta;
            let counted = f64::from(params.segments_per_ack) * PACKET_BYTES * 8.0;
            let by_time = per_time.as_secs_f64() > counted / unacknowledged()?;
            let count = AckRule::EveryPackets(params.segments_per_ack);
            (if by_time { AckRule::Every(per_time) } else { count }, TACK_PAYLOAD_BYTES)
        }
        Strategy::Quic(stock) => {
            let packets = if let StockAcks::Every(packets) = stock.acks { packets } else { 2 };
            (AckRule::EveryPackets(packets.into()), TACK_PAYLOAD_BYTES)
        }
        Strategy::Tcp(ack) => {
            // At the rate that data without acknowledgments reaches, by the strategy's formula.
            let bw = Rate::from_bps((unacknowledged()? * TCP_PAYLOAD_BYTES / PACKET_BYTES) as u64);
            let mss = TCP_PAYLOAD_BYTES as u32;
            let path = PathFacts { bw, rtt_min: rtt, window: bw.bytes_in(rtt), mss };
            let per_ack = (path.segments_per_s() / ack.frequency(&path)).round().max(1.0);
            (AckRule::EveryPackets(per_ack as u32), TCP_PAYLOAD_BYTES)
        }
    };
    let report = run(ack)?;
    let seconds = time.as_secs_f64();
    Ok(Figures::from([
        ("goodput_bps".to_owned(), report.l3_mbps * 1e6 * payload / PACKET_BYTES),
        ("wire_bps".to_owned(), report.l3_mbps * 1e6),
        ("data_packets_per_s".to_owned(), report.data_packets as f64 / seconds),
        ("ack_packets_per_s".to_owned(), report.acks_sent as f64 / seconds),
        ("ack_delivered_per_s".to_owned(), report.acks_delivered as f64 / seconds),
    ]))
}

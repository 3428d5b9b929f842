//! What makes figures of a scenario: the simulator, open-loop traffic, a formula, or real time.

use core::time::Duration;
use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use tack_link::open_loop::{AckRule, Mode, OpenLoop};
use tack_sim::Stall;
use tack_tcp::PathFacts;
use tack_units::Rate;

use crate::formula;
use crate::host::{Controllers, GoOn, Host};
use crate::item::{Backend, Item};
use crate::metric;
use crate::record::Record;
use crate::response;
use crate::result::RunResult;
use crate::scenario::{App, Scenario, Stack, StockAcks, Strategy, video};
use crate::simulate::Running;
use crate::stock::GaveUp;

/// How often a run in real time is made on a machine that is busy with something else.
const TRIES: u32 = 3;

/// IP bytes of a full-sized packet; application bytes in one: UDP, TCP with timestamps, TCP with
/// TACK's packet number.
const PACKET_BYTES: f64 = 1_500.0;
const UDP_PAYLOAD_BYTES: f64 = 1_472.0;
const TCP_PAYLOAD_BYTES: f64 = 1_448.0;
const TACK_PAYLOAD_BYTES: f64 = 1_440.0;

/// The record of one item of a plan. A flow that stalled makes it void.
///
/// # Errors
/// When the run cannot be built or broke a promise of the simulator.
pub fn run(item: &Item) -> Result<Record> {
    run_hosted(item, Host { controllers: &Controllers::new(), go_on: &|| true })
}

/// The same with what `host` brings.
///
/// # Errors
/// As [`run`], and where the host ended it or lacks one of the item's controllers.
pub fn run_hosted(item: &Item, host: Host<'_>) -> Result<Record> {
    let mut record = blank(item)?;
    let new = || {
        let mut running = Running::new(&item.scenario, None, host.controllers)?;
        running.advance_while(host.go_on)?;
        Ok(running)
    };
    let simulated = |record: &mut Record| simulated(item, new(), record);
    let figures = match item.backend {
        Backend::Sim => simulated(&mut record),
        Backend::SimAndIdeal => simulated(&mut record).and_then(|mut figures| {
            if record.void.is_none() {
                let ideal = open_loop(&item.scenario, Mode::UdpAck)?;
                let goodput = ideal.get("goodput_bps").copied();
                figures.extend(goodput.map(|v| ("ideal_goodput_bps".to_owned(), v)));
            }
            Ok(figures)
        }),
        Backend::SimAndResponse => simulated(&mut record).map(|mut figures| {
            let measured = record_rtt(&figures).zip(response::losses(&item.scenario));
            if let Some((rtt, losses)) = measured {
                figures.extend(response::figures(item.scenario.flow[0].cc, losses, rtt));
            }
            figures
        }),
        Backend::OpenLoop => open_loop(&item.scenario, Mode::UdpAck),
        Backend::OpenLoopRelay => open_loop(&item.scenario, Mode::Relay),
        Backend::Formula => formula::figures(&item.scenario),
        Backend::Live if item.scenario.stack == Some(Stack::Simulated) => simulated(&mut record),
        Backend::Live => live(&item.scenario, host.go_on, &mut record),
    };
    record.metrics = figures.with_context(|| format!("run {}", item.describe()))?;
    Ok(record)
}

/// The same of a simulated item that is under way.
///
/// # Errors
/// As [`run`].
pub(crate) fn finish(item: &Item, running: Running) -> Result<Record> {
    let mut record = blank(item)?;
    let figures = simulated(item, Ok(running), &mut record);
    record.metrics = figures.with_context(|| format!("run {}", item.describe()))?;
    Ok(record)
}

/// A record without figures.
fn blank(item: &Item) -> serde_json::Result<Record> {
    Ok(Record {
        run: item.id.clone(),
        key: item.key.clone(),
        scenario: serde_json::to_value(&item.scenario)?,
        ..Record::default()
    })
}

/// The record of a run whose result is there already, with only its figures.
///
/// # Errors
/// When the scenario cannot be written down.
pub fn record_of(item: &Item, result: &RunResult) -> serde_json::Result<Record> {
    let metrics = metric::of_run(&item.scenario, result, &BTreeMap::new());
    Ok(Record { metrics, ..blank(item)? })
}

/// The round trip over which a window of theory is counted: delays of acknowledgments are part.
fn record_rtt(figures: &Figures) -> Option<Duration> {
    let us = figures.get("srtt_mean_us").filter(|us| **us > 0.0)?;
    Some(Duration::from_secs_f64(us / 1e6))
}

type Figures = BTreeMap<String, f64>;

fn simulated(item: &Item, running: Result<Running>, record: &mut Record) -> Result<Figures> {
    match running.and_then(|running| running.finish_wanted(&item.scenario, item.series)) {
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
fn live(scenario: &Scenario, go_on: GoOn<'_>, record: &mut Record) -> Result<Figures> {
    if let Some(Stack::Rival(name)) = &scenario.stack {
        return versus(scenario, name, go_on, record);
    }
    for _ in 0..TRIES {
        let run = crate::live::run(scenario, None, go_on)?;
        record.void = run.void;
        if record.void.is_none() {
            return Ok(metric::of_live(scenario, &run.result, &run.extra));
        }
    }
    Ok(Figures::new())
}

/// Of a rival the same, but what goes wrong with the rival itself is not tried again.
#[cfg(target_os = "linux")]
fn versus(
    scenario: &Scenario,
    name: &str,
    go_on: GoOn<'_>,
    record: &mut Record,
) -> Result<Figures> {
    for _ in 0..TRIES {
        let run = crate::versus::run(scenario, name, go_on)?;
        (record.void, record.about) = (run.void, run.about);
        if !run.again {
            return Ok(run.figures);
        }
    }
    Ok(Figures::new())
}

#[cfg(not(target_os = "linux"))]
fn live(_: &Scenario, _: GoOn<'_>, _: &mut Record) -> Result<Figures> {
    bail!("real time needs Linux, not {TRIES} tries")
}

/// Open-loop traffic over the Wi-Fi of a scenario with the ACKs of its first flow: the "ideal
/// goodput" of [TON §VII-C]. Its rate is that of the flow's application where that has one.
fn open_loop(scenario: &Scenario, way: Mode) -> Result<Figures> {
    let (Some(wifi), Some(flow)) = (&scenario.wifi, scenario.flow.first()) else {
        bail!("open-loop traffic needs [wifi] and a flow");
    };
    let offered = match &flow.app {
        App::Cbr { mbps } => Some(*mbps),
        App::Video { trace, .. } => video::read(trace).ok().map(|v| v.mean_bps() / 1e6),
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

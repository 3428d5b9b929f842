//! The 802.11 MAC alone, saturated.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tack_link::open_loop::ns3::Ns3Row;
use tack_link::open_loop::{AckRule, Mode, OpenLoop, Report};
use tack_link::wlan::{Preset, Standard, WlanConfig};

/// The rows of ns-3 that the model is tested against.
const TABLE: &str = include_str!("../../../link/tests/data/ns3-wlan.csv");

pub(super) fn standards() -> Result<()> {
    println!("simulated seconds per second, textbook parameters, saturated");
    println!("{:>3} {:>10} {:>10} {:>10} {:>10}", "", "udp", "L=1", "L=2", "20 ms");
    for standard in Standard::ALL {
        let config = WlanConfig::preset(Preset::Textbook, standard);
        let speed = |mode, ack| {
            let mut run = OpenLoop::new(config.clone(), mode);
            run.ack = ack;
            simulated_per_second(&run)
        };
        println!(
            "{:>3} {:>10.0} {:>10.0} {:>10.0} {:>10.0}",
            standard.name(),
            speed(Mode::Udp, AckRule::Never)?,
            speed(Mode::UdpAck, AckRule::EveryPackets(1))?,
            speed(Mode::UdpAck, AckRule::EveryPackets(2))?,
            speed(Mode::UdpAck, AckRule::Every(Duration::from_millis(20)))?,
        );
    }
    println!("\nn by stations, L=2 and uplink saturation");
    for stations in [1, 10, 100, 1_000] {
        let config = WlanConfig::preset(Preset::Textbook, Standard::N).with_stations(stations);
        let down = simulated_per_second(&OpenLoop::new(config.clone(), Mode::UdpAck))?;
        let up = simulated_per_second(&OpenLoop::new(config, Mode::Up))?;
        println!("{stations:>5} {down:>10.1} {up:>10.1}");
    }
    Ok(())
}

/// Of a run long enough to be timed.
fn simulated_per_second(run: &OpenLoop) -> Result<f64> {
    let mut run = run.clone();
    run.duration = Duration::from_millis(500);
    loop {
        let (report, wall) = super::timed(|| run.run());
        ensure!(report?.ledger.balances(), "packets were lost in the model's books");
        if wall > Duration::from_millis(300) {
            return Ok((run.warm_up + run.duration).as_secs_f64() / wall.as_secs_f64());
        }
        run.duration *= 2;
    }
}

pub(super) fn beside_ns3(duration: Duration) -> Result<()> {
    let mut lines = TABLE.lines().filter(|l| !l.starts_with('#'));
    let header = lines.next().context("a header")?;
    let speed_column = header.split(',').position(|c| c == "sim_per_wall").context("a speed")?;
    let mut least = f64::INFINITY;
    for line in lines {
        let row = Ns3Row::parse(header, line).context("a row")?;
        let (report, speed) = best_of_five(&row.experiment(duration, 1).context("a known rate")?)?;
        let ns3_speed: f64 = line.split(',').nth(speed_column).context("a speed")?.parse()?;
        let faster = speed / ns3_speed;
        least = least.min(faster);
        println!(
            "{:+6.2} %  {:8.3} {:8.3} Mb/s  {faster:6.0} times faster  {:>2} {:>6} L={:<2} {:>2} ms \
             n={:<2} ap {:>7} sta {:>7} bar {} {}",
            (report.l3_mbps / row.l3_mbps - 1.0) * 100.0,
            row.l3_mbps,
            report.l3_mbps,
            row.phy.name(),
            row.mode.name(),
            row.l,
            row.period_ms,
            row.n_sta,
            row.max_ampdu,
            row.sta_max_ampdu,
            u8::from(row.explicit_bar),
            row.ul_mode,
        );
    }
    println!("at least {least:.0} times faster than ns-3 was when the rows were recorded");
    Ok(())
}

/// Other work on the machine only ever makes a run slower.
fn best_of_five(run: &OpenLoop) -> Result<(Report, f64)> {
    let (report, mut wall) = super::timed(|| run.run());
    let report = report?;
    for _ in 0..4 {
        let (again, took) = super::timed(|| run.run());
        ensure!(again? == report, "the same seed gave another run");
        wall = wall.min(took);
    }
    ensure!(report.ledger.balances(), "packets were lost in the model's books");
    Ok((report, (run.warm_up + run.duration).as_secs_f64() / wall.as_secs_f64()))
}

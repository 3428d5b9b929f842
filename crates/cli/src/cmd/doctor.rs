//! `tack doctor`.

use tack_net::{AckStrategy, ConnConfig, HostPort};

use crate::args::doctor::DoctorConfig;
use crate::doctor::{Findings, Sample, numbers, verdict};
use crate::exit::{ExitCode, Failure};
use crate::net::{NetDial, Way};
use crate::perf::PerfError;
use crate::perf::client::{self, Observer};
use crate::perf::json::interruption;
use crate::perf::params::{Direction, TestParams, Until};
use crate::perf::report::{Interrupted, Interval, Start};
use crate::stop::Stop;
use crate::terminal::say;

/// Share of a run that is not counted: slow start is no path's rate.
const WARM_UP: f64 = 0.25;

/// Measures and says what was found.
pub async fn run(config: DoctorConfig, stop: Stop) -> Result<ExitCode, Failure> {
    let base = ConnConfig::default().with(|it| it.congestion = config.congestion);
    let plain = base.clone().with(|it| it.ack = AckStrategy::PLAIN);
    let (connector, code) = (config.security.connector()?, config.security.code.clone());
    let tack = stop.or(NetDial::open(&Way::Udp, &config.host, base, connector, code)).await;
    let tack = tack.unwrap_or_else(|| Err(Failure::interrupted()))?;
    let plain = tack.beside(plain);
    let measured = measure(&config, &tack, &plain, &stop).await;
    // However it ended, the other side should know.
    for dial in [&tack, &plain] {
        dial.settle(&stop).await;
    }
    measured
}

async fn measure(
    config: &DoctorConfig,
    tack: &NetDial,
    plain: &NetDial,
    stop: &Stop,
) -> Result<ExitCode, Failure> {
    say(format_args!(
        "Measuring the path to {} for {:.0} s, as fast as it goes.",
        config.host,
        8.0 * config.run_seconds
    ));
    for (direction, towards) in
        [(Direction::Forward, "From here to there"), (Direction::Reverse, "From there to here")]
    {
        let mut found = Findings::default();
        for with_tack in [true, false, false, true] {
            let dial = if with_tack { tack } else { plain };
            let sample = one(dial, &config.host, direction, config.run_seconds, stop).await?;
            let samples = if with_tack { &mut found.tack } else { &mut found.plain };
            samples.push(sample);
        }
        let lines: Vec<String> =
            verdict(towards, &found).into_iter().chain(numbers(&found)).collect();
        crate::terminal::print(format!("{}\n", lines.join("\n")).as_bytes())?;
    }
    Ok(ExitCode::Success)
}

async fn one(
    dial: &NetDial,
    host: &HostPort,
    direction: Direction,
    seconds: f64,
    stop: &Stop,
) -> Result<Sample, Failure> {
    let params = TestParams {
        direction,
        until: Until::Seconds(seconds * (1.0 - WARM_UP)),
        omit_seconds: seconds * WARM_UP,
        ..TestParams::default()
    };
    let interval = std::time::Duration::from_millis(250);
    let report = client::run(dial, &params, Some(interval), &mut Silent, stop).await;
    let report = report.map_err(|error| match error {
        // It names the host.
        PerfError::Dial(failure) => failure,
        error => {
            let failure = Failure::from(error);
            Failure { message: format!("{host}: {failure}"), ..failure }
        }
    })?;
    match report.interrupted {
        Some(Interrupted::Here) => return Err(Failure::interrupted()),
        Some(there) => {
            let why = format!("{host}: {}", interruption(there, true));
            return Err(Failure::new(ExitCode::Failed, why));
        }
        None => {}
    }
    Sample::of(&report)
        .ok_or_else(|| Failure::new(ExitCode::Failed, "the other side did not say what it counted"))
}

/// Shows nothing while a test runs.
struct Silent;

impl Observer for Silent {
    fn connected(&mut self, _: &Start) {}
    fn interval(&mut self, _: &Start, _: &Interval) {}
}

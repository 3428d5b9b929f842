//! `tack doctor`.

use clap::Args;

use crate::args::transport::ClientSecurity;
use crate::exit::Failure;
use crate::observe::ObserveArgs;
use crate::perf::DEFAULT_PORT;
use tack_cc::Algorithm;
use tack_net::HostPort;

const AFTER: &str = "\
Needs `tack perf -s` at HOST. Both mechanisms run with the same congestion control, alternately,
each way: TACK, plain, plain, TACK. The path carries as much as it can for half a minute.

Examples:
  tack perf -s                    at the other end
  tack doctor HOST --code …       here";

/// Measure what TACK saves on the path to a host, and say when it is not worth it.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER)]
pub struct DoctorArgs {
    /// The host that runs `tack perf -s`
    #[arg(value_name = "HOST[:PORT]")]
    pub host: String,
    /// Port, if not in HOST
    #[arg(short, long, default_value_t = DEFAULT_PORT, value_parser = clap::value_parser!(u16).range(1..))]
    pub port: u16,
    /// Seconds to measure altogether
    #[arg(short, long, default_value_t = 30.0, value_name = "SECONDS")]
    pub time: f64,
    /// Congestion control of what we send; the other side has its own
    #[arg(short = 'C', long, visible_alias = "cc", value_name = "NAME")]
    pub congestion: Option<Algorithm>,
    /// Whom to trust.
    #[command(flatten)]
    pub security: ClientSecurity,
    /// What to see.
    #[command(flatten)]
    pub observe: ObserveArgs,
}

/// A `tack doctor` that makes sense.
#[derive(Clone, Debug)]
pub struct DoctorConfig {
    /// Whom to ask.
    pub host: HostPort,
    /// How long one of the eight runs takes, in seconds.
    pub run_seconds: f64,
    /// Congestion control.
    pub congestion: Option<Algorithm>,
    /// Whom to trust.
    pub security: ClientSecurity,
}

impl DoctorArgs {
    /// What the user meant.
    pub fn resolve(self) -> Result<DoctorConfig, Failure> {
        let host = HostPort::parse(&self.host, self.port)
            .map_err(|e| Failure::usage(format!("HOST, the first argument: {e}")))?;
        if !(4.0..=3_600.0).contains(&self.time) {
            return Err(Failure::usage(format!("-t {}: from 4 to 3600 s", self.time)));
        }
        let run_seconds = self.time / 8.0;
        Ok(DoctorConfig { host, run_seconds, congestion: self.congestion, security: self.security })
    }
}

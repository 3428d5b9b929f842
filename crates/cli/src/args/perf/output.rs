//! How a test is shown and where: iperf3's `-f`, `-V`, `-T`, `-J`, `--logfile`, `--timestamps`, and
//! of a server in the background `-D` and `-I`.

use std::path::PathBuf;

use clap::Args;

use crate::perf::out::dated;
use crate::units::RateUnit;

/// Options of what is shown.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Output")]
pub struct OutputArgs {
    /// Report as JSON at the end
    #[arg(short = 'J', long)]
    pub json: bool,
    /// Report as JSON while it happens: a line each for the start, intervals and the end
    #[arg(long, conflicts_with = "json")]
    pub json_stream: bool,
    /// Unit of rates: k, m, g, t for bits, K, M, G, T for bytes [default: what fits]
    #[arg(short, long, value_name = "UNIT")]
    pub format: Option<RateUnit>,
    /// Say more: versions, addresses, parameters, controllers
    #[arg(short = 'V', long)]
    pub details: bool,
    /// Client: begin each line with this
    #[arg(short = 'T', long, value_name = "TEXT", conflicts_with = "server")]
    pub title: Option<String>,
    /// Client: put this into the JSON
    #[arg(long, value_name = "TEXT", conflicts_with = "server")]
    pub extra_data: Option<String>,
    /// Begin each line with the time, in the format of strftime(3) [default format: `%c `]
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "%c ", value_parser = parse_timestamps)]
    pub timestamps: Option<String>,
    /// Write to the end of this file instead of standard output
    #[arg(long, value_name = "FILE")]
    pub logfile: Option<PathBuf>,
    /// Client: show what the server says, too
    #[arg(long, conflicts_with = "server")]
    pub get_server_output: bool,
    /// Server: go on in the background once it listens
    #[arg(short = 'D', long, conflicts_with = "client")]
    pub daemon: bool,
    /// Write the process's number to this file, which is removed at the end
    #[arg(short = 'I', long, value_name = "FILE")]
    pub pidfile: Option<PathBuf>,
}

/// Whether a moment can be written so.
fn parse_timestamps(format: &str) -> Result<String, String> {
    match dated(format, &jiff::Zoned::default()) {
        Ok(_) => Ok(format.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

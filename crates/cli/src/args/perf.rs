//! `tack perf`: iperf3's flags where they mean the same.

pub mod foreign;
pub mod output;
pub mod traffic;

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;

use crate::args::perf::foreign::Foreign;
use crate::args::perf::output::OutputArgs;
use crate::args::perf::traffic::TrafficArgs;
use crate::args::transport::{ClientSecurity, ServerSecurity, Transport};
use crate::args::tun::TunArgs;
use crate::exit::Failure;
use crate::net::{Family, Origin, OwnAddress, Way, unspecified};
use crate::observe::ObserveArgs;
use crate::perf::DEFAULT_PORT;
use crate::perf::params::{Direction, ParamsError, TestParams, Until, VERSION};
use crate::units::parse_bytes;
use tack_net::HostPort;

const AFTER: &str = "\
Ctrl-C on either side ends a test early: both sides report what was measured until then.

Examples:
  tack perf -s                    serve tests
  tack perf -c HOST               10 s from here to HOST
  tack perf -c HOST -R -t 30 -O 3 30 s from HOST to here, after 3 s of warm-up
  tack perf -c HOST --plain-tcp   the same stack with TCP's acknowledgments
  tack perf -c HOST --tun --tun-addr 10.7.0.2/24
                                  over real IP packets, in a TUN interface
  tack perf -c HOST -b 20M/10     an application with 20 Mbit/s to send, in bursts of ten blocks
  tack perf -c HOST -t 0          until Ctrl-C
  tack perf -s -D -I pid --logfile log
                                  serve tests in the background
  tack perf -c HOST -J            the result as JSON, with iperf3's keys and a `tack` object

iperf3's other flags are understood, and say why they mean nothing here.";

/// Measure throughput and what it costs in acknowledgments, with iperf3's flags and output.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER, disable_version_flag = true)]
#[command(group = clap::ArgGroup::new("side").required(true).args(["server", "client"]))]
pub struct PerfArgs {
    /// Serve tests
    #[arg(short, long)]
    pub server: bool,
    /// Run a test against this server
    #[arg(short, long, value_name = "HOST[:PORT]")]
    pub client: Option<String>,
    /// Port to listen on or connect to
    #[arg(short, long, default_value_t = DEFAULT_PORT)]
    pub port: u16,
    /// Seconds between reports; 0 reports only at the end
    #[arg(short, long, default_value_t = 1.0, value_name = "SECONDS")]
    pub interval: f64,
    /// Address to listen on, or to connect from [default: all, or what the way there takes]
    #[arg(short = 'B', long, value_name = "ADDRESS", conflicts_with = "tun")]
    pub bind: Option<OwnAddress>,
    /// Server: serve one test and exit
    #[arg(short = '1', long, conflicts_with = "client")]
    pub one_off: bool,
    /// Client: seconds to measure; 0 is until Ctrl-C [default: 10]
    #[arg(short, long, value_name = "SECONDS", conflicts_with_all = ["server", "bytes", "blockcount"])]
    pub time: Option<f64>,
    /// Client: send this many bytes (K, M, G, T) instead of for a time
    #[arg(short = 'n', long, value_name = "BYTES", value_parser = parse_bytes)]
    #[arg(conflicts_with_all = ["server", "blockcount"])]
    pub bytes: Option<u64>,
    /// Client: send this many blocks instead of for a time
    #[arg(short = 'k', long, value_name = "BLOCKS", value_parser = parse_bytes)]
    #[arg(conflicts_with = "server")]
    pub blockcount: Option<u64>,
    /// Client: parallel streams [default: 1]
    #[arg(short = 'P', long, value_name = "N", conflicts_with = "server")]
    pub parallel: Option<u16>,
    /// Client: the server sends
    #[arg(short = 'R', long, conflicts_with_all = ["server", "bidir"])]
    pub reverse: bool,
    /// Client: both sides send at once
    #[arg(long, conflicts_with = "server")]
    pub bidir: bool,
    /// Largest buffer for bytes under way, in bytes (K, M); on the server it bounds what it
    /// receives, on the client both ways
    #[arg(short, long, value_name = "BYTES", value_parser = parse_bytes)]
    pub window: Option<u64>,
    /// Client: bytes per read and write (K, M) [default: 128K]
    #[arg(short, long, value_name = "BYTES", value_parser = parse_bytes, conflicts_with = "server")]
    pub length: Option<u64>,
    /// Client: don't count the first seconds
    #[arg(short = 'O', long, value_name = "SECONDS", conflicts_with = "server")]
    pub omit: Option<f64>,
    /// Without encryption; the bytes are nobody's. Both sides must agree
    #[arg(long)]
    pub no_tls: bool,
    /// Whom to trust.
    #[command(flatten)]
    pub client_security: ClientSecurity,
    /// Who we are.
    #[command(flatten)]
    pub server_security: ServerSecurity,
    /// Which mechanism.
    #[command(flatten)]
    pub transport: Transport,
    /// What is sent.
    #[command(flatten)]
    pub traffic: TrafficArgs,
    /// What is shown.
    #[command(flatten)]
    pub output: OutputArgs,
    /// Which way.
    #[command(flatten)]
    pub tun: TunArgs,
    /// Flags of iperf3 that mean nothing here.
    #[command(flatten)]
    pub foreign: Foreign,
    /// This is the one in the background.
    #[arg(long, hide = true, requires = "daemon")]
    pub detached: bool,
    /// What to see.
    #[command(flatten)]
    pub observe: ObserveArgs,
}

/// A `tack perf` that makes sense.
#[derive(Clone, Debug)]
pub struct PerfConfig {
    /// Which side, with what only that side has.
    pub side: Side,
    /// Time between reports; `None` reports only at the end.
    pub interval: Option<Duration>,
    /// How it is shown.
    pub output: OutputArgs,
    /// What to tell the user before.
    pub notes: Vec<String>,
    /// Whether this is the one in the background.
    pub detached: bool,
    /// Blocks asked for; 0 without.
    pub blocks: u64,
    /// Bound on the connections' buffers in bytes.
    pub window_bytes: Option<usize>,
    /// Largest segment in bytes.
    pub mss: Option<u16>,
    /// The processor to run on.
    pub processor: Option<u16>,
    /// Which mechanism.
    pub transport: Transport,
    /// Which way.
    pub way: Way,
}

/// Which side.
#[derive(Clone, Debug)]
pub enum Side {
    /// Serves.
    Server {
        /// Where to listen.
        local: SocketAddr,
        /// Whether to exit after one test.
        one_off: bool,
        /// Who we are; `None` is without encryption.
        security: Option<ServerSecurity>,
    },
    /// Asks.
    Client {
        /// Whom.
        host: HostPort,
        /// For what.
        params: TestParams,
        /// From where.
        origin: Origin,
        /// For how long a connection is waited for.
        connect_timeout: Option<Duration>,
        /// Whom to trust.
        security: ClientSecurity,
    },
}

impl PerfArgs {
    /// What the user meant.
    pub fn resolve(self) -> Result<PerfConfig, Failure> {
        let interval = match self.interval {
            0.0 => None,
            s if (0.1..=60.0).contains(&s) => Some(Duration::from_secs_f64(s)),
            s => {
                let why = format!("-i {s}: reports come every 0.1 to 60 s, or with 0 not at all");
                return Err(Failure::usage(why));
            }
        };
        let window_bytes = self.window.map(|bytes| match usize::try_from(bytes) {
            Ok(n @ 4096..=1_073_741_824) => Ok(n),
            _ => Err(Failure::usage(format!("-w {bytes}: from 4K to 1G are possible"))),
        });
        let window_bytes = window_bytes.transpose()?;
        let plaintext = self.no_tls || self.client_security.insecure_plaintext;
        let notes = self.foreign.notes()?;
        let origin = self.traffic.origin(self.bind)?;
        let (transport, way) = (self.transport.clone(), self.transport.way(&self.tun)?);
        if way == Way::Quic && self.traffic.set_mss.is_some() {
            let why = "-M, --set-mss: QUIC finds out itself how large its packets may be";
            return Err(Failure::usage(why));
        }
        let side = match &self.client {
            None => {
                let any = unspecified(origin.family != Some(Family::V4));
                let address = self.bind.unwrap_or(any.into());
                Side::Server {
                    local: address.port(self.port),
                    one_off: self.one_off,
                    security: (!plaintext).then(|| self.server_security.clone()),
                }
            }
            Some(_) if self.port == 0 => {
                return Err(Failure::usage("-p 0: a server has a port from 1 to 65535"));
            }
            Some(host) => Side::Client {
                host: HostPort::parse(host, self.port)
                    .map_err(|e| Failure::usage(format!("-c: {e}")))?,
                params: self.params()?,
                origin,
                connect_timeout: self.traffic.connect_timeout.map(Duration::from_millis),
                security: ClientSecurity {
                    insecure_plaintext: plaintext,
                    ..self.client_security.clone()
                },
            },
        };
        Ok(PerfConfig {
            side,
            interval,
            output: self.output,
            notes,
            detached: self.detached,
            blocks: self.blockcount.unwrap_or(0),
            window_bytes,
            mss: self.traffic.set_mss,
            processor: self.traffic.affinity.and_then(|affinity| affinity.here),
            transport,
            way,
        })
    }

    fn params(&self) -> Result<TestParams, Failure> {
        let length = self.length.unwrap_or(128 * 1024);
        // What does not even fit is shown as it was typed.
        let block_bytes = u32::try_from(length)
            .map_err(|_| Failure::usage(ParamsError::Block(length).to_string()))?;
        let until = match (self.bytes, self.blockcount) {
            (Some(bytes), _) => Until::Bytes(bytes),
            (None, Some(blocks)) => Until::Bytes(
                blocks.checked_mul(length).ok_or_else(|| Failure::usage("-k: too many blocks"))?,
            ),
            (None, None) => match self.time {
                Some(0.0) => Until::Stopped,
                seconds => Until::Seconds(seconds.unwrap_or(10.0)),
            },
        };
        let params = TestParams {
            version: VERSION,
            streams: self.parallel.unwrap_or(1),
            direction: match (self.reverse, self.bidir) {
                (_, true) => Direction::Both,
                (true, false) => Direction::Reverse,
                (false, false) => Direction::Forward,
            },
            until,
            omit_seconds: self.omit.unwrap_or(0.0),
            block_bytes,
            pace: self.traffic.bitrate.filter(|pace| pace.bits_per_second > 0),
            dscp: self.traffic.codepoint(),
            server_processor: self.traffic.affinity.and_then(|affinity| affinity.there),
            server_output: self.output.get_server_output,
            mss: self.traffic.set_mss,
            title: self.output.title.clone(),
            extra_data: self.output.extra_data.clone(),
        };
        params.check().map_err(|e| Failure::usage(e.to_string()))?;
        Ok(params)
    }
}

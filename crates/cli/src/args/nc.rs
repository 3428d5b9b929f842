//! `tack nc`.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;

use crate::args::transport::{ClientSecurity, ServerSecurity, Transport};
use crate::args::tun::TunArgs;
use crate::exit::Failure;
use crate::net::{OwnAddress, Way, unspecified};
use crate::observe::ObserveArgs;
use tack_net::HostPort;

const AFTER: &str = "\
Encrypted, a talk goes on by itself when the network changes; else it ends with its connection.
Our direction ends with standard input, as with nc -N; the command ends when both directions have.
At a terminal the end of the other side's direction is enough. Over UDP the bytes are encrypted and
both sides must be tack, and both take --quic or neither; over --tun they travel as they are, and the other side may be any TCP.
SIGHUP, SIGINT and SIGTERM end both directions first, which takes 2 seconds at most.

Examples:
  tack nc -l 9000 > copy            take one connection ...
  tack nc HOST 9000 < original      ... and make one
  tack nc --tun --tun-addr 10.7.0.2/24 10.7.0.1 80
                                    talk to a web server on this machine by real TCP
  ssh -o ProxyCommand='tack nc --tun --tun-addr 10.7.0.2/24 %h %p' 10.7.0.1
                                    ssh over this TCP";

/// Connect standard input and output to one stream.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER)]
pub struct NcArgs {
    /// Take one connection instead of making one
    #[arg(short, long)]
    pub listen: bool,
    /// HOST PORT; with -l an ADDRESS, if only one is wanted, and PORT
    #[arg(num_args = 1..=2, value_names = ["HOST", "PORT"])]
    pub target: Vec<String>,
    /// Give up if nobody is there for so long
    #[arg(short, long, value_name = "SECONDS")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub wait: Option<u64>,
    /// End our direction with standard input: always so, accepted for nc's sake
    #[arg(short = 'N', hide = true)]
    pub half_close: bool,
    /// Say nothing but errors
    #[arg(short, long)]
    pub quiet: bool,
    /// Without encryption, as always over --tun unless --tls is given. Both sides must agree
    #[arg(long, conflicts_with = "tls")]
    pub no_tls: bool,
    /// With encryption even over --tun; the other side is tack, too
    #[arg(long)]
    pub tls: bool,
    /// Whom to trust.
    #[command(flatten)]
    pub client_security: ClientSecurity,
    /// Who we are.
    #[command(flatten)]
    pub server_security: ServerSecurity,
    /// Which mechanism.
    #[command(flatten)]
    pub transport: Transport,
    /// Which way.
    #[command(flatten)]
    pub tun: TunArgs,
    /// What to see.
    #[command(flatten)]
    pub observe: ObserveArgs,
}

/// A `tack nc` that makes sense.
#[derive(Clone, Debug)]
pub struct NcConfig {
    /// Which side.
    pub side: Side,
    /// How long to wait for the other; `None`: for ever when listening, else the default.
    pub wait: Option<Duration>,
    /// Whether to say nothing.
    pub quiet: bool,
    /// Which mechanism.
    pub transport: Transport,
    /// Which way.
    pub way: Way,
}

/// Which side.
#[derive(Clone, Debug)]
pub enum Side {
    /// Takes one connection.
    Listen {
        /// Where.
        local: SocketAddr,
        /// Who we are; `None` is without encryption.
        security: Option<ServerSecurity>,
    },
    /// Makes one.
    Connect {
        /// To whom.
        host: HostPort,
        /// Whom to trust.
        security: ClientSecurity,
    },
}

impl NcArgs {
    /// What the user meant.
    pub fn resolve(self) -> Result<NcConfig, Failure> {
        let way = self.transport.way(&self.tun)?;
        let plain_way = way.is_ip() && !self.tls;
        let plaintext = self.no_tls || self.client_security.insecure_plaintext || plain_way;
        let (host, port) = match self.target.as_slice() {
            [host, port] => (Some(host.as_str()), port),
            [port] if self.listen => (None, port),
            _ => return Err(Failure::usage("write HOST and PORT, or -l and PORT")),
        };
        let port = match port.parse() {
            Ok(port) if port > 0 || self.listen => port,
            _ => return Err(Failure::usage(format!("`{port}` is no port"))),
        };
        let side = if self.listen {
            let any = unspecified(true).into();
            let address = host.map_or(Ok(any), str::parse::<OwnAddress>);
            let address = address.map_err(|e| Failure::usage(e.to_string()))?;
            if way.is_ip() && host.is_some() {
                return Err(Failure::usage("over --tun, --tun-addr says where to listen"));
            }
            let security = (!plaintext).then_some(self.server_security);
            Side::Listen { local: address.port(port), security }
        } else {
            // In brackets, too, as everywhere else.
            let name = host.unwrap_or_default();
            let inner = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
            let name = inner.unwrap_or(name).to_owned();
            let security = ClientSecurity { insecure_plaintext: plaintext, ..self.client_security };
            Side::Connect { host: HostPort { name, port }, security }
        };
        Ok(NcConfig {
            side,
            wait: self.wait.map(Duration::from_secs),
            quiet: self.quiet,
            transport: self.transport,
            way,
        })
    }
}

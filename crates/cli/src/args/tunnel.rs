//! `tack tunnel`.

use std::net::SocketAddr;

use clap::{Args, Subcommand};
use tack_net::Prefix;

use crate::args::transport::{ClientSecurity, ServerSecurity, Transport};
use crate::args::tun::TunArgs;
use crate::exit::Failure;
use crate::net::{OwnAddress, Way, unspecified};
use crate::observe::ObserveArgs;
use crate::tunnel::DEFAULT_PORT;
use crate::tunnel::allow::{AllowList, Rule};
use crate::tunnel::forward::{Local, PortForward};
use tack_net::HostPort;

const AFTER: &str = "\
Programs connect to us by TCP; each connection becomes one stream of TACK to the server, which
connects on. Streams begin without a handshake: a few connections always stand ready. When the
network changes, streams go on over other connections, without a byte lost. When the server goes
away, new streams wait for a new connection, which is tried for by itself.

Datagrams (SOCKS5 UDP ASSOCIATE) travel within a stream, in order. --transparent redirects TCP only.

Examples:
  tack tunnel serve                                    at the other end; prints what to type here
  tack tunnel HOST -D 1080                             a proxy: SOCKS5, and HTTP CONNECT
  curl -x socks5h://localhost:1080 https://example.org
  https_proxy=http://localhost:1080 git clone https://…
  tack tunnel HOST -L 8080:intranet:80                 localhost:8080 is intranet:80 over there
  sudo tack tunnel HOST --transparent --install-rules  everything this machine connects to, and
                                                       all that it routes for";

const AFTER_SERVE: &str = "\
Connects to wherever clients ask, as far as it is on the allow-list: --allow HOSTS[:PORTS], as often
as needed, HOSTS being any, public, an address, a network, a name or *.NAME. Without --allow that is
the public Internet, and nothing on this machine or beside it.

Who uses it must be told the code that is shown, or have a key that is authorized
(--authorized-keys), unless --open lets anybody in.

Examples:
  tack tunnel serve
  tack tunnel serve --allow 10.0.0.0/8:22 --allow '*.example.org' --allow '[fd00::/8]:80-443'";

/// Let other programs use TACK: port forwards, a SOCKS and HTTP proxy, a transparent gateway.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER, args_conflicts_with_subcommands = true)]
#[command(subcommand_negates_reqs = true)]
pub struct TunnelArgs {
    /// The other end.
    #[command(subcommand)]
    pub serve: Option<TunnelCommand>,
    /// The host that runs `tack tunnel serve`
    #[arg(required = true, value_name = "HOST[:PORT]")]
    pub host: Option<String>,
    /// Port, if not in HOST
    #[arg(short, long, default_value_t = DEFAULT_PORT, value_parser = clap::value_parser!(u16).range(1..))]
    pub port: u16,
    /// Lead what connects to this port here to that host and port over there
    #[arg(short = 'L', long = "local", value_name = "[BIND:]PORT:HOST:PORT")]
    pub forwards: Vec<PortForward>,
    /// Be a proxy on this port: SOCKS5, and HTTP CONNECT; names are resolved over there
    #[arg(short = 'D', long = "dynamic", value_name = "[BIND:]PORT")]
    pub proxies: Vec<Local>,
    /// Tell programs that speak SOCKS or HTTP that they are connected before they are: saves a
    /// round trip, and a target that cannot be reached shows as a connection that is reset
    #[arg(long, requires = "proxies")]
    pub eager: bool,
    /// Take in what the kernel redirects to this port, and print nftables rules that do
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "1081")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    pub transparent: Option<u16>,
    /// Redirect connections to these networks only [default: all but private and local ones]
    #[arg(long, value_name = "ADDRESS/BITS", requires = "transparent")]
    pub networks: Vec<Prefix>,
    /// Install the rules, and remove them at the end (as root)
    #[arg(long, requires = "transparent")]
    pub install_rules: bool,
    /// No instructions
    #[arg(short, long)]
    pub quiet: bool,
    /// Whom to trust.
    #[command(flatten)]
    pub security: ClientSecurity,
    /// Which mechanism.
    #[command(flatten)]
    pub transport: Transport,
    /// What to see.
    #[command(flatten)]
    pub observe: ObserveArgs,
}

/// The other end.
#[derive(Clone, Debug, Subcommand)]
pub enum TunnelCommand {
    /// Connect to wherever clients ask
    Serve(Box<ServeArgs>),
}

/// Connect to wherever clients ask.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER_SERVE)]
pub struct ServeArgs {
    /// Where clients may connect to [default: public]
    #[arg(long, value_name = "HOSTS[:PORTS]")]
    pub allow: Vec<Rule>,
    /// Port to listen on
    #[arg(short, long, default_value_t = DEFAULT_PORT)]
    pub port: u16,
    /// Address to listen on [default: all]
    #[arg(short = 'B', long, value_name = "ADDRESS")]
    pub bind: Option<OwnAddress>,
    /// No instructions
    #[arg(short, long)]
    pub quiet: bool,
    /// Who we are.
    #[command(flatten)]
    pub security: ServerSecurity,
    /// Serve without encryption: anybody on the way can read and change it, and anybody may use it
    #[arg(long, help_heading = "Security")]
    pub insecure_plaintext: bool,
    /// Which mechanism.
    #[command(flatten)]
    pub transport: Transport,
}

/// A `tack tunnel` that makes sense.
#[derive(Clone, Debug)]
pub enum TunnelConfig {
    /// This end.
    Client(Box<ClientConfig>),
    /// The other.
    Server(Box<ServeConfig>),
}

/// A client that makes sense.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// The server.
    pub host: HostPort,
    /// Ports that lead to one target each.
    pub forwards: Vec<PortForward>,
    /// Ports of proxies.
    pub proxies: Vec<Local>,
    /// Whether these answer at once.
    pub eager: bool,
    /// The port that the kernel redirects to.
    pub transparent: Option<u16>,
    /// Which networks' connections.
    pub networks: Vec<Prefix>,
    /// Whether to install the rules.
    pub install_rules: bool,
    /// Whether to say nothing.
    pub quiet: bool,
    /// Whom to trust.
    pub security: ClientSecurity,
    /// Which mechanism.
    pub transport: Transport,
    /// Which way.
    pub way: Way,
}

/// A server that makes sense.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    /// Where clients may connect to.
    pub allow: AllowList,
    /// Where to listen.
    pub local: SocketAddr,
    /// Whether to say nothing.
    pub quiet: bool,
    /// Who we are; `None` is without encryption.
    pub security: Option<ServerSecurity>,
    /// Which mechanism.
    pub transport: Transport,
    /// Which way.
    pub way: Way,
}

impl TunnelArgs {
    /// What the user meant.
    pub fn resolve(self) -> Result<TunnelConfig, Failure> {
        if let Some(TunnelCommand::Serve(serve)) = self.serve {
            return Ok(TunnelConfig::Server(Box::new(serve.resolve()?)));
        }
        let host = self.host.unwrap_or_default();
        let host = HostPort::parse(&host, self.port)
            .map_err(|e| Failure::usage(format!("HOST, the first argument: {e}")))?;
        if self.forwards.is_empty() && self.proxies.is_empty() && self.transparent.is_none() {
            return Err(Failure::usage(
                "what for? Give -L (a port forward), -D (a proxy) or --transparent; the other end, \
                 on the host that is named here, is `tack tunnel serve`",
            ));
        }
        Ok(TunnelConfig::Client(Box::new(ClientConfig {
            host,
            forwards: self.forwards,
            proxies: self.proxies,
            eager: self.eager,
            transparent: self.transparent,
            networks: self.networks,
            install_rules: self.install_rules,
            quiet: self.quiet,
            security: self.security,
            way: self.transport.way(&TunArgs::default())?,
            transport: self.transport,
        })))
    }
}

impl ServeArgs {
    fn resolve(self) -> Result<ServeConfig, Failure> {
        // The unspecified IPv6 address takes IPv4 as well.
        let address = self.bind.unwrap_or(unspecified(true).into());
        Ok(ServeConfig {
            allow: AllowList::new(self.allow),
            local: address.port(self.port),
            quiet: self.quiet,
            security: (!self.insecure_plaintext).then_some(self.security),
            way: self.transport.way(&TunArgs::default())?,
            transport: self.transport,
        })
    }
}

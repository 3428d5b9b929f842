//! The same small server and client over each of several transports, for `tack lab versus`.
//!
//! ```text
//! tack-rivals quinn server                                 makes cert.pem and key.pem here, and serves
//! tack-rivals quinn client --server 10.77.0.2 --bytes 1000000
//! tack-rivals quinn version
//! ```
//!
//! A client asks on a connection of its own for each file, reads it and prints a line of JSON: bytes,
//! seconds from before the first connection to the last byte, and quantiles of latency where messages
//! went beside. Every stack has the same sizes of writes, kernel buffers and windows; whatever else it
//! does is its default, unless a flag of the client's or the server's says otherwise.

mod app;
mod keys;
mod messages;
mod stack;
mod stream;
mod udp;

use std::net::{IpAddr, SocketAddr};

use anyhow::Result;
use clap::{Args, Parser, Subcommand, ValueEnum};

/// What serves and asks.
#[derive(Debug, Parser)]
struct Cli {
    /// Over what.
    #[arg(value_enum)]
    stack: Stack,
    #[command(subcommand)]
    role: Role,
}

/// Over what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Stack {
    /// TACK over UDP with TLS.
    Tack,
    /// QUIC with TACK in it.
    QuicTack,
    /// The kernel's TCP.
    Tcp,
    /// The kernel's TCP with TLS.
    Tls,
    #[cfg(feature = "quinn")]
    Quinn,
    #[cfg(feature = "noq")]
    Noq,
    #[cfg(feature = "s2n")]
    S2n,
    #[cfg(feature = "quiche")]
    Quiche,
    #[cfg(feature = "utp")]
    Utp,
    /// Datagrams that nobody acknowledges: the bound.
    Udp,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// Serve until ended.
    Server(Settings),
    /// Ask, and say what came.
    Client(Ask),
    /// Say what this is.
    Version,
}

/// What is set beside the defaults.
#[derive(Clone, Debug, Args)]
pub(crate) struct Settings {
    /// Port to listen on.
    #[arg(long, default_value_t = 4433)]
    pub(crate) port: u16,
    /// Congestion controller, where the stack has several.
    #[arg(long, value_enum)]
    pub(crate) cc: Option<Controller>,
    /// Ask the peer to acknowledge every so many packets, where the stack can.
    #[arg(long)]
    pub(crate) ack_every: Option<u32>,
}

/// Congestion controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Controller {
    Cubic,
    Bbr,
}

/// What a client asks for.
#[derive(Clone, Debug, Args)]
pub(crate) struct Ask {
    /// Where the server is.
    #[arg(long)]
    server: IpAddr,
    /// Of each file.
    #[arg(long)]
    pub(crate) bytes: u64,
    /// A file over each of so many connections at once.
    #[arg(long, default_value_t = 1)]
    pub(crate) connections: u32,
    /// Rate of a paced application or of plain datagrams, Mbit/s; 0: as fast as it goes.
    #[arg(long, default_value_t = 0.0)]
    pub(crate) mbps: f64,
    /// Beside the file, messages of so many bytes there and back.
    #[arg(long, default_value_t = 0)]
    pub(crate) message_bytes: u64,
    /// From a message to the next, milliseconds.
    #[arg(long, default_value_t = 10.0)]
    pub(crate) every_ms: f64,
    #[command(flatten)]
    pub(crate) settings: Settings,
}

impl Ask {
    pub(crate) fn peer(&self) -> SocketAddr {
        SocketAddr::new(self.server, self.settings.port)
    }
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    // Dependencies bring two of them: all stacks that ask rustls get the same.
    let _ = rustls::crypto::ring::default_provider().install_default();
    if matches!(cli.role, Role::Version) {
        println!("{}", stack::version(cli.stack));
        return Ok(());
    }
    if cli.stack == Stack::Udp {
        return match cli.role {
            Role::Server(settings) => udp::serve(settings.port),
            Role::Client(ask) => udp::ask(&ask),
            Role::Version => Ok(()),
        };
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match cli.role {
            Role::Server(settings) => {
                keys::make()?;
                app::serve(stack::Listener::bind(cli.stack, &settings).await?).await
            }
            Role::Client(ask) => app::ask(stack::Dialer::new(cli.stack, &ask).await?, &ask).await,
            Role::Version => Ok(()),
        }
    })
}

//! Options of the connection itself: who is trusted, and which mechanism runs.

use std::path::PathBuf;

use clap::Args;
use tack_cc::Algorithm;
use tack_net::tls::{
    Acceptor, ClientTrust, Connector, Fingerprint, KnownHosts, ServerIdentity, config_dir,
};
use tack_net::{AckStrategy, ConnConfig};

use crate::exit::{ExitCode, Failure};

/// For the side that connects.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Security")]
pub struct ClientSecurity {
    /// Connect only if the other side has this key; it prints it as SHA256:…
    #[arg(long, value_name = "SHA256:…", conflicts_with_all = ["ca", "insecure_plaintext"])]
    pub fingerprint: Option<Fingerprint>,
    /// Connect only if the certificate is signed by an authority in this PEM file
    #[arg(long, value_name = "FILE", conflicts_with = "insecure_plaintext")]
    pub ca: Option<PathBuf>,
    /// Send without encryption: anybody on the way can read and change it
    #[arg(long)]
    pub insecure_plaintext: bool,
}

impl ClientSecurity {
    /// How to connect; `None` means without encryption.
    ///
    /// Without options, keys are remembered on first use and must not change, as with ssh.
    pub fn connector(&self) -> Result<Option<Connector>, Failure> {
        if self.insecure_plaintext {
            return Ok(None);
        }
        let trust = match (&self.fingerprint, &self.ca) {
            (Some(pin), _) => Ok(ClientTrust::Pinned(*pin)),
            (None, Some(file)) => ClientTrust::authorities_from_file(file),
            (None, None) => KnownHosts::of_user().map(ClientTrust::FirstUse),
        };
        let connector = trust.and_then(Connector::new);
        connector.map(Some).map_err(|e| Failure::new(ExitCode::Untrusted, e.to_string()))
    }
}

/// For the side that listens.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Security")]
pub struct ServerSecurity {
    /// Certificate chain in PEM; without it, a key of your own is made on first use and kept
    #[arg(long, value_name = "FILE", requires = "key", conflicts_with = "insecure_plaintext")]
    pub cert: Option<PathBuf>,
    /// Private key of the certificate in PEM
    #[arg(long, value_name = "FILE", requires = "cert", conflicts_with = "insecure_plaintext")]
    pub key: Option<PathBuf>,
}

impl ServerSecurity {
    /// Who we are to clients.
    pub fn identity(&self) -> Result<(Acceptor, Fingerprint), Failure> {
        let identity = match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => ServerIdentity::from_pem_files(cert, key),
            _ => config_dir().and_then(|dir| ServerIdentity::load_or_generate(&dir)),
        };
        let made = identity.and_then(|i| Ok((Acceptor::new(&i)?, i.fingerprint())));
        made.map_err(|e| {
            let why =
                format!("no identity to show to clients: {e}; give one with --cert and --key");
            Failure::new(ExitCode::Untrusted, why)
        })
    }
}

/// Which mechanism runs.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Transport")]
pub struct Transport {
    /// When to acknowledge
    #[arg(long, value_name = "NAME")]
    #[arg(help = format!("When to acknowledge [default: tack]: {}", AckStrategy::names()))]
    pub strategy: Option<AckStrategy>,
    /// Plain TCP acknowledgments instead of TACK, for comparison: --strategy tcp-l2
    #[arg(long, conflicts_with = "strategy")]
    pub plain_tcp: bool,
    /// Congestion control
    #[arg(short = 'C', long, visible_alias = "cc", value_name = "NAME")]
    #[arg(help = format!("Congestion control [default: bbr]: {}", Algorithm::names()))]
    pub congestion: Option<Algorithm>,
}

impl Transport {
    /// The connections' configuration.
    pub fn conn_config(&self) -> ConnConfig {
        let named = self.plain_tcp.then_some(AckStrategy::PLAIN).or(self.strategy);
        let base = ConnConfig::default();
        ConnConfig { congestion: self.congestion, ack: named.unwrap_or(base.ack), ..base }
    }
}

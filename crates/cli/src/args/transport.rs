//! Options of the connection itself: who is trusted, and which mechanism runs.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use tack_cc::Algorithm;
use tack_net::tls::{
    Acceptor, ClientTrust, Connector, Fingerprint, KnownHosts, ServerIdentity, config_dir,
};
use tack_net::{AckStrategy, ConnConfig};

use crate::admission::{Code, Door, authorized_keys};
use crate::args::tun::TunArgs;
use crate::exit::{ExitCode, Failure};
use crate::net::Way;
use crate::observe;

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
    /// Come in with the code that the other side shows; it proves to us, too, who that is
    #[arg(long, value_name = "CODE", conflicts_with = "insecure_plaintext")]
    pub code: Option<Code>,
    /// Send without encryption: anybody on the way can read and change it
    #[arg(long)]
    pub insecure_plaintext: bool,
}

impl ClientSecurity {
    /// How to connect; `None` means without encryption.
    ///
    /// Without options, keys must be those on record, as with ssh. We show our own.
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
        let connector = connector.map_err(|e| Failure::new(ExitCode::Failed, e.to_string()))?;
        let identity = own_identity()?;
        let connector = connector.with_identity(Arc::new(identity)).with_key_log();
        Ok(Some(match observe::secrets() {
            Some(secrets) => connector.with_secrets(secrets),
            None => connector,
        }))
    }
}

/// This user's key, made on first use.
pub fn own_identity() -> Result<ServerIdentity, Failure> {
    let identity = config_dir().and_then(|dir| ServerIdentity::load_or_generate(&dir));
    identity.map_err(|e| Failure::new(ExitCode::Failed, format!("no key of our own to show: {e}")))
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
    /// Let in whose keys are in this file, a line each as `tack key` prints it [default:
    /// authorized_keys in the configuration directory, if it is there]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["open", "insecure_plaintext"])]
    pub authorized_keys: Option<PathBuf>,
    /// Let anybody in who reaches the port
    #[arg(long)]
    pub open: bool,
}

impl ServerSecurity {
    /// Who may come in: anybody if asked for in words, whose keys are authorized, or whoever is
    /// told a code; then, `again`, the next one.
    pub fn door(&self, own: Fingerprint, again: bool) -> Result<Door, Failure> {
        if self.open {
            return Ok(Door::open());
        }
        let usual = config_dir().ok().map(|dir| dir.join("authorized_keys"));
        let file = self.authorized_keys.clone().or(usual.filter(|file| file.exists()));
        if let Some(file) = file {
            let mut keys = authorized_keys(&file)?;
            // Whoever has our own key is us.
            keys.insert(own);
            return Ok(Door::for_keys(keys));
        }
        Door::for_code(own, again)
            .map_err(|e| Failure::new(ExitCode::Failed, format!("cannot make a code: {e}")))
    }

    /// Who we are to clients, and who of them may come in.
    pub fn admitting(&self, again: bool) -> Result<(Acceptor, Fingerprint, Door), Failure> {
        let (acceptor, own) = self.identity()?;
        Ok((acceptor, own, self.door(own, again)?))
    }

    /// Who we are to clients.
    pub fn identity(&self) -> Result<(Acceptor, Fingerprint), Failure> {
        let identity = match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => ServerIdentity::from_pem_files(cert, key),
            _ => config_dir().and_then(|dir| ServerIdentity::load_or_generate(&dir)),
        };
        let made = identity.and_then(|identity| {
            let acceptor = Acceptor::new(&identity)?.with_key_log();
            let acceptor = match observe::secrets() {
                Some(secrets) => acceptor.with_secrets(secrets),
                None => acceptor,
            };
            Ok((acceptor, identity.fingerprint()))
        });
        made.map_err(|e| {
            let why =
                format!("no identity to show to clients: {e}; give one with --cert and --key");
            Failure::new(ExitCode::Failed, why)
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
    /// TACKs per least round trip for what we send, 2 to 64 [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=64))]
    #[arg(conflicts_with = "plain_tcp", long_help = BETA_HELP)]
    pub beta: Option<u32>,
    /// Congestion control
    #[arg(short = 'C', long, visible_alias = "cc", value_name = "NAME")]
    #[arg(help = format!("Congestion control [default: bbr]: {}", Algorithm::names()))]
    pub congestion: Option<Algorithm>,
    /// Speak QUIC instead of TCP-TACK, with TACK in it; both sides must
    #[arg(long, conflicts_with = "plain_tcp")]
    #[arg(long_help = QUIC_HELP)]
    pub quic: bool,
}

const BETA_HELP: &str = "\
TACKs per least round trip that we ask for, of what we send: 2 to 64 [default: 4]. Each side says it for its own data. \
More of them help where the path's rate often falls at once, and bbr3 behind a short buffer; 8 or 16 are still few, but on \
Wi-Fi each of them costs air.";

const QUIC_HELP: &str = "\
Speak QUIC instead of TCP-TACK, with TACK in it; both sides must. Keys, codes and known hosts are the same. A connection \
moves by itself when our address changes. Each stream is a connection of its own, and there is no 0-RTT. Never: going \
without encryption, --tun, and other strategies than TACK.";

impl Transport {
    /// Which way, given what was said of real IP; here shows what does not go together.
    pub fn way(&self, tun: &TunArgs) -> Result<Way, Failure> {
        let other = self.strategy.filter(|s| s.tack().is_none());
        if let Some((beta, other)) = self.beta.zip(other) {
            let why = format!("--beta {beta} and --strategy {other}: beta is TACK's");
            return Err(Failure::usage(why));
        }
        if !self.quic {
            return tun.way();
        }
        if tun.tun.is_some() {
            return Err(Failure::usage("--quic and --tun: QUIC runs over UDP only"));
        }
        if let Some(other) = other {
            let why = format!("--strategy {other}: over --quic, TACK says when to acknowledge");
            return Err(Failure::usage(why));
        }
        Ok(Way::Quic)
    }

    /// The connections' configuration.
    pub fn conn_config(&self) -> ConnConfig {
        let named = self.plain_tcp.then_some(AckStrategy::PLAIN).or(self.strategy);
        ConnConfig::default().with(|it| {
            it.congestion = self.congestion;
            it.ack = named.unwrap_or(it.ack);
            if let Some((tack, beta)) = it.ack.tack_mut().zip(self.beta) {
                tack.beta = beta;
            }
        })
    }
}

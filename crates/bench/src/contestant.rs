//! Who is compared, and what one end of a transfer reports.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use tack_device::process_cpu_time;

/// Bytes an application writes at a time.
pub(crate) const WRITE_BYTES: usize = 256 << 10;

/// Who takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Contestant {
    /// quinn with its defaults, on a current-thread runtime.
    Quinn,
    /// tack-net with its defaults and TLS, on a current-thread runtime.
    Tack,
    /// tack-net as plain TCP, with TLS.
    TackPlain,
    /// tack-net without TLS.
    TackClear,
    /// tack-net's QUIC with its defaults: QUIC-TACK.
    QuicTack,
    /// tack-net's QUIC as plain RFC 9000.
    QuicPlain,
}

/// Which end of a transfer: the client sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Role {
    Server,
    Client,
}

macro_rules! display_as_argument {
    ($($name:ident),*) => {$(
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let value = self.to_possible_value().expect("no variant is skipped");
                f.pad(value.get_name())
            }
        }
    )*};
}
pub(crate) use display_as_argument;
display_as_argument!(Contestant, Role);

/// What one end saw.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Share {
    /// Application bytes.
    pub(crate) bytes: u64,
    /// From the first to the last of them.
    pub(crate) seconds: f64,
    /// User and system time of the process.
    pub(crate) cpu_seconds: f64,
    /// Datagrams with data and acknowledgments, as far as the contestant tells.
    pub(crate) note: String,
}

impl Share {
    pub(crate) fn new(bytes: u64, elapsed: Duration, note: String) -> Share {
        let cpu_seconds = process_cpu_time().map_or(f64::NAN, |t| t.as_secs_f64());
        Share { bytes, seconds: elapsed.as_secs_f64(), cpu_seconds, note }
    }
}

/// A key and a certificate both ends of all runs share.
pub(crate) fn write_keys(dir: &Path) -> Result<()> {
    let key = rcgen::KeyPair::generate()?;
    let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()])?;
    fs::write(dir.join("cert.pem"), params.self_signed(&key)?.pem())?;
    fs::write(dir.join("key.pem"), key.serialize_pem())?;
    Ok(())
}

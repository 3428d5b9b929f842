//! Server and client over our stack.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::{cipher_suite, default_provider};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tack_net::ConnectError;
use tack_net::quic::{Config, Connection, ConnectionError, Early, Endpoint, Listen, Version};
use tack_quic_interop::{
    CLOSE, DATAGRAMS, DONE, MAX_REQUEST, NAME, PARALLEL, Settings, check_echo, datagram, request,
    say, speech,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// What stateless resets come from, so that a restart does not change them.
const RESET_SECRET: [u8; 32] = [0x42; 32];

/// More than any client asks early.
const MAX_EARLY_DATA: u64 = 1 << 20;

const KEEP_ALIVE: Duration = Duration::from_secs(1);

/// A clock that stands still. rustls tells the age of a ticket as the difference of two times in whole seconds, and
/// GnuTLS refuses early data by one that is told as older than it is; by this clock none has an age.
#[derive(Debug)]
struct Still(UnixTime);

impl TimeProvider for Still {
    fn current_time(&self) -> Option<UnixTime> {
        Some(self.0)
    }
}

fn provider(set: &Settings) -> Arc<CryptoProvider> {
    let mut provider = default_provider();
    if set.is("chacha20") {
        provider.cipher_suites = vec![cipher_suite::TLS13_CHACHA20_POLY1305_SHA256];
    }
    Arc::new(provider)
}

fn config(set: &Settings) -> Config {
    let is_second = set.is("v2") || set.is("negotiation") && !set.is_server;
    let version = if is_second { Version::V2 } else { Version::V1 };
    // A client that only receives, and whose address became another, has to say something or may not be found.
    let keep_alive = (!set.is_server).then_some(KEEP_ALIVE);
    let max_early_data = if set.is_early() { MAX_EARLY_DATA } else { 0 };
    Config { version, keep_alive, max_early_data, ..Config::default() }
}

/// What the runner asks of our side.
fn report(connection: &Connection) {
    let info = connection.info();
    let counters = info.counters;
    say(format_args!(
        "report version={:?} resumed={} early_taken={} early_refused={} ecn={} updates={} moves={} \
         frequencies={} data_sent={} acks_received={} data_received={} acks_sent={} lost={}",
        connection.version(),
        u64::from(connection.is_resumed()),
        u64::from(connection.early() == Early::Accepted),
        u64::from(connection.early() == Early::Rejected),
        u64::from(info.is_ecn),
        counters.key_updates,
        counters.moves,
        info.frequencies,
        counters.data_packets_sent,
        counters.acks_received,
        counters.data_packets_received,
        info.acks,
        info.lost_packets,
    ));
}

pub(crate) async fn serve(set: Settings) -> Result<()> {
    let certificate = CertificateDer::from_pem_slice(&std::fs::read(&set.cert)?)?;
    let key = PrivateKeyDer::from_pem_slice(&std::fs::read(&set.key)?)?;
    let mut tls = ServerConfig::builder_with_provider(provider(&set))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?;
    tls.alpn_protocols = vec![set.protocol().to_vec()];
    let mut listen = Listen::new(Arc::new(tls), config(&set));
    if set.is("retry") {
        listen.max_handshakes = 0;
    }
    let builder = Endpoint::builder().listen(listen).reset_secret(RESET_SECRET);
    let endpoint = builder.bind(set.at)?;
    while let Some(connection) = endpoint.accept().await {
        let set = set.clone();
        tokio::spawn(async move {
            let watched = connection.clone();
            tokio::spawn(async move {
                let ended = watched.closed().await;
                if let ConnectionError::ClosedByApplication { code, .. } = ended {
                    say(format_args!("closed {code}"));
                } else {
                    say(format_args!("ended {ended}"));
                }
                report(&watched);
            });
            if set.is("keyupdate") {
                tokio::spawn(update_keys(connection.clone()));
            }
            if set.is_early() {
                tokio::spawn(listen_early(connection.clone()));
            }
            if let Err(error) = answer(connection, &set).await {
                eprintln!("a connection ended: {error:#}");
            }
        });
    }
    Ok(())
}

/// Another generation as soon as one may begin.
async fn update_keys(connection: Connection) {
    while connection.close_reason().is_none() && !connection.update_keys() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Says whether something is read before the handshake is done.
async fn listen_early(connection: Connection) {
    let hearing = async {
        while connection.info().counters.data_packets_received == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        biased;
        _ = connection.established() => {}
        () = hearing => say("heard early"),
    }
}

async fn answer(connection: Connection, set: &Settings) -> Result<()> {
    if set.h3 {
        let http = tack_h3::Connection::new(connection);
        return tack_quic_interop::http::serve(http, set).await;
    }
    let echoing = connection.clone();
    tokio::spawn(async move {
        while let Ok(datagram) = echoing.read_datagram().await {
            let _ = echoing.send_datagram(&datagram);
        }
    });
    while let Ok((mut send, recv)) = connection.accept_bi().await {
        let (connection, set) = (connection.clone(), set.clone());
        tokio::spawn(async move {
            let mut said = Vec::new();
            recv.take(MAX_REQUEST as u64).read_to_end(&mut said).await?;
            match set.answer(&said)? {
                None => connection.close(CLOSE.into(), b"enough"),
                Some(body) => {
                    send.write_all(&body).await?;
                    send.shutdown().await?;
                    let _ = send.finished().await;
                }
            }
            anyhow::Ok(())
        });
    }
    Ok(())
}

pub(crate) async fn ask(set: Settings) -> Result<()> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(&std::fs::read(&set.ca)?)?)?;
    let mut tls = ClientConfig::builder_with_provider(provider(&set))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![set.protocol().to_vec()];
    tls.enable_early_data = set.is_early();
    tls.time_provider = Arc::new(Still(UnixTime::now()));
    let tls = Arc::new(tls);
    for _ in 0..set.connections() {
        // The case says how long to wait: where 30 % is lost, four first flights may all be in vain.
        let endpoint = Endpoint::builder().connect_timeout(None).bind(set.any())?;
        let name = ServerName::try_from(NAME)?;
        let (tls, config) = (tls.clone(), config(&set));
        let connected = match set.is_early() {
            true => endpoint.connect_early(set.at, name, tls, config),
            false => endpoint.connect_with(set.at, name, tls, config).await,
        };
        let connection = match connected {
            Err(ConnectError::Quic(ConnectionError::VersionMismatch)) if set.is("negotiation") => {
                say("negotiated");
                return Ok(());
            }
            connected => connected?,
        };
        let done = converse(&endpoint, &connection, &set).await;
        report(&connection);
        done?;
        connection.close(DONE.into(), b"done");
        drop(connection);
        let _ = tokio::time::timeout(Duration::from_secs(1), endpoint.wait_idle()).await;
    }
    Ok(())
}

async fn converse(endpoint: &Endpoint, connection: &Connection, set: &Settings) -> Result<()> {
    if set.is("keyupdate") {
        tokio::spawn(update_keys(connection.clone()));
    }
    if set.h3 {
        let (first, rest) = set.files.split_first().context("no file")?;
        let http = tack_h3::Connection::new(connection.clone());
        if !set.is("migration") {
            return tack_quic_interop::http::fetch(http, set).await;
        }
        let all = Settings {
            files: std::iter::once(first).chain(rest).cloned().collect(),
            ..set.clone()
        };
        let fetching = tack_quic_interop::http::fetch(http, &all);
        let moving = async {
            tokio::time::sleep(Duration::from_millis(60)).await;
            endpoint.rebind(set.any())?;
            say("moved");
            anyhow::Ok(())
        };
        return tokio::try_join!(fetching, moving).map(|_| ());
    }
    match set.case.as_str() {
        "echo" | "ackfrequency" => {
            let back = exchange(connection, &speech()).await?;
            check_echo(&back)?;
            if set.is("ackfrequency") {
                fetch(connection, set, &set.files).await?;
            }
        }
        "closed" => {
            let _ = exchange(connection, &request("close")).await;
            match connection.closed().await {
                ConnectionError::ClosedByApplication { code, .. } => {
                    say(format_args!("closed {code}"));
                }
                error => bail!("{error}"),
            }
        }
        "reset" => {
            let (first, rest) = set.files.split_first().context("no file")?;
            fetch(connection, set, std::slice::from_ref(first)).await?;
            say("ready");
            tack_quic_interop::told().await;
            ensure!(fetch(connection, set, rest).await.is_err(), "the server knows us yet");
            match connection.closed().await {
                ConnectionError::Reset => say("reset"),
                error => bail!("{error}"),
            }
        }
        "migration" => {
            let (first, rest) = set.files.split_first().context("no file")?;
            fetch(connection, set, std::slice::from_ref(first)).await?;
            endpoint.rebind(set.any())?;
            say("moved");
            fetch(connection, set, rest).await?;
        }
        _ => fetch(connection, set, &set.files).await?,
    }
    if set.is("datagrams") {
        for number in 0..DATAGRAMS {
            connection.send_datagram(&datagram(number))?;
        }
        for _ in 0..DATAGRAMS {
            tokio::time::timeout(Duration::from_secs(5), connection.read_datagram()).await??;
        }
        say(format_args!("datagrams {DATAGRAMS}"));
    }
    Ok(())
}

async fn exchange(connection: &Connection, said: &[u8]) -> Result<Vec<u8>> {
    let (mut send, mut recv) = connection.open_bi().await?;
    let writing = async {
        send.write_all(said).await?;
        Ok(send.shutdown().await?)
    };
    let reading = async {
        let mut back = Vec::new();
        recv.read_to_end(&mut back).await?;
        anyhow::Ok(back)
    };
    let ((), back) = tokio::try_join!(writing, reading)?;
    Ok(back)
}

/// Several at a time.
async fn fetch(connection: &Connection, set: &Settings, names: &[String]) -> Result<()> {
    for names in names.chunks(PARALLEL) {
        let mut tasks = tokio::task::JoinSet::new();
        for name in names {
            let (connection, set, name) = (connection.clone(), set.clone(), name.clone());
            tasks.spawn(
                async move { set.store(&name, &exchange(&connection, &request(&name)).await?) },
            );
        }
        while let Some(done) = tasks.join_next().await {
            done??;
        }
    }
    Ok(())
}

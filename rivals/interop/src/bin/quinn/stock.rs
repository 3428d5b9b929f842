//! Server and client over quinn, or noq, whichever `crate::quic` is.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tack_quic_interop::{
    CLOSE, DATAGRAMS, DONE, MAX_REQUEST, NAME, Settings, check_echo, datagram, locked, request,
    run, say, speech,
};

use crate::quic::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use crate::quic::{
    AckFrequencyConfig, ClientConfig, Connection, ConnectionError, ConnectionId,
    ConnectionIdGenerator, Endpoint, EndpointConfig, ServerConfig, TokioRuntime, TransportConfig,
    VarInt,
};

pub(crate) fn main(name: &str) -> Result<()> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    run(&locked(name), serve, ask)
}

fn transport(set: &Settings) -> Arc<TransportConfig> {
    let mut transport = TransportConfig::default();
    if set.is("ackfrequency") {
        let mut acks = AckFrequencyConfig::default();
        acks.ack_eliciting_threshold(VarInt::from_u32(39));
        transport.ack_frequency_config(Some(acks));
    }
    Arc::new(transport)
}

/// Stateless resets come from a secret that a restart does not change.
fn endpoint_config() -> EndpointConfig {
    let secret = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &[0x42; 64]);
    let mut config = EndpointConfig::new(Arc::new(secret));
    crate::choose_ids(&mut config);
    config
}

/// IDs that are all the same to it: its own ones would be nobody's after a restart, and reset nothing.
pub(crate) struct AnyIds;

impl ConnectionIdGenerator for AnyIds {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut bytes = [0; 8];
        let random = ring::rand::SystemRandom::new();
        ring::rand::SecureRandom::fill(&random, &mut bytes).expect("there is randomness");
        ConnectionId::new(&bytes)
    }

    fn cid_len(&self) -> usize {
        8
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

async fn serve(set: Settings) -> Result<()> {
    let certificate = CertificateDer::from_pem_slice(&std::fs::read(&set.cert)?)?;
    let key = PrivateKeyDer::from_pem_slice(&std::fs::read(&set.key)?)?;
    let mut tls = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?;
    tls.alpn_protocols = vec![set.protocol().to_vec()];
    tls.max_early_data_size = if set.is_early() { u32::MAX } else { 0 };
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    config.transport_config(transport(&set));
    let socket = std::net::UdpSocket::bind(set.at)?;
    let runtime = Arc::new(TokioRuntime);
    let endpoint = Endpoint::new(endpoint_config(), Some(config), socket, runtime)?;
    while let Some(incoming) = endpoint.accept().await {
        if set.is("retry") && !incoming.remote_address_validated() {
            let _ = incoming.retry();
            continue;
        }
        let set = set.clone();
        tokio::spawn(async move {
            let connecting = incoming.accept()?;
            let connection = if set.is_early() {
                let early =
                    connecting.into_0rtt().map_err(|_| anyhow!("a server can always begin early"));
                early?.0
            } else {
                connecting.await?
            };
            if let Err(error) = answer(connection, set).await {
                eprintln!("a connection ended: {error:#}");
            }
            anyhow::Ok(())
        });
    }
    Ok(())
}

async fn answer(connection: Connection, set: Settings) -> Result<()> {
    if set.h3 {
        return crate::http::serve(connection, &set).await;
    }
    tokio::spawn(echo(connection.clone()));
    loop {
        let (mut send, mut recv) = match connection.accept_bi().await {
            Ok(stream) => stream,
            Err(ConnectionError::ApplicationClosed(closed)) => {
                say(format_args!("closed {}", closed.error_code));
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        let (set, connection) = (set.clone(), connection.clone());
        tokio::spawn(async move {
            match set.answer(&recv.read_to_end(MAX_REQUEST).await?)? {
                None => connection.close(VarInt::from_u32(CLOSE), b"enough"),
                Some(body) => {
                    send.write_all(&body).await?;
                    send.finish()?;
                    let _ = send.stopped().await;
                }
            }
            anyhow::Ok(())
        });
    }
}

async fn echo(connection: Connection) {
    while let Ok(datagram) = connection.read_datagram().await {
        let _ = connection.send_datagram(datagram);
    }
}

fn client_config(set: &Settings) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(&std::fs::read(&set.ca)?)?)?;
    let mut tls =
        rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    tls.alpn_protocols = vec![set.protocol().to_vec()];
    tls.enable_early_data = set.is_early();
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    config.transport_config(transport(set));
    Ok(config)
}

async fn ask(set: Settings) -> Result<()> {
    let config = client_config(&set)?;
    for _ in 0..set.connections() {
        let socket = std::net::UdpSocket::bind(set.any())?;
        let runtime = Arc::new(TokioRuntime);
        let endpoint = Endpoint::new(endpoint_config(), None, socket, runtime)?;
        converse(&endpoint, config.clone(), &set).await?;
        endpoint.wait_idle().await;
    }
    Ok(())
}

async fn converse(endpoint: &Endpoint, config: ClientConfig, set: &Settings) -> Result<()> {
    let connecting = endpoint.connect_with(config, set.at, NAME)?;
    let connection = match connecting.into_0rtt() {
        Ok((connection, accepted)) => {
            say("early");
            let asked = fetch(&connection, set, &set.files).await;
            if accepted.await {
                asked?;
                say("early taken");
            } else {
                say("early refused");
                fetch(&connection, set, &set.files).await?;
            }
            connection.close(VarInt::from_u32(DONE), b"done");
            return Ok(());
        }
        Err(connecting) => connecting.await?,
    };
    if set.h3 {
        crate::http::fetch(connection.clone(), set).await?;
        connection.close(VarInt::from_u32(DONE), b"done");
        return Ok(());
    }
    match set.case.as_str() {
        "echo" => {
            let back = exchange(connection.clone(), &speech()).await?;
            check_echo(&back)?;
        }
        "closed" => {
            let _ = exchange(connection.clone(), &request("close")).await;
            match connection.closed().await {
                ConnectionError::ApplicationClosed(closed) => {
                    say(format_args!("closed {}", closed.error_code));
                }
                error => bail!("{error}"),
            }
            return Ok(());
        }
        "reset" => {
            let (first, rest) = set.files.split_first().context("no file")?;
            fetch(&connection, set, std::slice::from_ref(first)).await?;
            say("ready");
            tack_quic_interop::told().await;
            let began = Instant::now();
            ensure!(fetch(&connection, set, rest).await.is_err(), "the server knows us yet");
            match connection.closed().await {
                ConnectionError::Reset => say("reset"),
                error => bail!("{error} after {:?}", began.elapsed()),
            }
            return Ok(());
        }
        "migration" => {
            let (first, rest) = set.files.split_first().context("no file")?;
            fetch(&connection, set, std::slice::from_ref(first)).await?;
            endpoint.rebind(std::net::UdpSocket::bind(set.any())?)?;
            say("moved");
            fetch(&connection, set, rest).await?;
        }
        "peerkeyupdate" => {
            for file in &set.files {
                fetch(&connection, set, std::slice::from_ref(file)).await?;
                connection.force_key_update();
                say("updated");
            }
        }
        _ => fetch(&connection, set, &set.files).await?,
    }
    if set.is("datagrams") {
        for number in 0..DATAGRAMS {
            connection.send_datagram(datagram(number).into())?;
        }
        let mut came = 0;
        while came < DATAGRAMS {
            tokio::time::timeout(Duration::from_secs(5), connection.read_datagram()).await??;
            came += 1;
        }
        say(format_args!("datagrams {came}"));
    }
    connection.close(VarInt::from_u32(DONE), b"done");
    Ok(())
}

async fn exchange(connection: Connection, said: &[u8]) -> Result<Vec<u8>> {
    let (mut send, mut recv) = connection.open_bi().await?;
    let writing = async {
        send.write_all(said).await?;
        send.finish()?;
        anyhow::Ok(())
    };
    let reading = async { Ok(recv.read_to_end(64 << 20).await?) };
    let ((), back) = tokio::try_join!(writing, reading)?;
    Ok(back)
}

/// Several at a time.
async fn fetch(connection: &Connection, set: &Settings, names: &[String]) -> Result<()> {
    let mut tasks = tokio::task::JoinSet::new();
    for name in names {
        let (connection, set, name) = (connection.clone(), set.clone(), name.clone());
        tasks.spawn(async move {
            let body = exchange(connection, &request(&name)).await?;
            set.store(&name, &body)
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

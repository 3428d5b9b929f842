//! s2n-quic with rustls.

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use s2n_quic::client::Connect;
use s2n_quic::connection::Error;
use s2n_quic::provider::endpoint_limits::{ConnectionAttempt, Limiter, Outcome};
use s2n_quic::provider::tls::rustls;
use s2n_quic::stream::BidirectionalStream;
use s2n_quic::{Client, Connection, Server};
use tack_quic_interop::{
    CLOSE, DONE, NAME, Settings, check_echo, locked, request, run, say, speech, wrong,
};

fn main() -> Result<()> {
    run(&locked("s2n-quic"), serve, ask)
}

/// Whether clients have to show where they are.
struct Doorman {
    retry: bool,
}

impl Limiter for Doorman {
    fn on_connection_attempt(&mut self, _attempt: &ConnectionAttempt) -> Outcome {
        if self.retry { Outcome::retry() } else { Outcome::allow() }
    }
}

async fn serve(set: Settings) -> Result<()> {
    let tls = rustls::Server::builder()
        .with_certificate(set.cert.as_path(), set.key.as_path())
        .map_err(wrong)?
        .with_application_protocols([set.protocol()].iter())
        .map_err(wrong)?
        .build()
        .map_err(wrong)?;
    let mut server = Server::builder()
        .with_tls(tls)?
        .with_io(set.at)?
        .with_endpoint_limits(Doorman { retry: set.is("retry") })?
        .start()
        .map_err(wrong)?;
    while let Some(connection) = server.accept().await {
        let set = set.clone();
        tokio::spawn(async move {
            if let Err(error) = answer(connection, set).await {
                eprintln!("a connection ended: {error:#}");
            }
        });
    }
    Ok(())
}

async fn answer(mut connection: Connection, set: Settings) -> Result<()> {
    loop {
        let stream = match connection.accept_bidirectional_stream().await {
            Ok(Some(stream)) => stream,
            Ok(None) => return Ok(()),
            Err(Error::Application { error, .. }) => {
                say(format_args!("closed {}", u64::from(*error)));
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        let (set, handle) = (set.clone(), connection.handle());
        tokio::spawn(async move {
            let (mut recv, mut send) = stream.split();
            let mut said = Vec::new();
            while let Some(piece) = recv.receive().await? {
                said.extend_from_slice(&piece);
            }
            match set.answer(&said)? {
                None => handle.close(CLOSE.into()),
                Some(body) => {
                    send.send(body.into()).await?;
                    send.close().await?;
                }
            }
            anyhow::Ok(())
        });
    }
}

async fn ask(set: Settings) -> Result<()> {
    let tls = rustls::Client::builder()
        .with_certificate(set.ca.as_path())
        .map_err(wrong)?
        .with_application_protocols([set.protocol()].iter())
        .map_err(wrong)?
        .build()
        .map_err(wrong)?;
    let client = Client::builder().with_tls(tls)?.with_io(set.any())?.start().map_err(wrong)?;
    for _ in 0..set.connections() {
        let connecting = client.connect(Connect::new(set.at).with_server_name(NAME));
        converse(connecting.await?, &set).await?;
    }
    Ok(())
}

async fn converse(mut connection: Connection, set: &Settings) -> Result<()> {
    match set.case.as_str() {
        "echo" => {
            let stream = connection.open_bidirectional_stream().await?;
            check_echo(&exchange(stream, speech()).await?)?;
        }
        "closed" => {
            let stream = connection.open_bidirectional_stream().await?;
            let _ = exchange(stream, request("close")).await;
            match connection.accept().await {
                Err(Error::Application { error, .. }) => {
                    say(format_args!("closed {}", u64::from(*error)));
                }
                Err(error) => bail!("{error}"),
                Ok(_) => bail!("it was not closed"),
            }
            return Ok(());
        }
        "reset" => {
            let (first, rest) = set.files.split_first().context("no file")?;
            fetch(&mut connection, set, std::slice::from_ref(first)).await?;
            say("ready");
            tack_quic_interop::told().await;
            let Err(error) = fetch(&mut connection, set, rest).await else {
                bail!("the server knows us yet");
            };
            match error.downcast_ref::<s2n_quic::stream::Error>() {
                Some(s2n_quic::stream::Error::ConnectionError {
                    error: Error::StatelessReset { .. },
                    ..
                }) => say("reset"),
                _ => return Err(error),
            }
            return Ok(());
        }
        _ => fetch(&mut connection, set, &set.files).await?,
    }
    connection.close(DONE.into());
    // What closes it has to leave.
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    Ok(())
}

async fn exchange(stream: BidirectionalStream, said: Vec<u8>) -> Result<Vec<u8>> {
    let (mut recv, mut send) = stream.split();
    let writing = async {
        send.send(Bytes::from(said)).await?;
        send.finish()?;
        anyhow::Ok(())
    };
    let reading = async {
        let mut back = Vec::new();
        while let Some(piece) = recv.receive().await? {
            back.extend_from_slice(&piece);
        }
        anyhow::Ok(back)
    };
    let ((), back) = tokio::try_join!(writing, reading)?;
    Ok(back)
}

async fn fetch(connection: &mut Connection, set: &Settings, names: &[String]) -> Result<()> {
    let mut tasks = tokio::task::JoinSet::new();
    for name in names {
        let stream = connection.open_bidirectional_stream().await?;
        let (set, name) = (set.clone(), name.clone());
        tasks.spawn(async move { set.store(&name, &exchange(stream, request(&name)).await?) });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

//! The file server and its client over HTTP/3, for any transport that the crate h3 runs on.

use anyhow::{Result, ensure};
use bytes::{Buf, Bytes};
use h3::client::SendRequest;
use h3::quic;
use h3::server::RequestResolver;

use crate::{NAME, PARALLEL, Settings, check_echo, speech, wrong};

/// Answers each request: GET with a file, others with what came in their body.
pub async fn serve<C>(connection: C, set: &Settings) -> Result<()>
where
    C: quic::Connection<Bytes> + Send + 'static,
    C::BidiStream: quic::BidiStream<Bytes> + Send + 'static,
    <C::BidiStream as quic::RecvStream>::Buf: Send,
    C::RecvStream: Send,
    C::SendStream: Send,
    C::OpenStreams: Send,
{
    let mut http = h3::server::Connection::new(connection).await.map_err(wrong)?;
    while let Some(resolver) = http.accept().await.map_err(wrong)? {
        let set = set.clone();
        tokio::spawn(async move {
            if let Err(error) = answer(resolver, &set).await {
                eprintln!("a request failed: {error:#}");
            }
        });
    }
    Ok(())
}

async fn answer<C>(resolver: RequestResolver<C, Bytes>, set: &Settings) -> Result<()>
where
    C: quic::Connection<Bytes>,
{
    let (request, mut stream) = resolver.resolve_request().await.map_err(wrong)?;
    let body = if request.method() == http::Method::GET {
        set.file(request.uri().path())
    } else {
        let mut body = Vec::new();
        while let Some(mut piece) = stream.recv_data().await.map_err(wrong)? {
            ensure!(body.len() + piece.remaining() <= crate::MAX_REQUEST, "a body is too long");
            body.extend_from_slice(&piece.copy_to_bytes(piece.remaining()));
        }
        Ok(body)
    };
    let status = if body.is_ok() { http::StatusCode::OK } else { http::StatusCode::NOT_FOUND };
    let response = http::Response::builder().status(status).body(())?;
    stream.send_response(response).await.map_err(wrong)?;
    stream.send_data(body.unwrap_or_default().into()).await.map_err(wrong)?;
    stream.finish().await.map_err(wrong)
}

/// Fetches the files; in the case `echo`, has a body said back.
pub async fn fetch<C, O>(connection: C, set: &Settings) -> Result<()>
where
    C: quic::Connection<Bytes, OpenStreams = O> + Send + 'static,
    C::SendStream: Send,
    C::RecvStream: Send,
    O: quic::OpenStreams<Bytes> + Clone + Send + 'static,
    O::BidiStream: quic::BidiStream<Bytes> + Send,
    <O::BidiStream as quic::RecvStream>::Buf: Send,
{
    let (mut driver, requests) = h3::client::new(connection).await.map_err(wrong)?;
    let driving = async move { std::future::poll_fn(|cx| driver.poll_close(cx)).await };
    let asking = async {
        if set.is("echo") {
            let mut requests = requests.clone();
            return check_echo(&body_of(&mut requests, "echo", Some(speech())).await?);
        }
        for names in set.files.chunks(PARALLEL) {
            let fetching = names.iter().map(|name| {
                let mut requests = requests.clone();
                async move { set.store(name, &body_of(&mut requests, name, None).await?) }
            });
            for done in futures(fetching).await {
                done?;
            }
        }
        Ok(())
    };
    tokio::select! {
        done = asking => done,
        ended = driving => Err(wrong(ended)),
    }
}

/// All of them at once, in one task.
async fn futures<F: Future>(all: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut waiting: Vec<_> = all.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|cx| {
        for (future, done) in &mut waiting {
            if done.is_none()
                && let std::task::Poll::Ready(output) = future.as_mut().poll(cx)
            {
                *done = Some(output);
            }
        }
        match waiting.iter().all(|(_, done)| done.is_some()) {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
    waiting.into_iter().filter_map(|(_, done)| done).collect()
}

async fn body_of<O>(
    requests: &mut SendRequest<O, Bytes>,
    name: &str,
    said: Option<Vec<u8>>,
) -> Result<Vec<u8>>
where
    O: quic::OpenStreams<Bytes>,
    O::BidiStream: quic::BidiStream<Bytes>,
{
    let method = if said.is_some() { http::Method::POST } else { http::Method::GET };
    let uri = format!("https://{NAME}/{name}");
    let request = http::Request::builder().method(method).uri(uri).body(())?;
    let stream = requests.send_request(request).await.map_err(wrong)?;
    let (mut send, mut recv) = stream.split();
    let saying = async {
        if let Some(said) = said {
            send.send_data(said.into()).await.map_err(wrong)?;
        }
        send.finish().await.map_err(wrong)
    };
    let hearing = async {
        let response = recv.recv_response().await.map_err(wrong)?;
        ensure!(response.status() == http::StatusCode::OK, "{name}: {}", response.status());
        let mut body = Vec::new();
        while let Some(mut piece) = recv.recv_data().await.map_err(wrong)? {
            body.extend_from_slice(&piece.copy_to_bytes(piece.remaining()));
        }
        Ok(body)
    };
    let ((), body) = tokio::try_join!(saying, hearing)?;
    Ok(body)
}

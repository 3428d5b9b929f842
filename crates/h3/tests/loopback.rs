//! HTTP/3 between our own two ends, on loopback.

#[allow(dead_code, reason = "its main asks for arguments")]
#[path = "../examples/client.rs"]
mod client;
#[allow(dead_code, reason = "its main asks for arguments")]
#[path = "../examples/server.rs"]
mod server;

use std::time::Duration;

use bytes::{Buf, Bytes};
use h3::client::SendRequest;
use h3::error::{Code, StreamError};
use h3::server::RequestStream;
use http::{Request, Response, StatusCode};
use tack_h3::{BidiStream, Connection, OpenStreams, PROTOCOL};
use tack_net::quic::{Config, Endpoint, Listen};
use tack_net::tls::{Acceptor, ClientTrust, Connector, ServerIdentity};
use tokio::time::timeout;

/// Fails rather than hangs.
async fn soon<F: Future>(f: F) -> F::Output {
    timeout(Duration::from_secs(30), f).await.expect("took too long")
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 255 + i / 65_537) as u8).collect()
}

fn listen() -> (Endpoint, Connector) {
    let identity = ServerIdentity::generate(&["localhost"]).unwrap();
    let tls = Acceptor::new(&identity).unwrap().for_quic(&[PROTOCOL]);
    let at = "127.0.0.1:0".parse().unwrap();
    let endpoint = Endpoint::server(at, Listen::new(tls, Config::default())).unwrap();
    (endpoint, Connector::new(ClientTrust::Pinned(identity.fingerprint())).unwrap())
}

/// A server that answers each request as `answer` does, and who asks it.
async fn pair<A, R>(answer: A) -> SendRequest<OpenStreams, Bytes>
where
    A: Fn(Request<()>, RequestStream<BidiStream<Bytes>, Bytes>) -> R + Clone + Send + 'static,
    R: Future<Output = Result<(), StreamError>> + Send + 'static,
{
    let (endpoint, connector) = listen();
    let host = format!("localhost:{}", endpoint.local_addr().port());
    tokio::spawn(async move {
        let connection = Connection::new(endpoint.accept().await.unwrap());
        let mut http = h3::server::Connection::new(connection).await.unwrap();
        while let Ok(Some(resolver)) = http.accept().await {
            let answer = answer.clone();
            tokio::spawn(async move {
                let (request, stream) = resolver.resolve_request().await?;
                answer(request, stream).await
            });
        }
    });
    let client = Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    let connecting = client.connect(&host, &connector, &[PROTOCOL], Config::default());
    let connection = Connection::new(soon(connecting).await.unwrap());
    let (mut driver, requests) = soon(h3::client::new(connection)).await.unwrap();
    tokio::spawn(async move { std::future::poll_fn(|cx| driver.poll_close(cx)).await });
    requests
}

async fn echo(
    _request: Request<()>,
    mut stream: RequestStream<BidiStream<Bytes>, Bytes>,
) -> Result<(), StreamError> {
    stream.send_response(Response::new(())).await?;
    while let Some(mut piece) = stream.recv_data().await? {
        stream.send_data(piece.copy_to_bytes(piece.remaining())).await?;
    }
    stream.finish().await
}

/// What comes back of `body`.
async fn echoed(mut requests: SendRequest<OpenStreams, Bytes>, body: Vec<u8>) -> Vec<u8> {
    let request = Request::post("https://localhost/").body(()).unwrap();
    let stream = soon(requests.send_request(request)).await.unwrap();
    let (mut send, mut recv) = stream.split();
    let sending = tokio::spawn(async move {
        send.send_data(body.into()).await.unwrap();
        send.finish().await.unwrap();
    });
    assert_eq!(soon(recv.recv_response()).await.unwrap().status(), StatusCode::OK);
    let mut back = Vec::new();
    while let Some(mut piece) = soon(recv.recv_data()).await.unwrap() {
        back.extend_from_slice(&piece.copy_to_bytes(piece.remaining()));
    }
    sending.await.unwrap();
    back
}

#[tokio::test]
async fn a_body_of_any_length_comes_back_as_it_was() {
    let requests = pair(echo).await;
    for len in [0, 1, 1_000, 3_000_000] {
        assert!(echoed(requests.clone(), bytes(len)).await == bytes(len), "{len} bytes");
    }
}

#[tokio::test]
async fn more_requests_than_the_server_takes_at_a_time_wait_for_their_turn() {
    let requests = pair(echo).await;
    let tasks: Vec<_> =
        (0..250).map(|n| tokio::spawn(echoed(requests.clone(), bytes(n * 40)))).collect();
    for (n, task) in tasks.into_iter().enumerate() {
        assert!(soon(task).await.unwrap() == bytes(n * 40), "request {n}");
    }
}

#[tokio::test]
async fn a_request_that_is_refused_in_its_midst_says_why_and_the_others_go_on() {
    let answer = |request: Request<()>, mut stream: RequestStream<BidiStream<Bytes>, Bytes>| async {
        if request.uri().path() == "/refused" {
            stream.send_response(Response::new(())).await?;
            stream.stop_stream(Code::H3_REQUEST_REJECTED);
            stream.stop_sending(Code::H3_REQUEST_REJECTED);
            return Ok(());
        }
        echo(request, stream).await
    };
    let mut requests = pair(answer).await;
    let request = Request::post("https://localhost/refused").body(()).unwrap();
    let mut stream = soon(requests.send_request(request)).await.unwrap();
    let refused = async {
        if let Err(error) = stream.recv_response().await {
            return error;
        }
        loop {
            if let Err(error) = stream.recv_data().await {
                return error;
            }
        }
    };
    let StreamError::RemoteTerminate { code, .. } = soon(refused).await else {
        panic!("the server ended it");
    };
    assert_eq!(code, Code::H3_REQUEST_REJECTED);
    assert!(echoed(requests, bytes(10_000)).await == bytes(10_000));
}

#[tokio::test]
async fn the_examples_move_a_file_and_refuse_what_is_not_below_their_directory() {
    let directory = std::env::temp_dir().join(format!("tack-h3-{}", std::process::id()));
    std::fs::create_dir_all(directory.join("shown")).unwrap();
    std::fs::write(directory.join("shown/file"), bytes(1_000_000)).unwrap();
    std::fs::write(directory.join("secret"), b"nobody's").unwrap();
    let (endpoint, connector) = listen();
    let at = format!("https://localhost:{}", endpoint.local_addr().port());
    tokio::spawn(server::serve(endpoint, directory.join("shown")));
    let mut came = Vec::new();
    let uri = format!("{at}/file").parse().unwrap();
    soon(client::fetch(&uri, &connector, &mut came)).await.unwrap();
    assert!(came == bytes(1_000_000));
    for refused in ["/missing", "/../secret", "/./../secret"] {
        let uri = format!("{at}{refused}").parse().unwrap();
        let error = soon(client::fetch(&uri, &connector, &mut Vec::new())).await.unwrap_err();
        assert_eq!(error.to_string(), "404 Not Found", "{refused}");
    }
    std::fs::remove_dir_all(directory).unwrap();
}

/// What a server does with its response as long as it has not found out that nobody wants it.
async fn talk(stream: &mut RequestStream<BidiStream<Bytes>, Bytes>) -> [Option<StreamError>; 2] {
    let mut error = stream.send_response(Response::new(())).await.err();
    while error.is_none() {
        error = stream.send_data(vec![7; 10_000].into()).await.err();
    }
    let again = stream.send_data(vec![7; 10].into()).await.err();
    [error, again]
}

#[tokio::test]
async fn a_server_that_writes_on_though_its_client_has_gone_ends_no_other_request() {
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let answer = move |request: Request<()>,
                       mut stream: RequestStream<BidiStream<Bytes>, Bytes>| {
        let tell = tell.clone();
        async move {
            if request.uri().path() == "/endless" {
                tell.send(talk(&mut stream).await).unwrap();
                return Ok(());
            }
            echo(request, stream).await
        }
    };
    let mut requests = pair(answer).await;
    let request = Request::get("https://localhost/endless").body(()).unwrap();
    let mut stream = soon(requests.send_request(request)).await.unwrap();
    soon(stream.recv_response()).await.unwrap();
    drop(stream);
    for error in soon(told.recv()).await.unwrap() {
        assert!(matches!(error, Some(StreamError::RemoteTerminate { .. })), "{error:?}");
    }
    assert!(echoed(requests.clone(), bytes(1_000)).await == bytes(1_000));
}

#[tokio::test]
async fn who_gives_up_waiting_for_a_write_and_writes_again_ends_no_other_request() {
    let answer = |request: Request<()>, stream: RequestStream<BidiStream<Bytes>, Bytes>| async {
        if request.uri().path() == "/deaf" {
            tokio::time::sleep(Duration::from_secs(60)).await;
            return Ok(());
        }
        echo(request, stream).await
    };
    let mut requests = pair(answer).await;
    let request = Request::post("https://localhost/deaf").body(()).unwrap();
    let mut stream = soon(requests.send_request(request)).await.unwrap();
    // More than buffers and windows hold.
    let writing = stream.send_data(vec![7; 40 << 20].into());
    assert!(timeout(Duration::from_millis(200), writing).await.is_err());
    assert!(stream.send_data(vec![7; 10].into()).await.is_err());
    assert!(echoed(requests.clone(), bytes(1_000)).await == bytes(1_000));
}

//! TLS over streams in memory: what is trusted, what is not, and how streams end.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf, duplex, split};
use tokio::time::timeout;

use super::*;

type Tls = TlsStream<DuplexStream>;

/// Both ends of a handshake through a pipe of `pipe` bytes.
async fn shake(
    identity: &ServerIdentity,
    connector: &Connector,
    host: &str,
    pipe: usize,
) -> (Result<Tls, TlsError>, Result<Tls, TlsError>) {
    let (near, far) = duplex(pipe);
    let acceptor = Acceptor::new(identity).unwrap();
    tokio::join!(connector.connect(host, near), acceptor.accept(far))
}

async fn pair(pipe: usize) -> (Tls, Tls) {
    let identity = ServerIdentity::generate(&["localhost"]).unwrap();
    let connector = Connector::new(ClientTrust::Pinned(identity.fingerprint())).unwrap();
    let (client, server) = shake(&identity, &connector, "localhost", pipe).await;
    (client.unwrap(), server.unwrap())
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 255) as u8).collect()
}

#[tokio::test]
async fn bytes_arrive_intact_both_ways_at_once_through_any_pipe() {
    for pipe in [1, 7, 1_000, 1 << 20] {
        let (client, server) = pair(pipe).await;
        let (up, down) = (bytes(200_000 / (1 + 1_000 / pipe)), bytes(90_000));
        let send = |stream: Tls, data: Vec<u8>| async move {
            let (mut r, mut w) = tokio::io::split(stream);
            let write = async move {
                for chunk in data.chunks(30_011) {
                    w.write_all(chunk).await.unwrap();
                }
                w.shutdown().await.unwrap();
            };
            let read = async move {
                let mut got = Vec::new();
                r.read_to_end(&mut got).await.unwrap();
                got
            };
            tokio::join!(write, read).1
        };
        let (at_client, at_server) =
            tokio::join!(send(client, up.clone()), send(server, down.clone()));
        assert!(at_client == down, "pipe {pipe}");
        assert!(at_server == up, "pipe {pipe}");
    }
}

#[tokio::test]
async fn the_suite_is_the_fastest_for_this_processor() {
    let (client, server) = pair(1 << 16).await;
    let expected =
        if has_aes() { "TLS13_AES_128_GCM_SHA256" } else { "TLS13_CHACHA20_POLY1305_SHA256" };
    assert_eq!(client.cipher_suite(), Some(expected));
    assert_eq!(server.cipher_suite(), Some(expected));
}

#[tokio::test]
async fn either_direction_ends_alone_and_writing_after_that_fails() {
    let (mut client, mut server) = pair(1 << 16).await;
    client.write_all(b"question").await.unwrap();
    client.shutdown().await.unwrap();
    assert_eq!(client.write(b"x").await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    let mut got = String::new();
    server.read_to_string(&mut got).await.unwrap();
    assert_eq!(got, "question");
    server.write_all(b"answer").await.unwrap();
    server.shutdown().await.unwrap();
    got.clear();
    client.read_to_string(&mut got).await.unwrap();
    assert_eq!(got, "answer");
}

/// [RFC 8446 §6.1]: without close_notify the end may be an attacker's.
#[tokio::test]
async fn an_end_without_close_notify_is_an_error_after_the_bytes_before_it() {
    let (mut client, server) = pair(1 << 16).await;
    let mut server = server;
    server.write_all(b"half").await.unwrap();
    server.flush().await.unwrap();
    drop(server.into_inner());
    let mut got = [0; 4];
    client.read_exact(&mut got).await.unwrap();
    assert_eq!(&got, b"half");
    assert_eq!(client.read(&mut got).await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
}

#[tokio::test]
async fn a_flipped_bit_ends_the_connection_with_an_error() {
    let (mut client, mut server) = pair(1 << 16).await;
    client.write_all(b"secret").await.unwrap();
    client.flush().await.unwrap();
    let mut record = vec![0; 256];
    let n = server.get_mut_for_tests().read(&mut record).await.unwrap();
    record[n - 1] ^= 1;
    let (mut near, far) = duplex(1 << 16);
    near.write_all(&record[..n]).await.unwrap();
    *server.get_mut_for_tests() = far;
    assert_eq!(server.read(&mut [0; 8]).await.unwrap_err().kind(), io::ErrorKind::InvalidData);
}

#[tokio::test]
async fn a_key_other_than_the_pinned_one_is_named_in_the_error() {
    let identity = ServerIdentity::generate(&["localhost"]).unwrap();
    let other = ServerIdentity::generate(&["localhost"]).unwrap().fingerprint();
    let connector = Connector::new(ClientTrust::Pinned(other)).unwrap();
    let (client, server) = shake(&identity, &connector, "localhost", 1 << 16).await;
    match client.unwrap_err() {
        TlsError::PinMismatch { expected, found } => {
            assert_eq!((expected, found), (other, identity.fingerprint()));
        }
        e => panic!("{e}"),
    }
    assert!(matches!(server.unwrap_err(), TlsError::Refused(_)));
}

/// Carries bytes, and turns a bit of the one at `at`.
async fn carry(from: ReadHalf<DuplexStream>, to: WriteHalf<DuplexStream>, at: Option<usize>) {
    let (mut from, mut to, mut passed) = (from, to, 0);
    let mut buffer = [0; 4_096];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        if let Some(damaged) = at.and_then(|at| buffer[..read].get_mut(at.checked_sub(passed)?)) {
            *damaged ^= 1 << (passed % 8);
        }
        passed += read;
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
    let _ = to.shutdown().await;
}

/// Nobody says so: it looks like a protocol that was violated, or, if a length was damaged, like silence.
#[tokio::test(start_paused = true)]
async fn a_handshake_that_was_damaged_anywhere_is_a_connection_that_broke_and_no_verdict() {
    let [server, client] = [(); 2].map(|()| ServerIdentity::generate(&["localhost"]).unwrap());
    let trust = ClientTrust::Pinned(server.fingerprint());
    let connector = Connector::new(trust).unwrap().with_identity(Arc::new(client));
    let acceptor = Acceptor::new(&server).unwrap();
    let mut broken = 0;
    for (upwards, at) in (0..1_200).map(|n| (n % 2 == 0, n / 2)) {
        let ((near, on_path), (path_on, far)) = (duplex(1 << 16), duplex(1 << 16));
        let ((up_from, down_to), (down_from, up_to)) = (split(on_path), split(path_on));
        let up = tokio::spawn(carry(up_from, up_to, upwards.then_some(at)));
        let down = tokio::spawn(carry(down_from, down_to, (!upwards).then_some(at)));
        let accepting = timeout(Duration::from_secs(20), acceptor.accept(far));
        let asking = async {
            let mut stream = connector.connect("localhost", near).await?;
            // What the server makes of the last flight comes behind it.
            stream.read(&mut [0]).await.map(drop).map_err(TlsError::Io)
        };
        let (asked, accepted) = tokio::join!(timeout(Duration::from_secs(30), asking), accepting);
        if let Ok(Err(error)) = asked {
            assert!(!error.is_verdict(), "byte {at}, to the server: {upwards}: {error:?}");
            broken += 1;
        }
        if let Ok(Err(error)) = accepted {
            assert!(!error.is_verdict(), "byte {at}, to the server: {upwards}: {error:?}");
        }
        up.abort();
        down.abort();
    }
    assert!(broken > 600, "{broken}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_says_nothing_is_given_up() {
    let identity = ServerIdentity::generate(&["localhost"]).unwrap();
    let limit = Duration::from_secs(3);
    let connector = Connector::new(ClientTrust::Pinned(identity.fingerprint())).unwrap();
    let (near, _silent) = duplex(1 << 16);
    let error = connector.with_limit(limit).connect("localhost", near).await.unwrap_err();
    assert!(matches!(error, TlsError::TimedOut(l) if l == limit), "{error}");
}

#[tokio::test]
async fn a_host_is_met_for_the_first_time_until_it_is_remembered_and_a_changed_key_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let hosts = KnownHosts::new(dir.path().join("known_hosts"));
    let connector = Connector::new(ClientTrust::FirstUse(hosts.clone())).unwrap();
    let identity = ServerIdentity::generate(&["localhost"]).unwrap();
    let mut meetings = Vec::new();
    for (host, remember) in
        [("srv_1:7", false), ("srv_1:7", true), ("srv_1:7", false), ("[::1]:7", true)]
    {
        let (client, _) = shake(&identity, &connector, host, 1 << 16).await;
        let client = client.unwrap();
        meetings.push(client.is_first_use());
        if remember {
            connector.remember(host, client.peer_fingerprint().unwrap()).unwrap();
        }
    }
    assert_eq!(meetings, [true, true, false, true]);
    let impostor = ServerIdentity::generate(&["localhost"]).unwrap();
    let (client, _) = shake(&impostor, &connector, "srv_1:7", 1 << 16).await;
    let error = client.unwrap_err();
    assert!(error.to_string().contains("line 1"), "{error}");
    match error {
        TlsError::KeyChanged { host, expected, found, path, line } => {
            assert_eq!((host.as_str(), line), ("srv_1:7", 1));
            assert_eq!((expected, found), (identity.fingerprint(), impostor.fingerprint()));
            assert_eq!(path, hosts.path());
        }
        e => panic!("{e}"),
    }
    assert_eq!(std::fs::read_to_string(hosts.path()).unwrap().lines().count(), 2);
}

#[tokio::test]
async fn authorities_believe_their_certificates_for_the_right_name_only() {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let ca = params.self_signed(&key).unwrap();
    let issuer = rcgen::Issuer::new(params, key);
    let server_key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(vec!["good.example".to_owned()])
        .unwrap()
        .signed_by(&server_key, &issuer)
        .unwrap();
    let pem = certificate.pem() + &server_key.serialize_pem();
    let identity = ServerIdentity::from_pem(pem.as_bytes(), pem.as_bytes()).unwrap();

    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("ca.pem");
    std::fs::write(&file, ca.pem()).unwrap();
    let connector = Connector::new(ClientTrust::authorities_from_file(&file).unwrap()).unwrap();
    let (client, server) = shake(&identity, &connector, "good.example:443", 1 << 16).await;
    assert!(client.is_ok() && server.is_ok());
    let (client, _) = shake(&identity, &connector, "evil.example", 1 << 16).await;
    assert!(matches!(client.unwrap_err(), TlsError::Protocol(_)));
    let self_signed = ServerIdentity::generate(&["good.example"]).unwrap();
    let (client, _) = shake(&self_signed, &connector, "good.example", 1 << 16).await;
    assert!(matches!(client.unwrap_err(), TlsError::Protocol(_)));
}

#[tokio::test]
async fn garbage_instead_of_a_handshake_is_an_error_on_either_side() {
    let identity = ServerIdentity::generate(&["localhost"]).unwrap();
    let acceptor = Acceptor::new(&identity).unwrap();
    let connector = Connector::new(ClientTrust::Pinned(identity.fingerprint())).unwrap();
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0x16, 3, 1, 0xff, 0xff], &[0; 64]] {
        let (mut near, far) = duplex(1 << 16);
        near.write_all(garbage).await.unwrap();
        near.shutdown().await.unwrap();
        assert!(acceptor.accept(far).await.is_err(), "{garbage:?}");
        let (mut near, far) = duplex(1 << 16);
        near.write_all(garbage).await.unwrap();
        near.shutdown().await.unwrap();
        assert!(connector.connect("localhost", far).await.is_err(), "{garbage:?}");
    }
}

#[tokio::test]
async fn a_server_sees_the_key_that_its_client_shows_and_none_of_others() {
    let (server, client) = [0, 1].map(|_| ServerIdentity::generate(&["localhost"]).unwrap()).into();
    let trust = ClientTrust::Pinned(server.fingerprint());
    let anonymous = Connector::new(trust).unwrap();
    let (_, accepted) = shake(&server, &anonymous, "h:1", 1 << 16).await;
    assert_eq!(accepted.unwrap().peer_fingerprint(), None);
    let key = client.fingerprint();
    let known = anonymous.with_identity(std::sync::Arc::new(client));
    let (_, accepted) = shake(&server, &known, "h:1", 1 << 16).await;
    assert_eq!(accepted.unwrap().peer_fingerprint(), Some(key));
}

#[tokio::test]
async fn what_was_said_before_a_record_that_is_none_is_read_before_the_failure() {
    let (mut client, mut server) = pair(1 << 16).await;
    client.write_all(b"said").await.unwrap();
    client.flush().await.unwrap();
    let mut forged = vec![23, 3, 3, 0, 32];
    forged.resize(5 + 32, 0);
    client.get_mut_for_tests().write_all(&forged).await.unwrap();
    let mut got = [0; 16];
    assert_eq!(server.read(&mut got).await.unwrap(), 4);
    assert_eq!(got[..4], *b"said");
    for _ in 0..2 {
        assert_eq!(server.read(&mut got).await.unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}

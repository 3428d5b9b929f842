//! What programs may say to the tunnel's proxy, in order or not.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use rand::{Rng, RngExt};
use rand_pcg::Pcg64;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};

use crate::network::TRANSPORTS;
use crate::support::{rng, run};
use crate::tunnel::{Tunnel, tunnel};

const LIMIT: Duration = Duration::from_secs(60);
/// Programs that say something wrong.
const PROGRAMS: usize = 300;

/// A target that echoes, under the one name that the server may connect to, and a proxy. No other name is ever asked
/// for: see `admits_addresses`.
async fn proxied(flags: &'static str) -> (SocketAddr, Tunnel) {
    let target = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = target.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = target.accept().await.unwrap();
            tokio::spawn(async move {
                let (mut reader, mut writer) = stream.split();
                let _ = tokio::io::copy(&mut reader, &mut writer).await;
            });
        }
    });
    let both = move || tunnel(&format!("localhost:{}", at.port()), &format!("-D 0{flags}"));
    (at, tokio::task::spawn_blocking(both).await.unwrap())
}

/// Says `bytes` in pieces, ends its direction, and hears what there is to hear: an end comes in any case.
async fn says(proxy: SocketAddr, bytes: Vec<u8>, piece: usize) -> Vec<u8> {
    let saying = async {
        let mut program = TcpStream::connect(proxy).await.unwrap();
        program.set_nodelay(true).unwrap();
        let (mut reader, mut writer) = program.split();
        let telling = async {
            for part in bytes.chunks(piece) {
                // Whoever is turned away need not be heard to the end.
                if writer.write_all(part).await.is_err() {
                    return;
                }
                tokio::task::yield_now().await;
            }
            let _ = writer.shutdown().await;
        };
        let mut heard = Vec::new();
        let (_, _) = tokio::join!(telling, reader.read_to_end(&mut heard));
        heard
    };
    timeout(LIMIT, saying).await.unwrap_or_else(|_| panic!("no end: {bytes:x?}"))
}

/// Nearly right, in one of the ways that are spoken.
fn draw(rng: &mut Pcg64, port: u16) -> Vec<u8> {
    let [high, low] = port.to_be_bytes();
    let socks =
        |kind: &[u8]| [&b"\x05\x01\x00\x05\x01\x00"[..], kind, &[high, low], b"hello"].concat();
    let mut bytes = match rng.random_range(0..8) {
        0 => socks(b"\x01\x7f\x00\x00\x01"),
        1 => socks(b"\x03\x09localhost"),
        2 => socks(b"\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01"),
        3 => b"\x05\x02\x01\x02".to_vec(),
        4 => b"\x05\x01\x00\x05\x03\x00\x01\0\0\0\0\0\0x".to_vec(),
        5 => format!("CONNECT localhost:{port} HTTP/1.1\r\nHost: x\r\n\r\nhello").into_bytes(),
        6 => format!("GET http://localhost:{port}/ HTTP/1.1\r\n\r\n").into_bytes(),
        _ => vec![b'A'; 20_000],
    };
    for _ in 0..rng.random_range(0..4) {
        let at = rng.random_range(0..bytes.len());
        match rng.random_range(0..4) {
            0 => bytes[at] = rng.random(),
            1 => bytes.truncate(at.max(1)),
            2 => bytes.insert(at, rng.random()),
            _ => {
                let mut noise = vec![0; rng.random_range(1..200)];
                rng.fill_bytes(&mut noise);
                bytes.splice(at..at, noise);
            }
        }
    }
    bytes
}

#[test]
fn whatever_programs_say_to_the_proxy_comes_to_an_end_and_the_next_is_served() {
    for (seed, flags) in [(91, ""), (92, " --eager"), (93, " --quic")] {
        run(async {
            let (target, tunnel) = proxied(flags).await;
            let proxy = tunnel.locals[0];
            let mut rng = rng(seed);
            let programs: Vec<_> = (0..PROGRAMS)
                .map(|_| (draw(&mut rng, target.port()), rng.random_range(1..50)))
                .map(|(bytes, piece)| tokio::spawn(says(proxy, bytes, piece)))
                .collect();
            for program in programs {
                program.await.unwrap();
            }
            let right = format!("CONNECT localhost:{} HTTP/1.1\r\n\r\nhello", target.port());
            let heard = says(proxy, right.into_bytes(), 1_000).await;
            let heard = String::from_utf8(heard).unwrap();
            assert!(heard.starts_with("HTTP/1.1 200") && heard.ends_with("hello"), "{heard}");
        });
    }
}

#[test]
fn a_program_that_still_speaks_when_it_is_turned_away_hears_why() {
    run(async {
        let (_, tunnel) = proxied("").await;
        let body = vec![b'x'; 500_000];
        let post = [&b"POST http://localhost/ HTTP/1.1\r\n\r\n"[..], &body[..]].concat();
        let forbidden = [&b"CONNECT localhost:9 HTTP/1.1\r\n\r\n"[..], &body[..]].concat();
        let endless = [&b"CONNECT "[..], &body[..]].concat();
        for (bytes, status) in [(post, "501"), (forbidden, "403"), (endless, "400")] {
            let heard = String::from_utf8(says(tunnel.locals[0], bytes, 100_000).await).unwrap();
            assert!(heard.starts_with(&format!("HTTP/1.1 {status}")), "{status}: {heard}");
        }
    });
}

#[test]
fn a_program_that_is_gone_before_the_proxy_answers_holds_no_connection_to_its_target() {
    run(async {
        for over in TRANSPORTS {
            // One connection fills the queue: the next is there when it was asked for twice, a second later.
            let full = TcpSocket::new_v4().unwrap();
            full.bind("127.0.0.1:0".parse().unwrap()).unwrap();
            let listener = full.listen(0).unwrap();
            let at = listener.local_addr().unwrap();
            let _filler = TcpStream::connect(at).await.unwrap();
            let options = format!("-D 0{over}");
            let tunnel = move || tunnel("any", &options);
            let tunnel = tokio::task::spawn_blocking(tunnel).await.unwrap();
            let mut program = TcpStream::connect(tunnel.locals[0]).await.unwrap();
            let asked =
                [&b"\x05\x01\x00\x05\x01\x00\x01\x7f\x00\x00\x01"[..], &at.port().to_be_bytes()];
            program.write_all(&asked.concat()).await.unwrap();
            sleep(Duration::from_millis(300)).await;
            program.set_zero_linger().unwrap();
            drop(program);
            let _first = timeout(LIMIT, listener.accept()).await.unwrap().unwrap();
            let (mut target, _) = timeout(LIMIT, listener.accept()).await.unwrap().unwrap();
            let heard = timeout(LIMIT, target.read(&mut [0])).await;
            let heard = heard.unwrap_or_else(|_| panic!("{over}: it is kept")).unwrap_err();
            assert_eq!(heard.kind(), ErrorKind::ConnectionReset, "{over}");
        }
    });
}

//! Unmodified programs through `tack tunnel`, both ends the built command, on the loopback or in a
//! network namespace.

use std::io::{BufRead, BufReader, ErrorKind};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use socket2::SockRef;
use tempfile::{TempDir, tempdir};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UdpSocket};
use tokio::time::{sleep, timeout};

use crate::network::TRANSPORTS;
use crate::support::{Listening, random_bytes, rng, run, tack};

const LIMIT: Duration = Duration::from_secs(60);

/// Both ends, and where programs find the client.
pub(crate) struct Tunnel {
    pub(crate) home: TempDir,
    pub(crate) server: Option<Listening>,
    pub(crate) port: u16,
    pub(crate) client: Listening,
    /// In the order of the options: `-L` first, then `-D`.
    pub(crate) locals: Vec<SocketAddr>,
    /// Whatever the client says after it has started.
    said: std::sync::mpsc::Receiver<String>,
}

/// Starts a server, which may connect to `allow`, and a client with these options, `--quic` among them if
/// that is to be spoken.
pub(crate) fn tunnel(allow: &str, options: &str) -> Tunnel {
    tunnel_by(allow, options, |port| port)
}

/// The same, where the client reaches the server's port through the one that `path` makes of it.
pub(crate) fn tunnel_by(allow: &str, options: &str, path: impl FnOnce(u16) -> u16) -> Tunnel {
    let home = tempdir().unwrap();
    let over = if options.contains("--quic") { " --quic" } else { "" };
    let (server, port) = serve(home.path(), 0, allow, over);
    let line = format!("tunnel 127.0.0.1:{} {options}", path(port));
    let mut client = Listening(tack(home.path(), &line).spawn().unwrap());
    let mut lines = BufReader::new(client.0.stderr.take().unwrap()).lines();
    let wanted = options.split(' ').filter(|o| ["-L", "-D"].contains(o)).count();
    let mut locals = Vec::new();
    while locals.len() < wanted {
        let line = lines.next().expect("it goes on").unwrap();
        let said = line.strip_prefix("Port ").or(line.strip_prefix("Proxy on "));
        let local = said.and_then(|said| said.split(' ').next()?.parse::<SocketAddr>().ok());
        let local = local.unwrap_or_else(|| panic!("the client said: {line}"));
        // Each port is there twice, for both families.
        locals.extend(Some(local).filter(SocketAddr::is_ipv4));
    }
    let (tell, said) = std::sync::mpsc::channel();
    std::thread::Builder::new()
        .spawn(move || {
            lines.map_while(Result::ok).all(|line| {
                println!("the client says: {line}");
                tell.send(line).is_ok()
            })
        })
        .unwrap();
    Tunnel { home, server: Some(server), port, client, locals, said }
}

fn serve(home: &Path, port: u16, allow: &str, over: &str) -> (Listening, u16) {
    let allow: String = allow.split(' ').map(|rule| format!(" --allow {rule}")).collect();
    let line = format!("tunnel serve -B 127.0.0.1 -p {port}{allow}{over}");
    let mut server = Listening(tack(home, &line).spawn().unwrap());
    let mut lines = BufReader::new(server.0.stderr.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    let port =
        line.split("127.0.0.1:").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
    server.0.stderr = Some(lines.into_inner());
    (server, port.unwrap_or_else(|| panic!("the server said: {line}")))
}

impl Tunnel {
    /// Waits for the client to say something with `words` in it.
    pub(crate) fn hears(&self, words: &str) -> String {
        loop {
            let line = self.said.recv_timeout(LIMIT).unwrap_or_else(|_| panic!("never: {words}"));
            if line.contains(words) {
                return line;
            }
        }
    }
}

/// A web server that has one file of `bytes`, and how it is reached.
async fn web(at: &str, bytes: Vec<u8>) -> SocketAddr {
    let listener = TcpListener::bind(at).await.unwrap();
    let local = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let bytes = bytes.clone();
            tokio::spawn(async move {
                let mut request = Vec::new();
                while !request.ends_with(b"\r\n\r\n") {
                    request.push(stream.read_u8().await?);
                }
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", bytes.len());
                stream.write_all(&[head.as_bytes(), &bytes].concat()).await?;
                stream.shutdown().await
            });
        }
    });
    local
}

/// What curl fetches, or its exit status and words.
async fn curl(args: &[&str]) -> Result<Vec<u8>, (i32, String)> {
    let mut command = Command::new("curl");
    command.args(["--silent", "--show-error", "--max-time", "60", "--noproxy", ""]).args(args);
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    match output.status.code() {
        Some(0) => Ok(output.stdout),
        code => Err((code.unwrap_or(-1), String::from_utf8_lossy(&output.stderr).into_owned())),
    }
}

#[test]
fn curl_fetches_a_file_through_a_forward_socks_and_http_connect_over_both_families() {
    run(async {
        let bytes = random_bytes(&mut rng(71), 3_000_001);
        for at in ["127.0.0.1:0", "[::1]:0"] {
            let web = web(at, bytes.clone()).await;
            let options = format!("-L 0:{web} -D 0");
            let tunnel =
                tokio::task::spawn_blocking(move || tunnel("any", &options)).await.unwrap();
            let [forward, proxy] = tunnel.locals[..] else { panic!("{:?}", tunnel.locals) };
            let (url, name) =
                (format!("http://{web}/"), format!("http://localhost:{}/", web.port()));
            assert!(curl(&[&format!("http://{forward}/")]).await.unwrap() == bytes, "-L");
            let socks = format!("socks5h://{proxy}");
            // Not every machine knows itself by that name in both families.
            let urls = if web.is_ipv4() { vec![&url, &name] } else { vec![&url] };
            for url in urls {
                assert!(curl(&["-x", &socks, url]).await.unwrap() == bytes, "SOCKS, {url}");
                let http = format!("http://{proxy}");
                let got = curl(&["--proxytunnel", "-x", &http, url]).await.unwrap();
                assert!(got == bytes, "HTTP CONNECT, {url}");
            }
        }
    });
}

#[test]
fn programs_hear_why_a_target_is_not_to_be_had() {
    run(async {
        let web = web("127.0.0.1:0", b"secret".to_vec()).await;
        let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let allow = format!("127.0.0.1:{}", gone.port());
        let options = format!("-D 0 -L 0:{web}");
        let tunnel = tokio::task::spawn_blocking(move || tunnel(&allow, &options)).await.unwrap();
        let [forward, proxy] = tunnel.locals[..] else { panic!() };
        let (socks, http) = (format!("socks5h://{proxy}"), format!("http://{proxy}"));
        // Not on the list: curl has a status for what SOCKS says.
        let (code, said) = curl(&["-x", &socks, &format!("http://{web}/")]).await.unwrap_err();
        assert_eq!(code, 97, "{said}");
        assert!(tunnel.hears("--allow").contains(&web.to_string()));
        let (_, said) = curl(&["-p", "-x", &http, &format!("http://{web}/")]).await.unwrap_err();
        assert!(said.contains("403"), "{said}");
        // A forward believes itself connected, and is reset: while it connects, or once it did.
        let reset = async { TcpStream::connect(forward).await?.read_u8().await };
        assert_eq!(reset.await.unwrap_err().kind(), ErrorKind::ConnectionReset);
        // On the list, and nobody there.
        let (_, said) = curl(&["-p", "-x", &http, &format!("http://{gone}/")]).await.unwrap_err();
        assert!(said.contains("502"), "{said}");
        // Nobody has the name; it is asked for at the far end, for addresses may be connected to on that port.
        let nobody = format!("http://no-such-name.invalid:{}/", gone.port());
        let (code, said) = curl(&["-x", &socks, &nobody]).await.unwrap_err();
        assert_eq!(code, 97, "{said}");
        // A proxy for http: is not what this is, and says what to do.
        assert!(
            String::from_utf8(curl(&["-x", &http, &format!("http://{web}/")]).await.unwrap())
                .unwrap()
                .contains("CONNECT")
        );
    });
}

/// A listener, and a tunnel with a forward to it.
async fn forwarded(over: &str) -> (TcpListener, Tunnel) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let tunnel = forward_to(&listener, over).await;
    (listener, tunnel)
}

/// A tunnel with a forward to `listener`.
async fn forward_to(listener: &TcpListener, over: &str) -> Tunnel {
    let options = format!("-L 0:{}{over}", listener.local_addr().unwrap());
    tokio::task::spawn_blocking(move || tunnel("any", &options)).await.unwrap()
}

#[test]
fn half_close_and_resets_pass_through_both_ways() {
    run(async {
        for over in TRANSPORTS {
            let (listener, tunnel) = forwarded(over).await;
            let connect = || TcpStream::connect(tunnel.locals[0]);
            // The program ends first, then the target answers.
            let (mut near, (mut far, _)) = tokio::try_join!(connect(), listener.accept()).unwrap();
            near.write_all(b"all I have").await.unwrap();
            near.shutdown().await.unwrap();
            let mut request = Vec::new();
            far.read_to_end(&mut request).await.unwrap();
            assert_eq!(request, b"all I have");
            far.write_all(b"answer").await.unwrap();
            drop(far);
            let mut answer = Vec::new();
            near.read_to_end(&mut answer).await.unwrap();
            assert_eq!(answer, b"answer");
            // The target ends first, then the program goes on.
            let (mut near, (mut far, _)) = tokio::try_join!(connect(), listener.accept()).unwrap();
            far.write_all(b"that is all").await.unwrap();
            far.shutdown().await.unwrap();
            let mut answer = Vec::new();
            near.read_to_end(&mut answer).await.unwrap();
            assert_eq!(answer, b"that is all");
            near.write_all(b"not for us").await.unwrap();
            drop(near);
            let mut rest = Vec::new();
            far.read_to_end(&mut rest).await.unwrap();
            assert_eq!(rest, b"not for us");
            // Either side resets.
            for near_resets in [true, false] {
                let (near, (far, _)) = tokio::try_join!(connect(), listener.accept()).unwrap();
                let (resets, mut hears) = if near_resets { (near, far) } else { (far, near) };
                hears.write_all(b"x").await.unwrap();
                resets.set_zero_linger().unwrap();
                drop(resets);
                let heard = hears.read_to_end(&mut Vec::new()).await.unwrap_err();
                assert_eq!(heard.kind(), ErrorKind::ConnectionReset, "near resets: {near_resets}");
            }
        }
    });
}

#[test]
fn an_urgent_byte_keeps_its_place_both_ways() {
    run(async {
        let (listener, tunnel) = forwarded("").await;
        let connect = TcpStream::connect(tunnel.locals[0]);
        let (mut near, (mut far, _)) = tokio::try_join!(connect, listener.accept()).unwrap();
        for outward in [true, false] {
            let (says, hears) = if outward { (&mut near, &mut far) } else { (&mut far, &mut near) };
            says.write_all(b"stop").await.unwrap();
            assert_eq!(SockRef::from(&*says).send_out_of_band(b"!").unwrap(), 1);
            says.write_all(b"go").await.unwrap();
            says.shutdown().await.unwrap();
            let mut heard = Vec::new();
            hears.read_to_end(&mut heard).await.unwrap();
            assert_eq!(heard, b"stop!go", "outward: {outward}");
        }
    });
}

#[test]
fn a_program_that_resets_before_its_target_answers_reaches_it_once() {
    run(async {
        for over in TRANSPORTS {
            // One connection fills the queue: the next is there when it was asked for twice, a second later.
            let full = TcpSocket::new_v4().unwrap();
            full.bind("127.0.0.1:0".parse().unwrap()).unwrap();
            let listener = full.listen(0).unwrap();
            let filler = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let tunnel = forward_to(&listener, over).await;
            let mut program = TcpStream::connect(tunnel.locals[0]).await.unwrap();
            program.write_all(b"x").await.unwrap();
            sleep(Duration::from_millis(300)).await;
            program.set_zero_linger().unwrap();
            drop(program);
            sleep(Duration::from_millis(100)).await;
            let early = timeout(LIMIT, listener.accept()).await.unwrap().unwrap();
            assert_eq!(early.1, filler.local_addr().unwrap());
            let (mut target, _) = timeout(LIMIT, listener.accept()).await.unwrap().unwrap();
            let heard = target.read_to_end(&mut Vec::new()).await.unwrap_err();
            assert_eq!(heard.kind(), ErrorKind::ConnectionReset, "{over}");
            let once_more = timeout(Duration::from_secs(3), listener.accept()).await;
            assert!(once_more.is_err(), "{over}: it was opened anew: {once_more:?}");
        }
    });
}

#[test]
fn who_reads_slowly_holds_the_writer_back_and_nobody_else() {
    run(async {
        let (listener, tunnel) = forwarded("").await;
        let connect = || TcpStream::connect(tunnel.locals[0]);
        let (mut near, (far, _)) = tokio::try_join!(connect(), listener.accept()).unwrap();
        // Nothing is read at the far end: some buffers fill, and then no more is taken.
        let (chunk, mut taken) = (vec![7; 1 << 20], 0);
        let full = loop {
            match timeout(Duration::from_secs(3), near.write(&chunk)).await {
                Ok(written) => taken += written.unwrap(),
                Err(_) => break true,
            }
            // Each of four kernel buffers and two of ours holds 32 MiB at most.
            if taken > 200 << 20 {
                break false;
            }
        };
        assert!(full, "{taken} bytes and no end");
        let (mut other, (mut there, _)) = tokio::try_join!(connect(), listener.accept()).unwrap();
        other.write_all(b"ping").await.unwrap();
        assert_eq!(there.read_u32().await.unwrap(), u32::from_be_bytes(*b"ping"));
        drop(far);
    });
}

#[test]
fn two_hundred_streams_at_once_keep_their_bytes_apart() {
    run(async {
        for over in TRANSPORTS {
            let (listener, tunnel) = forwarded(over).await;
            let echo = tokio::spawn(async move {
                loop {
                    let (mut stream, _) = listener.accept().await.unwrap();
                    tokio::spawn(async move {
                        let (mut reader, mut writer) = stream.split();
                        tokio::io::copy(&mut reader, &mut writer).await
                    });
                }
            });
            let mut all = tokio::task::JoinSet::new();
            for seed in 0..200 {
                let to = tunnel.locals[0];
                all.spawn(async move {
                    let bytes = random_bytes(&mut rng(seed), 20_000 + seed as usize);
                    let mut stream = TcpStream::connect(to).await.unwrap();
                    let (mut reader, mut writer) = stream.split();
                    let writing = async {
                        writer.write_all(&bytes).await?;
                        writer.shutdown().await
                    };
                    let mut back = Vec::new();
                    let (written, read) = tokio::join!(writing, reader.read_to_end(&mut back));
                    written.unwrap();
                    read.unwrap();
                    assert!(back == bytes, "stream {seed}: {} bytes came back", back.len());
                });
            }
            while let Some(done) = all.join_next().await {
                done.unwrap();
            }
            echo.abort();
        }
    });
}

/// A tunnel to a page that says `here`, and where it is on this side.
async fn to_a_page(over: &str) -> (Tunnel, String) {
    let web = web("127.0.0.1:0", b"here".to_vec()).await;
    let options = format!("-L 0:{web}{over}");
    let tunnel = tokio::task::spawn_blocking(move || tunnel("any", &options)).await.unwrap();
    let url = format!("http://{}/", tunnel.locals[0]);
    assert_eq!(curl(&[&url]).await.unwrap(), b"here");
    (tunnel, url)
}

#[test]
fn a_server_that_comes_back_is_found_again() {
    run(async {
        for over in TRANSPORTS {
            let (mut tunnel, url) = to_a_page(over).await;
            // Killed: its peers hear nothing.
            drop(tunnel.server.take());
            let (server, _) = serve(tunnel.home.path(), tunnel.port, "any", over);
            tunnel.server = Some(server);
            let fetched =
                async { while curl(&["--max-time", "5", &url]).await.as_deref() != Ok(b"here") {} };
            timeout(LIMIT, fetched).await.expect("within a minute");
        }
    });
}

/// As in the network that a machine roams to, where somebody else has the server's address.
#[test]
fn another_server_in_the_place_of_ours_is_told_of_and_ours_is_found_when_it_is_back() {
    run(async {
        for over in TRANSPORTS {
            let (mut tunnel, url) = to_a_page(over).await;
            drop(tunnel.server.take());
            let elsewhere = tempdir().unwrap();
            let (other, _) = serve(elsewhere.path(), tunnel.port, "any", over);
            let asking = url.clone();
            let asked = tokio::spawn(async move { curl(&["--max-time", "50", &asking]).await });
            let tunnel = tokio::task::spawn_blocking(move || {
                let told = tunnel.hears("trying again for 10 minutes");
                assert!(
                    told.contains("was required") || told.contains("not the one seen"),
                    "{told}"
                );
                tunnel
            });
            let mut tunnel = tunnel.await.unwrap();
            drop(other);
            let (server, _) = serve(tunnel.home.path(), tunnel.port, "any", over);
            tunnel.server = Some(server);
            let fetched =
                async { while curl(&["--max-time", "5", &url]).await.as_deref() != Ok(b"here") {} };
            timeout(LIMIT, fetched).await.expect("within a minute");
            drop(asked);
        }
    });
}

#[test]
fn datagrams_find_their_way_there_and_back() {
    run(async {
        let tunnel = tokio::task::spawn_blocking(|| tunnel("127.0.0.0/8", "-D 0")).await.unwrap();
        let echo = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let forbidden = UdpSocket::bind("[::1]:0").await.unwrap();
        let mut control = TcpStream::connect(tunnel.locals[0]).await.unwrap();
        control.write_all(&[5, 1, 0, 5, 3, 0, 1, 0, 0, 0, 0, 0, 0]).await.unwrap();
        let mut reply = [0; 12];
        control.read_exact(&mut reply).await.unwrap();
        assert_eq!(reply[..6], [5, 0, 5, 0, 0, 1], "{reply:?}");
        let relay = SocketAddr::from(([127, 0, 0, 1], u16::from_be_bytes([reply[10], reply[11]])));
        let program = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let [hi, lo] = echo.local_addr().unwrap().port().to_be_bytes();
        let head = [0, 0, 0, 1, 127, 0, 0, 1, hi, lo];
        let [high, low] = forbidden.local_addr().unwrap().port().to_be_bytes();
        let elsewhere = [&[0, 0, 0, 4][..], &[0; 15], &[1, high, low], b"no"].concat();
        program.send_to(&elsewhere, relay).await.unwrap();
        for data in [&b"one"[..], &[9; 1_400], b""] {
            program.send_to(&[&head, data].concat(), relay).await.unwrap();
            let mut buffer = vec![0; 2_000];
            let (length, from) = echo.recv_from(&mut buffer).await.unwrap();
            assert_eq!(&buffer[..length], data);
            echo.send_to(&buffer[..length], from).await.unwrap();
            let length = program.recv(&mut buffer).await.unwrap();
            assert_eq!(buffer[..length], [&head, data].concat());
        }
        let mut nothing = [0; 10];
        assert_eq!(forbidden.try_recv(&mut nothing).unwrap_err().kind(), ErrorKind::WouldBlock);
    });
}

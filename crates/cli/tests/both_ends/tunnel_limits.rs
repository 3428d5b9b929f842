//! Clients of `tunnel serve` who take what they can get: others are served all the same.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use tack_cli::relay::frame::Frame;
use tack_cli::stop::Stop;
use tack_cli::tunnel::allow::AllowList;
use tack_cli::tunnel::limits::Limits;
use tack_cli::tunnel::message::read_message;
use tack_cli::tunnel::protocol::{Answer, Cause, Greeting, Name, Open, Opened};
use tack_cli::tunnel::server::serve;
use tack_net::Endpoint;
use tack_net::tls::{ClientTrust, Connector, KnownHosts};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};

use crate::strangers::Net;
use crate::support::run;
use crate::tunnel::tunnel;

const LIMIT: Duration = Duration::from_secs(120);

/// Beside a `tunnel serve` whose clients may have so much.
fn beside<T>(limits: Limits, work: impl AsyncFnOnce(Net) -> T) -> T {
    run(async {
        let (net, mut port) = Net::new();
        let never = Stop::never();
        let allow = AllowList::new(vec!["127.0.0.0/8".parse().unwrap()]);
        tokio::select! {
            ended = serve(&mut port, allow, &limits, &never) => panic!("it ended: {ended:?}"),
            done = work(net) => done,
        }
    })
}

/// A connection that was greeted.
async fn greeted(net: &Net, host: u8) -> DuplexStream {
    let mut conn = net.connect(host);
    read_message(&mut conn, Greeting::read).await.unwrap().unwrap();
    conn
}

/// Asks for something, and hears whether it may be.
async fn asked(net: &Net, host: u8, open: Open) -> Result<(DuplexStream, Opened), Cause> {
    let mut conn = greeted(net, host).await;
    conn.write_all(&open.bytes()).await.unwrap();
    match read_message(&mut conn, Answer::read).await.unwrap().unwrap() {
        Answer::Opened(opened) => Ok((conn, opened)),
        Answer::Refused(refusal) => Err(refusal.cause),
    }
}

async fn stream(net: &Net, host: u8, to: SocketAddr) -> Result<DuplexStream, Cause> {
    let open = Open::Connect(Name::draw().unwrap(), to.into());
    asked(net, host, open).await.map(|(conn, _)| conn)
}

/// A target that says what it can to everybody, without end, and how many connections are open to it.
pub(crate) async fn babbler() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let (at, open) = (listener.local_addr().unwrap(), Arc::<AtomicUsize>::default());
    let count = open.clone();
    tokio::spawn(async move {
        loop {
            let (mut conn, _): (TcpStream, _) = listener.accept().await.unwrap();
            let count = count.clone();
            count.fetch_add(1, Relaxed);
            tokio::spawn(async move {
                while conn.write_all(&[0x62; 4_096]).await.is_ok() {}
                count.fetch_sub(1, Relaxed);
            });
        }
    });
    (at, open)
}

/// Reads so many bytes of the target's out of frames.
async fn hears(conn: &mut DuplexStream, mut wanted: usize) {
    let (mut bytes, mut data) = (Vec::new(), 0);
    while wanted > 0 {
        assert_ne!(conn.read_buf(&mut bytes).await.unwrap(), 0, "{wanted} bytes before an end");
        loop {
            if data == 0 {
                let Some((Frame::Data(length), used)) = Frame::read(&bytes).unwrap() else { break };
                (data, bytes) = (length, bytes.split_off(used));
            }
            let part = data.min(bytes.len());
            (data, bytes) = (data - part, bytes.split_off(part));
            wanted = wanted.saturating_sub(part);
            if data > 0 {
                break;
            }
        }
    }
}

#[test]
fn a_client_that_opens_ten_thousand_streams_and_reads_nothing_is_told_no_and_others_are_served() {
    let limits = Limits { streams: (150, 100), ..Limits::default() };
    beside(limits, async |net| {
        let (target, open) = babbler().await;
        let (mut held, mut busy) = (Vec::new(), 0);
        for _ in 0..10_000 {
            match stream(&net, 1, target).await {
                Ok(conn) => held.push(conn),
                Err(cause) => {
                    assert_eq!(cause, Cause::Busy);
                    busy += 1;
                }
            }
        }
        assert_eq!((held.len(), busy), (100, 9_900));
        // The target has as many connections, and somebody else gets one that works.
        assert_eq!(open.load(Relaxed), 100);
        let mut other = stream(&net, 2, target).await.unwrap();
        timeout(LIMIT, hears(&mut other, 1_000_000)).await.expect("they come");
    });
}

#[test]
fn where_all_streams_are_taken_whoever_has_the_most_makes_room() {
    let limits = Limits { streams: (8, 7), ..Limits::default() };
    beside(limits, async |net| {
        let (target, _) = babbler().await;
        let mut greedy = Vec::new();
        for _ in 0..7 {
            greedy.push(stream(&net, 1, target).await.unwrap());
        }
        let _modest = stream(&net, 2, target).await.unwrap();
        let mut newcomer = stream(&net, 3, target).await.unwrap();
        timeout(LIMIT, hears(&mut newcomer, 100_000)).await.expect("they come");
        // The oldest has ended, and the next has not.
        let rest = timeout(LIMIT, greedy[0].read_to_end(&mut Vec::new())).await;
        assert!(rest.is_ok(), "it is still open");
        timeout(LIMIT, hears(&mut greedy[1], 100_000)).await.expect("they come");
    });
}

#[test]
fn what_a_client_never_says_it_has_takes_no_more_memory_than_a_share_and_then_the_stream_ends() {
    let limits = Limits { memory: (12 << 20, 6 << 20), ..Limits::default() };
    beside(limits, async |net| {
        let (target, open) = babbler().await;
        for _ in 0..20 {
            let mut conn = stream(&net, 1, target).await.unwrap();
            tokio::spawn(async move { while let Ok(1..) = conn.read(&mut [0; 4_096]).await {} });
        }
        // Each would be kept 16 MiB for.
        let few = async {
            while open.load(Relaxed) > 6 {
                sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(LIMIT, few).await.expect("they end");
        let mut other = stream(&net, 2, target).await.unwrap();
        let mut had = 0;
        let reading = async {
            // As a client does that has what it was sent.
            while had < 20 << 20 {
                hears_of(&mut other, &mut had).await;
            }
        };
        timeout(LIMIT, reading).await.expect("they come");
    });
}

/// Reads a frame of data, and says that it is had.
async fn hears_of(conn: &mut DuplexStream, had: &mut u64) {
    let frame = read_message(conn, Frame::read).await.unwrap().unwrap();
    let Frame::Data(length) = frame else { panic!("{frame:?}") };
    conn.read_exact(&mut vec![0; length]).await.unwrap();
    *had += length as u64;
    conn.write_all(&Frame::Have(*had).bytes()).await.unwrap();
}

#[test]
fn targets_that_are_silent_hold_no_more_attempts_than_a_share() {
    let limits = Limits { attempts: (6, 4), ..Limits::default() };
    beside(limits, async |net| {
        let silent = TcpSocket::new_v4().unwrap();
        silent.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let silent = silent.listen(0).unwrap();
        let nowhere = silent.local_addr().unwrap();
        // One connection fills its queue: the kernel answers nobody else.
        let _filler = TcpStream::connect(nowhere).await.unwrap();
        let trying: Vec<_> = (0..4)
            .map(|_| {
                let net = net.clone();
                tokio::spawn(async move { stream(&net, 1, nowhere).await.map(drop) })
            })
            .collect();
        sleep(Duration::from_millis(500)).await;
        assert_eq!(stream(&net, 1, nowhere).await.map(drop), Err(Cause::Busy));
        let (target, _) = babbler().await;
        let mut other = stream(&net, 2, target).await.unwrap();
        timeout(LIMIT, hears(&mut other, 100_000)).await.expect("they come");
        for tried in trying {
            assert_eq!(tried.await.unwrap(), Err(Cause::TimedOut));
        }
    });
}

#[test]
fn connections_that_ask_for_nothing_make_room_for_others() {
    let limits = Limits { waiting: (64, 48), ..Limits::default() };
    beside(limits, async |net| {
        let mut silent: Vec<_> = (0..64).map(|n| net.connect(10 + n / 32)).collect();
        silent.extend((0..1_000).map(|_| net.connect(1)));
        let (target, _) = babbler().await;
        let mut other = stream(&net, 2, target).await.unwrap();
        timeout(LIMIT, hears(&mut other, 100_000)).await.expect("they come");
    });
}

#[test]
fn associations_are_counted_and_given_back() {
    let limits = Limits { associations: (3, 2), ..Limits::default() };
    beside(limits, async |net| {
        let first = asked(&net, 1, Open::Associate).await.unwrap();
        let _second = asked(&net, 1, Open::Associate).await.unwrap();
        assert_eq!(asked(&net, 1, Open::Associate).await.map(drop), Err(Cause::Busy));
        asked(&net, 2, Open::Associate).await.unwrap();
        drop(first);
        let again = async {
            while asked(&net, 1, Open::Associate).await.is_err() {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(LIMIT, again).await.expect("a place is free again");
    });
}

/// Some say nothing at all, others nothing at the door.
#[test]
#[cfg(target_os = "linux")]
fn strangers_who_never_say_who_they_are_keep_no_program_from_its_target() {
    run(async {
        let (target, _) = babbler().await;
        let options = format!("-L 0:{target}");
        let tunnel = tokio::task::spawn_blocking(move || tunnel("any", &options)).await.unwrap();
        let server = SocketAddr::from(([127, 0, 0, 1], tunnel.port));
        // Every other address of this network is ours as well.
        let endpoint = Endpoint::bind(([127, 0, 0, 66], 0).into()).unwrap();
        let mut silent = Vec::new();
        for _ in 0..300 {
            silent.extend(timeout(LIMIT, endpoint.connect_plain(server)).await.unwrap().ok());
        }
        let known = tunnel.home.path().join("strangers_know");
        let trust = ClientTrust::FirstUse(KnownHosts::new(&known));
        let connector = Connector::new(trust).unwrap();
        let mut at_the_door = Vec::new();
        for _ in 0..20 {
            let Ok(stream) = endpoint.connect_plain(server).await else { continue };
            let shaking = connector.connect("server", stream);
            at_the_door.extend(timeout(Duration::from_secs(5), shaking).await.ok());
        }
        // More than stand ready.
        for _ in 0..20 {
            let mut program = TcpStream::connect(tunnel.locals[0]).await.unwrap();
            let mut heard = [0; 10_000];
            timeout(LIMIT, program.read_exact(&mut heard)).await.expect("it comes").unwrap();
        }
        drop((silent, at_the_door));
    });
}

//! Strangers who come in numbers, and those who stay without doing anything.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll};

use tack_cli::cmd::recv::{Session, to_dir, to_stdout};
use tack_cli::conn::{Accept, Connection};
use tack_cli::exit::ExitCode;
use tack_cli::perf::server::Door;
use tack_cli::progress::Progress;
use tack_cli::stop::Stop;
use tack_cli::transfer::frame::{Code, Frame, What};
use tack_cli::transfer::pipe::send_stream;
use tack_cli::transfer::recv::{Intake, receive_tree};
use tack_cli::transfer::scan::scan;
use tack_cli::transfer::send::{Sent, send_tree};
use tack_cli::transfer::store::{Durability, Store};
use tack_cli::transfer::wire::FrameReader;
use tack_cli::transfer::{TransferError, VERSION};
use tempfile::tempdir;
use tokio::io::{
    AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex,
};
use tokio::sync::mpsc;
use tokio::time::{Duration, Instant, sleep, timeout};

use crate::hostile::{frames, one_file, one_file_of, opening_of, raw_entry};
use crate::lasting::over_breaking;
use crate::patience::run_in_fast_time;
use crate::support::{ME, run};

/// A connection from an address.
#[derive(Debug)]
pub(crate) struct From {
    inner: DuplexStream,
    peer: SocketAddr,
    /// Its end is none that was meant.
    is_cut: Arc<AtomicBool>,
}

impl Connection for From {
    fn addresses(&self) -> Option<(SocketAddr, SocketAddr)> {
        Some(("10.0.0.1:8225".parse().unwrap(), self.peer))
    }
}

impl AsyncRead for From {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(cx, buf);
        let is_end = matches!(read, Poll::Ready(Ok(()))) && buf.filled().len() == before;
        match is_end && self.is_cut.load(Relaxed) {
            true => Poll::Ready(Err(std::io::ErrorKind::ConnectionReset.into())),
            false => read,
        }
    }
}

impl AsyncWrite for From {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// Where the test's connections come in.
pub(crate) struct Port(mpsc::UnboundedReceiver<From>);

impl Accept for Port {
    type Conn = From;

    async fn accept(&mut self) -> std::io::Result<From> {
        self.0.recv().await.ok_or_else(|| std::io::ErrorKind::NotConnected.into())
    }
}

/// Who connects to it.
#[derive(Clone)]
pub(crate) struct Net(mpsc::UnboundedSender<From>);

impl Net {
    pub(crate) fn new() -> (Net, Port) {
        let (dial, port) = mpsc::unbounded_channel();
        (Net(dial), Port(port))
    }

    pub(crate) fn connect(&self, host: u8) -> DuplexStream {
        self.connect_until_cut(host).0
    }

    /// The same; an end after it was cut is heard as a reset.
    pub(crate) fn connect_until_cut(&self, host: u8) -> (DuplexStream, Arc<AtomicBool>) {
        let (here, inner) = duplex(64 << 10);
        let peer = SocketAddr::from(([10, 0, 9, host], 4_000));
        let is_cut = Arc::<AtomicBool>::default();
        self.0.send(From { inner, peer, is_cut: is_cut.clone() }).expect("it listens");
        (here, is_cut)
    }

    async fn send(&self, host: u8, path: &Path) -> Result<Sent, TransferError> {
        let found = scan(&[path.to_owned()], false).unwrap();
        let (quiet, never) = (Progress::hidden(), Stop::never());
        send_tree(self.connect(host), [host; 32], found, &quiet, &never).await
    }
}

pub(crate) const QUIETLY: Session =
    Session { overwrite: false, quiet: true, durability: Durability::Lazy, open: false };

/// Beside a `recv --keep`.
pub(crate) fn beside_recv<T>(dir: &Path, work: impl AsyncFnOnce(Net) -> T) -> T {
    run_in_fast_time(async {
        let (net, mut port) = Net::new();
        let never = Stop::never();
        tokio::select! {
            ended = to_dir(&mut port, dir, QUIETLY, true, &never) => panic!("it ended: {ended:?}"),
            done = work(net) => done,
        }
    })
}

/// Says NOOP every five seconds until it is told to go. For how long that was, and why.
async fn says_noop(mut conn: DuplexStream, first: Vec<u8>) -> Duration {
    let since = Instant::now();
    let _ = conn.write_all(&first).await;
    let noop = frames(&[Frame::Noop]);
    loop {
        sleep(Duration::from_secs(5)).await;
        if conn.write_all(&noop).await.is_err() {
            return since.elapsed();
        }
    }
}

/// What each place may be held with: an opening, a list, a proof, a file that does not come.
fn beginnings() -> [Vec<u8>; 4] {
    let preface = opening_of(ME)[..8].to_vec();
    let file = Frame::File { index: 0, offset: 0 };
    [preface, opening_of(ME), one_file(10), [one_file(10), frames(&[file])].concat()]
}

#[test]
fn noop_holds_no_place_for_long_in_any_phase() {
    for (first, limit) in beginnings().into_iter().zip([25, 70, 130, 130]) {
        let dir = tempdir().unwrap();
        let held = beside_recv(dir.path(), async |net| says_noop(net.connect(1), first).await);
        assert!(held.as_secs() <= limit, "{held:?} of {limit} s");
    }
}

#[test]
fn hundreds_that_hold_places_by_noop_from_one_address_delay_nobody_else() {
    let home = tempdir().unwrap();
    fs::write(home.path().join("f"), b"mine").unwrap();
    let took = beside_recv(&home.path().join("in"), async |net| {
        for round in 0..300 {
            let first = beginnings()[round % 4].clone();
            tokio::spawn(says_noop(net.connect(1), first));
        }
        sleep(Duration::from_secs(1)).await;
        let since = Instant::now();
        net.send(2, &home.path().join("f")).await.unwrap();
        since.elapsed()
    });
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert_eq!(fs::read(home.path().join("in/f")).unwrap(), b"mine");
}

#[test]
fn thousands_that_say_nothing_delay_nobody_else() {
    let home = tempdir().unwrap();
    fs::write(home.path().join("f"), b"mine").unwrap();
    let took = beside_recv(&home.path().join("in"), async |net| {
        // From more addresses than one: what one may hold does not add up to all.
        let silent: Vec<_> = (0..2_000).map(|n| net.connect(10 + (n % 20) as u8)).collect();
        sleep(Duration::from_secs(1)).await;
        let since = Instant::now();
        net.send(2, &home.path().join("f")).await.unwrap();
        drop(silent);
        since.elapsed()
    });
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[test]
fn whoever_finds_no_place_hears_busy_and_not_silence() {
    let home = tempdir().unwrap();
    fs::write(home.path().join("f"), b"mine").unwrap();
    beside_recv(&home.path().join("in"), async |net| {
        for sender in 100..108 {
            tokio::spawn(says_noop(net.connect(2), one_file_of([sender; 32], 10)));
        }
        sleep(Duration::from_secs(1)).await;
        let refused = net.send(2, &home.path().join("f")).await.unwrap_err();
        assert!(matches!(refused, TransferError::Peer { code: Code::Busy, .. }), "{refused}");
        assert_eq!(refused.exit_code(), ExitCode::Refused);
        assert!(refused.to_string().contains("from your address"), "{refused}");
    });
}

/// As a network that changed leaves them: the old connections are silent, and their places are taken.
#[test]
fn whoever_comes_back_takes_over_its_own_place_and_needs_no_second_one() {
    let dir = tempdir().unwrap();
    beside_recv(dir.path(), async |net| {
        let all = |round: usize| (100..108).map(move |sender| (round, sender));
        let mut former = Vec::new();
        for (round, sender) in [all(1), all(2)].into_iter().flatten() {
            let mut conn = net.connect(2);
            conn.write_all(&one_file_of([sender; 32], 10)).await.unwrap();
            let mut reader = FrameReader::new(conn);
            reader.preface().await.unwrap();
            loop {
                match reader.next("testing").await {
                    Ok(Frame::Planned) => break,
                    Ok(_) => {}
                    Err(e) => panic!("sender {sender}, time {round}: {e}"),
                }
            }
            former.push(reader);
        }
    });
}

#[test]
fn lists_of_one_peer_take_no_more_memory_together_than_its_share() {
    let dir = tempdir().unwrap();
    let mut intake = Intake::alone(Store::open(dir.path(), Durability::Lazy).unwrap());
    // Two such lists fit for one peer.
    intake.limits.lists = tack_net::budget::Budget::new(4 << 20, 2 << 20);
    let list: Vec<u8> =
        (0..4_000).flat_map(|n| raw_entry(1, 1, format!("file{n}").as_bytes(), b"")).collect();
    run(async {
        let mut listing = Vec::new();
        for host in [1, 1, 1, 2] {
            let (mut here, inner) = duplex(1 << 20);
            let peer = SocketAddr::from(([10, 0, 9, host], 4_000));
            let intake = intake.clone();
            tokio::spawn(async move {
                let (quiet, never) = (Progress::hidden(), Stop::never());
                let is_cut = Arc::default();
                let _ = receive_tree(From { inner, peer, is_cut }, &intake, &quiet, &never).await;
            });
            // The list goes on: it is held as long as this lives.
            here.write_all(&[opening_of(ME), list.clone()].concat()).await.unwrap();
            listing.push(here);
        }
        // All are held at once, while each is listened to.
        let heard = listing.iter_mut().map(async |conn| {
            let mut said = Vec::new();
            while !String::from_utf8_lossy(&said).contains("no memory") {
                match timeout(Duration::from_secs(3), conn.read_buf(&mut said)).await {
                    Ok(Ok(1..)) => {}
                    _ => return false,
                }
            }
            true
        });
        let mut refused = Vec::new();
        for (number, heard) in heard.enumerate() {
            refused.extend(heard.await.then_some(number));
        }
        assert!(refused.len() == 1 && refused[0] < 3, "{refused:?}");
    });
}

#[test]
fn an_inbox_that_is_gone_for_a_while_ends_no_server() {
    let home = tempdir().unwrap();
    let (inbox, f) = (home.path().join("in"), home.path().join("f"));
    fs::write(&f, b"mine").unwrap();
    for keep in [true, false] {
        run(async {
            let (net, mut port) = Net::new();
            let never = Stop::never();
            let sending = async {
                fs::write(&inbox, b"a file, of all things").unwrap();
                let failed = net.send(2, &f).await.unwrap_err();
                assert!(matches!(failed, TransferError::Peer { code: Code::Io, .. }), "{failed}");
                fs::remove_file(&inbox).unwrap();
                net.send(2, &f).await.unwrap();
            };
            tokio::select! {
                biased;
                ((), ended) = async {
                    tokio::join!(sending, to_dir(&mut port, &inbox, QUIETLY, keep, &never))
                } => assert!(!keep && ended.is_ok(), "{ended:?}"),
                () = sleep(Duration::from_secs(3)), if keep => {}
            }
        });
        assert_eq!(fs::read(inbox.join("f")).unwrap(), b"mine");
        fs::remove_dir_all(&inbox).unwrap();
    }
}

#[test]
fn a_stream_is_received_past_strangers_who_say_nothing() {
    run_in_fast_time(async {
        let (net, mut port) = Net::new();
        let silent: Vec<_> = (0..200).map(|_| net.connect(1)).collect();
        let (never, quiet) = (Stop::never(), Progress::hidden());
        let mut out = Vec::new();
        let since = Instant::now();
        let sending = async |conn| Ok(send_stream(conn, &b"a line"[..], &quiet, &never).await?);
        let (sent, received) = tokio::join!(
            over_breaking(&net, What::Stream, (1, 0), sending),
            to_stdout(&mut port, &mut out, true, &never)
        );
        assert_eq!(sent.unwrap().0, 6);
        assert!(received.is_ok() && out == b"a line");
        assert!(since.elapsed() < Duration::from_secs(5));
        drop(silent);
    });
}

/// While nobody else is served, everybody else is turned away: in bounded memory.
#[test]
fn a_test_is_served_past_strangers_who_say_nothing() {
    run_in_fast_time(async {
        let (net, mut port) = Net::new();
        let silent: Vec<_> = (0..2_000).map(|n| net.connect((n % 4) as u8)).collect();
        let mut door = Door::new(&mut port);
        let mut control = net.connect(9);
        control.write_all(b"tackperf\0").await.unwrap();
        let client = timeout(Duration::from_secs(5), door.client()).await;
        assert!(client.is_ok_and(|client| client.is_ok()));
        drop(silent);
    });
}

#[test]
fn the_opening_names_the_version_that_these_tests_speak() {
    let hello = Frame::Hello { version: VERSION, what: What::Tree, sender: ME };
    assert!(opening_of(ME).ends_with(&frames(&[hello])));
}

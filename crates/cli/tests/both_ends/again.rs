//! Files whose network changes at any byte, in virtual time: the sender notices by itself, goes on over another
//! connection, and every byte arrives.

use std::fs;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use rand::RngExt;
use tack_cli::cmd::again::{Files, Line, Origin, send_files};
use tack_cli::cmd::another_way::Watched;
use tack_cli::cmd::recv::to_dir;
use tack_cli::conn::Connection;
use tack_cli::exit::{ExitCode, Failure};
use tack_cli::net::Sight;
use tack_cli::progress::Progress;
use tack_cli::stop::Stop;
use tempfile::tempdir;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Duration, Instant, sleep};

use crate::patience::run_in_fast_time;
use crate::strangers::{Net, QUIETLY, beside_recv};
use crate::support::{Death, ME, Mortal, random_bytes, random_tree, rng, snapshot};

/// A connection's path, which leads nowhere from some byte on.
#[derive(Clone)]
struct Course {
    begun: Instant,
    gone: Arc<Mutex<Option<Instant>>>,
}

impl Course {
    fn gone(&self) -> Option<Instant> {
        *self.gone.lock().unwrap()
    }
}

impl Watched for Course {
    fn sight(&self) -> Option<(Sight, Option<Duration>)> {
        // Probes have it heard at every look.
        let heard = self.gone().unwrap_or_else(Instant::now) - self.begun;
        let packets_received = u64::try_from(heard.as_millis()).unwrap();
        Some((Sight { packets_received, ..Sight::default() }, None))
    }

    fn abort(&self) {}

    fn peer(&self) -> Option<SocketAddr> {
        None
    }
}

/// A connection over it. When it is let go of the other end hears nothing of that either.
struct Fading {
    inner: Option<Mortal>,
    course: Course,
    left: Arc<Mutex<Vec<Mortal>>>,
}

impl Drop for Fading {
    fn drop(&mut self) {
        if self.course.gone().is_some() {
            self.left.lock().unwrap().extend(self.inner.take());
        }
    }
}

impl Fading {
    fn inner(&mut self) -> Pin<&mut Mortal> {
        let inner = self.inner.as_mut().expect("it is in use");
        if inner.bytes_left == 0 {
            self.course.gone.lock().unwrap().get_or_insert_with(Instant::now);
        }
        Pin::new(inner)
    }
}

impl AsyncRead for Fading {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        self.inner().poll_read(cx, buf)
    }
}

impl AsyncWrite for Fading {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        self.inner().poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.inner().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.inner().poll_shutdown(cx)
    }
}

impl Connection for Fading {}

impl Line for Fading {
    type Watch = Course;

    fn watch(&self) -> Course {
        self.course.clone()
    }
}

struct Nothing;

impl Origin for Nothing {
    async fn settle(&self, _: bool, _: &Stop) {}
}

/// Connections of a laptop that changes networks every so many bytes, a few times.
#[derive(Clone)]
struct Laptop {
    net: Net,
    /// After how many bytes each, the first one last.
    spells: Arc<Mutex<Vec<usize>>>,
    courses: Arc<Mutex<Vec<Course>>>,
    left: Arc<Mutex<Vec<Mortal>>>,
    /// How long each change took to be noticed and another connection to be there.
    took: Arc<Mutex<Vec<Duration>>>,
}

impl Laptop {
    fn new(net: Net, spells: Vec<usize>) -> Laptop {
        Laptop {
            net,
            spells: Arc::new(Mutex::new(spells)),
            courses: Arc::default(),
            left: Arc::default(),
            took: Arc::default(),
        }
    }

    /// A connection, after a handshake of 100 ms.
    async fn dial(self) -> Result<(Nothing, Fading), Failure> {
        sleep(Duration::from_millis(100)).await;
        let gone = self.courses.lock().unwrap().last().and_then(Course::gone);
        self.took.lock().unwrap().extend(gone.map(|gone| gone.elapsed()));
        let bytes_left = self.spells.lock().unwrap().pop().unwrap_or(usize::MAX);
        let (inner, is_cut) = self.net.connect_until_cut(2);
        let course = Course { begun: Instant::now(), gone: Arc::default() };
        self.courses.lock().unwrap().push(course.clone());
        let inner = Mortal { inner, bytes_left, death: Death::Silence, is_cut: Some(is_cut) };
        Ok((Nothing, Fading { inner: Some(inner), course, left: self.left.clone() }))
    }
}

#[test]
fn files_whose_network_changes_at_any_byte_go_on_within_two_seconds_and_arrive_whole() {
    for seed in 0..12 {
        let mut rng = rng(seed);
        let home = tempdir().unwrap();
        let (tree, inbox) = (home.path().join("tree"), home.path().join("in"));
        random_tree(&tree, &mut rng);
        fs::write(tree.join("late"), random_bytes(&mut rng, 3_000_000)).unwrap();
        let spell = |_| {
            let most = [1_000, 100_000, 2_000_000][rng.random_range(0..3)];
            // The receiver has heard of us before: else there was none.
            5_000 + rng.random_range(0..most)
        };
        let spells: Vec<usize> = (0..3).map(spell).collect();
        let took = Arc::<Mutex<Vec<Duration>>>::default();
        let files = Files { paths: vec![tree.clone()], follow: false, quiet: true };
        let sent = beside_recv(&inbox, async |net| {
            let laptop = Laptop { took: took.clone(), ..Laptop::new(net, spells.clone()) };
            let open = || laptop.clone().dial();
            let (quiet, never) = (Progress::hidden(), Stop::never());
            send_files(&files, open, |_| ME, (&quiet, &never)).await
        });
        sent.unwrap_or_else(|failure| panic!("seed {seed}, {spells:?}: {failure}"));
        assert_eq!(snapshot(&tree), snapshot(&inbox.join("tree")), "seed {seed}, {spells:?}");
        let took = took.lock().unwrap();
        assert!(took.iter().all(|took| took.as_secs_f64() <= 2.0), "seed {seed}: {took:?}");
        assert!(!took.is_empty(), "seed {seed}: no change of networks");
    }
}

/// Does nothing for `pause` once `is_due`, as a machine asleep or a process that was stopped.
async fn stopped_for<T>(
    pause: Duration,
    is_due: impl Fn() -> bool,
    work: impl Future<Output = T>,
) -> T {
    let mut work = std::pin::pin!(work);
    let early = poll_fn(|cx| match work.as_mut().poll(cx) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending if is_due() => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    });
    if let Some(done) = early.await {
        return done;
    }
    sleep(pause).await;
    work.await
}

/// Whether some of a file has arrived that has not got its name yet.
fn is_under_way(inbox: &Path) -> bool {
    let bytes = |entry: std::io::Result<fs::DirEntry>| entry?.metadata().map(|meta| meta.len());
    let partials = fs::read_dir(inbox.join(".tack-partial"));
    partials.is_ok_and(|mut all| all.any(|entry| bytes(entry).is_ok_and(|bytes| bytes > 0)))
}

#[test]
fn a_sender_that_was_stopped_for_longer_than_its_receiver_waits_goes_on() {
    let home = tempdir().unwrap();
    let (tree, inbox) = (home.path().join("tree"), home.path().join("in"));
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("long"), random_bytes(&mut rng(7), 8_000_000)).unwrap();
    let files = Files { paths: vec![tree.clone()], follow: false, quiet: true };
    let (sent, connections) = beside_recv(&inbox, async |net| {
        let laptop = Laptop::new(net, Vec::new());
        let open = || laptop.clone().dial();
        let (quiet, never) = (Progress::hidden(), Stop::never());
        let sending = send_files(&files, open, |_| ME, (&quiet, &never));
        let pause = Duration::from_secs(90);
        let sent = stopped_for(pause, || is_under_way(&inbox), sending).await;
        (sent, laptop.courses.lock().unwrap().len())
    });
    sent.unwrap();
    assert_eq!(connections, 2);
    assert_eq!(snapshot(&tree), snapshot(&inbox.join("tree")));
}

#[test]
fn a_receiver_of_one_transfer_whose_network_goes_at_any_byte_waits_for_the_sender_to_know() {
    let home = tempdir().unwrap();
    let file = home.path().join("f");
    fs::write(&file, b"a line").unwrap();
    let files = Files { paths: vec![file.clone()], follow: false, quiet: true };
    // Whole, the conversation has some 220.
    for spell in 1..240 {
        let inbox = home.path().join(format!("in{spell}"));
        let took = run_in_fast_time(async {
            let (net, mut port) = Net::new();
            let (quiet, never) = (Progress::hidden(), Stop::never());
            let laptop = Laptop::new(net, vec![spell]);
            let open = || laptop.clone().dial();
            let since = Instant::now();
            let (sent, received) = tokio::join!(
                async {
                    let sent = send_files(&files, open, |_| ME, (&quiet, &never)).await;
                    (sent, since.elapsed())
                },
                to_dir(&mut port, &inbox, QUIETLY, false, &never)
            );
            assert_eq!(sent.0.unwrap().files, 1, "{spell} bytes");
            assert_eq!(received.unwrap(), ExitCode::Success, "{spell} bytes");
            (sent.1, since.elapsed())
        });
        assert_eq!(fs::read(inbox.join("f")).unwrap(), b"a line");
        assert!(took.0.max(took.1) < Duration::from_secs(8), "{spell} bytes: {took:?}");
    }
}

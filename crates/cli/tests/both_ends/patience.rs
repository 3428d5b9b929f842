//! Slow is not silent, and silent is not for ever. Time is faster here.

use std::path::Path;
use std::{fs, thread};

use tack_cli::progress::Progress;
use tack_cli::stop::Stop;
use tack_cli::transfer::TransferError;
use tack_cli::transfer::frame::Frame;
use tack_cli::transfer::recv::{Intake, receive_tree};
use tack_cli::transfer::scan::scan;
use tack_cli::transfer::send::send_tree;
use tack_cli::transfer::store::{Durability, Store};
use tempfile::tempdir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::{Duration, Instant, sleep};

use crate::hostile::{frames, one_file};
use crate::support::{ME, random_bytes, rng};

/// Runs with a clock that is two hundred times as fast as others. It does not simply jump, because
/// disk threads take real time; it stands while one of them works, so that a slow disk or a busy
/// machine is not minutes.
pub(crate) fn run_in_fast_time<T>(work: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().start_paused(true);
    // Disk threads have this thread's name from their first moment on, by which they are found.
    let runtime = builder.thread_name(thread::current().name().unwrap()).build().unwrap();
    let clock = async {
        loop {
            #[allow(clippy::disallowed_methods, reason = "disk threads take real time")]
            thread::sleep(Duration::from_micros(500));
            if !do_namesakes_rest() {
                tokio::task::yield_now().await;
                continue;
            }
            tokio::time::advance(Duration::from_millis(100)).await;
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
        }
    };
    runtime.block_on(async {
        tokio::select! {
            done = work => done,
            () = clock => unreachable!("a clock does not end"),
        }
    })
}

/// Whether all other threads with this one's name wait for work: none runs, is ready to run or
/// waits for the disk (`stat` in proc_pid_stat(5): number, name in brackets, state).
fn do_namesakes_rest() -> bool {
    let stat = |path: &Path| fs::read_to_string(path.join("stat")).unwrap_or_default();
    let me = stat(Path::new("/proc/thread-self"));
    let name = |stat: &str| Some(stat.split_once(' ')?.1.rsplit_once(") ")?.0.to_owned());
    let rests = |stat: &str| stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('S'));
    let number = |stat: &str| stat.split_once(' ').map(|(number, _)| number.to_owned());
    let all = fs::read_dir("/proc/self/task").unwrap().map(|task| stat(&task.unwrap().path()));
    all.filter(|other| name(other) == name(&me) && number(other) != number(&me))
        .all(|other| rests(&other))
}

/// A path of so many bytes per second each way.
pub(crate) fn slow_path(bytes_per_s: u64) -> (DuplexStream, DuplexStream) {
    let (here, near) = duplex(bytes_per_s as usize / 2);
    let (there, far) = duplex(bytes_per_s as usize / 2);
    let (near_reader, near_writer) = tokio::io::split(near);
    let (far_reader, far_writer) = tokio::io::split(far);
    tokio::spawn(trickle(near_reader, far_writer, bytes_per_s));
    tokio::spawn(trickle(far_reader, near_writer, bytes_per_s));
    (here, there)
}

async fn trickle(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    bytes_per_s: u64,
) {
    let mut packet = vec![0; bytes_per_s as usize / 2];
    while let Ok(n @ 1..) = from.read(&mut packet).await {
        sleep(Duration::from_secs_f64(n as f64 / bytes_per_s as f64)).await;
        if to.write_all(&packet[..n]).await.is_err() {
            return;
        }
    }
    let _ = to.shutdown().await;
}

/// How a file that takes `seconds` arrives over such a path.
fn arrives(bytes_per_s: u64, seconds: u64) {
    let dir = tempdir().unwrap();
    let bytes = random_bytes(&mut rng(9), (seconds * bytes_per_s) as usize);
    fs::write(dir.path().join("f"), &bytes).unwrap();
    let found = scan(&[dir.path().join("f")], false).unwrap();
    let into = Intake::alone(Store::open(&dir.path().join("in"), Durability::Lazy).unwrap());
    let (sent, received) = run_in_fast_time(async {
        let (here, there) = slow_path(bytes_per_s);
        let (quiet, never) = (Progress::hidden(), Stop::never());
        let since = Instant::now();
        let both = tokio::join!(
            send_tree(here, ME, found, &quiet, &never),
            receive_tree(there, &into, &quiet, &never)
        );
        assert!(since.elapsed() >= Duration::from_secs(seconds), "it was to be slow");
        both
    });
    sent.unwrap_or_else(|e| panic!("{bytes_per_s} B/s: {e}"));
    received.unwrap();
    assert!(fs::read(dir.path().join("in/f")).unwrap() == bytes);
}

/// At 24 kbit/s one DATA frame takes 87 s.
#[test]
fn a_path_of_24_kbit_per_s_is_not_taken_for_silence() {
    arrives(3_000, 300);
}

#[test]
fn a_receiver_that_is_kept_busy_by_one_file_for_long_still_says_that_it_lives() {
    arrives(300_000, 100);
}

/// A session that dies in the middle of a file, without a word.
#[test]
fn our_own_signs_of_life_do_not_prolong_our_patience() {
    let dir = tempdir().unwrap();
    let into = Intake::alone(Store::open(dir.path(), Durability::Lazy).unwrap());
    let begun = [one_file(10_000), frames(&[Frame::File { index: 0, offset: 0 }])].concat();
    run_in_fast_time(async {
        let (mut here, there) = duplex(1 << 20);
        here.write_all(&begun).await.unwrap();
        let since = Instant::now();
        let (quiet, never) = (Progress::hidden(), Stop::never());
        let error = receive_tree(there, &into, &quiet, &never).await.unwrap_err();
        assert!(matches!(error, TransferError::Silent { .. }), "{error}");
        let took = since.elapsed().as_secs();
        assert!((60..75).contains(&took), "{took} s");
    });
}

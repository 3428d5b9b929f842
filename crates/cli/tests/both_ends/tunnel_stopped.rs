//! Streams of `tack tunnel` one end of which stands still for a while, as a laptop that sleeps or a machine
//! that swaps: nothing is lost, nothing piles up, and all goes on.

#![allow(clippy::disallowed_methods, reason = "processes are stopped in real time")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

use crate::network::TRANSPORTS;
use crate::support::{Listening, run};
use crate::tunnel::tunnel;

const LIMIT: Duration = Duration::from_secs(90);
/// How long one end stands still, in seconds: longer than the other believes in it. `TACK_STILL` says otherwise.
const STILL_S: u64 = 5;
/// What may be under way of one direction meanwhile: 16 MiB are kept for another connection, and there are a window
/// of the transport and the kernel's buffers on both sides.
const MOST_HELD: u64 = 80 << 20;
/// By how much the memory of the end that goes on may grow.
const MOST_GROWN: u64 = 120 << 20;

/// The byte at a place of a story that has no end.
fn byte(at: u64) -> u8 {
    (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// One direction of a stream: how far it was told and heard.
#[derive(Debug, Default)]
struct Story {
    told: AtomicU64,
    heard: AtomicU64,
    /// It is to end.
    over: AtomicBool,
}

impl Story {
    async fn tell(self: Arc<Self>, mut stream: TcpStream) {
        let mut at = 0;
        while !self.over.load(Relaxed) {
            let piece: Vec<u8> = (at..at + 16_384).map(byte).collect();
            stream.write_all(&piece).await.expect("telling");
            at += piece.len() as u64;
            self.told.store(at, Relaxed);
        }
        stream.shutdown().await.expect("an end");
        // Whoever goes now takes away what has not been heard.
        let _ = stream.read(&mut [0]).await;
    }

    async fn hear(self: Arc<Self>, mut stream: TcpStream) {
        let (mut at, mut piece) = (0, vec![0; 65_536]);
        loop {
            let n = stream.read(&mut piece).await.expect("hearing");
            if n == 0 {
                break;
            }
            let wrong = piece[..n].iter().zip(at..).position(|(heard, at)| *heard != byte(at));
            assert_eq!(wrong, None, "behind {at} bytes another one was told");
            at += n as u64;
            self.heard.store(at, Relaxed);
        }
        assert_eq!(at, self.told.load(Relaxed), "not all that was told was heard");
    }

    fn under_way(&self) -> u64 {
        // What was heard is looked at first: what is told meanwhile is under way as well.
        let heard = self.heard.load(Relaxed);
        self.told.load(Relaxed).saturating_sub(heard)
    }
}

/// What a process has in memory, bytes.
fn resident(of: &Listening) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", of.0.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

fn signal(to: &Listening, signal: Signal) {
    kill_process(Pid::from_child(&to.0), signal).unwrap();
}

/// Waits until all have been heard that much further.
async fn go_on(stories: &[Arc<Story>], bytes: u64, what: &str) {
    let from: Vec<u64> = stories.iter().map(|story| story.heard.load(Relaxed)).collect();
    let all = async {
        while !stories.iter().zip(&from).all(|(s, from)| s.heard.load(Relaxed) >= from + bytes) {
            sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(timeout(LIMIT, all).await.is_ok(), "{what}: {stories:?} since {from:?}");
}

/// Each answer waits for its question, so that a lost byte would end it.
async fn ask(mut stream: TcpStream, asked: Arc<AtomicU64>) {
    for n in 0_u64.. {
        stream.write_u64(n).await.expect("asking");
        assert_eq!(stream.read_u64().await.expect("an answer"), n);
        asked.store(n, Relaxed);
        sleep(Duration::from_millis(5)).await;
    }
}

async fn answer(mut stream: TcpStream) {
    while let Ok(n) = stream.read_u64().await {
        stream.write_u64(n).await.expect("answering");
    }
}

/// A number each way over a stream on which nothing was said while an end stood still: the target's first, so that
/// nothing of the program's wakes it.
async fn says_on((program, target): &mut (TcpStream, TcpStream), n: u64) {
    target.write_u64(n).await.expect("a word");
    assert_eq!(program.read_u64().await.expect("the target's word"), n);
    program.write_u64(!n).await.expect("an answer");
    assert_eq!(target.read_u64().await.expect("the program's word"), !n);
}

async fn stands_still(over: &str) {
    let still = std::env::var("TACK_STILL").map_or(STILL_S, |seconds| seconds.parse().unwrap());
    let still = Duration::from_secs(still);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let options = format!("-L 0:{}{over}", listener.local_addr().unwrap());
    let both = tokio::task::spawn_blocking(move || tunnel("any", &options)).await.unwrap();
    let (down, up) = (Arc::<Story>::default(), Arc::<Story>::default());
    let asked = Arc::<AtomicU64>::default();
    let pair = || async {
        let program = TcpStream::connect(both.locals[0]).await.unwrap();
        (program, listener.accept().await.unwrap().0)
    };
    let mut tasks = tokio::task::JoinSet::new();
    let (program, target) = pair().await;
    tasks.spawn(down.clone().hear(program));
    tasks.spawn(down.clone().tell(target));
    let (program, target) = pair().await;
    tasks.spawn(up.clone().tell(program));
    tasks.spawn(up.clone().hear(target));
    let (program, target) = pair().await;
    let asking = [tokio::spawn(ask(program, asked.clone())), tokio::spawn(answer(target))];
    let mut idle = pair().await;
    says_on(&mut idle, 0).await;
    let stories = [down, up];
    go_on(&stories, 4 << 20, "at first").await;
    let server = both.server.as_ref().unwrap();
    for (n, (stopped, other)) in (1..).zip([(server, &both.client), (&both.client, server)]) {
        let before = resident(other);
        signal(stopped, Signal::STOP);
        for _ in 0..10 {
            sleep(still / 10).await;
            let held = stories.iter().map(|story| story.under_way()).max().unwrap();
            assert!(held <= MOST_HELD, "{over}: {held} bytes are under way");
            let grown = resident(other).saturating_sub(before);
            assert!(grown <= MOST_GROWN, "{over}: {grown} bytes more in memory");
        }
        let talked = asked.load(Relaxed);
        signal(stopped, Signal::CONT);
        go_on(&stories, 4 << 20, "after it stood still").await;
        let on = async {
            while asked.load(Relaxed) < talked + 10 {
                sleep(Duration::from_millis(20)).await;
            }
        };
        assert!(timeout(LIMIT, on).await.is_ok(), "{over}: no answer since");
        let woken = timeout(LIMIT, says_on(&mut idle, n)).await;
        assert!(woken.is_ok(), "{over}: {n}: nothing comes through the idle stream");
    }
    for story in &stories {
        story.over.store(true, Relaxed);
    }
    let ended = async {
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
    };
    assert!(timeout(LIMIT, ended).await.is_ok(), "{over}: {stories:?}: not over");
    for task in asking {
        assert!(!task.is_finished(), "{over}: a dialogue ended");
        task.abort();
    }
}

#[test]
fn an_end_that_stands_still_costs_no_byte_of_busy_streams_or_idle_ones_and_nothing_piles_up_at_the_other()
 {
    for over in TRANSPORTS {
        run(stands_still(over));
    }
}

//! Streams of `tack tunnel` while the network changes under them: every byte arrives, and every end is the one
//! that was meant.

#![allow(clippy::disallowed_methods, reason = "a path between processes runs in real time")]

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::RngExt;
use rand_pcg::Pcg64;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::course::{Course, Orders, STEADY, forward};
use crate::network::TRANSPORTS;
use crate::support::{random_bytes, rng, run};
use crate::tunnel::{Tunnel, tunnel_by};

const LIMIT: Duration = Duration::from_secs(90);

/// Many more than there is time for where nothing else runs.
const ADDRESSES: usize = 20;

/// A tunnel over a path that takes orders, and the listener that its forward leads to.
async fn tunnel_over(over: &str, course: Course) -> (Tunnel, TcpListener, Arc<Orders>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let options = format!("-L 0:{}{over}", listener.local_addr().unwrap());
    let orders = Arc::new(Orders::default());
    let told = Arc::clone(&orders);
    let path = move |port| forward(port, course, &told);
    let tunnel = tokio::task::spawn_blocking(move || tunnel_by("any", &options, path));
    (tunnel.await.unwrap(), listener, orders)
}

/// How a conversation ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Both sides say what they have at the same time, and end.
    Both,
    /// The target answers when the program has ended its half, or the other way round.
    HalfClosed { program_first: bool },
    /// One side resets when it has said so much, and has read nothing of the end.
    Reset { by_program: bool },
}

/// What both sides of one conversation do: known to both by its number.
struct Plan {
    up: Vec<u8>,
    down: Vec<u8>,
    way: Way,
}

impl Plan {
    fn new(number: u64) -> Plan {
        let mut rng: Pcg64 = rng(number);
        let way = match rng.random_range(0..5) {
            0 | 1 => Way::Both,
            2 => Way::HalfClosed { program_first: rng.random() },
            _ => Way::Reset { by_program: rng.random() },
        };
        let mut bytes = || {
            let most = if rng.random_range(0..4) == 0 { 2_000_000 } else { 60_000 };
            let length = rng.random_range(1..most);
            random_bytes(&mut rng, length)
        };
        Plan { up: bytes(), down: bytes(), way }
    }
}

async fn ends(writer: &mut WriteHalf<'_>, bytes: &[u8]) {
    writer.write_all(bytes).await.expect("writing");
    writer.shutdown().await.expect("ending");
}

async fn hears(reader: &mut ReadHalf<'_>, bytes: &[u8], what: &str) {
    let mut got = Vec::new();
    let read = reader.read_to_end(&mut got).await;
    assert!(read.is_ok(), "{what}: {read:?} after {} of {} bytes", got.len(), bytes.len());
    assert!(got == bytes, "{what}: {} of {} bytes, or others", got.len(), bytes.len());
}

/// Hears a reset, and nothing before it that was not said.
async fn hears_reset(mut stream: TcpStream, said: &[u8], what: &str) {
    let mut got = Vec::new();
    let read = stream.read_to_end(&mut got).await;
    let error = read.expect_err(what);
    assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{what}");
    assert!(said.starts_with(&got), "{what}: bytes that were never said");
}

/// One side of a conversation.
async fn converse(mut stream: TcpStream, plan: &Plan, is_program: bool, what: &str) {
    let (mine, theirs) = match is_program {
        true => (&plan.up, &plan.down),
        false => (&plan.down, &plan.up),
    };
    let (mut reader, mut writer) = stream.split();
    match plan.way {
        Way::Both => {
            tokio::join!(ends(&mut writer, mine), hears(&mut reader, theirs, what));
        }
        Way::HalfClosed { program_first } if program_first == is_program => {
            ends(&mut writer, mine).await;
            hears(&mut reader, theirs, what).await;
        }
        Way::HalfClosed { .. } => {
            hears(&mut reader, theirs, what).await;
            ends(&mut writer, mine).await;
        }
        Way::Reset { by_program } if by_program == is_program => {
            writer.write_all(mine).await.expect("writing");
            stream.set_zero_linger().expect("an option");
        }
        Way::Reset { .. } => hears_reset(stream, theirs, what).await,
    }
}

/// Another address every now and then. Each breaks every connection: on a machine so busy that a handshake takes
/// longer than an address lasts nothing would ever end, so there comes a last one.
async fn moves(orders: Arc<Orders>, seed: u64) {
    let mut rng: Pcg64 = rng(seed);
    for _ in 0..ADDRESSES {
        tokio::time::sleep(Duration::from_millis(rng.random_range(200..2_000))).await;
        orders.rebind();
    }
}

/// So many conversations, a few at a time, over a path that has another address every now and then.
async fn conversations(over: &str, seed: u64, count: u64) {
    let mut rng: Pcg64 = rng(seed);
    let silent = Duration::from_millis(rng.random_range(0..300));
    let course = Course { silent, ..STEADY };
    let (tunnel, listener, orders) = tunnel_over(over, course.clone()).await;
    let moving = tokio::spawn(moves(orders.clone(), seed));
    let targets = tokio::spawn(async move {
        let mut all = JoinSet::new();
        for _ in 0..count {
            let (mut stream, _) = listener.accept().await.unwrap();
            all.spawn(async move {
                let number = stream.read_u64().await.unwrap();
                // A reset that comes too soon takes the number along.
                stream.write_u8(0).await.unwrap();
                let plan = Plan::new(number);
                let what = format!("the target of {number} {:?}", plan.way);
                converse(stream, &plan, false, &what).await;
            });
        }
        while let Some(done) = all.join_next().await {
            done.unwrap();
        }
    });
    let mut programs = JoinSet::new();
    let at_once = Arc::new(tokio::sync::Semaphore::new(12));
    for number in 0..count {
        let to = tunnel.locals[0];
        let place = at_once.clone().acquire_owned().await.unwrap();
        programs.spawn(async move {
            let number = 1_000 * seed + number;
            let plan = Plan::new(number);
            let what = format!("the program of {number} {:?}", plan.way);
            let mut stream = TcpStream::connect(to).await.unwrap();
            stream.write_u64(number).await.unwrap();
            match stream.read_u8().await {
                // What a reset meets on its way it may take along.
                Err(e) if e.kind() == ErrorKind::ConnectionReset => {
                    return assert_eq!(plan.way, Way::Reset { by_program: false }, "{what}: {e}");
                }
                began => began.expect(&what),
            };
            converse(stream, &plan, true, &what).await;
            drop(place);
        });
    }
    // Every byte and every end is looked at by both sides of each.
    let all = async {
        while let Some(done) = programs.join_next().await {
            done.unwrap();
        }
        targets.await.unwrap();
    };
    let ended = timeout(LIMIT, all).await;
    moving.abort();
    orders.end();
    assert!(ended.is_ok(), "seed {seed}{over}, {course:?}: not over");
}

#[test]
fn a_path_that_changes_at_random_costs_no_byte_and_changes_no_end() {
    let seeds = std::env::var("TACK_ROAMING").ok().and_then(|n| n.parse().ok()).unwrap_or(2);
    for seed in 1..=seeds {
        for over in TRANSPORTS {
            run(conversations(over, seed, 40));
        }
    }
}

/// What a program does that does not wait for its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Haste {
    /// Says so much, and resets.
    Resets(usize),
    /// Says so much, ends, and hears the same.
    Asks(usize),
}

/// Says back what it hears, as far as it hears an end.
async fn echo(mut stream: TcpStream) {
    let mut heard = Vec::new();
    match stream.read_to_end(&mut heard).await {
        Ok(_) => ends(&mut stream.split().1, &heard).await,
        Err(e) => assert_eq!(e.kind(), ErrorKind::ConnectionReset),
    }
}

async fn hurries(to: SocketAddr, seed: u64) {
    let mut rng: Pcg64 = rng(seed);
    let length = [0, 1, 100, 300_000][rng.random_range(0..4)];
    let haste = if rng.random() { Haste::Resets(length) } else { Haste::Asks(length) };
    let pause = Duration::from_millis([0, 0, 1, 5, 30][rng.random_range(0..5)]);
    let bytes = random_bytes(&mut rng, length);
    let mut stream = TcpStream::connect(to).await.unwrap();
    match haste {
        Haste::Resets(_) => {
            stream.write_all(&bytes).await.expect("writing");
            tokio::time::sleep(pause).await;
            stream.set_zero_linger().expect("an option");
        }
        Haste::Asks(_) => {
            let (mut reader, mut writer) = stream.split();
            let what = format!("the program of {seed} {haste:?}");
            tokio::join!(ends(&mut writer, &bytes), hears(&mut reader, &bytes, &what));
        }
    }
}

#[test]
fn programs_that_do_not_wait_reach_their_targets_once_and_every_connection_ends() {
    let seeds = std::env::var("TACK_ROAMING").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    for (seed, over) in (1..=seeds).flat_map(|seed| TRANSPORTS.map(|over| (seed, over))) {
        run(async {
            let (tunnel, listener, orders) = tunnel_over(over, STEADY).await;
            let to = tunnel.locals[0];
            // In the middle of handshakes, too.
            let moving = tokio::spawn(moves(orders.clone(), seed));
            let programs = async {
                let mut all = JoinSet::new();
                for number in 0..80 {
                    all.spawn(hurries(to, 1_000 * seed + number));
                    if number % 8 == 7 {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                }
                let done = timeout(LIMIT, all.join_all()).await;
                assert!(done.is_ok(), "seed {seed}{over}: a program waits");
            };
            let targets = async {
                let mut all = JoinSet::new();
                // Longer than anybody who was not heard takes to ask once more.
                let quiet = Duration::from_secs(4);
                while let Ok(accepted) = timeout(quiet, listener.accept()).await {
                    all.spawn(echo(accepted.unwrap().0));
                }
                let reached = all.len();
                let done = timeout(LIMIT, all.join_all()).await;
                assert!(done.is_ok(), "seed {seed}{over}: a target waits");
                reached
            };
            let ((), reached) = tokio::join!(programs, targets);
            moving.abort();
            orders.end();
            assert!(reached <= 80, "seed {seed}{over}: {reached} connections at the target");
        });
    }
}

#[test]
fn handshakes_that_are_damaged_end_no_tunnel_and_refuse_no_program() {
    run(async {
        let (tunnel, listener, orders) = tunnel_over("", STEADY).await;
        let targets = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(echo(stream));
            }
        });
        let asks = async |number: u64| {
            let (mut stream, said) = (connected(tunnel.locals[0]).await, number.to_be_bytes());
            let (mut reader, mut writer) = stream.split();
            let what = format!("program {number}");
            tokio::join!(ends(&mut writer, &said), hears(&mut reader, &said, &what));
        };
        timeout(LIMIT, asks(0)).await.expect("the first");
        // Nothing but handshakes carries so much. Each program takes a connection, for which another is made.
        orders.garble(20);
        for number in 1.. {
            timeout(LIMIT, asks(number)).await.expect("an answer");
            if orders.to_garble() == 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        timeout(LIMIT, asks(u64::MAX)).await.expect("the last");
        orders.end();
        targets.abort();
    });
}

#[test]
fn an_association_is_had_where_all_connections_that_stood_ready_are_dead() {
    for over in TRANSPORTS {
        run(async {
            let (options, orders) = (format!("-D 0{over}"), Arc::new(Orders::default()));
            let told = Arc::clone(&orders);
            let path = move |port| forward(port, STEADY, &told);
            let tunnel = tokio::task::spawn_blocking(move || tunnel_by("any", &options, path));
            let tunnel = tunnel.await.unwrap();
            // They stand ready by then, and have not heard of the new address.
            tokio::time::sleep(Duration::from_secs(1)).await;
            orders.rebind();
            tokio::time::sleep(Duration::from_millis(20)).await;
            let mut program = connected(tunnel.locals[0]).await;
            program.write_all(&[5, 1, 0, 5, 3, 0, 1, 0, 0, 0, 0, 0, 0]).await.unwrap();
            let mut reply = [0; 12];
            timeout(LIMIT, program.read_exact(&mut reply)).await.unwrap().unwrap();
            assert_eq!(reply[..6], [5, 0, 5, 0, 0, 1], "{over}: {reply:?}");
            orders.end();
        });
    }
}

/// A target that says `first`, waits to be told, and says the rest.
async fn narrator(listener: TcpListener, story: Vec<u8>, first: usize, goes_on: Arc<Notify>) {
    let (mut stream, _) = listener.accept().await.unwrap();
    stream.write_all(&story[..first]).await.unwrap();
    goes_on.notified().await;
    stream.write_all(&story[first..]).await.unwrap();
    stream.shutdown().await.unwrap();
}

async fn connected(to: SocketAddr) -> TcpStream {
    TcpStream::connect(to).await.unwrap()
}

#[test]
fn a_program_that_only_listens_is_found_within_two_seconds_of_a_rebinding() {
    run(async {
        for over in TRANSPORTS {
            let story = random_bytes(&mut rng(81), 3_000_000);
            let (tunnel, listener, orders) = tunnel_over(over, STEADY).await;
            let goes_on = Arc::new(Notify::new());
            tokio::spawn(narrator(listener, story.clone(), 1_000_000, goes_on.clone()));
            let mut program = connected(tunnel.locals[0]).await;
            let mut came = vec![0; 1_000_000];
            timeout(LIMIT, program.read_exact(&mut came)).await.unwrap().unwrap();
            // All is quiet, acknowledgments included.
            tokio::time::sleep(Duration::from_millis(300)).await;
            orders.rebind();
            tokio::time::sleep(Duration::from_millis(20)).await;
            goes_on.notify_one();
            let (since, mut next) = (Instant::now(), [0]);
            timeout(LIMIT, program.read_exact(&mut next)).await.unwrap().unwrap();
            let found = since.elapsed();
            came.extend(next);
            timeout(LIMIT, program.read_to_end(&mut came)).await.unwrap().unwrap();
            orders.end();
            assert!(came == story, "{over}: {} bytes", came.len());
            println!("found after {found:?}{over}");
            assert!(found < Duration::from_secs(2), "{found:?}{over}");
        }
    });
}

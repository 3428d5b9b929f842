//! Two hundred transfers at a time for as long as one likes, over real sockets and a bad path.
//!
//! Between clients and server is a relay that loses, doubles, reorders and damages datagrams and takes
//! another port towards the server now and then, as a NAT does. Everything is encrypted. A transfer
//! whose connection breaks goes on over another where the server says; the server compares every byte
//! with what it must be. What the process holds is printed, and must not grow.
//!
//! Transfers are paced: what is looked for comes with time and with events on the path, not with
//! bytes, and a machine that does other things must not be what breaks connections.

mod relay;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use tack_device::{Clock, process_cpu_time};
use tack_net::tls::{Acceptor, ClientTrust, Connector, ServerIdentity, TlsStream};
use tack_net::{Endpoint, TackStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use relay::{Fate, Faults, Relay};

/// Bytes read and written at a time.
const CHUNK: usize = 16 << 10;
/// A connection on which nothing moves for so long is given up.
const STILL: Duration = Duration::from_secs(5);
/// A transfer that has not ended by then is stuck: far more than one takes on a machine that has other
/// things to do, where all of them share what is left.
const STUCK: Duration = Duration::from_secs(1_800);
/// What the process may hold at the end beyond what it held after a fifth of the time: the allocator
/// keeps what it once needed.
const SLACK_BYTES: u64 = 24 << 20;

/// Options of `soak`.
#[derive(Clone, Debug, Args)]
pub(crate) struct SoakArgs {
    /// For how long.
    #[arg(long, default_value_t = 60.0)]
    minutes: f64,

    /// Transfers at a time.
    #[arg(long, default_value_t = 200)]
    transfers: u64,

    /// Mbit/s that all transfers together are held to; 0 holds them to nothing.
    #[arg(long, default_value_t = 50.0, value_parser = not_negative)]
    rate: f64,

    /// Seed of what the path does and of how long transfers are.
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Share of datagrams lost; half as many are doubled, and twice as many come late.
    #[arg(long, default_value_t = 0.01)]
    loss: f64,

    /// Share of datagrams with turned bits and a right checksum.
    #[arg(long, default_value_t = 1e-4)]
    damage: f64,

    /// Seconds between changes of the port towards the server.
    #[arg(long, default_value_t = 20.0)]
    rebind: f64,
}

/// What happened so far.
#[derive(Debug, Default)]
struct Counts {
    transfers: AtomicU64,
    bytes: AtomicU64,
    /// Connections that broke, after which the transfer went on.
    broken: AtomicU64,
}

/// What the server has of each transfer that is under way.
#[derive(Debug, Default)]
struct Ledger(Mutex<BTreeMap<u64, Have>>);

#[derive(Clone, Copy, Debug, Default)]
struct Have {
    bytes: u64,
    /// Counts its connections: only the newest may add.
    connection: u64,
}

impl Ledger {
    fn with<T>(&self, f: impl FnOnce(&mut BTreeMap<u64, Have>) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Byte number `at` of a transfer.
fn pattern(id: u64, at: u64) -> u8 {
    let mixed = (id ^ at >> 9).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    (mixed ^ at.wrapping_mul(167)) as u8
}

fn not_negative(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|e| format!("{e}"))?;
    (number >= 0.0).then_some(number).ok_or_else(|| "must be 0 or more".into())
}

/// How long a transfer rests after each chunk. What a stall cost is not made up for, so the rate is a
/// bound and no goal.
fn rest(args: &SoakArgs) -> Duration {
    if args.rate == 0.0 {
        return Duration::ZERO;
    }
    let of_each = args.rate * 1e6 / args.transfers as f64;
    Duration::from_secs_f64((CHUNK as f64 * 8.0 / of_each).min(STILL.as_secs_f64() / 2.0))
}

pub(crate) fn run(args: &SoakArgs) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(soak(args))
}

async fn soak(args: &SoakArgs) -> Result<()> {
    let identity = ServerIdentity::generate(&["localhost"])?;
    let connector = Connector::new(ClientTrust::Pinned(identity.fingerprint()))?;
    let acceptor = Acceptor::new(&identity)?;
    let server = Endpoint::bind((Ipv4Addr::LOCALHOST, 0).into())?;
    let faults = Faults {
        loss: args.loss,
        damage: args.damage,
        rebind: Duration::from_secs_f64(args.rebind),
        seed: args.seed,
    };
    let relay = Relay::start(server.local_addr(), faults)?;
    let (counts, ledger) = (Arc::new(Counts::default()), Arc::new(Ledger::default()));
    let serving = serve(server, acceptor, ledger.clone());
    let clients = keep_sending(args, relay.address(), connector, counts.clone());
    let watching = watch(args, counts.clone(), relay.fate());
    tokio::select! {
        failed = serving => failed,
        failed = clients => failed,
        flat = watching => flat,
    }
}

async fn serve(endpoint: Endpoint, acceptor: Acceptor, ledger: Arc<Ledger>) -> Result<()> {
    let port = endpoint.local_addr().port();
    let config = tack_net::ListenConfig::default().with(|it| it.any_port = true);
    let listener = endpoint.listen_plain_with(port, config)?;
    let mut serving = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (acceptor, ledger) = (acceptor.clone(), ledger.clone());
                serving.spawn(async move { take_in(accepted?.0, acceptor, &ledger).await });
            }
            // A byte that is wrong ends everything; a connection that broke, nothing.
            Some(served) = serving.join_next() => served.context("the server panicked")??,
        }
    }
}

/// One connection of a transfer. An error is a wrong byte.
async fn take_in(stream: TackStream, acceptor: Acceptor, ledger: &Ledger) -> Result<()> {
    let Ok(Ok(mut stream)) = timeout(STILL, acceptor.accept(stream)).await else { return Ok(()) };
    let heard = hear(&mut stream, ledger).await;
    // Whoever went without a word is not told either, nor kept for the time that takes.
    stream.into_inner().abort();
    heard
}

async fn hear(stream: &mut TlsStream<TackStream>, ledger: &Ledger) -> Result<()> {
    let mut opening = [0; 16];
    if !matches!(timeout(STILL, stream.read_exact(&mut opening)).await, Ok(Ok(_))) {
        return Ok(());
    }
    let word = |at: usize| u64::from_be_bytes(opening[at..at + 8].try_into().expect("eight"));
    let (id, total) = (word(0), word(8));
    let Have { mut bytes, connection } = ledger.with(|all| {
        let have = all.entry(id).or_default();
        have.connection += 1;
        *have
    });
    if stream.write_all(&bytes.to_be_bytes()).await.is_err() || stream.flush().await.is_err() {
        return Ok(());
    }
    let mut buffer = vec![0; CHUNK];
    while bytes < total {
        let read = timeout(2 * STILL, stream.read(&mut buffer)).await;
        let Ok(Ok(n @ 1..)) = read else { return Ok(()) };
        if ledger.with(|all| all.get(&id).is_none_or(|have| have.connection != connection)) {
            return Ok(());
        }
        let wrong = (0..n).find(|&i| buffer[i] != pattern(id, bytes + i as u64));
        ensure!(
            wrong.is_none(),
            "transfer {id}: byte {} is wrong",
            bytes + wrong.unwrap_or(0) as u64
        );
        bytes += n as u64;
        ensure!(bytes <= total, "transfer {id}: more came than was sent");
        ledger.with(|all| all.entry(id).or_default().bytes = bytes);
    }
    // Until the client has heard it, it may ask again.
    if stream.write_all(b"k").await.is_ok() && stream.shutdown().await.is_ok() {
        let _ended = timeout(STILL, stream.read(&mut buffer)).await;
    }
    Ok(())
}

async fn keep_sending(
    args: &SoakArgs,
    server: SocketAddr,
    connector: Connector,
    counts: Arc<Counts>,
) -> Result<()> {
    let mut sending = JoinSet::new();
    let mut next = 0;
    loop {
        while (sending.len() as u64) < args.transfers {
            next += 1;
            let (id, connector, counts) = (next, connector.clone(), counts.clone());
            let total = (pattern(args.seed, id) as u64).pow(2) * 64;
            let what = Sending { id, total, rest: rest(args) };
            sending.spawn(async move {
                let sent = timeout(STUCK, what.send_all(server, &connector, &counts)).await;
                sent.with_context(|| format!("transfer {id} is stuck"))
            });
        }
        if let Some(sent) = sending.join_next().await {
            sent.context("a client panicked")??;
        }
    }
}

/// A transfer, as its sender has it.
#[derive(Clone, Copy, Debug)]
struct Sending {
    id: u64,
    total: u64,
    /// After each chunk.
    rest: Duration,
}

impl Sending {
    /// Until the server has all of it.
    async fn send_all(self, server: SocketAddr, connector: &Connector, counts: &Counts) {
        while self.send_some(server, connector, counts).await.is_err() {
            counts.broken.fetch_add(1, Relaxed);
            sleep(Duration::from_millis(50)).await;
        }
        counts.transfers.fetch_add(1, Relaxed);
    }

    async fn send_some(
        self,
        server: SocketAddr,
        connector: &Connector,
        counts: &Counts,
    ) -> Result<()> {
        let endpoint = Endpoint::bind((Ipv4Addr::LOCALHOST, 0).into())?;
        let stream = timeout(STILL, endpoint.connect_plain(server)).await??;
        let mut stream = timeout(STILL, connector.connect("localhost", stream)).await??;
        let sent = self.talk(&mut stream, counts).await;
        stream.into_inner().abort();
        sent
    }

    async fn talk(self, stream: &mut TlsStream<TackStream>, counts: &Counts) -> Result<()> {
        let Sending { id, total, rest } = self;
        stream.write_all(&[id.to_be_bytes(), total.to_be_bytes()].concat()).await?;
        timeout(STILL, stream.flush()).await??;
        let mut at = timeout(STILL, stream.read_u64()).await??;
        while at < total {
            let end = total.min(at + CHUNK as u64);
            let bytes: Vec<u8> = (at..end).map(|at| pattern(id, at)).collect();
            timeout(STILL, stream.write_all(&bytes)).await??;
            timeout(STILL, stream.flush()).await??;
            counts.bytes.fetch_add(end - at, Relaxed);
            at = end;
            sleep(rest).await;
        }
        match timeout(STILL, stream.read_u8()).await?? {
            b'k' => Ok(()),
            other => bail!("{other} instead of a word of thanks"),
        }
    }
}

/// Prints what is held now and then, and says at the end whether it grew.
async fn watch(args: &SoakArgs, counts: Arc<Counts>, fate: Arc<Fate>) -> Result<()> {
    let clock = Clock::start();
    let whole = Duration::from_secs_f64(args.minutes * 60.0);
    let (start, step) = (Instant::now(), (whole / 20).max(Duration::from_secs(1)));
    let (mut early, mut late) = (0, 0);
    println!(
        "{:>8} {:>10} {:>10} {:>8} {:>9} {:>6}",
        "s", "transfers", "MB sent", "broken", "MB held", "CPU %"
    );
    while start.elapsed() < whole {
        sleep(step).await;
        let held = resident_bytes()?;
        match start.elapsed() {
            spent if spent < whole / 5 => early = held.max(early),
            spent if spent > whole * 4 / 5 => late = held.max(late),
            _ => {}
        }
        let seconds = clock.now().as_nanos() as f64 / 1e9;
        let cpu = process_cpu_time().map_or(f64::NAN, |spent| spent.as_secs_f64());
        println!(
            "{seconds:>8.0} {:>10} {:>10.0} {:>8} {:>9.1} {:>6.0}",
            counts.transfers.load(Relaxed),
            counts.bytes.load(Relaxed) as f64 / 1e6,
            counts.broken.load(Relaxed),
            held as f64 / 1e6,
            100.0 * cpu / seconds,
        );
    }
    println!("the path: {fate}");
    ensure!(late <= early + SLACK_BYTES, "memory grew from {early} to {late} bytes");
    println!("every byte was right; memory: {early} bytes at first, {late} at last");
    Ok(())
}

/// What this process holds in memory.
fn resident_bytes() -> Result<u64> {
    let pages = std::fs::read_to_string("/proc/self/statm")?;
    let resident = pages.split(' ').nth(1).context("statm has a second field")?;
    Ok(resident.parse::<u64>()? * rustix::param::page_size() as u64)
}

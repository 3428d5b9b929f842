//! Many connections to one server, ours beside the kernel's TCP, over the loopback. The server is a process of
//! its own, since no process may have as many files as both ends of ten thousand connections.
//!
//! First all at once: each says its number, hears it again, waits for all others, and is asked once
//! more, so that a reset of one that was established shows. Then one after the other from many tasks,
//! for a while: what a minute allows, with TIME-WAIT at the client's end.
//!
//! The same of programs behind `tack tunnel`, with the memory of its two ends for each connection.

mod tunnel;

use std::future::Future;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tack_device::Clock;
use tack_net::{ConnConfig, Endpoint};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::siege::{Running, cpu_seconds};
use tunnel::Tunnel;

/// How long anything may take before it counts as failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Descriptors beside those of connections: runtimes, listeners, standard streams.
const OTHER_FILES: u64 = 256;

/// Options of `connects`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ConnectsArgs {
    /// Connections at once.
    #[arg(long, default_value_t = 10_000)]
    at_once: usize,

    /// Seconds of one connection after the other.
    #[arg(long, default_value_t = 20.0)]
    seconds: f64,

    /// Tasks that do so.
    #[arg(long, default_value_t = 64)]
    tasks: usize,

    /// Whose connections.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Who::Kernel, Who::TackPlain, Who::Tack])]
    who: Vec<Who>,

    /// The command `tack`, for those through a tunnel. Default: beside this program.
    #[arg(long)]
    tack: Option<PathBuf>,

    /// Be the server of one of them; used by the program itself.
    #[arg(long, value_enum, hide = true)]
    serve: Option<Who>,
}

/// What came of it.
#[derive(Debug, Default)]
struct Counts {
    opened: AtomicU64,
    not_opened: AtomicU64,
    /// Ended although both sides wanted it open.
    lost: AtomicU64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Who {
    Kernel,
    TackPlain,
    Tack,
    /// The kernel's, through `tack tunnel`.
    Tunnel,
    /// The same over QUIC.
    TunnelQuic,
}

impl Who {
    /// Who serves it in the end.
    fn served_by(self) -> Who {
        match self {
            Who::Tunnel | Who::TunnelQuic => Who::Kernel,
            own => own,
        }
    }
}

pub(crate) fn run(args: &ConnectsArgs) -> Result<()> {
    raise_descriptor_limit(args.at_once)?;
    if let Some(who) = args.serve {
        return runtime()?.block_on(serve(who));
    }
    println!(
        "{:<11} {:>8} {:>10} {:>8} {:>6} {:>9} {:>12} {:>10} {:>6}",
        "who", "at once", "not opened", "lost", "s", "CPU s", "per minute", "not opened", "lost"
    );
    for &who in &args.who {
        let us = std::process::id();
        let (cpu, clock) = (cpu_seconds(us)?, Clock::start());
        let burst = measure(who, args, true)?;
        let took = clock.now().as_nanos() as f64 / 1e9;
        let spent = cpu_seconds(us)? - cpu;
        let steady = measure(who, args, false)?;
        let count = |n: &AtomicU64| n.load(Relaxed);
        println!(
            "{:<11} {:>8} {:>10} {:>8} {took:>6.1} {spent:>9.1} {:>12.0} {:>10} {:>6}",
            format!("{who:?}"),
            count(&burst.opened),
            count(&burst.not_opened),
            count(&burst.lost),
            count(&steady.opened) as f64 * 60.0 / args.seconds,
            count(&steady.not_opened),
            count(&steady.lost),
        );
    }
    Ok(())
}

/// Each of the kernel's connections is a file at either end; the ends are processes of their own.
fn raise_descriptor_limit(at_once: usize) -> Result<()> {
    let wanted = at_once as u64 + OTHER_FILES;
    let limits = getrlimit(Resource::Nofile);
    // None is no limit.
    let maximum = limits.maximum.map(|most| most.max(wanted));
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).with_context(|| {
        format!("{at_once} at once need {wanted} descriptors, and only root may raise the limit")
    })
}

fn measure(who: Who, args: &ConnectsArgs, at_once: bool) -> Result<Arc<Counts>> {
    let counts = Arc::new(Counts::default());
    let mut server = Command::new(std::env::current_exe()?);
    let who_it_is = who.served_by().to_possible_value().context("each has a name")?;
    server.args(["connects", "--at-once", &args.at_once.to_string(), "--serve"]);
    server.arg(who_it_is.get_name()).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut server = Running(server.spawn()?);
    let said = BufReader::new(server.0.stdout.take().context("it is piped")?).lines().next();
    let address: SocketAddr = said.context("the server ended early")??.parse()?;
    let tunnel = match who {
        Who::Tunnel | Who::TunnelQuic => {
            Some(Tunnel::to(address, args.tack.as_deref(), who == Who::TunnelQuic)?)
        }
        Who::Kernel | Who::TackPlain | Who::Tack => None,
    };
    let address = tunnel.as_ref().map_or(address, |tunnel| tunnel.local);
    let clients = counts.clone();
    runtime()?.block_on(async {
        match who {
            Who::TackPlain | Who::Tack => {
                ask(Ours(endpoint(who)?, address), args, at_once, &clients).await
            }
            Who::Kernel | Who::Tunnel | Who::TunnelQuic => {
                ask(Kernel(address), args, at_once, &clients).await
            }
        }
    })?;
    if let Some(tunnel) = tunnel {
        tunnel.show(at_once.then_some(args.at_once), counts.opened.load(Relaxed))?;
    }
    Ok(counts)
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

fn endpoint(who: Who) -> Result<Endpoint> {
    let conn = if who == Who::Tack { ConnConfig::default() } else { ConnConfig::plain() };
    Ok(Endpoint::builder().conn(conn).bind((Ipv4Addr::LOCALHOST, 0).into())?)
}

/// Says where, and serves until it is killed.
async fn serve(who: Who) -> Result<()> {
    if who == Who::Kernel {
        let socket = TcpSocket::new_v4()?;
        socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
        let listener: TcpListener = socket.listen(1_024)?;
        println!("{}", listener.local_addr()?);
        loop {
            let (stream, _) = listener.accept().await?;
            tokio::spawn(echo(stream));
        }
    }
    let endpoint = endpoint(who)?;
    let listener = endpoint.listen_plain()?;
    println!("{}", endpoint.local_addr());
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(echo(stream));
    }
}

async fn echo(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let mut number = [0; 8];
    while stream.read_exact(&mut number).await.is_ok() {
        if stream.write_all(&number).await.is_err() {
            return;
        }
    }
    let _gone = stream.shutdown().await;
}

trait Opens: Clone + Send + Sync + 'static {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    fn open(&self) -> impl Future<Output = std::io::Result<Self::Stream>> + Send;
}

#[derive(Clone)]
struct Kernel(SocketAddr);

impl Opens for Kernel {
    type Stream = TcpStream;

    async fn open(&self) -> std::io::Result<TcpStream> {
        TcpStream::connect(self.0).await
    }
}

#[derive(Clone)]
struct Ours(Endpoint, SocketAddr);

impl Opens for Ours {
    type Stream = tack_net::TackStream;

    async fn open(&self) -> std::io::Result<tack_net::TackStream> {
        Ok(self.0.connect_plain(self.1).await?)
    }
}

async fn ask<O: Opens>(
    opens: O,
    args: &ConnectsArgs,
    at_once: bool,
    counts: &Arc<Counts>,
) -> Result<()> {
    let mut tasks = JoinSet::new();
    if at_once {
        let all = Arc::new(Barrier::new(args.at_once));
        for number in 0..args.at_once as u64 {
            tasks.spawn(hold(opens.clone(), number, all.clone(), counts.clone()));
        }
        tasks.join_all().await;
        return Ok(());
    }
    let over = Arc::new(AtomicBool::new(false));
    for number in 0..args.tasks as u64 {
        let (opens, counts, over) = (opens.clone(), counts.clone(), over.clone());
        tasks.spawn(async move {
            while !over.load(Relaxed) {
                come_and_go(&opens, number, &counts).await;
            }
        });
    }
    tokio::time::sleep(Duration::from_secs_f64(args.seconds)).await;
    over.store(true, Relaxed);
    tasks.join_all().await;
    Ok(())
}

/// Open with all others, who wait for each other twice: until all have been heard, and until all have
/// been heard again.
async fn hold<O: Opens>(opens: O, number: u64, all: Arc<Barrier>, counts: Arc<Counts>) {
    let opened = tokio::time::timeout(PATIENCE, opens.open()).await;
    let mut stream = opened.ok().and_then(Result::ok);
    let mut alive = true;
    for _ in 0..2 {
        if let Some(stream) = &mut stream {
            alive = alive && heard(stream, number).await;
        }
        all.wait().await;
    }
    let count = match (stream.is_some(), alive) {
        (false, _) => &counts.not_opened,
        (true, true) => &counts.opened,
        (true, false) => &counts.lost,
    };
    count.fetch_add(1, Relaxed);
}

async fn come_and_go<O: Opens>(opens: &O, number: u64, counts: &Counts) {
    let opened = tokio::time::timeout(PATIENCE, opens.open()).await;
    let Ok(Ok(mut stream)) = opened else {
        counts.not_opened.fetch_add(1, Relaxed);
        return tokio::time::sleep(Duration::from_millis(10)).await;
    };
    counts.opened.fetch_add(1, Relaxed);
    let ended = heard(&mut stream, number).await
        && stream.shutdown().await.is_ok()
        && matches!(stream.read(&mut [0; 8]).await, Ok(0));
    if !ended {
        counts.lost.fetch_add(1, Relaxed);
    }
}

async fn heard(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), number: u64) -> bool {
    let mut answer = [0; 8];
    let asking = async {
        stream.write_all(&number.to_be_bytes()).await?;
        stream.read_exact(&mut answer).await
    };
    let asked = tokio::time::timeout(PATIENCE, asking).await;
    matches!(asked, Ok(Ok(_))) && answer == number.to_be_bytes()
}

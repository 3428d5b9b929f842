//! The client's connections to the server: kept ready, and opened anew whatever happens to the
//! network.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tack_device::Clock;
use tack_net::tls::Connector;
use tack_net::{ConnConfig, Keepalive};
use tokio::io::AsyncReadExt;
use tokio::net::UdpSocket;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Interval, MissedTickBehavior, interval, sleep};

use super::egress::wildcard;
use super::pool::{Action, Pool};
use super::protocol::{Cause, Refusal};
use crate::admission::Code;
use crate::exit::{ExitCode, Failure};
use crate::net::{NetConn, NetDial, Way};
use crate::stop::Stop;
use tack_net::HostPort;

/// How often we look whether the network is still the same.
const LOOK: Duration = Duration::from_secs(1);
/// A machine that slept for longer does not trust its spare connections.
const NAP: Duration = Duration::from_secs(5);
/// Requests for connections that wait to be looked at.
const MOST_ASKS: usize = 256;

/// Says that we are there, so that a NAT remembers us, and gives up only after ten minutes without
/// an answer: as long as that a stream survives a machine asleep, or a cable pulled.
pub fn keepalive() -> Keepalive {
    Keepalive { idle: Duration::from_secs(25), interval: Duration::from_secs(25), probes: 24 }
}

/// Whom to connect to, and how.
#[derive(Clone, Debug)]
pub struct Server {
    /// The host that runs `tack tunnel serve`.
    pub host: HostPort,
    /// Which way.
    pub way: Way,
    /// The connections' configuration.
    pub transport: ConnConfig,
    /// Whom to trust; `None` is without encryption.
    pub connector: Option<Connector>,
    /// A code to come in with.
    pub code: Option<Code>,
}

impl Server {
    async fn dial(&self) -> Result<NetDial, Failure> {
        let config = self.transport.clone().with(|it| it.keepalive = Some(keepalive()));
        let (connector, code) = (self.connector.clone(), self.code.clone());
        NetDial::open(&self.way, &self.host, config, connector, code).await
    }
}

/// A connection that stands ready, looked after by a task.
#[derive(Debug)]
struct Spare {
    number: u64,
    take: oneshot::Sender<()>,
    task: JoinHandle<Option<NetConn>>,
}

type Asker = oneshot::Sender<Result<Spare, Refusal>>;

/// Asks for connections. Clones ask the same [`Keeper`].
#[derive(Clone, Debug)]
pub struct Link(mpsc::Sender<Asker>);

impl Link {
    /// A connection on which nothing was said yet.
    ///
    /// # Errors
    /// The server cannot be reached now.
    pub async fn conn(&self) -> Result<NetConn, Refusal> {
        let ended = || Refusal::new(Cause::Failed, "the tunnel is ending");
        loop {
            let (ask, asked) = oneshot::channel();
            self.0.send(ask).await.map_err(|_| ended())?;
            let spare = asked.await.map_err(|_| ended())??;
            // If it has ended just now, there is another one.
            let _ = spare.take.send(());
            if let Ok(Some(conn)) = spare.task.await {
                return Ok(conn);
            }
        }
    }
}

/// Keeps connections ready.
#[derive(Debug)]
pub struct Keeper {
    server: Server,
    /// `None` while the server's address is to be found anew.
    dial: Option<Arc<NetDial>>,
    pool: Pool<Spare, Asker>,
    asks: mpsc::Receiver<Asker>,
    attempts: JoinSet<Result<(Arc<NetDial>, NetConn), Failure>>,
    lost: (mpsc::UnboundedSender<u64>, mpsc::UnboundedReceiver<u64>),
    opened: u64,
    away: bool,
    clock: Clock,
    network: Network,
}

impl Keeper {
    /// Connects for the first time: what is wrong with names, keys and codes shows here, and the
    /// user may be asked about a server that was never met.
    ///
    /// # Errors
    /// As [`NetDial::connect`].
    pub async fn start(server: Server) -> Result<(Keeper, Link), Failure> {
        let dial = Arc::new(server.dial().await?);
        let first = dial.connect().await?;
        let (ask, asks) = mpsc::channel(MOST_ASKS);
        let clock = Clock::start();
        let network = Network::now(dial.peer()).await;
        let mut keeper = Keeper {
            server,
            dial: Some(dial),
            pool: Pool::new(clock.now()),
            asks,
            attempts: JoinSet::new(),
            lost: mpsc::unbounded_channel(),
            opened: 0,
            away: false,
            clock,
            network,
        };
        // The pool has not asked for this one, and takes it all the same.
        keeper.keep(first);
        Ok((keeper, Link(ask)))
    }

    /// The server's address.
    pub fn peer(&self) -> SocketAddr {
        self.network.peer
    }

    /// Until nobody can ask any more, or we are told to end.
    ///
    /// # Errors
    /// The server does not want us, or is another one: that does not pass by itself.
    pub async fn run(mut self, stop: &Stop) -> Result<(), Failure> {
        loop {
            let next = self.open_what_is_wanted();
            let pause = async {
                match next {
                    Some(at) => sleep(at - self.clock.now()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                ask = self.asks.recv() => match ask {
                    Some(ask) => {
                        let given = self.pool.ask(ask, self.clock.now());
                        give(given);
                    }
                    None => break,
                },
                Some(done) = self.attempts.join_next() => {
                    let aborted = |e| Failure::new(ExitCode::Failed, format!("an attempt: {e}"));
                    self.attempted(done.map_err(aborted).flatten())?;
                }
                Some(number) = self.lost.1.recv() => {
                    tracing::debug!(number, "a spare connection ended");
                    self.pool.lost(|spare| spare.number == number, self.clock.now());
                }
                why = self.network.changed() => self.start_again(why),
                () = pause => {}
                () = stop.asked() => break,
            }
        }
        self.attempts.shutdown().await;
        drop(self.pool.start_again());
        if let Some(dial) = &self.dial {
            dial.settle(stop).await;
        }
        Ok(())
    }

    /// Begins attempts; when to look again.
    fn open_what_is_wanted(&mut self) -> Option<tack_units::Instant> {
        loop {
            if self.dial.is_none() && !self.attempts.is_empty() {
                // One finds out where the server is; the others follow it.
                return None;
            }
            match self.pool.poll(self.clock.now()) {
                Action::Wait(next) => return next,
                Action::Open => {
                    let (server, dial) = (self.server.clone(), self.dial.clone());
                    self.attempts.spawn(async move {
                        let dial = match dial {
                            Some(dial) => dial,
                            None => Arc::new(server.dial().await?),
                        };
                        let conn = dial.connect().await?;
                        Ok((dial, conn))
                    });
                }
            }
        }
    }

    fn attempted(&mut self, done: Result<(Arc<NetDial>, NetConn), Failure>) -> Result<(), Failure> {
        match done {
            Ok((dial, conn)) => {
                if std::mem::take(&mut self.away) {
                    eprintln!("tack: connected to {} again", self.server.host);
                }
                self.network.peer = dial.peer();
                self.dial = Some(dial);
                self.keep(conn);
            }
            // It will say the same again.
            Err(failure) if failure.code == ExitCode::Untrusted => return Err(failure),
            Err(failure) => {
                if !std::mem::replace(&mut self.away, true) {
                    eprintln!("tack: {failure}; trying again");
                }
                // It may have moved.
                self.dial = None;
                for asker in self.pool.failed(self.clock.now()) {
                    let refusal = Refusal::new(Cause::Unreachable, failure.message.clone());
                    let _ = asker.send(Err(refusal));
                }
            }
        }
        Ok(())
    }

    /// Has a new connection looked after until somebody takes it.
    fn keep(&mut self, mut conn: NetConn) {
        self.opened += 1;
        let (number, lost) = (self.opened, self.lost.0.clone());
        let (take, mut taken) = oneshot::channel();
        let task = tokio::spawn(async move {
            let mut byte = [0];
            tokio::select! {
                biased;
                taken = &mut taken => return taken.is_ok().then_some(conn),
                // The server has nothing to say before we have.
                _ = conn.read(&mut byte) => {}
            }
            let _ = lost.send(number);
            None
        });
        let given = self.pool.opened(Spare { number, take, task });
        give(given);
    }

    /// The network is another one: what was connected by the old one is not relied on.
    fn start_again(&mut self, why: &'static str) {
        tracing::info!(why, "connecting anew");
        // With them, the attempts by the old network are given up.
        self.attempts = JoinSet::new();
        drop(self.pool.start_again());
        self.dial = None;
    }
}

fn give(given: Option<(Asker, Spare)>) {
    // Whoever asked may have gone; the connection then ends with this.
    if let Some((asker, spare)) = given {
        let _ = asker.send(Ok(spare));
    }
}

/// How this machine reaches the server, looked at now and then: nothing tells when it changes.
#[derive(Debug)]
struct Network {
    peer: SocketAddr,
    /// The address that packets to the server leave from.
    source: Option<IpAddr>,
    slept: Duration,
    looks: Interval,
}

impl Network {
    async fn now(peer: SocketAddr) -> Network {
        let (source, mut looks) = (source_towards(peer).await, interval(LOOK));
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Network { peer, source, slept: asleep(), looks }
    }

    /// Waits until this machine has another address towards the server, or has slept; which.
    ///
    /// Cancel safe.
    async fn changed(&mut self) -> &'static str {
        loop {
            self.looks.tick().await;
            let slept = asleep();
            if slept.saturating_sub(std::mem::replace(&mut self.slept, slept)) > NAP {
                return "this machine has slept";
            }
            let source = source_towards(self.peer).await;
            // Without any network there is nothing to connect by.
            if source.is_some() && source != std::mem::replace(&mut self.source, source) {
                return "the network changed";
            }
        }
    }
}

/// The address that packets to `peer` leave from; nothing is sent.
async fn source_towards(peer: SocketAddr) -> Option<IpAddr> {
    let socket = UdpSocket::bind(wildcard(peer.ip())).await.ok()?;
    socket.connect(peer).await.ok()?;
    socket.local_addr().ok().map(|local| local.ip())
}

/// How long this machine has been asleep since it was started.
fn asleep() -> Duration {
    let read = |clock| {
        let at = clock_gettime(clock);
        let (seconds, nanos) = (u64::try_from(at.tv_sec), u32::try_from(at.tv_nsec));
        Duration::new(seconds.unwrap_or(0), nanos.unwrap_or(0))
    };
    read(ClockId::Boottime).saturating_sub(read(ClockId::Monotonic))
}

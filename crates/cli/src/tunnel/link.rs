//! The client's connections to the server: kept ready, and opened anew whatever happens to the
//! network.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tack_device::Clock;
use tack_net::tls::Connector;
use tack_net::{ConnConfig, Keepalive};
use tokio::io::AsyncReadExt;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Interval, sleep, timeout};

use super::message::read_message;
use super::patrol::{Guarded, Patrol};
use super::pool::{Action, Pool};
use super::protocol::{Cause, Greeting, Refusal};
use crate::admission::Code;
use crate::conn::Connection as _;
use crate::exit::{ExitCode, Failure};
use crate::net::{NetConn, NetDial, Network, Refusals, Watch, Way, Whom, unhurried};
use crate::stop::Stop;
use crate::task::task;
use crate::terminal::say;

/// How often we look whether the network is still the same.
const LOOK: Duration = Duration::from_secs(1);
/// A server that lets us in says at once that it serves tunnels.
const GREETING: Duration = Duration::from_secs(10);
/// A handshake that takes longer may have lost its way.
const LATE: Duration = Duration::from_secs(2);
/// What waits to be looked at of what streams ask for.
const MOST_ASKS: usize = 256;
/// Connections that were found dead together count once, and so do ways that lead nowhere.
const RESPITE: Duration = Duration::from_secs(5);
/// Another server in the place of ours is asked again for so long, which is as long as ours keeps streams: in the
/// network that a machine roams to somebody else may have its address. It was told nothing but that we are there.
const IMPOSTOR: Duration = Duration::from_secs(600);
/// Streams that ask for a sign of life in quiet times: over QUIC each does so for itself.
const SENTRIES: (usize, usize) = (1, 8);

/// Says that we are there, so that a NAT remembers us, and gives up only after ten minutes without
/// an answer: as long as that a stream survives a machine asleep, or a cable pulled.
pub fn keepalive() -> Keepalive {
    Keepalive { idle: Duration::from_secs(25), interval: Duration::from_secs(25), probes: 24 }
}

/// The same after a second of silence.
fn question() -> Keepalive {
    let second = Duration::from_secs(1);
    Keepalive { idle: second, interval: second, probes: 600 }
}

impl Guarded for Watch {
    fn packets_received(&self) -> Option<u64> {
        self.sight().map(|(sight, _)| sight.packets_received)
    }

    fn ask(&self, soon: bool) {
        self.set_keepalive(if soon { question() } else { keepalive() });
    }

    fn give_up(&self) {
        self.abort();
    }
}

/// Whom to connect to, and how.
#[derive(Clone, Debug)]
pub struct Server {
    /// The host that runs `tack tunnel serve`.
    pub host: Whom,
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
    instance: u64,
    take: oneshot::Sender<()>,
    task: JoinHandle<Option<NetConn>>,
}

type Asker = oneshot::Sender<Result<Spare, Refusal>>;

/// What streams ask for.
#[derive(Debug)]
enum Ask {
    Conn(Asker),
    /// This connection is dead; nor are those relied on that were opened before or beside it.
    Dead(u64),
    /// To be looked after, now that it carries something.
    Guard(Watch),
}

/// Asks for connections. Clones ask the same [`Keeper`].
#[derive(Clone, Debug)]
pub struct Link(mpsc::Sender<Ask>);

/// A connection on which nothing was said yet.
#[derive(Debug)]
pub struct Fresh {
    /// It.
    pub conn: NetConn,
    /// Which one it is, for [`Link::dead`].
    pub number: u64,
    /// Of the server's process.
    pub instance: u64,
}

impl Link {
    /// A connection on which nothing was said yet. It is looked after from now on: see [`Patrol`].
    ///
    /// # Errors
    /// The server cannot be reached now.
    pub async fn conn(&self) -> Result<Fresh, Refusal> {
        let ended = || Refusal::new(Cause::Failed, "the tunnel is ending");
        loop {
            let (ask, asked) = oneshot::channel();
            self.0.send(Ask::Conn(ask)).await.map_err(|_| ended())?;
            let spare = asked.await.map_err(|_| ended())??;
            // If it has ended just now, there is another one.
            let (number, instance) = (spare.number, spare.instance);
            let _ = spare.take.send(());
            if let Ok(Some(conn)) = spare.task.await {
                let watch = conn.watched(keepalive());
                self.0.send(Ask::Guard(watch)).await.map_err(|_| ended())?;
                return Ok(Fresh { conn, number, instance });
            }
        }
    }

    /// The connection with this number proved dead.
    pub async fn dead(&self, number: u64) {
        // If nobody listens any more, the tunnel is ending.
        let _ = self.0.send(Ask::Dead(number)).await;
    }
}

/// What came of an attempt: what opened it, the connection, and the server's process.
type Attempt = Result<(Arc<NetDial>, NetConn, u64), Failure>;

/// Keeps connections ready.
#[derive(Debug)]
pub struct Keeper {
    server: Server,
    /// `None` while the server's address is to be found anew.
    dial: Option<Arc<NetDial>>,
    pool: Pool<Spare, Asker>,
    asks: mpsc::Receiver<Ask>,
    attempts: JoinSet<Attempt>,
    lost: (mpsc::UnboundedSender<u64>, mpsc::UnboundedReceiver<u64>),
    opened: u64,
    /// Up to this one connections are not relied on.
    distrusted: u64,
    patrol: Patrol<Watch>,
    rounds: Interval,
    /// When another way was last looked for, since the present one leads nowhere.
    sought: Option<tack_units::Instant>,
    away: bool,
    refusals: Refusals,
    /// Since when another server answers in the place of ours.
    impostor: Option<tack_units::Instant>,
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
        let (first, instance) = connect(&dial).await?;
        let (ask, asks) = mpsc::channel(MOST_ASKS);
        let clock = Clock::start();
        let network = Network::now(dial.peer(), LOOK);
        let sentries = if server.way == Way::Quic { SENTRIES.1 } else { SENTRIES.0 };
        let mut keeper = Keeper {
            server,
            dial: Some(dial),
            pool: Pool::new(clock.now()),
            asks,
            attempts: JoinSet::new(),
            lost: mpsc::unbounded_channel(),
            opened: 0,
            distrusted: 0,
            patrol: Patrol::new(sentries),
            rounds: unhurried(LOOK),
            sought: None,
            away: false,
            refusals: Refusals::default(),
            impostor: None,
            clock,
            network,
        };
        // The pool has not asked for this one, and takes it all the same.
        keeper.keep(first, instance);
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
                    Some(Ask::Conn(asker)) => {
                        let given = self.pool.ask(asker, self.clock.now());
                        give(given);
                    }
                    Some(Ask::Dead(number)) => self.distrust(number),
                    Some(Ask::Guard(watch)) => self.patrol.add(watch),
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
                why = self.network.changed() => {
                    self.patrol.alarm();
                    self.start_again(why);
                }
                _ = self.rounds.tick() => {
                    if self.patrol.look() {
                        self.seek_another_way();
                    }
                }
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
                    self.attempts.spawn(task(async move {
                        let dial = match dial {
                            Some(dial) => dial,
                            None => Arc::new(server.dial().await?),
                        };
                        let (conn, instance) = connect_either_way(&dial).await?;
                        Ok((dial, conn, instance))
                    }));
                }
            }
        }
    }

    fn attempted(&mut self, done: Attempt) -> Result<(), Failure> {
        match done {
            Ok((dial, conn, instance)) => {
                self.refusals = Refusals::default();
                self.impostor = None;
                if std::mem::take(&mut self.away) {
                    say(format_args!("tack: connected to {} again", self.server.host.host()));
                }
                self.network.peer = dial.peer();
                if self.dial.replace(dial).is_none() {
                    self.patrol.passed();
                }
                self.keep(conn, instance);
            }
            // It will say the same again.
            Err(failure) if failure.code == ExitCode::Untrusted && !self.may_pass(&failure) => {
                return Err(failure);
            }
            Err(failure) => {
                if !std::mem::replace(&mut self.away, true) {
                    say(format_args!("tack: {failure}; trying again"));
                }
                // It may have moved.
                self.dial = None;
                let is_gone = self.refusals.add(&failure, tokio::time::Instant::now());
                let cause = if is_gone { Cause::Gone } else { Cause::Unreachable };
                for asker in self.pool.failed(self.clock.now()) {
                    let refusal = Refusal::new(cause, failure.message.clone());
                    let _ = asker.send(Err(refusal));
                }
            }
        }
        Ok(())
    }

    /// Whether who answered is another than our server, and has not been there for too long.
    fn may_pass(&mut self, failure: &Failure) -> bool {
        if !failure.is_impostor {
            return false;
        }
        let now = self.clock.now();
        let since = *self.impostor.get_or_insert_with(|| {
            say(format_args!(
                "tack: {failure}; trying again for {} minutes",
                IMPOSTOR.as_secs() / 60
            ));
            self.away = true;
            now
        });
        now - since < IMPOSTOR
    }

    /// Has a new connection looked after until somebody takes it.
    fn keep(&mut self, mut conn: NetConn, instance: u64) {
        self.opened += 1;
        let (number, lost) = (self.opened, self.lost.0.clone());
        let (take, mut taken) = oneshot::channel();
        let task = tokio::spawn(task(async move {
            let mut byte = [0];
            tokio::select! {
                biased;
                taken = &mut taken => return taken.is_ok().then_some(conn),
                // The server has nothing to say before we have.
                _ = conn.read(&mut byte) => {}
            }
            let _ = lost.send(number);
            None
        }));
        let given = self.pool.opened(Spare { number, instance, take, task });
        give(given);
    }

    /// A stream's connection proved dead: what was opened before or beside it may be as dead.
    fn distrust(&mut self, number: u64) {
        if number <= self.distrusted {
            return;
        }
        tracing::info!(number, "a connection is dead");
        self.distrusted = self.opened;
        drop(self.pool.start_again());
        self.attempts = JoinSet::new();
        self.patrol.alarm();
    }

    /// A stream asks and nobody answers: perhaps from another socket somebody does.
    fn seek_another_way(&mut self) {
        let now = self.clock.now();
        if self.sought.is_none_or(|at| now - at >= RESPITE) {
            self.sought = Some(now);
            self.start_again("nobody answers");
        }
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

/// As [`connect`]. Where the path changes in the middle of a handshake it may go on nowhere, and say so
/// only much later: a second one is begun beside it in good time.
async fn connect_either_way(dial: &Arc<NetDial>) -> Result<(NetConn, u64), Failure> {
    let begin = || {
        let dial = dial.clone();
        task(async move { connect(&dial).await })
    };
    let mut handshakes = JoinSet::from_iter([begin()]);
    let late = sleep(LATE);
    tokio::pin!(late);
    let mut is_late = false;
    loop {
        tokio::select! {
            Some(done) = handshakes.join_next() => {
                let aborted = |e| Failure::new(ExitCode::Failed, format!("a handshake: {e}"));
                let done = done.map_err(aborted).flatten();
                let may_pass = done.as_ref().is_err_and(|e| e.code != ExitCode::Untrusted);
                if !may_pass || handshakes.is_empty() {
                    return done;
                }
            }
            () = &mut late, if !is_late => {
                is_late = true;
                handshakes.spawn(begin());
            }
        }
    }
}

/// A connection whose server has greeted us; the number of its process.
async fn connect(dial: &NetDial) -> Result<(NetConn, u64), Failure> {
    let mut conn = dial.connect().await?;
    let greeted = timeout(GREETING, read_message(&mut conn, Greeting::read)).await;
    let why = match greeted.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into())) {
        Ok(Ok(greeting)) => return Ok((conn, greeting.instance)),
        Ok(Err(error)) => error.to_string(),
        Err(error) => format!("the server did not say that it serves tunnels: {error}"),
    };
    conn.abort();
    Err(Failure::new(ExitCode::Failed, why))
}

fn give(given: Option<(Asker, Spare)>) {
    // Whoever asked may have gone; the connection then ends with this.
    if let Some((asker, spare)) = given {
        let _ = asker.send(Ok(spare));
    }
}

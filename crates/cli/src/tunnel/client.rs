//! `tack tunnel HOST`: takes programs' connections in and gives each a stream.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{sleep, timeout};

use super::MAX_STREAMS;
use super::begin::Beginning;
#[cfg(target_os = "linux")]
use super::intercept::destination;
use super::link::{Fresh, Link, keepalive};
use super::protocol::{Answer, Cause, Open, Refusal, Request};
use super::proxy::{Handshake, Output, Speech};
use super::relay::{Opening, RelayError, relay};
use super::target::Target;
use super::udp;
use crate::conn::Connection;
use crate::net::{NetConn, Watch, another_way};
use crate::random::random;
use crate::stop::Stop;

/// How long a program may take to say what it wants.
const PROXY_LIMIT: Duration = Duration::from_secs(30);
/// How long a server may take to open a stream: longer than its own limits together.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// Connections over which a stream is tried for.
const MOST_CONNECTIONS: usize = 3;
/// Pause where no descriptor is left.
const BREATHER: Duration = Duration::from_millis(50);

/// What a port does with the connections that programs make to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Service {
    /// They all lead to one target.
    Forward(Target),
    /// They say where they lead to, in SOCKS5 or HTTP; with `eager`, they hear that they are there
    /// before they are.
    Proxy {
        /// Whether to answer before the server has.
        eager: bool,
    },
    /// They lead to where they went before the kernel redirected them here.
    Intercepted,
}

/// What all streams of a client share.
#[derive(Clone, Debug)]
pub struct Streams {
    link: Link,
    places: Arc<Semaphore>,
    stop: Stop,
    /// As long as somebody holds one, streams are open.
    _alive: mpsc::Sender<()>,
}

impl Streams {
    /// For connections from `link`, until `stop`; the receiver ends when all streams have.
    pub fn new(link: Link, stop: Stop) -> (Streams, mpsc::Receiver<()>) {
        let (alive, gone) = mpsc::channel(1);
        let places = Arc::new(Semaphore::new(MAX_STREAMS));
        (Streams { link, places, stop, _alive: alive }, gone)
    }

    /// Takes in what comes to `listener` until told to stop.
    pub async fn take_in(self, listener: TcpListener, service: Service) {
        loop {
            // Where there are as many streams as there may be, programs wait in the kernel's queue.
            let places = self.places.clone().acquire_owned();
            let Some(Ok(place)) = self.stop.or(places).await else { return };
            let (program, peer) = match self.stop.or(listener.accept()).await {
                None => return,
                Some(Ok(accepted)) => accepted,
                Some(Err(error)) => {
                    tracing::warn!(%error, "taking a program's connection");
                    sleep(BREATHER).await;
                    continue;
                }
            };
            let (streams, service) = (self.clone(), service.clone());
            tokio::spawn(async move {
                tracing::debug!(%peer, ?service, "a program");
                match streams.serve(program, &service).await {
                    Ok(()) => {}
                    Err(StreamError::Refused(refusal)) => eprintln!("tack: {}", refusal.why),
                    Err(error) => tracing::info!(%peer, %error, "a stream ended"),
                }
                drop((place, streams));
            });
        }
    }

    async fn serve(&self, program: TcpStream, service: &Service) -> Result<(), StreamError> {
        program.set_nodelay(true)?;
        match service {
            Service::Forward(target) => self.at_once(program, target.clone(), Vec::new()).await,
            Service::Proxy { eager } => self.proxy(program, *eager).await,
            Service::Intercepted => {
                let target = destination(&program)?;
                self.at_once(program, target, Vec::new()).await
            }
        }
    }

    /// The program believes itself connected already: its bytes go out with the opening, and a
    /// target that cannot be reached resets it.
    async fn at_once(
        &self,
        mut program: TcpStream,
        target: Target,
        early: Vec<u8>,
    ) -> Result<(), StreamError> {
        match self.open(Open::Connect(target), &early, Some(&mut program)).await {
            Ok(opened) => {
                relay(opened.stream, program, opened.opening, &self.stop).await?;
                Ok(())
            }
            Err(error) => {
                program.abort();
                Err(error)
            }
        }
    }

    /// A program that speaks SOCKS5 or HTTP.
    async fn proxy(&self, mut program: TcpStream, eager: bool) -> Result<(), StreamError> {
        let asking = timeout(PROXY_LIMIT, wishes(&mut program));
        let asked = self.stop.or(asking).await.ok_or_else(stopped)?;
        let (open, speech, early) =
            asked.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        let target = match open {
            Open::Associate => return self.associate(program, speech).await,
            Open::Connect(target) => target,
        };
        if eager {
            let nowhere = (std::net::Ipv4Addr::UNSPECIFIED, 0).into();
            program.write_all(&speech.opened(nowhere)).await?;
            return self.at_once(program, target, early).await;
        }
        match self.open(Open::Connect(target), &early, None).await {
            Ok(Opened { stream, bound, opening }) => {
                let opening = Opening { down: speech.opened(bound), ..opening };
                relay(stream, program, opening, &self.stop).await?;
                Ok(())
            }
            Err(error) => Err(error.told(program, speech).await?),
        }
    }

    /// Datagrams, as long as the program keeps its connection.
    async fn associate(&self, mut program: TcpStream, speech: Speech) -> Result<(), StreamError> {
        let socket = UdpSocket::bind((program.local_addr()?.ip(), 0)).await?;
        match self.open(Open::Associate, &[], None).await {
            Ok(Opened { stream, .. }) => {
                program.write_all(&speech.opened(socket.local_addr()?)).await?;
                self.stop.or(udp::relay(stream, socket, program)).await.unwrap_or(Ok(()))?;
                Ok(())
            }
            Err(error) => Err(error.told(program, speech).await?),
        }
    }

    /// A stream that the server has opened. `early` is what the program has said; what it says meanwhile
    /// goes along, if it is given.
    async fn open(
        &self,
        open: Open,
        early: &[u8],
        program: Option<&mut TcpStream>,
    ) -> Result<Opened, StreamError> {
        let request = Request { name: random()?, open };
        let trying = timeout(ANSWER_LIMIT, self.try_to_open(&request, early, program));
        let tried = self.stop.or(trying).await.ok_or_else(stopped)?;
        tried.unwrap_or_else(|_| {
            let why = format!("no answer to {} in {ANSWER_LIMIT:?}", request.open);
            Err(Refusal::new(Cause::TimedOut, why).into())
        })
    }

    /// A connection that breaks before the server has answered, or stands still, is left for another one.
    async fn try_to_open(
        &self,
        request: &Request,
        early: &[u8],
        mut program: Option<&mut TcpStream>,
    ) -> Result<Opened, StreamError> {
        let mut beginning = Beginning::new(request, early);
        let mut fresh = self.link.conn().await?;
        for others in (0..MOST_CONNECTIONS).rev() {
            let (watch, number) = (fresh.conn.watch(), fresh.number());
            let answered = tokio::select! {
                biased;
                answered = beginning.answered(program.as_deref_mut(), &mut fresh.conn) => answered,
                next = self.beside(&watch, number), if others > 0 => {
                    std::mem::replace(&mut fresh, next).conn.abort();
                    beginning.again();
                    continue;
                }
            };
            match answered {
                Ok(Answer::Opened(bound)) => {
                    watch.set_keepalive(keepalive());
                    self.link.guard(&fresh.conn).await;
                    let opening = beginning.opening();
                    return Ok(Opened { stream: fresh.conn, bound, opening });
                }
                Ok(Answer::Refused(refusal)) => return Err(refusal.into()),
                Err(RelayError::Stream(error)) if others > 0 => {
                    tracing::debug!(number, %error, "a connection broke before the answer");
                    fresh = self.link.instead(number).await?;
                    beginning.again();
                }
                Err(RelayError::Stream(error)) => {
                    let why = format!("the tunnel: {error}");
                    return Err(Refusal::new(Cause::Unreachable, why).into());
                }
                Err(RelayError::Protocol(error)) => {
                    return Err(Refusal::new(Cause::Failed, error.to_string()).into());
                }
                Err(error) => return Err(error.into()),
            }
        }
        unreachable!("the last connection answers or breaks")
    }

    /// Another connection, once this one has stood still and there is one.
    async fn beside(&self, watch: &Watch, number: u64) -> Fresh {
        // One at a time is asked for: many at once open no sooner.
        let turn = Arc::new(Semaphore::new(1));
        another_way(watch, || {
            let (link, turn) = (self.link.clone(), turn.clone());
            async move {
                let _turn = turn.acquire().await;
                link.instead(number).await
            }
        })
        .await
    }
}

/// A stream that the server has opened.
struct Opened {
    stream: NetConn,
    /// From where.
    bound: SocketAddr,
    opening: Opening,
}

/// What a program wants, how it wants to be answered, and what it sent behind that.
async fn wishes(program: &mut TcpStream) -> Result<(Open, Speech, Vec<u8>), StreamError> {
    let mut handshake = Handshake::default();
    let mut buffer = [0; 4_096];
    loop {
        match handshake.poll() {
            Ok(Output::Wants(open, speech, rest)) => return Ok((open, speech, rest)),
            Ok(Output::Send(bytes)) => program.write_all(&bytes).await?,
            Ok(Output::Wait) => match program.read(&mut buffer).await? {
                0 => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                read => handshake.handle(&buffer[..read]),
            },
            Err(error) => {
                program.write_all(&error.answer()).await?;
                program.shutdown().await?;
                return Err(Refusal::new(Cause::Failed, error.to_string()).into());
            }
        }
    }
}

/// How a stream ended, if not in order.
#[derive(Debug, thiserror::Error)]
enum StreamError {
    #[error("the program: {0}")]
    Program(#[from] io::Error),
    #[error("{}", .0.why)]
    Refused(Refusal),
    #[error(transparent)]
    Relay(#[from] RelayError),
}

impl StreamError {
    /// The same, once a program that waits for a word of it was told, and hung up on.
    async fn told(self, mut program: TcpStream, speech: Speech) -> io::Result<StreamError> {
        if let StreamError::Refused(refusal) = &self {
            program.write_all(&speech.refused(refusal)).await?;
            program.shutdown().await?;
        }
        Ok(self)
    }
}

impl From<Refusal> for StreamError {
    fn from(refusal: Refusal) -> StreamError {
        StreamError::Refused(refusal)
    }
}

fn stopped() -> StreamError {
    StreamError::Relay(RelayError::Stopped)
}

/// Nothing is redirected here.
#[cfg(not(target_os = "linux"))]
fn destination(_: &TcpStream) -> io::Result<Target> {
    Err(io::ErrorKind::Unsupported.into())
}

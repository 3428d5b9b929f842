//! `tack tunnel HOST`: takes programs' connections in and gives each a stream.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{sleep, timeout};

#[cfg(target_os = "linux")]
use super::intercept::destination;
use super::link::Link;
use super::protocol::{Cause, Refusal, Wish};
use super::proxy::{Handshake, Output, Speech};
use super::stream::{self, Stream, StreamError};
use super::target::Target;
use super::udp;
use crate::relay::Broken;
use crate::stop::Stop;
use crate::task::task;
use crate::terminal::say;

/// How long a program may take to say what it wants.
const PROXY_LIMIT: Duration = Duration::from_secs(30);
/// How long a program that is turned away may go on speaking, and how many bytes of it are read.
const HEARING_OUT: Duration = Duration::from_secs(2);
const MOST_HEARD_OUT: u64 = 1 << 20;
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
        let places = Arc::new(Semaphore::new(super::places()));
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
            tokio::spawn(task(async move {
                tracing::debug!(%peer, ?service, "a program");
                match streams.serve(program, &service).await {
                    Ok(()) => {}
                    Err(StreamError::Refused(refusal)) => {
                        say(format_args!("tack: {}", refusal.why))
                    }
                    Err(error) => tracing::info!(%peer, %error, "a stream ended"),
                }
                drop((place, streams));
            }));
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
        program: TcpStream,
        target: Target,
        early: Vec<u8>,
    ) -> Result<(), StreamError> {
        Stream::new(self.link.clone(), target)?.run(program, &early, &self.stop).await?;
        Ok(())
    }

    /// A program that speaks SOCKS5 or HTTP.
    async fn proxy(&self, mut program: TcpStream, eager: bool) -> Result<(), StreamError> {
        let asking = timeout(PROXY_LIMIT, wishes(&mut program));
        let asked = self.stop.or(asking).await.ok_or(StreamError::Stopped)?;
        let (wish, speech, early) =
            asked.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        let target = match wish {
            Wish::Associate => return self.associate(program, speech).await,
            Wish::Connect(target) => target,
        };
        if eager {
            let nowhere = (std::net::Ipv4Addr::UNSPECIFIED, 0).into();
            program.write_all(&speech.opened(nowhere)).await?;
            return self.at_once(program, target, early).await;
        }
        let mut stream = Stream::new(self.link.clone(), target)?;
        let bound = match self.stop.or(stream.open()).await {
            None => return Err(stream.break_off(StreamError::Stopped, &self.stop).await),
            Some(Ok(bound)) => bound,
            Some(Err(refusal)) => {
                turn_away(&mut program, &speech.refused(&refusal)).await?;
                return Err(refusal.into());
            }
        };
        if let Err(gone) = program.write_all(&speech.opened(bound)).await {
            let gone = StreamError::Broken(Broken::Program(gone));
            return Err(stream.break_off(gone, &self.stop).await);
        }
        stream.run(program, &early, &self.stop).await?;
        Ok(())
    }

    /// Datagrams, as long as the program keeps its connection.
    async fn associate(&self, mut program: TcpStream, speech: Speech) -> Result<(), StreamError> {
        // The whole address: one that is link-local is none without its interface.
        let mut own = program.local_addr()?;
        own.set_port(0);
        let socket = UdpSocket::bind(own).await?;
        let opened = self.stop.or(stream::associate(&self.link)).await;
        match opened.ok_or(StreamError::Stopped)? {
            Ok(conn) => {
                program.write_all(&speech.opened(socket.local_addr()?)).await?;
                self.stop.or(udp::relay(conn, socket, program)).await.unwrap_or(Ok(()))?;
                Ok(())
            }
            Err(refusal) => {
                turn_away(&mut program, &speech.refused(&refusal)).await?;
                Err(refusal.into())
            }
        }
    }
}

/// What a program wants, how it wants to be answered, and what it sent behind that.
async fn wishes(program: &mut TcpStream) -> Result<(Wish, Speech, Vec<u8>), StreamError> {
    let mut handshake = Handshake::default();
    let mut buffer = [0; 4_096];
    loop {
        match handshake.poll() {
            Ok(Output::Wants(wish, speech, rest)) => return Ok((wish, speech, rest)),
            Ok(Output::Send(bytes)) => program.write_all(&bytes).await?,
            Ok(Output::Wait) => match program.read(&mut buffer).await? {
                0 => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                read => handshake.handle(&buffer[..read]),
            },
            Err(error) => {
                turn_away(program, &error.answer()).await?;
                return Err(Refusal::new(Cause::Failed, error.to_string()).into());
            }
        }
    }
}

/// Says no, and hears out whoever is still speaking: a socket that is closed over bytes that nobody read resets the
/// program, which then has not got the answer.
async fn turn_away(program: &mut TcpStream, answer: &[u8]) -> io::Result<()> {
    program.write_all(answer).await?;
    program.shutdown().await?;
    let mut rest = program.take(MOST_HEARD_OUT);
    let mut nowhere = tokio::io::sink();
    // Too late, too much, or gone: it was told.
    let _ = timeout(HEARING_OUT, tokio::io::copy(&mut rest, &mut nowhere)).await;
    Ok(())
}

/// Nothing is redirected here.
#[cfg(not(target_os = "linux"))]
fn destination(_: &TcpStream) -> io::Result<Target> {
    Err(io::ErrorKind::Unsupported.into())
}

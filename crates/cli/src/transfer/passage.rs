//! What is said on a connection before it carries a stream that [outlives](crate::relay) it.
//!
//! Whoever connects draws a name for the stream, 256 bits that both ends know and nobody else: by it the stream
//! goes on over another connection. It may be begun twice, while nobody has said that it has begun; more of it
//! is only asked for. What the other end lacks is kept, 16 MiB at most ([`crate::relay::outgoing`]).

use std::io;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::conn::Connection;
use crate::exit::Failure;
use crate::relay::Supply;
use crate::stop::Stop;
use crate::transfer::VERSION;
use crate::transfer::error::{Standing, TransferError};
use crate::transfer::frame::{Frame, PREFACE, SenderId, What, encode};
use crate::transfer::send::Framed;
use crate::transfer::wire::{OPENING_LIMIT, unexpected};

/// Opens connections for one stream.
pub trait Dialler: Send {
    /// What is opened.
    type Conn: Connection;

    /// Another one, for a stream that has been `known` to the other end or not. While the last one is not `broken`,
    /// it may be waited for without end.
    ///
    /// Cancel safe as long as it is not.
    ///
    /// # Errors
    /// There will be none.
    fn another(
        &mut self,
        broken: bool,
        known: bool,
    ) -> impl Future<Output = Result<Self::Conn, Failure>> + Send;

    /// The last one carries the stream.
    fn carries(&mut self) {}
}

/// The connecting side's supply.
#[derive(Debug)]
pub struct Asking<D> {
    dialler: D,
    what: What,
    name: SenderId,
    /// The other end has said that it has begun.
    known: bool,
    why: Option<Failure>,
}

impl<D> Asking<D> {
    /// For a new stream.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn new(dialler: D, what: What) -> io::Result<Asking<D>> {
        let mut name = SenderId::default();
        // So few come at once or not at all.
        match rustix::rand::getrandom(&mut name[..], rustix::rand::GetRandomFlags::empty())? {
            32 => Ok(Asking { dialler, what, name, known: false, why: None }),
            _ => Err(io::Error::other("the system gave too few random numbers")),
        }
    }

    /// What opens its connections.
    pub fn dialler(&self) -> &D {
        &self.dialler
    }

    /// Why there are no more connections, if there are none.
    pub fn why(&mut self) -> Option<Failure> {
        self.why.take()
    }
}

impl<D: Dialler> Supply for Asking<D> {
    type Conn = D::Conn;
    const LEAVES: bool = true;

    async fn next(&mut self, broken: bool) -> Option<D::Conn> {
        self.dialler.another(broken, self.known).await.map_err(|why| self.why = Some(why)).ok()
    }

    async fn agree(&mut self, conn: &mut D::Conn, position: u64) -> io::Result<Option<u64>> {
        let what = if self.known { What::Rest } else { self.what };
        match Framed::new(conn).ask(what, self.name, position).await {
            Ok(theirs) => {
                self.known = true;
                self.dialler.carries();
                Ok(Some(theirs))
            }
            Err(broken @ TransferError::Connection { .. })
            | Err(broken @ TransferError::Closed { .. })
            | Err(broken @ TransferError::Silent { .. }) => Err(io::Error::other(broken)),
            // A place may be given back a little later.
            Err(busy) if self.known && busy.may_pass() => Err(io::Error::other(busy)),
            Err(why) => {
                self.why = Some(why.into());
                Ok(None)
            }
        }
    }
}

impl<C: AsyncRead + AsyncWrite> Framed<C> {
    /// Asks for a stream, of whose other direction we have everything before `position`. What the other end has.
    async fn ask(
        &mut self,
        what: What,
        name: SenderId,
        position: u64,
    ) -> Result<u64, TransferError> {
        self.hello(what, name).await?;
        self.writer.send(&have(position)).await?;
        self.welcomed().await?;
        self.had().await
    }

    async fn had(&mut self) -> Result<u64, TransferError> {
        match self.reader.next_within(OPENING_LIMIT, "opening").await? {
            Frame::Have { index: 0, bytes } => Ok(bytes),
            other => Err(unexpected(&other, "HAVE of a stream")),
        }
    }
}

fn have(position: u64) -> Frame {
    Frame::Have { index: 0, bytes: position }
}

/// What the listening side says on a connection before it carries a stream.
pub fn answer(position: u64) -> Vec<u8> {
    let mut answer = PREFACE.to_vec();
    encode(&Frame::Welcome { version: VERSION }, &mut answer);
    encode(&have(position), &mut answer);
    answer
}

/// A connection whose other end has said what it is to carry. It waits for an [`answer`].
#[derive(Debug)]
pub struct Asked<C> {
    /// It.
    pub conn: C,
    /// The name of the stream.
    pub name: SenderId,
    /// More of one that has begun.
    pub is_rest: bool,
    /// The other end has everything before it.
    pub position: u64,
}

/// Hears what a connection is to carry: `wanted`, or more of it.
///
/// # Errors
/// It wants something else, or says nothing for long.
pub async fn hear<C: Connection>(
    conn: C,
    wanted: What,
    stop: &Stop,
) -> Result<Asked<C>, TransferError> {
    let mut framed = Framed::new(conn);
    let hearing = async {
        let (what, name) = framed.heard_hello().await?;
        what.instead_of(wanted)?;
        Ok((name, what == What::Rest, framed.had().await?))
    };
    let heard = stop.or(hearing).await;
    match heard.unwrap_or(Err(TransferError::Stopped(Standing::Unknown))) {
        Ok((name, is_rest, position)) => {
            Ok(Asked { conn: framed.into_inner(), name, is_rest, position })
        }
        Err(error) => framed.close(Err(error), stop).await,
    }
}

/// Says why a connection will carry nothing.
///
/// # Errors
/// Always: `why`.
pub async fn refuse<C: Connection>(
    conn: C,
    why: TransferError,
    stop: &Stop,
) -> Result<(), TransferError> {
    Framed::new(conn).close(Err(why), stop).await
}

//! TLS records in memory: ciphertext and plaintext in both directions, no I/O.
//!
//! rustls decides; here are the buffers around it. Ciphertext that arrived lies in `incoming`,
//! where records are decrypted in place; ciphertext to send lies in `outgoing`. Both start empty
//! and grow with use to a bound.

use std::fmt;
use std::ops::Range;

use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncryptError, InsufficientSizeError, UnbufferedStatus,
};
use rustls::{CommonState, Error};
use tokio::io::ReadBuf;

use super::Fingerprint;

/// Plaintext encrypted at a time: four records, which fit into one burst of 44 packets. With 64 KiB two packets
/// left in a call of their own.
pub const WRITE_BYTES: usize = 60 << 10;
/// Room a read offers at first, and the least it offers later.
const MIN_READ_BYTES: usize = 4 << 10;
/// Room for ciphertext that arrived: a burst of full records. More than one must fit
/// [RFC 8446 §5.2].
const MAX_INCOMING_BYTES: usize = 128 << 10;
/// Which end we are.
pub(super) enum Side {
    Client(UnbufferedClientConnection),
    Server(UnbufferedServerConnection),
}

impl fmt::Debug for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Side::Client(_) => "Client",
            Side::Server(_) => "Server",
        })
    }
}

/// What a step needs or did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Something moved; ask again.
    Progress,
    /// Nothing moves without more ciphertext from the peer.
    NeedsInput,
    /// The peer ended its direction in order.
    PeerClosed,
    /// Application data may be sent; nothing was given.
    Ready,
    /// This much plaintext was encrypted, or the end was announced.
    Encrypted(usize),
}

/// What to do when application data may be sent.
#[derive(Clone, Copy, Debug)]
pub(super) enum Send<'a> {
    Nothing,
    Data(&'a [u8]),
    CloseNotify,
}

/// One end of a TLS connection without its stream.
#[derive(Debug)]
pub(super) struct Session {
    side: Side,
    incoming: Vec<u8>,
    /// Part of `incoming` that holds ciphertext.
    filled: Range<usize>,
    /// Bytes the next read offers room for.
    read_bytes: usize,
    outgoing: Vec<u8>,
    /// Part of `outgoing` that holds ciphertext to send.
    unsent: Range<usize>,
    /// Decrypted and not read.
    plain: Vec<u8>,
    plain_read: usize,
    peer_closed: bool,
    /// What broke the session. Nothing works after that.
    failure: Option<Error>,
}

impl Session {
    pub(super) fn new(side: Side) -> Session {
        Session {
            side,
            incoming: Vec::new(),
            filled: 0..0,
            read_bytes: MIN_READ_BYTES,
            outgoing: Vec::new(),
            unsent: 0..0,
            plain: Vec::new(),
            plain_read: 0,
            peer_closed: false,
            failure: None,
        }
    }

    pub(super) fn common(&self) -> &CommonState {
        match &self.side {
            Side::Client(conn) => conn,
            Side::Server(conn) => conn,
        }
    }

    pub(super) fn peer_fingerprint(&self) -> Option<Fingerprint> {
        Fingerprint::of(self.common().peer_certificates()?.first()?).ok()
    }

    pub(super) fn peer_closed(&self) -> bool {
        self.peer_closed
    }

    /// Room for ciphertext from the stream; [`Session::received`] says how much came.
    pub(super) fn room(&mut self) -> &mut [u8] {
        if self.filled.is_empty() {
            self.filled = 0..0;
        }
        if self.incoming.len() - self.filled.end < self.read_bytes && self.filled.start > 0 {
            self.incoming.copy_within(self.filled.clone(), 0);
            self.filled = 0..self.filled.len();
        }
        let end = (self.filled.end + self.read_bytes).min(MAX_INCOMING_BYTES);
        if self.incoming.len() < end {
            self.incoming.resize(end, 0);
        }
        &mut self.incoming[self.filled.end..]
    }

    pub(super) fn received(&mut self, bytes: usize) {
        self.filled.end += bytes;
        if self.filled.end == self.incoming.len() {
            self.read_bytes = (2 * self.read_bytes).min(MAX_INCOMING_BYTES / 2);
        }
    }

    /// Ciphertext to send; [`Session::sent`] says how much left.
    pub(super) fn to_send(&self) -> &[u8] {
        &self.outgoing[self.unsent.clone()]
    }

    pub(super) fn sent(&mut self, bytes: usize) {
        self.unsent.start += bytes;
        if self.unsent.is_empty() {
            self.unsent = 0..0;
        }
    }

    /// Copies plaintext that is at hand. Returns whether there was any.
    pub(super) fn read_plain(&mut self, out: &mut ReadBuf<'_>) -> bool {
        let rest = &self.plain[self.plain_read..];
        let n = rest.len().min(out.remaining());
        out.put_slice(&rest[..n]);
        self.plain_read += n;
        if self.plain_read == self.plain.len() {
            self.plain.clear();
            self.plain_read = 0;
        }
        n > 0
    }

    /// Lets rustls do one thing. Plaintext goes to `out`, what does not fit is kept.
    pub(super) fn step(&mut self, send: Send<'_>, out: &mut ReadBuf<'_>) -> Result<Step, Error> {
        if let Some(e) = &self.failure {
            return Err(e.clone());
        }
        let step = self.advance(send, out);
        match &step {
            Ok(Step::PeerClosed) => self.peer_closed = true,
            Ok(_) => {}
            Err(e) => self.failure = Some(e.clone()),
        }
        step
    }

    /// After a failure: puts the alert that tells the peer why into what is to be sent.
    pub(super) fn encode_alert(&mut self) {
        if self.failure.is_none() {
            return;
        }
        let mut nothing = ReadBuf::new(&mut []);
        // Only what is queued: rustls must not look at the record it stumbled over again.
        while self.common().wants_write() {
            if self.advance(Send::Nothing, &mut nothing) != Ok(Step::Progress) {
                return;
            }
        }
    }

    fn advance(&mut self, send: Send<'_>, out: &mut ReadBuf<'_>) -> Result<Step, Error> {
        let input = &mut self.incoming[self.filled.clone()];
        let mut buffers = Buffers {
            outgoing: &mut self.outgoing,
            end: &mut self.unsent.end,
            plain: &mut self.plain,
            out,
        };
        let (discard, step) = match &mut self.side {
            Side::Client(conn) => buffers.apply(conn.process_tls_records(input), send),
            Side::Server(conn) => buffers.apply(conn.process_tls_records(input), send),
        };
        self.filled.start += discard;
        step
    }
}

/// Where a step puts things.
struct Buffers<'a, 'b> {
    outgoing: &'a mut Vec<u8>,
    /// Where ciphertext in `outgoing` ends. What follows is left from earlier: clearing it would
    /// cost as much as another copy.
    end: &'a mut usize,
    plain: &'a mut Vec<u8>,
    out: &'a mut ReadBuf<'b>,
}

impl Buffers<'_, '_> {
    fn apply<Data>(
        &mut self,
        status: UnbufferedStatus<'_, '_, Data>,
        send: Send<'_>,
    ) -> (usize, Result<Step, Error>) {
        let mut discard = status.discard;
        let step = match status.state {
            Err(e) => Err(e),
            Ok(ConnectionState::ReadTraffic(mut traffic)) => loop {
                match traffic.next_record() {
                    None => break Ok(Step::Progress),
                    Some(Err(e)) => break Err(e),
                    Some(Ok(record)) => {
                        discard += record.discard;
                        let n = record.payload.len().min(self.out.remaining());
                        self.out.put_slice(&record.payload[..n]);
                        self.plain.extend_from_slice(&record.payload[n..]);
                    }
                }
            },
            Ok(ConnectionState::EncodeTlsData(mut data)) => self.encode(|room| {
                data.encode(room).map_err(|e| match e {
                    EncodeError::InsufficientSize(size) => Ok(size),
                    e => Err(Error::General(e.to_string())),
                })
            }),
            Ok(ConnectionState::TransmitTlsData(transmit)) => {
                // What was encoded is in `outgoing`, which leaves in order.
                transmit.done();
                Ok(Step::Progress)
            }
            Ok(ConnectionState::WriteTraffic(mut traffic)) => match send {
                Send::Nothing => Ok(Step::Ready),
                Send::Data(data) => self
                    .encode(|room| traffic.encrypt(data, room).map_err(insufficient))
                    .map(|_| Step::Encrypted(data.len())),
                Send::CloseNotify => self
                    .encode(|room| traffic.queue_close_notify(room).map_err(insufficient))
                    .map(|_| Step::Encrypted(0)),
            },
            Ok(ConnectionState::PeerClosed) => Ok(Step::PeerClosed),
            // Early data is not offered, so none is read.
            Ok(_) => Ok(Step::NeedsInput),
        };
        (discard, step)
    }

    /// Appends what `encode` writes, with as much room as it asks for.
    fn encode(
        &mut self,
        mut encode: impl FnMut(&mut [u8]) -> Result<usize, Result<InsufficientSizeError, Error>>,
    ) -> Result<Step, Error> {
        loop {
            match encode(&mut self.outgoing[*self.end..]) {
                Ok(n) => {
                    *self.end += n;
                    return Ok(Step::Progress);
                }
                Err(Ok(size)) => self.outgoing.resize(*self.end + size.required_size, 0),
                Err(Err(e)) => return Err(e),
            }
        }
    }
}

fn insufficient(e: EncryptError) -> Result<InsufficientSizeError, Error> {
    match e {
        EncryptError::InsufficientSize(size) => Ok(size),
        EncryptError::EncryptExhausted => Err(Error::EncryptError),
    }
}

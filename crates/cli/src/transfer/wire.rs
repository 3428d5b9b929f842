//! Frames over a connection: reading that survives cancellation, writing with limits on time.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, timeout, timeout_at};

use crate::exit::Failure;
use crate::transfer::error::TransferError;
use crate::transfer::frame::{self, Frame, HEADER, PREFACE};
use crate::transfer::name::printable;
use crate::transfer::patience::Patience;

/// Silence after which the peer is taken for gone.
pub const SILENCE_LIMIT: Duration = Duration::from_secs(60);

/// Silence of our own after which a NOOP is due.
pub const NOOP_INTERVAL: Duration = Duration::from_secs(10);

/// What records of TLS begin with: an alert, and a handshake's message.
const TLS_ALERT: [u8; 2] = [21, 3];
const TLS_HANDSHAKE: [u8; 2] = [22, 3];

/// Time for the preface and the first frame: a port scanner should not hold a place for long.
pub const OPENING_LIMIT: Duration = Duration::from_secs(10);

/// Reads frames. `next` may be dropped at any point and called again without losing bytes.
pub struct FrameReader<R> {
    from: R,
    /// Survives cancellation.
    patience: Patience,
    header: [u8; HEADER],
    header_have: usize,
    body: Vec<u8>,
    body_have: usize,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    /// A reader of what follows the preface.
    pub fn new(from: R) -> Self {
        Self {
            from,
            patience: Patience::default(),
            header: [0; HEADER],
            header_have: 0,
            body: Vec::new(),
            body_have: 0,
        }
    }

    /// Reads the peer's preface, which comes before any frame.
    pub async fn preface(&mut self) -> Result<(), TransferError> {
        let (mut theirs, mut have) = ([0; PREFACE.len()], 0);
        let during = "opening";
        let reading = async {
            while have < theirs.len() {
                match self.from.read(&mut theirs[have..]).await {
                    Ok(0) => return Err(TransferError::Closed { during }),
                    Ok(n) => have += n,
                    Err(e) => return Err(broken(during, e)),
                }
                if theirs[..have].starts_with(&TLS_ALERT) || theirs.starts_with(&TLS_HANDSHAKE) {
                    return Err(TransferError::WrongMode(
                        "the other side encrypts, and this one was told not to",
                    ));
                }
            }
            Ok(())
        };
        timeout(OPENING_LIMIT, reading).await.map_err(|_| silent(during, OPENING_LIMIT))??;
        if theirs == PREFACE { Ok(()) } else { Err(TransferError::NotOurs) }
    }

    /// The next frame that says something: NOOPs are passed over, ERROR becomes an error.
    pub async fn next(&mut self, during: &'static str) -> Result<Frame, TransferError> {
        self.next_within(SILENCE_LIMIT, during).await
    }

    /// As [`next`](Self::next) with another limit on silence.
    pub async fn next_within(
        &mut self,
        limit: Duration,
        during: &'static str,
    ) -> Result<Frame, TransferError> {
        loop {
            match self.read_frame(limit, during).await? {
                Frame::Noop => {}
                Frame::Error { code, text } => {
                    let text = printable(text.as_bytes());
                    return Err(TransferError::Peer { code, text });
                }
                frame => return Ok(frame),
            }
        }
    }

    /// From here on, the peer has to say something of use: see [`Patience::begin_phase`].
    pub fn begin_phase(&mut self, grace: Duration) {
        self.patience.begin_phase(grace);
    }

    /// From here on, signs of life are enough.
    pub fn end_phase(&mut self) {
        self.patience.end_phase();
    }

    /// Waits for the peer to close, and says whether it did, in order; whatever it still says is dropped, up to a limit.
    pub async fn closed(&mut self, limit: Duration) -> bool {
        let mut rest = [0; 1024];
        let drain = async {
            for _ in 0..1024 {
                match self.from.read(&mut rest).await {
                    Ok(0) => return true,
                    Ok(_) => {}
                    Err(_) => return false,
                }
            }
            false
        };
        timeout(limit, drain).await.unwrap_or(false)
    }

    /// What is read from.
    pub fn into_inner(self) -> R {
        self.from
    }

    /// Hands a DATA buffer back for reuse.
    pub fn recycle(&mut self, buffer: Vec<u8>) {
        if self.body_have == 0 && self.header_have < HEADER && buffer.len() > self.body.len() {
            self.body = buffer;
        }
    }

    async fn read_frame(
        &mut self,
        limit: Duration,
        during: &'static str,
    ) -> Result<Frame, TransferError> {
        while self.header_have < HEADER {
            let room = &mut self.header[self.header_have..];
            let read = read_some(&mut self.from, room, &mut self.patience, limit, during);
            let n = read.await?;
            self.patience.heard(0, Instant::now());
            self.header_have += n;
        }
        let (kind, length) = frame::parse_header(self.header)?;
        if self.body.len() < length {
            self.body.resize(length, 0);
        }
        while self.body_have < length {
            let room = &mut self.body[self.body_have..length];
            let read = read_some(&mut self.from, room, &mut self.patience, limit, during);
            let n = read.await?;
            let useful = if frame::is_noop(kind) { 0 } else { n };
            self.patience.heard(useful, Instant::now());
            self.body_have += n;
        }
        self.patience.done();
        self.header_have = 0;
        self.body_have = 0;
        if frame::is_data(kind) {
            // The buffer itself travels on to the disk, uncopied, and comes back by `recycle`.
            let mut body = std::mem::take(&mut self.body);
            body.truncate(length);
            return Ok(Frame::Data(body));
        }
        Ok(frame::parse_body(kind, &self.body[..length])?)
    }
}

/// Reads some bytes, as long as our patience lasts.
async fn read_some(
    from: &mut (impl AsyncRead + Unpin),
    room: &mut [u8],
    patience: &mut Patience,
    silence: Duration,
    during: &'static str,
) -> Result<usize, TransferError> {
    let until = patience.wait(silence, Instant::now());
    let Ok(read) = timeout_at(until, from.read(room)).await else {
        return Err(patience.exhausted(silence, during, Instant::now()));
    };
    match read.map_err(|e| broken(during, e))? {
        0 => Err(TransferError::Closed { during }),
        n => Ok(n),
    }
}

/// Writes frames. Small ones gather until [`flush`](Self::flush). Everything may be dropped at any
/// point: what was begun of a frame is finished before the next.
pub struct FrameWriter<W> {
    to: W,
    /// A DATA frame under way: it is older than what is `pending`.
    data: Outgoing,
    pending: Outgoing,
    /// When we last said something.
    said: Instant,
}

/// Bytes to be written, and how many of them are.
#[derive(Default)]
struct Outgoing {
    bytes: Vec<u8>,
    written: usize,
}

impl Outgoing {
    /// Writes the rest; if that is cancelled, the next call goes on where it was.
    async fn write(&mut self, to: &mut (impl AsyncWrite + Unpin)) -> Result<(), TransferError> {
        while self.written < self.bytes.len() {
            self.written += write_some(to, &self.bytes[self.written..]).await?;
        }
        Ok(())
    }

    /// The buffer with what was written, to use again.
    fn take(&mut self) -> Vec<u8> {
        self.written = 0;
        std::mem::take(&mut self.bytes)
    }
}

/// Small frames gather up to this many bytes before they are written.
const GATHER: usize = 64 * 1024;

impl<W: AsyncWrite + Unpin> FrameWriter<W> {
    /// A writer that has written nothing yet.
    pub fn new(to: W) -> Self {
        Self { to, data: Outgoing::default(), pending: Outgoing::default(), said: Instant::now() }
    }

    /// Puts the preface first.
    pub fn preface(&mut self) {
        self.pending.bytes.extend_from_slice(&PREFACE);
    }

    /// Queues a frame; writes once enough has gathered.
    pub async fn queue(&mut self, frame: &Frame) -> Result<(), TransferError> {
        frame::encode(frame, &mut self.pending.bytes);
        if self.pending.bytes.len() >= GATHER { self.flush().await } else { Ok(()) }
    }

    /// Queues a frame and writes everything out.
    pub async fn send(&mut self, frame: &Frame) -> Result<(), TransferError> {
        self.queue(frame).await?;
        self.flush().await
    }

    /// Writes a DATA frame whose header has already been put before its bytes. Hands the buffer
    /// back.
    pub async fn send_data(&mut self, header_and_bytes: Vec<u8>) -> Result<Vec<u8>, TransferError> {
        self.write_out().await?;
        self.data = Outgoing { bytes: header_and_bytes, written: 0 };
        self.data.write(&mut self.to).await?;
        self.said = Instant::now();
        Ok(self.data.take())
    }

    /// When the peer should hear a sign of life.
    pub fn noop_due(&self) -> Instant {
        self.said + NOOP_INTERVAL
    }

    /// Says that we live. A peer that is too busy to read it is not waited for.
    pub async fn noop(&mut self) {
        // Also if it cannot be said: the next attempt is due as much later.
        self.said = Instant::now();
        if self.pending.bytes.len() < GATHER {
            drop(timeout(Duration::from_secs(1), self.send(&Frame::Noop)).await);
        }
    }

    /// Writes out what has gathered.
    pub async fn flush(&mut self) -> Result<(), TransferError> {
        self.write_out().await?;
        self.to.flush().await.map_err(|e| broken("writing", e))
    }

    async fn write_out(&mut self) -> Result<(), TransferError> {
        self.data.write(&mut self.to).await?;
        if !self.pending.bytes.is_empty() {
            self.pending.write(&mut self.to).await?;
            self.said = Instant::now();
        }
        let mut empty = self.pending.take();
        empty.clear();
        self.pending.bytes = empty;
        Ok(())
    }

    /// Tells the peer why this is over, as far as it still listens, and closes.
    pub async fn fail(&mut self, error: &TransferError) {
        if let Some(code) = error.code_for_peer() {
            let frame = Frame::Error { code, text: error.text_for_peer() };
            let _ = timeout(Duration::from_secs(2), self.send(&frame)).await;
        }
        self.shutdown().await;
    }

    /// What is written to.
    pub fn into_inner(self) -> W {
        self.to
    }

    /// Closes this direction.
    pub async fn shutdown(&mut self) {
        let _ = timeout(Duration::from_secs(2), self.to.shutdown()).await;
    }

    /// Runs `work`, which may take long, and keeps the peer from thinking that we are gone.
    pub async fn while_busy<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            match timeout_at(self.noop_due(), &mut work).await {
                Ok(done) => return done,
                // A peer that is gone shows when the next frame is due; the work is worth
                // finishing anyway.
                Err(_) => self.noop().await,
            }
        }
    }
}

/// Writes some of `bytes`; the peer may take its time as long as it takes something.
async fn write_some(
    to: &mut (impl AsyncWrite + Unpin),
    bytes: &[u8],
) -> Result<usize, TransferError> {
    let during = "sending";
    let n = timeout(SILENCE_LIMIT, to.write(bytes)).await;
    match n.map_err(|_| silent(during, SILENCE_LIMIT))?.map_err(|e| broken(during, e))? {
        0 => Err(TransferError::Closed { during }),
        n => Ok(n),
    }
}

fn silent(during: &'static str, limit: Duration) -> TransferError {
    TransferError::Silent { during, seconds: limit.as_secs() }
}

fn broken(during: &'static str, source: std::io::Error) -> TransferError {
    if source.kind() == std::io::ErrorKind::UnexpectedEof {
        return TransferError::Closed { during };
    }
    match source.downcast::<Failure>() {
        Ok(refused) => TransferError::NotLetIn(refused),
        Err(source) => TransferError::Connection { during, source },
    }
}

/// A frame that has no place here.
pub fn unexpected(got: &Frame, expected: &'static str) -> TransferError {
    let mut got = format!("{got:?}");
    got.truncate(got.floor_char_boundary(60));
    TransferError::Unexpected { got, expected }
}

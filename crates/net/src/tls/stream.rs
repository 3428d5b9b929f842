//! An encrypted stream.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::session::{Send, Session, Step, WRITE_BYTES};
use super::{Fingerprint, TlsError};

/// A TLS 1.3 stream over `S`.
///
/// * `shutdown` ends our direction with a close_notify; the peer may go on sending.
/// * The end of the peer's direction reads as an end of stream only after its close_notify. If the
///   stream beneath ends without, reading fails with `UnexpectedEof`: bytes may be missing.
/// * Writes may be held back until `flush` or `shutdown`, as in any buffered writer.
/// * For two tasks, split it with [`tokio::io::split`].
#[derive(Debug)]
pub struct TlsStream<S> {
    io: S,
    session: Session,
    /// Our close_notify is on its way.
    closed: bool,
    /// A task waits to write: its waker is the one registered with `io`.
    writer_waits: bool,
    first_use: bool,
}

impl<S> TlsStream<S> {
    pub(super) fn new(io: S, session: Session) -> TlsStream<S> {
        TlsStream { io, session, closed: false, writer_waits: false, first_use: false }
    }

    pub(super) fn set_first_use(&mut self) {
        self.first_use = true;
    }

    /// The stream beneath.
    pub fn get_ref(&self) -> &S {
        &self.io
    }

    /// The stream beneath. Reading or writing it breaks the encryption.
    pub fn into_inner(self) -> S {
        self.io
    }

    #[cfg(test)]
    pub(super) fn get_mut_for_tests(&mut self) -> &mut S {
        &mut self.io
    }

    /// Fingerprint of the peer's key; `None` on a server whose client shows none.
    pub fn peer_fingerprint(&self) -> Option<Fingerprint> {
        self.session.peer_fingerprint()
    }

    /// The server was met for the first time: nothing says yet that it is the right one.
    pub fn is_first_use(&self) -> bool {
        self.first_use
    }

    /// Name of the cipher suite.
    pub fn cipher_suite(&self) -> Option<&'static str> {
        self.session.common().negotiated_cipher_suite().and_then(|s| s.suite().as_str())
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream<S> {
    pub(super) async fn handshake(&mut self) -> Result<(), TlsError> {
        let done = poll_fn(|cx| self.poll_handshake(cx)).await;
        if matches!(done, Err(TlsError::Protocol(_))) {
            // The peer should learn why. What cannot be said at once is not worth waiting for.
            self.session.encode_alert();
            poll_fn(|cx| {
                let _ = self.poll_drain(cx);
                Poll::Ready(())
            })
            .await;
        }
        done
    }

    fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), TlsError>> {
        let mut nothing = ReadBuf::new(&mut []);
        loop {
            match self.session.step(Send::Nothing, &mut nothing)? {
                Step::Progress | Step::Encrypted(_) => continue,
                // Whoever asks briefly ends its direction in the flight that ends the handshake.
                Step::PeerClosed if self.session.common().is_handshaking() => {
                    return Poll::Ready(Err(truncated().into()));
                }
                Step::PeerClosed | Step::Ready | Step::NeedsInput => {}
            }
            let drained = self.poll_drain(cx)?;
            if !self.session.common().is_handshaking() {
                return drained.map(Ok);
            }
            // Read even if not all is written: the peer may be stuck in the same place.
            if ready!(self.poll_fill(cx))? == 0 {
                return Poll::Ready(Err(truncated().into()));
            }
        }
    }

    /// Reads ciphertext; 0 at its end.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut room = ReadBuf::new(self.session.room());
        ready!(Pin::new(&mut self.io).poll_read(cx, &mut room))?;
        let n = room.filled().len();
        self.session.received(n);
        Poll::Ready(Ok(n))
    }

    /// Writes all ciphertext that waits.
    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.session.to_send().is_empty() {
            let n = ready!(Pin::new(&mut self.io).poll_write(cx, self.session.to_send()))?;
            if n == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.session.sent(n);
        }
        Poll::Ready(Ok(()))
    }

    /// As [`Self::poll_drain`], on behalf of the writing task.
    fn poll_drain_as_writer(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let drained = self.poll_drain(cx);
        self.writer_waits = drained.is_pending();
        drained
    }

    /// Decrypts into `out` what is complete. Returns whether the peer must send first.
    fn decrypt(&mut self, out: &mut ReadBuf<'_>) -> Result<(), rustls::Error> {
        while out.remaining() > 0 {
            match self.session.step(Send::Nothing, out)? {
                Step::Progress | Step::Encrypted(_) => {}
                Step::PeerClosed | Step::Ready | Step::NeedsInput => break,
            }
        }
        Ok(())
    }

    /// Encrypts `send` once rustls is ready to.
    fn encrypt(&mut self, send: Send<'_>) -> io::Result<usize> {
        let mut nothing = ReadBuf::new(&mut []);
        loop {
            match self.session.step(send, &mut nothing).map_err(TlsError::from)? {
                Step::Progress | Step::PeerClosed | Step::Ready => {}
                Step::Encrypted(n) => return Ok(n),
                // Only after our own close_notify: before it, an open session can always send.
                Step::NeedsInput => return Err(io::ErrorKind::BrokenPipe.into()),
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for TlsStream<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        this.session.read_plain(buf);
        loop {
            let decrypted = this.decrypt(buf);
            // What was said before a record that is none is read first; the failure stays.
            if buf.filled().len() > before || buf.remaining() == 0 || this.session.peer_closed() {
                return Poll::Ready(Ok(()));
            }
            decrypted.map_err(TlsError::from)?;
            if !this.writer_waits {
                // Answers to the peer's key updates; a writer that waits sends them itself. Where they cannot
                // leave, what the peer said before is still read, and its end or error after that.
                let _ = this.poll_drain(cx);
            }
            if ready!(this.poll_fill(cx))? == 0 {
                return Poll::Ready(Err(truncated()));
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for TlsStream<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.closed {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        ready!(this.poll_drain_as_writer(cx))?;
        if buf.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let n = this.encrypt(Send::Data(&buf[..buf.len().min(WRITE_BYTES)]))?;
        // What does not leave now leaves before the next write.
        let _ = this.poll_drain_as_writer(cx)?;
        Poll::Ready(Ok(n))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_drain_as_writer(cx))?;
        Pin::new(&mut this.io).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.closed {
            this.closed = true;
            this.encrypt(Send::CloseNotify)?;
        }
        ready!(this.poll_drain_as_writer(cx))?;
        Pin::new(&mut this.io).poll_shutdown(cx)
    }
}

/// The stream ended without the TLS peer saying so [RFC 8446 §6.1].
fn truncated() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the peer ended without a TLS close_notify")
}

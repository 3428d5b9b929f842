//! A connection: streams that are opened and accepted.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Buf;
use h3::error::Code;
use h3::quic::{self, ConnectionErrorIncoming, StreamErrorIncoming};
use tack_net::quic as tack;

use crate::error::{of_connection, of_stream};
use crate::{BidiStream, RecvStream, SendStream};

/// Somebody waits for a stream; kept from one poll to the next, so that nobody's turn is lost.
type Waiting<T> = Option<Pin<Box<dyn Future<Output = io::Result<T>> + Send + Sync>>>;
type Both = (tack::SendStream, tack::RecvStream);

/// Goes on with what is waited for, or begins to wait.
fn poll<T, F>(
    waiting: &mut Waiting<T>,
    connection: &tack::Connection,
    begin: impl FnOnce(tack::Connection) -> F,
    cx: &mut Context<'_>,
) -> Poll<io::Result<T>>
where
    F: Future<Output = io::Result<T>> + Send + Sync + 'static,
{
    let future = waiting.get_or_insert_with(|| Box::pin(begin(connection.clone())));
    let done = ready!(future.as_mut().poll(cx));
    *waiting = None;
    Poll::Ready(done)
}

/// A connection that speaks HTTP/3: for `h3::client::new` and `h3::server::Connection::new`.
pub struct Connection {
    opener: OpenStreams,
    accepting_both: Waiting<Both>,
    accepting: Waiting<tack::RecvStream>,
}

impl Connection {
    /// Over a connection whose ends agreed on [`PROTOCOL`](crate::PROTOCOL).
    pub fn new(connection: tack::Connection) -> Connection {
        let opener = OpenStreams::new(connection);
        Connection { opener, accepting_both: None, accepting: None }
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Connection").field(&self.opener.connection).finish()
    }
}

impl<B: Buf> quic::Connection<B> for Connection {
    type RecvStream = RecvStream;
    type OpenStreams = OpenStreams;

    fn poll_accept_recv(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<RecvStream, ConnectionErrorIncoming>> {
        let begin = |connection: tack::Connection| async move { connection.accept_uni().await };
        let accepted = ready!(poll(&mut self.accepting, &self.opener.connection, begin, cx));
        Poll::Ready(accepted.map(RecvStream::new).map_err(of_connection))
    }

    fn poll_accept_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<BidiStream<B>, ConnectionErrorIncoming>> {
        let begin = |connection: tack::Connection| async move { connection.accept_bi().await };
        let accepted = ready!(poll(&mut self.accepting_both, &self.opener.connection, begin, cx));
        Poll::Ready(accepted.map(BidiStream::new).map_err(of_connection))
    }

    fn opener(&self) -> OpenStreams {
        self.opener.clone()
    }
}

impl<B: Buf> quic::OpenStreams<B> for Connection {
    type BidiStream = BidiStream<B>;
    type SendStream = SendStream<B>;

    fn poll_open_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<BidiStream<B>, StreamErrorIncoming>> {
        self.opener.poll_open_bidi(cx)
    }

    fn poll_open_send(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<SendStream<B>, StreamErrorIncoming>> {
        self.opener.poll_open_send(cx)
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        self.opener.connection.close(code.value(), reason);
    }
}

/// Opens streams on a connection.
pub struct OpenStreams {
    connection: tack::Connection,
    opening_both: Waiting<Both>,
    opening: Waiting<tack::SendStream>,
}

impl OpenStreams {
    fn new(connection: tack::Connection) -> OpenStreams {
        OpenStreams { connection, opening_both: None, opening: None }
    }
}

impl std::fmt::Debug for OpenStreams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("OpenStreams").field(&self.connection).finish()
    }
}

impl Clone for OpenStreams {
    fn clone(&self) -> OpenStreams {
        // Who waits for a stream waits alone.
        OpenStreams::new(self.connection.clone())
    }
}

impl<B: Buf> quic::OpenStreams<B> for OpenStreams {
    type BidiStream = BidiStream<B>;
    type SendStream = SendStream<B>;

    fn poll_open_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<BidiStream<B>, StreamErrorIncoming>> {
        let begin = |connection: tack::Connection| async move { connection.open_bi().await };
        let opened = ready!(poll(&mut self.opening_both, &self.connection, begin, cx));
        Poll::Ready(opened.map(BidiStream::new).map_err(of_stream))
    }

    fn poll_open_send(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<SendStream<B>, StreamErrorIncoming>> {
        let begin = |connection: tack::Connection| async move { connection.open_uni().await };
        let opened = ready!(poll(&mut self.opening, &self.connection, begin, cx));
        Poll::Ready(opened.map(SendStream::new).map_err(of_stream))
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        self.connection.close(code.value(), reason);
    }
}

//! Messages at the beginning of a connection, read without a byte of what follows.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

/// Reads one message and not a byte more: what follows is the program's.
///
/// # Errors
/// The stream broke or ended. The inner error: it is no such message.
pub async fn read_message<M, E>(
    stream: &mut (impl AsyncRead + Unpin),
    read: impl Fn(&[u8]) -> Result<Option<(M, usize)>, E>,
) -> io::Result<Result<M, E>> {
    let mut bytes = Vec::new();
    poll_fn(|cx| poll_message(cx, stream, &mut bytes, &read)).await
}

/// The same in steps. `bytes` is as long as a message at most: it is read as soon as it is whole.
pub fn poll_message<M, E>(
    cx: &mut Context<'_>,
    stream: &mut (impl AsyncRead + Unpin),
    bytes: &mut Vec<u8>,
    read: impl Fn(&[u8]) -> Result<Option<(M, usize)>, E>,
) -> Poll<io::Result<Result<M, E>>> {
    loop {
        match read(bytes) {
            Ok(Some((message, _))) => return Poll::Ready(Ok(Ok(message))),
            Ok(None) => {}
            Err(e) => return Poll::Ready(Ok(Err(e))),
        }
        let mut byte = [0];
        let mut room = ReadBuf::new(&mut byte);
        ready!(Pin::new(&mut *stream).poll_read(cx, &mut room))?;
        if room.filled().is_empty() {
            return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        bytes.push(byte[0]);
    }
}

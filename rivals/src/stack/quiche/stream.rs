//! The stream of a connection.

use std::sync::Arc;

use anyhow::Result;
use bytes::Bytes;
use quiche::Error;

use super::Connection;

/// The first that a client opens.
const ID: u64 = 0;
/// Why a connection is closed that is done.
const DONE: u64 = 0;

/// Closes its connection with it.
pub(crate) struct Stream {
    connection: Arc<Connection>,
    /// The peer's end was read.
    has_ended: bool,
}

impl Stream {
    pub(crate) async fn open(connection: Arc<Connection>) -> Result<Stream> {
        connection.until(|state| Ok(state.is_established().then_some(()))).await?;
        Ok(Stream { connection, has_ended: false })
    }

    pub(crate) async fn accept(connection: Arc<Connection>) -> Result<Stream> {
        connection.until(|state| Ok(state.stream_readable(ID).then_some(()))).await?;
        Ok(Stream { connection, has_ended: false })
    }

    pub(crate) async fn write(&mut self, mut data: Bytes) -> Result<()> {
        while !data.is_empty() {
            let write = self.connection.until(|state| {
                match state.stream_send_zc(ID, data.clone(), false) {
                    Ok((_, rest)) => Ok(Some(rest.unwrap_or_default())),
                    Err(Error::Done) => Ok(None),
                    Err(e) => Err(e.into()),
                }
            });
            data = write.await?;
        }
        Ok(())
    }

    pub(crate) fn finish(&mut self) -> Result<()> {
        self.connection.tell(|state| state.stream_send(ID, &[], true))?;
        Ok(())
    }

    /// Some bytes of what came, how many; 0 at the end. Cancel safe.
    pub(crate) async fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        if self.has_ended {
            return Ok(0);
        }
        let read = self.connection.until(|state| match state.stream_recv(ID, buffer) {
            Ok(read) => Ok(Some(read)),
            Err(Error::Done) => {
                let is_done = |e: &quiche::ConnectionError| e.is_app && e.error_code == DONE;
                Ok(state.peer_error().is_some_and(is_done).then_some((0, true)))
            }
            Err(e) => Err(e.into()),
        });
        let (n, has_ended) = read.await?;
        self.has_ended = has_ended;
        Ok(n)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // It may have been closed already.
        let _ = self.connection.tell(|state| state.close(true, DONE, b""));
    }
}

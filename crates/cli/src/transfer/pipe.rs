//! Standard input to standard output: one stream of unknown length, verified at its end.
//!
//! It travels inside what outlives a connection: see [`passage`](super::passage).

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::conn::Connection;
use crate::progress::Progress;
use crate::stop::Stop;
use crate::transfer::disk::CHUNK;
use crate::transfer::error::{Standing, TransferError};
use crate::transfer::frame::{Frame, HEADER, data_header};
use crate::transfer::plan::proves;
use crate::transfer::send::{Framed, race};
use crate::transfer::wire::{FrameReader, FrameWriter, unexpected};

/// Sends all of `input` and waits until the receiver has verified it. Returns its bytes.
///
/// # Errors
/// Whatever cut it short, `stop` too; another command cannot go on with it.
pub async fn send_stream<C: Connection>(
    conn: C,
    input: impl AsyncRead + Unpin,
    progress: &Progress,
    stop: &Stop,
) -> Result<u64, TransferError> {
    let mut framed = Framed::inside(conn);
    let mut sent = 0;
    let sending = async {
        let Framed { reader, writer } = &mut framed;
        let all_sent = AtomicBool::new(false);
        let pump = pump(writer, input, progress, (&mut sent, &all_sent));
        let confirmed = race(&all_sent, pump, confirmation(reader)).await?;
        if confirmed == sent {
            return Ok(sent);
        }
        let got = format!("DONE with {confirmed} of {sent} bytes");
        Err(TransferError::Unexpected { got, expected: "all of them" })
    };
    let result = stop.or(sending).await;
    progress.finish();
    let stopped = Err(TransferError::Stopped(Standing::Stream(sent)));
    framed.close(result.unwrap_or(stopped), stop).await
}

async fn pump(
    writer: &mut FrameWriter<impl AsyncWrite + Unpin>,
    mut input: impl AsyncRead + Unpin,
    progress: &Progress,
    (sent, all_sent): (&mut u64, &AtomicBool),
) -> Result<(), TransferError> {
    let mut buffer = Vec::with_capacity(HEADER + CHUNK);
    let mut hasher = blake3::Hasher::new();
    loop {
        buffer.clear();
        buffer.extend_from_slice(&[0; HEADER]);
        let mut chunk = (&mut input).take(CHUNK as u64);
        let read = writer.while_busy(chunk.read_buf(&mut buffer)).await;
        let n = read.map_err(TransferError::disk("read", "standard input"))?;
        if n == 0 {
            let hash = *hasher.finalize().as_bytes();
            all_sent.store(true, Relaxed);
            return writer.send(&Frame::End { hash }).await;
        }
        hasher.update(&buffer[HEADER..]);
        buffer[..HEADER].copy_from_slice(&data_header(n));
        buffer = writer.send_data(buffer).await?;
        if n < CHUNK {
            // Perhaps all there is for now: whoever waits at the other end should have it.
            writer.flush().await?;
        }
        *sent += n as u64;
        progress.advance(n as u64);
    }
}

async fn confirmation(
    reader: &mut FrameReader<impl AsyncRead + Unpin>,
) -> Result<u64, TransferError> {
    match reader.next("waiting for the receiver to confirm").await? {
        Frame::Done { files: 1, bytes } => Ok(bytes),
        other => Err(unexpected(&other, "DONE")),
    }
}

/// Receives a stream into `output`. Returns its bytes.
///
/// # Errors
/// Whatever cut it short, `stop` too. Bytes already written cannot be taken back: only `Ok` says
/// that they are all there and right.
pub async fn receive_stream<C: Connection>(
    conn: C,
    output: impl AsyncWrite + Unpin,
    progress: &Progress,
    stop: &Stop,
) -> Result<u64, TransferError> {
    let mut framed = Framed::inside(conn);
    let mut received = 0;
    let receiving = async {
        drain(&mut framed, output, progress, &mut received).await?;
        framed.writer.send(&Frame::Done { files: 1, bytes: received }).await?;
        Ok(received)
    };
    let result = stop.or(receiving).await;
    progress.finish();
    let stopped = Err(TransferError::Stopped(Standing::Stream(received)));
    framed.close(result.unwrap_or(stopped), stop).await
}

async fn drain<C: Connection>(
    framed: &mut Framed<C>,
    mut output: impl AsyncWrite + Unpin,
    progress: &Progress,
    received: &mut u64,
) -> Result<(), TransferError> {
    let mut hasher = blake3::Hasher::new();
    loop {
        // Whoever pipes may have nothing to say for hours, and waits for our word all the time.
        let next = framed.reader.next("receiving the stream");
        match framed.writer.while_busy(next).await? {
            Frame::Data(bytes) => {
                hasher.update(&bytes);
                *received += bytes.len() as u64;
                let writing = async {
                    output.write_all(&bytes).await?;
                    // Perhaps all there is for now.
                    if bytes.len() < CHUNK { output.flush().await } else { Ok(()) }
                };
                let written = framed.writer.while_busy(writing).await;
                written.map_err(TransferError::disk("write", "standard output"))?;
                progress.advance(bytes.len() as u64);
                framed.reader.recycle(bytes);
            }
            Frame::End { hash } => {
                let flushed = framed.writer.while_busy(output.flush()).await;
                flushed.map_err(TransferError::disk("write", "standard output"))?;
                if proves(&hasher, &hash) {
                    return Ok(());
                }
                return Err(TransferError::Damaged("the stream".to_owned()));
            }
            other => return Err(unexpected(&other, "DATA or END")),
        }
    }
}

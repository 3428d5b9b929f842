//! What server and client say to each other, the same over every stack: a request of 24 bytes (what,
//! and two numbers), and the answer.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use serde_json::json;
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep_until};

use crate::Ask;
use crate::messages::exchange;
use crate::stack::{Dialer, Listener};
use crate::stream::Stream;

/// What an application writes and reads at a time.
const CHUNK_BYTES: usize = 256 << 10;
/// Largest message, so that no peer makes a server hold more.
const MAX_MESSAGE_BYTES: u64 = 64 << 10;
/// A paced application writes so often.
const TICK: Duration = Duration::from_millis(5);

/// What a client asks of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    /// So many bytes, at so many bit/s unless that is 0.
    File { bytes: u64, bps: u64 },
    /// Every message of so many bytes back.
    Echo { bytes: u64 },
}

impl Request {
    const LEN: usize = 24;

    fn encode(self) -> Bytes {
        let words = match self {
            Request::File { bytes, bps } => [0, bytes, bps],
            Request::Echo { bytes } => [1, bytes, 0],
        };
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    fn decode(bytes: &[u8; Request::LEN]) -> Result<Request> {
        let word = |i: usize| {
            let word = bytes[i * 8..][..8].try_into().expect("eight bytes of twenty-four");
            u64::from_be_bytes(word)
        };
        match word(0) {
            0 => Ok(Request::File { bytes: word(1), bps: word(2) }),
            1 if (1..=MAX_MESSAGE_BYTES).contains(&word(1)) => Ok(Request::Echo { bytes: word(1) }),
            _ => bail!("no such request"),
        }
    }
}

/// Serves every connection until ended.
pub(crate) async fn serve(listener: Listener) -> Result<()> {
    let tasks = LocalSet::new();
    tasks
        .run_until(async {
            loop {
                let connection = listener.accept().await?;
                tokio::task::spawn_local(async move {
                    let served = async { answer(connection.stream().await?).await };
                    if let Err(e) = served.await {
                        eprintln!("a connection ended: {e:#}");
                    }
                });
            }
        })
        .await
}

async fn answer(mut stream: Stream) -> Result<()> {
    let mut request = [0; Request::LEN];
    ensure!(stream.fill(&mut request).await?, "no request came");
    match Request::decode(&request)? {
        Request::File { bytes, bps } => {
            send(&mut stream, bytes, bps).await?;
            stream.finish().await?;
            // The client closes once it has everything.
            let mut rest = [0; 1];
            stream.fill(&mut rest).await.map(|_| ())
        }
        Request::Echo { bytes } => {
            let mut message = vec![0; bytes as usize];
            while stream.fill(&mut message).await? {
                stream.write(Bytes::copy_from_slice(&message)).await?;
                stream.flush().await?;
            }
            stream.finish().await
        }
    }
}

async fn send(stream: &mut Stream, bytes: u64, bps: u64) -> Result<()> {
    let chunk = Bytes::from(vec![0x5a; CHUNK_BYTES]);
    let start = Instant::now();
    let mut sent = 0;
    while sent < bytes {
        let mut most = bytes - sent;
        if bps > 0 {
            // Once per tick: whoever writes what is due at every moment writes a few bytes at a time, without rest.
            sleep_until(Instant::now() + TICK).await;
            let due = (start.elapsed().as_secs_f64() * bps as f64 / 8.0) as u64;
            if due <= sent {
                continue;
            }
            most = most.min(due - sent);
        }
        let n = most.min(CHUNK_BYTES as u64) as usize;
        stream.write(chunk.slice(..n)).await?;
        if bps > 0 {
            stream.flush().await?;
        }
        sent += n as u64;
    }
    stream.flush().await
}

/// Asks for what `ask` says and prints what came.
pub(crate) async fn ask(dialer: Dialer, ask: &Ask) -> Result<()> {
    let start = Instant::now();
    let tasks = LocalSet::new();
    let (received, seconds, latencies) = tasks
        .run_until(async {
            let dialer = Rc::new(dialer);
            let mut files = Vec::new();
            for _ in 0..ask.connections {
                let (dialer, bytes, bps) = (dialer.clone(), ask.bytes, (ask.mbps * 1e6) as u64);
                files.push(tokio::task::spawn_local(async move {
                    receive(dialer.connect().await?, Request::File { bytes, bps }).await
                }));
            }
            let ended = Rc::new(Cell::new(None));
            let messages = (ask.message_bytes > 0).then(|| {
                let (dialer, ask, ended) = (dialer.clone(), ask.clone(), ended.clone());
                tokio::task::spawn_local(async move { messages(&dialer, &ask, &ended).await })
            });
            let mut received = 0;
            for file in files {
                received += file.await??;
            }
            let seconds = start.elapsed().as_secs_f64();
            ended.set(Some(Instant::now()));
            let latencies = match messages {
                Some(task) => Some(task.await??),
                None => None,
            };
            anyhow::Ok((received, seconds, latencies))
        })
        .await?;
    let mut said = json!({ "bytes": received, "seconds": seconds });
    if let Some(mut latencies) = latencies {
        latencies.sort_by(f64::total_cmp);
        said["messages"] = latencies.len().into();
        said["p50_ms"] = quantile(&latencies, 0.5).context("no message came back")?.into();
        said["p99_ms"] = quantile(&latencies, 0.99).context("no message came back")?.into();
    }
    println!("{said}");
    Ok(())
}

/// Exchanges messages on a connection of their own until the files have `ended`: latencies, ms.
async fn messages(dialer: &Dialer, ask: &Ask, ended: &Cell<Option<Instant>>) -> Result<Vec<f64>> {
    let mut stream = dialer.connect().await?;
    stream.write(Request::Echo { bytes: ask.message_bytes }.encode()).await?;
    let every = Duration::from_secs_f64(ask.every_ms / 1e3);
    let bytes = usize::try_from(ask.message_bytes)?;
    ensure!(bytes > 0 && !every.is_zero(), "messages have a length and a time between them");
    exchange(stream, bytes, every, ended).await
}

/// What the share `q` of sorted values does not exceed.
fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let rank = (sorted.len() as f64 * q).ceil().max(1.0) as usize;
    sorted.get(rank - 1).copied()
}

async fn receive(mut stream: Stream, request: Request) -> Result<u64> {
    let Request::File { bytes, .. } = request else { bail!("messages are no file") };
    stream.write(request.encode()).await?;
    stream.flush().await?;
    let mut scratch = vec![0; CHUNK_BYTES];
    let mut received = 0;
    while received < bytes {
        match stream.skip(&mut scratch).await? {
            0 => bail!("{received} of {bytes} bytes came"),
            n => received += n as u64,
        }
    }
    stream.finish().await?;
    Ok(received)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_read_back_is_the_request() {
        for request in [Request::File { bytes: 7, bps: 9 }, Request::Echo { bytes: 100 }] {
            let bytes: [u8; Request::LEN] = request.encode()[..].try_into().unwrap();
            assert_eq!(Request::decode(&bytes).unwrap(), request);
        }
        let too_long = Request::Echo { bytes: MAX_MESSAGE_BYTES + 1 }.encode();
        assert!(Request::decode(&too_long[..].try_into().unwrap()).is_err());
        assert!(Request::decode(&[9; Request::LEN]).is_err());
    }

    #[test]
    fn quantiles_are_values_that_were_seen() {
        let values = [1.0, 2.0, 3.0, 4.0];
        assert_eq!((quantile(&values, 0.5), quantile(&values, 0.99)), (Some(2.0), Some(4.0)));
        assert_eq!(quantile(&[], 0.5), None);
    }
}

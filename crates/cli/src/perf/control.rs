//! The control connection: bounded JSON messages, and how a connection says what it is.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use crate::conn::{Connection, Flow};
use crate::perf::PerfError;
use crate::perf::cpu::CpuUse;
use crate::perf::params::TestParams;

/// What every connection opens with.
const PREFACE: [u8; 8] = *b"tackperf";

/// Longest message: the results of 256 streams fit many times.
const MAX_MESSAGE: usize = 1 << 20;

/// Bytes of a message's length.
const LENGTH_BYTES: usize = size_of::<u32>();

/// Time for an answer that needs no measuring.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(15);

/// Names a test; only who was told it may open its streams.
pub type Cookie = [u8; 16];

/// What one side says to the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Message {
    /// The client asks for a test.
    Open {
        /// Which.
        params: TestParams,
    },
    /// The server agrees.
    Accepted {
        /// For the streams.
        cookie: Cookie,
    },
    /// The server declines.
    Refused {
        /// Why, for people.
        reason: String,
    },
    /// All streams are here: go.
    Start,
    /// The client has measured enough, or the user of either side has.
    End {
        /// Whether it is before the test's time.
        #[serde(default)]
        interrupted: bool,
    },
    /// What one side counted.
    Results {
        /// Everything.
        results: Results,
    },
    /// What the server shows of the test, for a client that asked for it.
    Output {
        /// All of it.
        output: Output,
    },
}

/// What a side shows of a test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Output {
    /// Lines.
    Text(String),
    /// A document.
    Json(serde_json::Value),
}

impl Output {
    /// Whether it fits a message.
    pub fn fits(&self) -> bool {
        serde_json::to_vec(self).is_ok_and(|bytes| bytes.len() < MAX_MESSAGE / 2)
    }
}

/// What one side counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// Each stream, in order.
    pub streams: Vec<StreamResult>,
    /// Processor time in per cent of one core.
    pub cpu: CpuUse,
}

/// What one side counted on one stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamResult {
    /// Payload bytes.
    pub bytes: u64,
    /// Over how long.
    pub seconds: f64,
    /// The transport's counters.
    pub flow: Option<Flow>,
}

/// What a new connection is.
#[derive(Debug)]
pub enum Opening<C> {
    /// A client that wants a test.
    Control(C),
    /// A stream of a test.
    Stream {
        /// The connection.
        conn: C,
        /// Which test.
        cookie: Cookie,
        /// Which of its streams.
        number: u16,
    },
}

/// Says that `conn` is a control connection.
pub async fn open_control(conn: &mut impl Connection) -> Result<(), PerfError> {
    let opening = [&PREFACE[..], &[0]].concat();
    write(conn, &opening).await
}

/// Says that `conn` is stream `number` of the test called `cookie`.
pub async fn open_stream(
    conn: &mut impl Connection,
    cookie: &Cookie,
    number: u16,
) -> Result<(), PerfError> {
    let opening = [&PREFACE[..], &[1], cookie, &number.to_be_bytes()].concat();
    write(conn, &opening).await
}

/// Reads what a new connection says it is.
pub async fn read_opening<C: Connection>(mut conn: C) -> Result<Opening<C>, PerfError> {
    let read = async {
        let mut head = [0; 9];
        conn.read_exact(&mut head).await?;
        let mut rest = [0; 18];
        if head[8] == 1 {
            conn.read_exact(&mut rest).await?;
        }
        Ok((head, rest))
    };
    let (head, rest) = answered(read).await?;
    match (head[..8] == PREFACE, head[8]) {
        (true, 0) => Ok(Opening::Control(conn)),
        (true, 1) => {
            let (cookie, number) = rest.split_at(16);
            Ok(Opening::Stream {
                conn,
                cookie: cookie.try_into().expect("split at 16"),
                number: u16::from_be_bytes(number.try_into().expect("18 less 16 are 2")),
            })
        }
        _ => Err(PerfError::Protocol("it opens with something else")),
    }
}

/// Sends a message.
pub async fn send(to: &mut (impl AsyncWrite + Unpin), message: &Message) -> Result<(), PerfError> {
    let body = serde_json::to_vec(message).expect("messages have no maps with odd keys");
    let length = u32::try_from(body.len()).expect("a message is bounded by its streams");
    write(to, &[&length.to_be_bytes()[..], &body].concat()).await
}

async fn write(to: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> Result<(), PerfError> {
    answered(async {
        to.write_all(bytes).await?;
        to.flush().await
    })
    .await
}

/// Reads messages. Its methods may be dropped at any point and called again without losing bytes.
pub struct Inbox<R> {
    from: R,
    /// What has arrived of the message under way, its length included.
    have: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Inbox<R> {
    /// What comes from there.
    pub fn new(from: R) -> Self {
        Self { from, have: Vec::new() }
    }

    /// The next message, however long it takes.
    pub async fn next(&mut self) -> Result<Message, PerfError> {
        loop {
            let missing = match self.have.split_first_chunk() {
                None => LENGTH_BYTES - self.have.len(),
                Some((length, body)) => match u32::from_be_bytes(*length) as usize {
                    length if length > MAX_MESSAGE => {
                        return Err(PerfError::Protocol("a message is too long"));
                    }
                    length if length == body.len() => break,
                    length => length - body.len(),
                },
            };
            // What arrives is what is allocated for, not what was announced.
            let mut rest = (&mut self.from).take(missing as u64);
            let read = rest.read_buf(&mut self.have).await;
            let lost = PerfError::connection("the control connection ended");
            match read {
                Ok(0) if self.have.len() > LENGTH_BYTES => {
                    return Err(PerfError::Protocol("a message ends early"));
                }
                Ok(0) => return Err(lost(std::io::ErrorKind::UnexpectedEof.into())),
                Ok(_) => {}
                Err(e) => return Err(lost(e)),
            }
        }
        let message = std::mem::take(&mut self.have);
        serde_json::from_slice(&message[LENGTH_BYTES..])
            .map_err(|_| PerfError::Protocol("a message makes no sense"))
    }

    /// A message that is due now.
    pub async fn soon(&mut self) -> Result<Message, PerfError> {
        match timeout(ANSWER_LIMIT, self.next()).await {
            Ok(message) => message,
            Err(_) => Err(PerfError::Stalled(ANSWER_LIMIT.as_secs())),
        }
    }

    /// Waits until the peer closes, or says what it need not.
    pub async fn closed(&mut self) {
        let _ = self.from.read(&mut [0; 64]).await;
    }
}

async fn answered<T>(work: impl Future<Output = std::io::Result<T>>) -> Result<T, PerfError> {
    match timeout(ANSWER_LIMIT, work).await {
        Ok(done) => done.map_err(PerfError::connection("the control connection broke")),
        Err(_) => Err(PerfError::Stalled(ANSWER_LIMIT.as_secs())),
    }
}

//! Small messages there and back beside a file, and how long each took.
//!
//! They leave by a timetable, whatever has come back: whoever sends the next one only after an answer sends
//! fewer while it is slow, and so forgets just the delays that were asked for (coordinated omission). A
//! message's latency counts from when it was due, and one that never came back has waited until the end.

use std::cell::Cell;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use bytes::Bytes;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::stream::Stream;

/// How long messages are waited for that are under way when the file has arrived.
const PATIENCE: Duration = Duration::from_secs(5);

/// When messages are due, and which are back.
#[derive(Debug)]
struct Timetable {
    start: Instant,
    every: Duration,
    sent: u32,
    /// Milliseconds of each that is back.
    latencies_ms: Vec<f64>,
}

impl Timetable {
    fn new(start: Instant, every: Duration) -> Timetable {
        Timetable { start, every, sent: 0, latencies_ms: Vec::new() }
    }

    fn due(&self, number: u32) -> Instant {
        self.start + self.every * number
    }

    /// Of messages of which `whole` are back by `now`.
    fn came(&mut self, whole: u64, now: Instant) {
        for number in self.latencies_ms.len() as u64..whole.min(self.sent.into()) {
            self.latencies_ms.push(self.waited_ms(number as u32, now));
        }
    }

    fn is_all_back(&self) -> bool {
        self.latencies_ms.len() as u64 >= u64::from(self.sent)
    }

    /// All that were due by `end`: those that are not back by `now` have waited so long at least.
    fn finish(mut self, end: Instant, now: Instant) -> Vec<f64> {
        let mut number = self.latencies_ms.len() as u32;
        while self.due(number) < end {
            self.latencies_ms.push(self.waited_ms(number, now));
            number += 1;
        }
        self.latencies_ms
    }

    fn waited_ms(&self, number: u32, now: Instant) -> f64 {
        now.saturating_duration_since(self.due(number)).as_secs_f64() * 1e3
    }
}

/// Exchanges messages of `bytes` each every so often until `end` says when it was over, and waits for those
/// that are under way. Milliseconds of every message that was due.
///
/// # Errors
/// What ended it before `end`: those that would have been due later, and slow, are not known.
pub(crate) async fn exchange(
    mut stream: Stream,
    bytes: usize,
    every: Duration,
    end: &Cell<Option<Instant>>,
) -> Result<Vec<f64>> {
    let message = Bytes::from(vec![0x61; bytes]);
    let mut answers = vec![0; bytes.max(4_096)];
    let (mut table, mut came) = (Timetable::new(Instant::now(), every), 0_u64);
    let ended = loop {
        let due = table.due(table.sent);
        if end.get().is_some_and(|end| end <= due) {
            break rest(&mut stream, &mut answers, &mut table, came, bytes).await;
        }
        tokio::select! {
            () = sleep_until(due) => {
                if let Err(e) = send(&mut stream, &message).await {
                    break Err(e);
                }
                table.sent += 1;
            }
            n = stream.read(&mut answers) => match n {
                Ok(0) => break Err(anyhow!("the server ended it")),
                Ok(n) => {
                    came += n as u64;
                    table.came(came / bytes as u64, Instant::now());
                }
                Err(e) => break Err(e),
            },
        }
    };
    let now = Instant::now();
    let end = end.get().filter(|end| *end <= table.due(table.sent));
    match (ended, end) {
        (Err(e), None) => Err(e.context("the messages ended before the file")),
        (ended, end) => {
            // Who did not come back by then has waited so long.
            if let Err(e) = ended {
                eprintln!("messages: {e:#}");
            }
            Ok(table.finish(end.unwrap_or(now), now))
        }
    }
}

async fn send(stream: &mut Stream, message: &Bytes) -> Result<()> {
    stream.write(message.clone()).await?;
    stream.flush().await
}

/// Waits for what is under way.
async fn rest(
    stream: &mut Stream,
    answers: &mut [u8],
    table: &mut Timetable,
    mut came: u64,
    bytes: usize,
) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    while !table.is_all_back() {
        match timeout_at(until, stream.read(answers)).await {
            Err(_) => return Ok(()),
            Ok(Ok(0)) => bail!("the server ended it"),
            Ok(n) => came += n? as u64,
        }
        table.came(came / bytes as u64, Instant::now());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    const EVERY: Duration = Duration::from_millis(10);

    #[test]
    fn a_latency_counts_from_when_its_message_was_due() {
        let start = Instant::now();
        let mut table = Timetable::new(start, EVERY);
        table.sent = 5;
        // Nothing comes for 100 ms, then all at once: each has waited, not only the first.
        table.came(5, start + Duration::from_millis(100));
        assert_eq!(table.latencies_ms, [100.0, 90.0, 80.0, 70.0, 60.0]);
        assert!(table.is_all_back());
        // Bytes of messages that were never sent are no answers.
        table.came(9, start + Duration::from_millis(200));
        assert_eq!(table.latencies_ms.len(), 5);
    }

    #[test]
    fn what_was_due_and_never_came_back_has_waited_until_the_end() {
        let start = Instant::now();
        let mut table = Timetable::new(start, EVERY);
        table.sent = 2;
        table.came(1, start + Duration::from_millis(3));
        let (end, now) = (start + Duration::from_millis(35), start + Duration::from_millis(50));
        assert_eq!(table.finish(end, now), [3.0, 40.0, 30.0, 20.0]);
    }

    #[tokio::test]
    async fn while_a_server_stands_still_messages_go_on_leaving_and_waiting() {
        const STILL: Duration = Duration::from_millis(300);
        let (near, mut far) = duplex(64 << 10);
        let server = async {
            tokio::time::sleep(STILL).await;
            let mut bytes = [0; 100];
            while far.read_exact(&mut bytes).await.is_ok() {
                far.write_all(&bytes).await.unwrap();
            }
        };
        let end = Cell::new(Some(Instant::now() + STILL * 2));
        let client = exchange(Stream::plain(near), 100, EVERY, &end);
        let (_, latencies) = tokio::join!(server, client);
        let latencies = latencies.unwrap();
        // A client that waits for each answer would have one slow message here, not 15 and more.
        let slow = latencies.iter().filter(|ms| **ms > 100.0).count();
        assert!(slow >= 15, "{latencies:?}");
        assert_eq!(latencies.len(), 60);
    }

    #[tokio::test]
    async fn messages_that_end_before_the_file_have_no_latency() {
        let (near, mut far) = duplex(64 << 10);
        let server = async {
            let mut bytes = [0; 100];
            far.read_exact(&mut bytes).await.unwrap();
            far.write_all(&bytes).await.unwrap();
            drop(far);
        };
        let end = Cell::new(None);
        let (_, ended) = tokio::join!(server, exchange(Stream::plain(near), 100, EVERY, &end));
        assert!(format!("{:#}", ended.unwrap_err()).contains("ended before the file"));
    }
}

//! Asking for counters: HTTP, and Prometheus' text format 0.0.4.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use tack_net::HostPort;

/// Time to be answered.
const LIMIT: Duration = Duration::from_secs(2);
/// Longest answer that is read.
const MAX_BYTES: u64 = 1 << 20;

/// Counters and measures at one moment, by name and labels: `tack_bytes_total{direction="sent"}`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample(BTreeMap<String, f64>);

/// No counters there.
#[derive(Debug, thiserror::Error)]
pub enum ScrapeError {
    /// Nobody answers.
    #[error("no answer: {0}")]
    Io(#[from] io::Error),
    /// Somebody else answers.
    #[error("it answers, but not with metrics of tack")]
    NotMetrics,
}

/// Asks for counters.
///
/// # Errors
/// None are there.
pub async fn scrape(from: &HostPort) -> Result<Sample, ScrapeError> {
    let asking = async {
        let mut stream = TcpStream::connect((from.name.as_str(), from.port)).await?;
        let head = format!("GET /metrics HTTP/1.1\r\nHost: {from}\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.take(MAX_BYTES).read_to_end(&mut answer).await?;
        Ok(answer)
    };
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    let answer: io::Result<Vec<u8>> = timeout(LIMIT, asking).await.map_err(late)?;
    let answer = String::from_utf8(answer?).map_err(|_| ScrapeError::NotMetrics)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or(ScrapeError::NotMetrics)?;
    let sample = Sample::read(body);
    match head.starts_with("HTTP/1.1 200 ") && !sample.0.is_empty() {
        true => Ok(sample),
        false => Err(ScrapeError::NotMetrics),
    }
}

impl Sample {
    /// What is ours in such a text. Lines of others, and those that make no sense, are passed over.
    pub fn read(text: &str) -> Sample {
        let lines = text.lines().filter(|line| line.starts_with("tack_"));
        let pairs = lines.filter_map(|line| line.rsplit_once(' '));
        let finite = |(name, value): (&str, &str)| {
            let value = value.parse::<f64>().ok().filter(|value| value.is_finite())?;
            Some((name.trim_end().to_owned(), value))
        };
        Sample(pairs.filter_map(finite).collect())
    }

    /// The value called `name`, with `labels` as they are written; 0 if there is none.
    pub fn value(&self, name: &str, labels: &str) -> f64 {
        let key = if labels.is_empty() { name.to_owned() } else { format!("{name}{{{labels}}}") };
        self.0.get(&key).copied().unwrap_or(0.0)
    }

    /// Packets so far of one direction, by kind.
    pub fn packets(&self, direction: &str) -> BTreeMap<&str, f64> {
        let prefix = format!("tack_packets_total{{direction=\"{direction}\",kind=\"");
        let found = self.0.iter().filter_map(|(key, value)| {
            Some((key.strip_prefix(prefix.as_str())?.strip_suffix("\"}")?, *value))
        });
        found.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_name_and_labels_and_noise_is_passed_over() {
        let sample = Sample::read(
            "# HELP tack_x x\ntack_packets_total{direction=\"sent\",kind=\"tack\"} 7\n\
             tack_packets_total{direction=\"sent\",kind=\"data\"} 9\n\
             tack_packets_total{direction=\"received\",kind=\"data\"} 1\n\
             tack_in_flight_bytes 12.5\nother 3\ntack_bad nan\ntack_worse\n\n",
        );
        assert_eq!(sample.value("tack_in_flight_bytes", ""), 12.5);
        assert_eq!(sample.value("tack_bad", ""), 0.0);
        assert_eq!(sample.packets("sent"), BTreeMap::from([("data", 9.0), ("tack", 7.0)]));
        assert_eq!(sample.packets("received"), BTreeMap::from([("data", 1.0)]));
        assert_eq!(sample.0.len(), 4);
    }

    #[test]
    fn any_text_is_read_without_a_panic() {
        for text in ["", "tack_", "tack_ ", "tack_packets_total{direction=\"sent\",kind=\" 1", "\0"]
        {
            let sample = Sample::read(text);
            let _ = sample.packets("sent");
        }
    }
}

//! What is shown of each endpoint: rates from two samples in a row, and how they went.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tack_units::Instant;

use super::scrape::{Sample, ScrapeError};

/// Rates that are remembered for the curve.
const HISTORY: usize = 120;

/// The directions as metrics name them.
pub const DIRECTIONS: [&str; 2] = ["sent", "received"];

/// Kinds of packets in the order in which they are shown, as metrics name them; `ack` is QUIC's plain one.
pub const KINDS: [&str; 11] = [
    "data",
    "control",
    "ack",
    "tack",
    "loss_iack",
    "window_iack",
    "frequency_iack",
    "rtt_iack",
    "ce_iack",
    "unknown_ack",
    "unreadable",
];

/// All endpoints that are looked at.
#[derive(Debug)]
pub struct State {
    /// Each, in the order of the command line.
    pub endpoints: Vec<Endpoint>,
    /// Which of them is shown in full.
    pub selected: usize,
    /// Nothing new is asked for.
    pub paused: bool,
}

/// One endpoint.
#[derive(Debug)]
pub struct Endpoint {
    /// Where it is asked.
    pub name: String,
    /// Why there is nothing new.
    pub trouble: Option<String>,
    last: Option<(Instant, Sample)>,
    now: Option<Reading>,
    history: [VecDeque<u64>; 2],
}

/// What an endpoint does, between the last two answers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// Bits per second, sent and received.
    pub bits_per_second: [f64; 2],
    /// Packets per second by kind, sent and received.
    pub packets_per_second: [BTreeMap<String, f64>; 2],
    /// Connections that speak TACK, and plain ones.
    pub connections: [f64; 2],
    /// The greatest smoothed round-trip time, and the greatest of the least ones, in seconds.
    pub rtt_seconds: [f64; 2],
    /// Bytes in flight, written and not acknowledged, received and not read, and held as buffers.
    pub bytes: [f64; 4],
    /// Shares of the time that senders waited for the application, the peer's window, and the
    /// congestion window or pacer; of all connections.
    pub limited: [f64; 3],
    /// Times a socket was full, datagrams that the kernel refused and segments sent again, per second.
    pub trouble_per_second: [f64; 3],
}

impl Reading {
    /// Acknowledgments of all kinds per second, sent or received. Plain TCP's go with data and
    /// cannot be told from it; those that go alone count as control.
    pub fn acks_per_second(&self, direction: usize) -> f64 {
        let kinds = &self.packets_per_second[direction];
        kinds.iter().filter(|(kind, _)| kind.ends_with("ack")).map(|(_, rate)| rate).sum()
    }

    /// What queues add to the round trip, in seconds.
    pub fn queue_seconds(&self) -> f64 {
        (self.rtt_seconds[0] - self.rtt_seconds[1]).max(0.0)
    }

    fn between(old: &Sample, new: &Sample, over: Duration) -> Reading {
        let seconds = over.as_secs_f64().max(1e-3);
        // A counter that fell is of a process that was started anew.
        let rate = |name: &str, labels: &str| {
            (new.value(name, labels) - old.value(name, labels)).max(0.0) / seconds
        };
        let packets = |direction: &str| {
            let before = old.packets(direction);
            let one = |(kind, count): (&str, f64)| {
                let earlier = before.get(kind).copied().unwrap_or(0.0);
                (kind.to_owned(), (count - earlier).max(0.0) / seconds)
            };
            new.packets(direction).into_iter().map(one).collect()
        };
        let direction = |name: &str| format!("direction=\"{name}\"");
        let connections =
            ["tack", "plain"].map(|m| new.value("tack_connections", &format!("mode=\"{m}\"")));
        let limited = ["application", "peer", "congestion"].map(|by| {
            let per_second = rate("tack_limited_seconds", &format!("by=\"{by}\""));
            (per_second / connections.iter().sum::<f64>().max(1.0)).min(1.0)
        });
        Reading {
            bits_per_second: DIRECTIONS.map(|d| 8.0 * rate("tack_bytes_total", &direction(d))),
            packets_per_second: DIRECTIONS.map(packets),
            connections,
            rtt_seconds: ["tack_rtt_seconds_max", "tack_rtt_min_seconds_max"]
                .map(|name| new.value(name, "")),
            bytes: ["in_flight", "send_buffered", "recv_buffered", "buffer_memory"]
                .map(|name| new.value(&format!("tack_{name}_bytes"), "")),
            limited,
            trouble_per_second: ["sends_blocked", "datagrams_refused", "open_retransmissions"]
                .map(|name| rate(&format!("tack_{name}"), "")),
        }
    }
}

impl State {
    /// Endpoints that were not asked yet.
    pub fn new(names: impl IntoIterator<Item = String>) -> State {
        let endpoint = |name| Endpoint {
            name,
            trouble: None,
            last: None,
            now: None,
            history: Default::default(),
        };
        let endpoints = names.into_iter().map(endpoint).collect();
        State { endpoints, selected: 0, paused: false }
    }

    /// Shows the endpoint `by` places further down.
    pub fn select(&mut self, by: isize) {
        let count = isize::try_from(self.endpoints.len()).unwrap_or(1).max(1);
        let at = isize::try_from(self.selected).unwrap_or(0) + by;
        self.selected = usize::try_from(at.rem_euclid(count)).unwrap_or(0);
    }
}

impl Endpoint {
    /// An answer, or none.
    pub fn answered(&mut self, answer: Result<Sample, ScrapeError>, at: Instant) {
        match answer {
            Err(error) => {
                self.trouble = Some(error.to_string());
                // What it did before says nothing about what it does when it is back.
                (self.last, self.now) = (None, None);
            }
            Ok(sample) => {
                self.trouble = None;
                if let Some((then, last)) = &self.last {
                    let reading = Reading::between(last, &sample, at - *then);
                    for (past, bits) in self.history.iter_mut().zip(reading.bits_per_second) {
                        past.push_back(bits as u64);
                        if past.len() > HISTORY {
                            past.pop_front();
                        }
                    }
                    self.now = Some(reading);
                }
                self.last = Some((at, sample));
            }
        }
    }

    /// What it does; `None` before two answers in a row.
    pub fn reading(&self) -> Option<&Reading> {
        self.now.as_ref()
    }

    /// Bits per second of one direction, the latest last.
    pub fn history(&self, direction: usize) -> Vec<u64> {
        self.history[direction].iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn sample(text: &str) -> Result<Sample, ScrapeError> {
        Ok(Sample::read(text))
    }

    fn gone() -> Result<Sample, ScrapeError> {
        Err(ScrapeError::NotMetrics)
    }

    #[test]
    fn rates_are_between_two_answers() {
        let mut state = State::new(["a".to_owned()]);
        let endpoint = &mut state.endpoints[0];
        let text = |bytes: u64, tacks: u64, waited: f64| {
            format!(
                "tack_bytes_total{{direction=\"sent\"}} {bytes}\n\
                 tack_packets_total{{direction=\"received\",kind=\"tack\"}} {tacks}\n\
                 tack_packets_total{{direction=\"received\",kind=\"data\"}} {tacks}\n\
                 tack_limited_seconds{{by=\"peer\"}} {waited}\n\
                 tack_connections{{mode=\"tack\"}} 1\ntack_rtt_seconds_max 0.08\n\
                 tack_rtt_min_seconds_max 0.05\n"
            )
        };
        endpoint.answered(sample(&text(1_000, 10, 1.0)), at(1));
        assert_eq!(endpoint.reading(), None);
        endpoint.answered(sample(&text(3_000, 50, 2.0)), at(3));
        let reading = endpoint.reading().unwrap();
        assert_eq!(reading.bits_per_second, [8_000.0, 0.0]);
        assert_eq!((reading.acks_per_second(0), reading.acks_per_second(1)), (0.0, 20.0));
        assert_eq!(reading.limited, [0.0, 0.5, 0.0]);
        assert!((reading.queue_seconds() - 0.03).abs() < 1e-9);
        assert_eq!(endpoint.history(0), [8_000]);
    }

    #[test]
    fn a_process_started_anew_has_no_negative_rate_and_one_that_is_gone_none() {
        let mut state = State::new(["a".to_owned()]);
        let endpoint = &mut state.endpoints[0];
        endpoint.answered(sample("tack_bytes_total{direction=\"sent\"} 1000\n"), at(1));
        endpoint.answered(sample("tack_bytes_total{direction=\"sent\"} 10\n"), at(2));
        assert_eq!(endpoint.reading().unwrap().bits_per_second[0], 0.0);
        endpoint.answered(gone(), at(3));
        assert!(endpoint.reading().is_none() && endpoint.trouble.is_some());
        endpoint.answered(sample("tack_x 1\n"), at(4));
        assert!(endpoint.trouble.is_none() && endpoint.reading().is_none());
    }

    #[test]
    fn the_curve_is_bounded_and_selection_goes_round() {
        let mut state = State::new(["a".to_owned(), "b".to_owned()]);
        for second in 0..500 {
            state.endpoints[0].answered(sample("tack_x 1\n"), at(second));
        }
        assert_eq!(state.endpoints[0].history(0).len(), HISTORY);
        state.select(1);
        assert_eq!(state.selected, 1);
        state.select(1);
        assert_eq!(state.selected, 0);
        state.select(-1);
        assert_eq!(state.selected, 1);
    }
}

//! What rivals are asked for, read from a scenario's flows.

use std::fmt;

use serde::Deserialize;

use crate::scenario::{App, Direction, Problem, Scenario};

/// A workload, by what a rival's file calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Load {
    /// One file over one connection.
    File,
    /// An application that has so many Mbit/s to send.
    Paced,
    /// A file over each of many connections.
    Many,
    /// Small messages there and back beside a file.
    Latency,
}

/// With its numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Asked {
    /// Which.
    pub load: Load,
    /// Of each connection's file; of a paced one all it has to send.
    pub bytes: u64,
    /// Connections that carry files.
    pub connections: u32,
    /// What a paced application sends, Mbit/s.
    pub mbps: f64,
    /// Bytes of a message, and of its answer.
    pub message_bytes: u64,
    /// From a message to the next, milliseconds.
    pub every_ms: f64,
}

impl Load {
    /// As in files.
    pub const NAMES: [&str; 4] = ["file", "paced", "many", "latency"];
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Load::NAMES[*self as usize])
    }
}

impl Asked {
    /// What a scenario's flows ask of a rival: a file, `count` of them, a constant rate, or a file
    /// and request-response beside it.
    ///
    /// # Errors
    /// The dotted key, and what is wrong with it.
    pub(crate) fn of(scenario: &Scenario) -> Result<Asked, Problem> {
        let usual = Asked {
            load: Load::File,
            bytes: 0,
            connections: 1,
            mbps: 0.0,
            message_bytes: 0,
            every_ms: 0.0,
        };
        for (i, flow) in scenario.flow.iter().enumerate() {
            if flow.direction == Direction::Up {
                let what = "must be down: rivals' servers send";
                return Err(Problem::new(format!("flow.{i}.direction"), what));
            }
        }
        let count = scenario.flow[0].count;
        match scenario.flow.iter().map(|flow| flow.app.clone()).collect::<Vec<_>>()[..] {
            [App::File { bytes }] if count == 1 => Ok(Asked { bytes, ..usual }),
            [App::File { bytes }] => {
                Ok(Asked { load: Load::Many, bytes, connections: count, ..usual })
            }
            [App::Cbr { mbps }] if count == 1 => {
                // What is left of the duration is for connecting, and for what is under way.
                let seconds = scenario.duration_s - scenario.warmup_s;
                let bytes = (mbps * 1e6 / 8.0 * seconds) as u64;
                Ok(Asked { load: Load::Paced, bytes, mbps, ..usual })
            }
            [
                App::File { bytes },
                App::RequestResponse { request_bytes, response_bytes, think_ms },
            ] if count == 1 && request_bytes == response_bytes => {
                let (message_bytes, every_ms) = (request_bytes, think_ms);
                Ok(Asked { load: Load::Latency, bytes, message_bytes, every_ms, ..usual })
            }
            _ => {
                let what = "must be a file, a cbr, or a file and a request-response whose request \
                            is as long as its response: rivals know nothing else";
                Err(Problem::new("flow", what))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(flow: &str) -> Result<Asked, Problem> {
        let flow = format!("duration_s = 4.0\nwan.rate_mbps = 10.0\nflow = [{flow}]");
        Asked::of(&Scenario::parse(&flow).unwrap())
    }

    #[test]
    fn flows_become_workloads() {
        let file = r#"{ strategy = "tack", app = { kind = "file", bytes = 7 } }"#;
        let one = asked(file).unwrap();
        assert_eq!((one.load, one.bytes, one.connections), (Load::File, 7, 1));
        let many = asked(&file.replacen("strategy", "count = 9, strategy", 1)).unwrap();
        assert_eq!((many.load, many.connections), (Load::Many, 9));
        let paced = asked(r#"{ strategy = "tack", app = { kind = "cbr", mbps = 2.0 } }"#).unwrap();
        assert_eq!((paced.load, paced.bytes, paced.mbps), (Load::Paced, 1_000_000, 2.0));
        let words =
            "kind = 'request-response', request_bytes = 64, response_bytes = 64, think_ms = 5.0";
        let both =
            asked(&format!("{file}, {{ strategy = \"tack\", app = {{ {words} }} }}")).unwrap();
        assert_eq!((both.load, both.message_bytes, both.every_ms), (Load::Latency, 64, 5.0));
    }

    #[test]
    fn what_no_rival_can_do_is_refused_with_its_key() {
        let bulk = asked(r#"{ strategy = "tack" }"#).unwrap_err();
        assert_eq!(bulk.key, "flow");
        let up =
            asked(r#"{ strategy = "tack", direction = "up", app = { kind = "file", bytes = 7 } }"#);
        assert_eq!(up.unwrap_err().key, "flow.0.direction");
    }
}

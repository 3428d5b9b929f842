//! What is measured: agreed by both sides, checked by both sides.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::perf::pace::Pace;

/// Version of the measuring protocol.
pub const VERSION: u16 = 2;

/// Most streams in each direction, as in iperf3.
pub const MAX_STREAMS: u16 = 128;

/// Largest block, as in iperf3.
pub const MAX_BLOCK_BYTES: u32 = 1 << 20;

/// Longest test in seconds, as in iperf3.
pub const MAX_SECONDS: f64 = 86_400.0;

/// Longest time between two bursts: after a minute in which nothing moves a test is given up.
const MAX_GAP: Duration = Duration::from_secs(20);

/// Longest warm-up in seconds.
pub const MAX_OMIT_SECONDS: f64 = 600.0;

/// Which way the bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From client to server.
    Forward,
    /// From server to client (`-R`).
    Reverse,
    /// Both at once (`--bidir`).
    Both,
}

/// When a test is over.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Until {
    /// After so many seconds.
    Seconds(f64),
    /// After so many bytes in each direction.
    Bytes(u64),
    /// When a user says so (`-t 0`).
    Stopped,
}

/// The parameters of one test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TestParams {
    /// Protocol version.
    pub version: u16,
    /// Streams in each direction.
    pub streams: u16,
    /// Which way.
    pub direction: Direction,
    /// When it ends.
    pub until: Until,
    /// Warm-up that is not counted, in seconds.
    pub omit_seconds: f64,
    /// Bytes per read and write.
    pub block_bytes: u32,
    /// What each stream has to send; `None` is as much as there is room for.
    #[serde(default)]
    pub pace: Option<Pace>,
    /// Differentiated services codepoint of both sides' packets, 6 bits.
    #[serde(default)]
    pub dscp: u8,
    /// The processor that the server is to run on.
    #[serde(default)]
    pub server_processor: Option<u16>,
    /// Whether the client wants to see what the server says.
    #[serde(default)]
    pub server_output: bool,
    /// Largest segment in bytes that the client asked its connections for.
    #[serde(default)]
    pub mss: Option<u16>,
    /// What the client calls the test.
    #[serde(default)]
    pub title: Option<String>,
    /// What the client wants to find in the results.
    #[serde(default)]
    pub extra_data: Option<String>,
}

impl Default for TestParams {
    /// Ten seconds of one stream from here to there, as iperf3 does.
    fn default() -> Self {
        Self {
            version: VERSION,
            streams: 1,
            direction: Direction::Forward,
            until: Until::Seconds(10.0),
            omit_seconds: 0.0,
            block_bytes: 128 << 10,
            pace: None,
            dscp: 0,
            server_processor: None,
            server_output: false,
            mss: None,
            title: None,
            extra_data: None,
        }
    }
}

/// Why parameters make no sense.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ParamsError {
    /// Another version.
    #[error("version {0} of the measuring protocol is not spoken here, only {VERSION}")]
    Version(u16),
    /// Too few or too many.
    #[error("-P: {0} streams, where from 1 to {MAX_STREAMS} are possible")]
    Streams(u16),
    /// Too short or too long.
    #[error("-t: a test of {0} s, where more than 0 and at most {MAX_SECONDS} s are possible")]
    Seconds(f64),
    /// Nothing to send.
    #[error("-n, -k: a test of 0 bytes measures nothing")]
    NoBytes,
    /// Too long a warm-up.
    #[error("-O: a warm-up of {0} s, where from 0 to {MAX_OMIT_SECONDS} s are possible")]
    Omit(f64),
    /// A warm-up needs a clock.
    #[error("a warm-up (-O) goes with a time (-t), not with an amount (-n, -k)")]
    OmitWithBytes,
    /// Too small or too large.
    #[error("-l: blocks of {0} bytes, where from 1 to {MAX_BLOCK_BYTES} are possible")]
    Block(u64),
    /// It is for connections over UDP, on Linux.
    #[error("--dscp, -S: codepoint {0}, with which the server cannot mark its packets")]
    Dscp(u8),
    /// Not there, or not the server's.
    #[error("-A: the server has no processor {0}")]
    Processor(u16),
    /// So slow that it looks dead.
    #[error("-b: a burst every {0:.0} s is too seldom; smaller blocks (-l) come more often")]
    Gap(f64),
}

impl TestParams {
    /// The pause between two bursts of a stream that has a rate.
    pub fn gap(&self) -> Duration {
        self.pace.map_or(Duration::ZERO, |pace| pace.gap(self.block_bytes as usize))
    }

    /// Checks every range; a server does so with what a client asks for.
    pub fn check(&self) -> Result<(), ParamsError> {
        if self.version != VERSION {
            return Err(ParamsError::Version(self.version));
        }
        if !(1..=MAX_STREAMS).contains(&self.streams) {
            return Err(ParamsError::Streams(self.streams));
        }
        if !(0.0..=MAX_OMIT_SECONDS).contains(&self.omit_seconds) {
            return Err(ParamsError::Omit(self.omit_seconds));
        }
        if self.gap() > MAX_GAP {
            return Err(ParamsError::Gap(self.gap().as_secs_f64()));
        }
        match self.until {
            Until::Seconds(s) if !(s > 0.0 && s <= MAX_SECONDS) => Err(ParamsError::Seconds(s)),
            Until::Bytes(0) => Err(ParamsError::NoBytes),
            Until::Bytes(_) if self.omit_seconds > 0.0 => Err(ParamsError::OmitWithBytes),
            _ if !(1..=MAX_BLOCK_BYTES).contains(&self.block_bytes) => {
                Err(ParamsError::Block(self.block_bytes.into()))
            }
            _ => Ok(()),
        }
    }

    /// For each stream, whether the client sends on it.
    pub fn client_sends(&self) -> Vec<bool> {
        let n = usize::from(self.streams);
        match self.direction {
            Direction::Forward => vec![true; n],
            Direction::Reverse => vec![false; n],
            Direction::Both => [vec![true; n], vec![false; n]].concat(),
        }
    }

    /// The warm-up.
    pub fn omit(&self) -> Duration {
        Duration::from_secs_f64(self.omit_seconds)
    }

    /// The time counted; `None` if the test ends by bytes, or by a user.
    pub fn duration(&self) -> Option<Duration> {
        match self.until {
            Until::Seconds(s) => Some(Duration::from_secs_f64(s)),
            Until::Bytes(_) | Until::Stopped => None,
        }
    }

    /// The bytes each direction carries; `None` if the test ends by time.
    pub fn bytes(&self) -> Option<u64> {
        match self.until {
            Until::Seconds(_) | Until::Stopped => None,
            Until::Bytes(bytes) => Some(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params() -> TestParams {
        TestParams::default()
    }

    #[test]
    fn parameters_out_of_range_are_named() {
        assert_eq!(params().check(), Ok(()));
        let bad = |change: fn(&mut TestParams)| {
            let mut p = params();
            change(&mut p);
            p.check().unwrap_err()
        };
        assert_eq!(bad(|p| p.version = 1), ParamsError::Version(1));
        assert_eq!(bad(|p| p.streams = 0), ParamsError::Streams(0));
        assert_eq!(bad(|p| p.streams = 129), ParamsError::Streams(129));
        assert_eq!(bad(|p| p.block_bytes = 0), ParamsError::Block(0));
        assert_eq!(bad(|p| p.block_bytes = u32::MAX), ParamsError::Block(u32::MAX.into()));
        assert_eq!(bad(|p| p.until = Until::Seconds(0.0)), ParamsError::Seconds(0.0));
        assert!(matches!(bad(|p| p.until = Until::Seconds(f64::NAN)), ParamsError::Seconds(_)));
        assert_eq!(bad(|p| p.until = Until::Bytes(0)), ParamsError::NoBytes);
        assert!(matches!(bad(|p| p.omit_seconds = f64::INFINITY), ParamsError::Omit(_)));
        assert!(matches!(bad(|p| p.omit_seconds = -1.0), ParamsError::Omit(_)));
        let slow = Pace { bits_per_second: 1, blocks: 1 };
        assert!(params_with(slow).check().is_err_and(|e| e.to_string().contains("-l")));
    }

    fn params_with(pace: Pace) -> TestParams {
        TestParams { pace: Some(pace), ..params() }
    }

    #[test]
    fn a_test_may_go_on_until_somebody_ends_it() {
        let endless = TestParams { until: Until::Stopped, omit_seconds: 3.0, ..params() };
        assert_eq!(endless.check(), Ok(()));
        assert_eq!((endless.duration(), endless.bytes()), (None, None));
    }

    #[test]
    fn both_directions_take_twice_the_streams() {
        let mut p = TestParams { streams: 2, ..params() };
        assert_eq!(p.client_sends(), [true, true]);
        p.direction = Direction::Reverse;
        assert_eq!(p.client_sends(), [false, false]);
        p.direction = Direction::Both;
        assert_eq!(p.client_sends(), [true, true, false, false]);
    }
}

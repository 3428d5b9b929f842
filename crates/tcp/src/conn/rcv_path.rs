//! What a receiver of data sees of the path, without help on the wire: round trips from the echo of
//! its own timestamps, and the bytes that come in one.
//!
//! A round trip is measured as Linux's receiver does it: an acknowledgment leaves with some TSval,
//! and the first text that echoes it closes the round. Only one is under way at a time, so rare
//! acknowledgments make rare samples, none of them longer for that. Text that echoes a later TSval
//! ends the round without a sample: the sender was not waiting for this acknowledgment.

use core::time::Duration;

use tack_units::{Instant, WindowedMin};

use crate::ack::PathSeen;

/// RTTmin forgets what is older, as the sender's does.
const RTT_MIN_WINDOW: Duration = Duration::from_secs(10);
/// A round under way for longer was lost, or the sender fell silent.
const MOST_ROUND: Duration = Duration::from_secs(10);

/// Estimates of one connection.
#[derive(Debug)]
pub(crate) struct RcvPath {
    /// TSval under way, and when it first left.
    probe: Option<(u32, Instant)>,
    /// The last one measured: later segments may still echo it.
    measured: Option<u32>,
    rtt_min: WindowedMin<Duration>,
    srtt: Option<Duration>,
    /// A round trip's arrivals under way: since when, and RCV.NXT then.
    round: Option<(Instant, u64)>,
    window: Option<u64>,
}

impl RcvPath {
    pub(crate) fn new() -> RcvPath {
        RcvPath {
            probe: None,
            measured: None,
            rtt_min: WindowedMin::new(RTT_MIN_WINDOW.as_nanos() as u64),
            srtt: None,
            round: None,
            window: None,
        }
    }

    /// A segment with this TSval left.
    pub(crate) fn on_sent(&mut self, ts_val: u32, now: Instant) {
        let stale = |at: Instant| now.saturating_since(at) > MOST_ROUND;
        if self.measured == Some(ts_val) || self.probe.is_some_and(|(_, at)| !stale(at)) {
            return;
        }
        self.probe = Some((ts_val, now));
    }

    /// Text came that echoes `ts_ecr`; RCV.NXT is `nxt` with it.
    pub(crate) fn on_text(&mut self, ts_ecr: Option<u32>, nxt: u64, now: Instant) {
        if let (Some(ecr), Some((val, sent_at))) = (ts_ecr, self.probe)
            && ecr.wrapping_sub(val) as i32 >= 0
        {
            self.probe = None;
            self.measured = Some(val);
            if ecr == val {
                self.sample(now.saturating_since(sent_at), now);
            }
        }
        self.count(nxt, now);
    }

    fn sample(&mut self, rtt: Duration, now: Instant) {
        self.rtt_min.update(now.as_nanos(), rtt);
        self.srtt = Some(self.srtt.map_or(rtt, |mean| (mean * 7 + rtt) / 8));
    }

    fn count(&mut self, nxt: u64, now: Instant) {
        let Some(srtt) = self.srtt.filter(|srtt| !srtt.is_zero()) else { return };
        let Some((since, from)) = self.round else {
            self.round = Some((now, nxt));
            return;
        };
        let took = now.saturating_since(since);
        if took < srtt {
            return;
        }
        let came = nxt.saturating_sub(from) as f64;
        self.window = Some((came * srtt.as_secs_f64() / took.as_secs_f64()) as u64);
        self.round = Some((now, nxt));
    }

    /// `handshake`: RTTmin by other means, for as long as there is no sample.
    pub(crate) fn seen(&self, handshake: Option<Duration>) -> PathSeen {
        PathSeen { rtt_min: self.rtt_min.get().or(handshake), window: self.window }
    }
}

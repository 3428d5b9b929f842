//! The interface every controller implements; nothing more is needed by any of them.

use tack_units::{Instant, Rate};

use crate::sample::{AckSample, LossSample};

/// A congestion controller: samples in, a window and a pacing rate out.
///
/// It never sees segments, options, timers or ACK types. It is told of every transmission,
/// acknowledgment and congestion event, in order, and asked for two numbers.
pub trait Controller {
    /// `bytes` left at `now` while `in_flight` bytes (these included) are outstanding.
    /// `app_limited`: nothing further was waiting to be sent.
    fn on_sent(&mut self, bytes: u64, in_flight: u64, app_limited: bool, now: Instant);

    /// An acknowledgment brought news.
    fn on_ack(&mut self, ack: &AckSample);

    /// A congestion event began.
    fn on_loss(&mut self, loss: &LossSample);

    /// The most that may be in flight, in bytes; at least one MSS.
    fn window(&self) -> u64;

    /// Rate at which data leaves; every sender paces [TON §V-C]. `None` before the first RTT sample
    /// allows a finite rate: the initial window leaves at once, bounded by the pacer's burst. A
    /// window-based controller that is not to be paced says `None` throughout.
    fn pacing_rate(&self) -> Option<Rate>;
}

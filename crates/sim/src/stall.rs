//! Whether a flow stands still though it need not: a watch over every flow of every simulation.
//!
//! A direction of a flow **has data** while its sender's application wrote what the far one has not
//! read. It makes progress with every byte that is read; the applications here read at once, so
//! there is always room. Whether the path **lives** is told by what passes, not by how the path is
//! set up: an outage, a rate of zero or a burst of losses lets nothing through, and counts for
//! nothing, whatever made it. Time without progress is cut into epochs:
//!
//! ```text
//! E      = 2 (srtt + max(4 rttvar, 200 ms)) + 200 ms, at most 20 s: a timeout of any sender fits in
//!          (of when progress ended, doubled at most: estimators go astray in a stall)
//! chance = an epoch in which data arrived, and the receiver's answer arrived or was never sent
//! ```
//!
//! A sender that repairs what is missing resends the first hole at least once in an epoch while
//! anything else moves, and when nothing else moves all it sends is that hole. So a chance without
//! progress is a lost packet, twenty of them in a row are none in 10^20 at 10 % loss. A flow
//! **stalls** when
//!
//! 1. it had 20 chances, or at least 3 over `max(5 s, 12 E)` of which the last came in the second
//!    half: backed-off timeouts have few, but each that arrives is progress. Of a flow that resent
//!    a share `p` of its segments before, as many more as `p^n <= 10^-6` takes; or
//! 2. nothing left its sender for two timeouts (the longest in force meanwhile, back-off included) and a
//!    second, with the receiver's window open: a lost wake-up; or
//! 3. it was reset with data on the way, though neither end had given up waiting.

use core::fmt;
use core::time::Duration;

use tack_tcp::{ConnectionError, Info, State};
use tack_units::{Instant, math};

use crate::flow::FlowId;

/// How often flows are looked at.
pub(crate) const WATCH_PERIOD: Duration = Duration::from_millis(100);
/// Chances without progress that no repairing sender has.
const MANY_CHANCES: u32 = 20;
/// Those that suffice if they are spread over [`LONG`].
const SOME_CHANCES: u32 = 3;
/// Chance that as many packets as that are lost one after the other, and nothing is wrong.
const COINCIDENCE: f64 = 1e-6;
/// Least time over which [`SOME_CHANCES`] tell a stall.
const LONG: Duration = Duration::from_secs(5);
/// The same in epochs.
const LONG_EPOCHS: u32 = 12;
/// Least variation in an epoch's timeout, and its slack for delayed acknowledgments.
const SLACK: Duration = Duration::from_millis(200);
/// Longest epoch.
const MAX_EPOCH: Duration = Duration::from_secs(20);
/// The epoch before there is a round trip: the initial timeout, doubled once.
const FIRST_EPOCH: Duration = Duration::from_secs(3);
/// How long a sender may stay silent before a closed window: two probes of the persist timer.
const PERSIST: Duration = Duration::from_secs(130);
/// Longest pause that pacing may make between two packets.
const MAX_PACING_GAP: Duration = Duration::from_secs(10);

/// A flow that stands still on a living path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stall {
    /// Which.
    pub flow: FlowId,
    /// The data from the listening end to the connecting one stands still, not the other.
    pub backwards: bool,
    /// Of the last progress.
    pub since: Instant,
    /// When that was certain.
    pub found: Instant,
    /// What is wrong with it.
    pub why: Stillness,
    /// Both ends in words.
    pub state: String,
}

/// How a flow stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stillness {
    /// Packets pass in both directions, and the stream does not.
    NoProgress,
    /// The sender sends nothing.
    Silent,
    /// The connection was reset with data undelivered.
    Reset,
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = if self.backwards { " (listener to connector)" } else { "" };
        let why = match self.why {
            Stillness::NoProgress => "packets arrive, but the stream stands still",
            Stillness::Silent => "its sender has data and sends nothing",
            Stillness::Reset => "it was reset with data undelivered",
        };
        let (flow, since, found) = (self.flow.0, self.since, self.found);
        write!(f, "flow {flow}{way} stalled at {since}: {why} (found at {found}); {}", self.state)
    }
}

impl std::error::Error for Stall {}

/// What the watch looks at of one end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EndCounts {
    pub(crate) written: u64,
    pub(crate) received: u64,
    pub(crate) closed: Option<Result<(), ConnectionError>>,
}

/// What both stacks say, the sender's first; asked for only while there is no progress.
pub(crate) type Infos = (Info, Info);

/// Watches one direction of one flow.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// Bytes the receiver's application had read at the last progress, and when that was.
    received: u64,
    since: Instant,
    /// Packets the sender had sent, and when that last grew.
    sent: u64,
    sent_at: Instant,
    /// The longest that it might be silent since: an answer that comes late ends a back-off, and with it the
    /// long timeout that was waited for.
    patience: Duration,
    /// The present epoch; `None` while there is progress.
    epoch: Option<Epoch>,
    /// What an epoch may last.
    longest: Duration,
    chances: u32,
    /// So many over a long time are no coincidence.
    some: u32,
    last_chance: Instant,
}

/// An epoch: its bounds, and the counts at its start, of what came undamaged. What the receiver
/// refused has arrived all the same: the path is alive.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Instant,
    length: Duration,
    data_arrived: u64,
    answers_sent: u64,
    answers_arrived: u64,
}

impl Watch {
    /// Looks at both ends at `now`. `infos` are `None` before there is a connection.
    pub(crate) fn look(
        &mut self,
        sender: &EndCounts,
        receiver: &EndCounts,
        infos: impl FnOnce() -> Option<Infos>,
        now: Instant,
    ) -> Option<Stillness> {
        let waits = sender.written > receiver.received;
        if !waits || receiver.received != self.received {
            *self = Watch { received: receiver.received, since: now, ..Watch::default() };
            return None;
        }
        if let Some(is_reset) = ended(sender, receiver) {
            return is_reset.then_some(Stillness::Reset);
        }
        let (from, to) = infos().filter(|(from, to)| is_open(from) && is_open(to))?;
        if from.counters.segments_sent != self.sent || self.epoch.is_none() {
            (self.sent, self.sent_at) = (from.counters.segments_sent, now);
            self.patience = Duration::ZERO;
        }
        self.patience = self.patience.max(silence(&from));
        if now.saturating_since(self.sent_at) > self.patience {
            return Some(Stillness::Silent);
        }
        let epoch = *self.epoch.get_or_insert_with(|| {
            self.longest = epoch_length(&from) * 2;
            self.some = some_chances(&from);
            Epoch::begin(&from, &to, self.longest, now)
        });
        if now.saturating_since(epoch.start) >= epoch.length {
            let next = Epoch::begin(&from, &to, self.longest, now);
            if epoch.was_a_chance(&next) {
                (self.chances, self.last_chance) = (self.chances + 1, now);
            }
            self.epoch = Some(next);
        }
        self.is_still(now).then_some(Stillness::NoProgress)
    }

    /// When there was progress last.
    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    fn is_still(&self, now: Instant) -> bool {
        let length = self.epoch.map_or(Duration::ZERO, |epoch| epoch.length);
        let still = now.saturating_since(self.since);
        let silent = now.saturating_since(self.last_chance);
        // An epoch to go after the last chance: what arrived at its end is still under way.
        let spread = silent >= length && silent < still / 2;
        let long = still >= LONG.max(length * LONG_EPOCHS);
        self.chances >= MANY_CHANCES || (self.chances >= self.some && spread && long)
    }
}

impl Epoch {
    fn begin(from: &Info, to: &Info, longest: Duration, now: Instant) -> Epoch {
        Epoch {
            start: now,
            length: epoch_length(from).min(longest),
            data_arrived: to.counters.data_segments_received + to.counters.unacceptable,
            answers_sent: to.counters.segments_sent,
            answers_arrived: from.counters.segments_received,
        }
    }

    fn was_a_chance(&self, end: &Epoch) -> bool {
        let answered =
            end.answers_arrived > self.answers_arrived || end.answers_sent == self.answers_sent;
        end.data_arrived > self.data_arrived && answered
    }
}

/// Whether an end is closed: `None` if neither is, else whether that is a stall. Who waited long
/// enough to give up had a dead path, or its stall was told of before.
fn ended(sender: &EndCounts, receiver: &EndCounts) -> Option<bool> {
    let errors = [sender.closed, receiver.closed];
    if errors.iter().all(Option::is_none) {
        return None;
    }
    let gave_up = |end: &Option<Result<(), ConnectionError>>| {
        matches!(
            end,
            Some(Err(ConnectionError::TimedOut
                | ConnectionError::HandshakeTimedOut
                | ConnectionError::KeepaliveTimedOut
                | ConnectionError::Unreachable(_)))
        )
    };
    Some(!errors.iter().any(gave_up))
}

/// A handshake has a back-off of its own, and no data.
fn is_open(info: &Info) -> bool {
    !matches!(info.state, State::SynSent | State::SynReceived)
}

/// Chances that suffice for a flow that has lost as much as `info` says.
fn some_chances(info: &Info) -> u32 {
    let counters = &info.counters;
    let sent = counters.data_segments_sent.max(1) as f64;
    let loss = (counters.retransmissions as f64 / sent).clamp(COINCIDENCE, 0.9);
    let wanted = math::ln(COINCIDENCE) / math::ln(loss);
    (wanted.ceil() as u32).clamp(SOME_CHANCES, MANY_CHANCES)
}

fn epoch_length(info: &Info) -> Duration {
    let Some(srtt) = info.srtt else { return FIRST_EPOCH };
    let variation = (info.rttvar.unwrap_or_default() * 4).max(SLACK);
    ((srtt + variation) * 2 + SLACK).min(MAX_EPOCH)
}

/// How long a sender with data may send nothing.
fn silence(info: &Info) -> Duration {
    if info.snd_wnd < u64::from(info.mss) {
        return PERSIST;
    }
    let gap = info.pacing_rate.and_then(|rate| rate.time_for(2 * u64::from(info.mss)));
    info.rto * 2 + Duration::from_secs(1) + gap.unwrap_or_default().min(MAX_PACING_GAP)
}

/// Both ends of a direction in words.
pub(crate) fn describe(
    sender: &EndCounts,
    receiver: &EndCounts,
    infos: (Option<Info>, Option<Info>),
) -> String {
    let end = |info: Option<Info>, counts: &EndCounts| {
        let closed = counts.closed.map_or_else(String::new, |c| format!(", closed {c:?}"));
        let Some(i) = info else { return format!("no connection{closed}") };
        format!(
            "{:?}, {:?}, {}, {} bytes in flight, cwnd {}, pace {}, window {}, srtt {:?}, rto {:?}, \
             {} timeouts, {} resent, {} bytes held beyond a hole{closed}",
            i.state,
            i.mode,
            i.congestion_state,
            i.in_flight,
            i.cwnd,
            i.pacing_rate.map_or_else(|| "none".to_owned(), |rate| format!("{rate:?}")),
            i.snd_wnd,
            i.srtt.unwrap_or_default(),
            i.rto,
            i.counters.timeouts,
            i.counters.retransmissions,
            i.recv_blocked,
        )
    };
    format!(
        "{} bytes written, {} read; sender: {}; receiver: {}",
        sender.written,
        receiver.received,
        end(infos.0, sender),
        end(infos.1, receiver),
    )
}

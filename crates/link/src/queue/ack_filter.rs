//! Thins TCP acknowledgments where they queue [RFC 3449 §5.2.1].
//!
//! A newer pure ACK takes the place of an older one of its flow. Only the *last* waiting segment
//! of a flow can be replaced, and only by an ACK with a greater acknowledgment number, so
//! - nothing overtakes anything within a flow, and timestamps stay in order;
//! - duplicate ACKs, which are a signal, survive;
//! - SYN, FIN, RST, data, SACK blocks, ECN echoes and TACK or IACK segments are never removed
//!   (`ip::tcp` says what a pure ACK is).
//!
//! Deviation: RFC 3449 leaves open where the newer ACK goes. Ours inherits the older one's place,
//! so that thinning never delays feedback.

use std::collections::BTreeMap;

use crate::ip::{FlowKey, TcpView};

#[derive(Clone, Copy, Debug)]
struct Waiting {
    ack: u32,
    position: u64,
}

/// The replaceable ACK of each flow. Never more entries than packets in the queue.
#[derive(Debug, Default)]
pub(super) struct AckFilter {
    last: BTreeMap<FlowKey, Waiting>,
    /// Position to flow, to forget an ACK when it leaves the queue.
    flow_at: BTreeMap<u64, FlowKey>,
}

impl AckFilter {
    /// The position of the waiting ACK that `segment` makes superfluous.
    pub(super) fn replaceable_by(&self, segment: &TcpView) -> Option<u64> {
        let ack = segment.pure_ack?;
        let waiting = self.last.get(&segment.flow)?;
        is_newer(ack, waiting.ack).then_some(waiting.position)
    }

    /// `segment` now waits at `position` and is the last of its flow.
    pub(super) fn admitted(&mut self, segment: &TcpView, position: u64) {
        let previous = self.last.remove(&segment.flow);
        if let Some(previous) = previous {
            self.flow_at.remove(&previous.position);
        }
        let Some(ack) = segment.pure_ack else { return };
        // An ACK that repeats the one before it is a duplicate, which later ACKs must not remove.
        let repeats = previous.is_some_and(|p| p.position != position && !is_newer(ack, p.ack));
        if !repeats {
            self.last.insert(segment.flow, Waiting { ack, position });
            self.flow_at.insert(position, segment.flow);
        }
    }

    /// Everything before `head_position` has left the queue.
    pub(super) fn forget_before(&mut self, head_position: u64) {
        while let Some(first) = self.flow_at.first_entry()
            && *first.key() < head_position
        {
            self.last.remove(&first.remove());
        }
    }
}

/// `a` comes after `b` in sequence space [RFC 9293 §3.4].
fn is_newer(a: u32, b: u32) -> bool {
    (1..=0x7fff_ffff).contains(&a.wrapping_sub(b))
}

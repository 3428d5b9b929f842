//! A link that remembers what passed it, and loses what it is told to.

use std::sync::{Arc, Mutex, PoisonError};

use tack_link::{End, Link, Output, Packet};
use tack_units::Instant;

use crate::segment::Seen;

/// Packets remembered; what comes later is not. Tests that look send less.
const MAX_SEEN: usize = 400_000;

/// Decides on a packet that enters: whether it may.
pub type Filter = Box<dyn FnMut(&Seen) -> bool + Send>;

/// What passed a link, shared with whoever looks.
#[derive(Clone, Debug, Default)]
pub struct Log(Arc<Mutex<Vec<Seen>>>);

impl Log {
    fn push(&self, seen: Seen) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < MAX_SEEN {
            all.push(seen);
        }
    }

    /// Everything so far, in order.
    pub fn all(&self) -> Vec<Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What the host at `end` sent, in order; before any loss of the link's.
    pub fn sent_by(&self, end: End) -> Vec<Seen> {
        let mut all = self.all();
        all.retain(|seen| seen.end == end && seen.entered);
        all
    }

    /// Forgets everything so far.
    pub fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// A link, watched.
pub struct Watch<L> {
    link: L,
    log: Option<Log>,
    filter: Option<Filter>,
}

impl<L> Watch<L> {
    /// Watches `link`. Without a log nothing is remembered; without a filter everything may pass.
    pub fn new(link: L, log: Option<Log>, filter: Option<Filter>) -> Watch<L> {
        Watch { link, log, filter }
    }

    /// The link within.
    pub fn link(&self) -> &L {
        &self.link
    }
}

impl<L: Link> Link for Watch<L> {
    fn offer(&mut self, end: End, packet: Packet, now: Instant) {
        if self.log.is_some() || self.filter.is_some() {
            let seen = Seen::read(&packet.bytes, now, end, true);
            if let (Some(seen), Some(filter)) = (&seen, &mut self.filter)
                && !filter(seen)
            {
                return;
            }
            if let (Some(seen), Some(log)) = (seen, &self.log) {
                log.push(seen);
            }
        }
        self.link.offer(end, packet, now);
    }

    fn poll(&mut self, now: Instant) -> Output {
        let output = self.link.poll(now);
        if let (Output::Deliver { end, packet }, Some(log)) = (&output, &self.log)
            && let Some(seen) = Seen::read(&packet.bytes, now, *end, false)
        {
            log.push(seen);
        }
        output
    }
}

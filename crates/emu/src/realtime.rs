//! A link whose packets leave by the clock.
//!
//! ```text
//! offer(now)  --> link at exact model times --> ready, each with its due time --> poll(now)
//! ```
//!
//! Calls come when the driver happens to be awake. Everything that was due before them happens at
//! its modelled time first, so a late call changes when packets are handed over and nothing else.

use core::time::Duration;
use std::collections::VecDeque;

use tack_link::{End, Link, Output, Packet};
use tack_units::Instant;

use crate::lateness::Lateness;

/// A link in real time.
#[derive(Debug)]
pub struct Realtime<L> {
    link: L,
    /// When the link wants to be polled; [`Instant::MAX`] is never.
    next_at: Instant,
    /// What has left the model but was not handed over, by due time.
    ready: VecDeque<Ready>,
    lateness: Lateness,
}

#[derive(Debug)]
struct Ready {
    end: End,
    packet: Packet,
    due: Instant,
}

impl<L: Link> Realtime<L> {
    /// `link`, about to start.
    pub fn new(link: L) -> Realtime<L> {
        // A link may have events of its own, beacons say, before anything is offered.
        let next_at = Instant::ZERO;
        Realtime { link, next_at, ready: VecDeque::new(), lateness: Lateness::default() }
    }

    /// The link within, as of the last call.
    pub fn link(&self) -> &L {
        &self.link
    }

    /// How late packets were handed over so far.
    pub fn lateness(&self) -> &Lateness {
        &self.lateness
    }

    /// When [`poll`](Link::poll) has something to do again; `None` is never.
    pub fn next_at(&self) -> Option<Instant> {
        match self.ready.front() {
            Some(ready) => Some(ready.due),
            None => (self.next_at < Instant::MAX).then_some(self.next_at),
        }
    }

    /// Ends the run.
    pub fn finish(self) -> (L, Lateness) {
        (self.link, self.lateness)
    }

    /// Moves the model on to `now`, one event at a time, each at its own time.
    fn advance(&mut self, now: Instant) {
        while self.next_at <= now && self.next_at < Instant::MAX {
            match self.link.poll(self.next_at) {
                Output::Wait(at) => self.next_at = at.unwrap_or(Instant::MAX),
                Output::Deliver { end, packet } => {
                    self.ready.push_back(Ready { end, packet, due: self.next_at });
                }
            }
        }
    }
}

impl<L: Link> Link for Realtime<L> {
    fn offer(&mut self, end: End, packet: Packet, now: Instant) {
        // What is due at this very instant waits, so that a burst enters whole.
        self.advance(now - Duration::from_nanos(1));
        self.link.offer(end, packet, now);
        self.next_at = now;
    }

    /// The next packet that is due by `now`. Its lateness is recorded: hand it over at once.
    fn poll(&mut self, now: Instant) -> Output {
        self.advance(now);
        match self.ready.pop_front() {
            Some(Ready { end, packet, due }) => {
                self.lateness.record(now - due);
                Output::Deliver { end, packet }
            }
            None => Output::Wait(self.next_at()),
        }
    }
}

#[cfg(test)]
mod tests;

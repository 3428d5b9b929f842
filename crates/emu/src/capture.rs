//! A link that may be tapped.

use std::io::{self, Write};

use tack_link::tap::Tap;
use tack_link::{End, Link, Output, Packet};
use tack_units::Instant;

type Writer = Box<dyn Write + Send>;

/// A link, with a capture at both of its ends if one was asked for.
pub(crate) enum Captured<L> {
    Plain(L),
    Tapped(Box<Tap<L, Writer>>),
}

impl<L: Link> Captured<L> {
    /// # Errors
    /// The file's header cannot be written.
    pub(crate) fn new(link: L, capture: Option<Writer>) -> io::Result<Captured<L>> {
        Ok(match capture {
            None => Captured::Plain(link),
            Some(out) => Captured::Tapped(Box::new(Tap::new(link, out, "path")?)),
        })
    }

    /// The link, everything written.
    ///
    /// # Errors
    /// The first since the start.
    pub(crate) fn finish(self) -> io::Result<L> {
        match self {
            Captured::Plain(link) => Ok(link),
            Captured::Tapped(tap) => Ok(tap.finish()?.0),
        }
    }
}

impl<L: Link> Link for Captured<L> {
    fn offer(&mut self, end: End, packet: Packet, now: Instant) {
        match self {
            Captured::Plain(link) => link.offer(end, packet, now),
            Captured::Tapped(tap) => tap.offer(end, packet, now),
        }
    }

    fn poll(&mut self, now: Instant) -> Output {
        match self {
            Captured::Plain(link) => link.poll(now),
            Captured::Tapped(tap) => tap.poll(now),
        }
    }
}

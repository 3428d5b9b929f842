//! A packet of a [series](crate::wire::series) as the segments that its sender numbered.
//!
//! ```text
//! | header, series of n | text of n | text of n + 1 | ...
//! | header, n           | text of n |
//! | header, n + 1                   | text of n + 1 |
//! ```
//!
//! What the header says once for all is said as a device that cuts says it: CWR with the first, FIN
//! and PSH with the last.

use crate::wire::header::{Flags, Segment};
use crate::wire::series::Series;

/// See [`Segment::pieces`].
#[derive(Debug)]
pub struct Pieces<'a> {
    /// What is left, under the header of all of it.
    rest: Option<Segment<'a>>,
    /// `None`: nothing is to be cut.
    series: Option<Series>,
    first_number: u32,
}

impl<'a> Segment<'a> {
    /// The segments that this one stands for, each with its own PKT.SEQ: only itself, unless it has
    /// text of a series. Of `n` bytes there are at most `n / LEAST_SIZE + 3`, see
    /// [`LEAST_SIZE`](crate::wire::series::LEAST_SIZE): of a hostile series the first, the last and
    /// the one behind the place at which offsets begin anew may be shorter.
    pub fn pieces(&self) -> Pieces<'a> {
        let mut rest = self.clone();
        let options = &mut rest.header.options;
        let first_number = options.pkt_seq.unwrap_or_default();
        // SYN stands before all text, and RST ends it: nobody cuts these.
        let cuts = ![Flags::SYN, Flags::RST].into_iter().any(|flag| self.header.flags.has(flag));
        let series = options.series.take().filter(|_| cuts);
        Pieces { rest: Some(rest), series, first_number }
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Segment<'a>;

    fn next(&mut self) -> Option<Segment<'a>> {
        let Some(series) = self.series else { return self.rest.take() };
        let rest = self.rest.as_mut()?;
        let (before, left) = series.place(rest.header.seq);
        rest.header.options.pkt_seq = Some(self.first_number.wrapping_add(before));
        if left >= rest.payload.len() {
            return self.rest.take();
        }
        let mut piece = rest.clone();
        (piece.payload, rest.payload) = rest.payload.split_at(left);
        piece.header.flags = piece.header.flags.without(Flags::FIN | Flags::PSH);
        rest.header.flags = rest.header.flags.without(Flags::CWR);
        rest.header.seq = rest.header.seq.add(left as u32);
        Some(piece)
    }
}

#[cfg(test)]
#[path = "pieces_tests.rs"]
mod tests;

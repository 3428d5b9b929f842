//! What a program says, kept until the other end has it.
//!
//! ```text
//!  base           next          taken
//!   |  sent, kept  |   to be sent |        positions: bytes, and one for the end
//! ```
//!
//! The bytes lie in pieces, each with room for a frame's header before it, so that a frame leaves in one write.
//! Where a connection breaks, the other end says what it has, and the next one goes on from there.

use std::collections::VecDeque;

use tack_net::tls::WRITE_BYTES;

use super::frame::{End, Frame, HEADER, MOST_PAYLOAD, Violation};

/// Most bytes that are kept for another connection. Whoever wants to send more waits until the other end has
/// some, unless that cannot be heard now; then the oldest are kept no longer.
pub const MOST_KEPT: u64 = 16 << 20;
/// What one read is offered at first.
const LEAST_READ: usize = 4 << 10;
/// The most that it grows to while reads fill it: with the frame's header, two of TLS's writes, of which each
/// leaves in one burst.
const MOST_READ: usize = 2 * WRITE_BYTES - HEADER;
/// Most buffers that wait to be read into again: as many as one word of the other end's sets free.
const MOST_SPARE: usize = 9;
const _: () = assert!(MOST_READ <= MOST_PAYLOAD);

/// See the [module's text](self).
#[derive(Debug)]
pub struct Outgoing {
    pieces: VecDeque<Piece>,
    /// Pieces at the front that this connection has carried.
    carried: usize,
    /// Where in the bytes of the piece behind them this connection is.
    cursor: Option<usize>,
    /// Messages between pieces, and how far they went.
    control: Vec<u8>,
    control_at: usize,
    base: u64,
    next: u64,
    /// Beyond it nothing was ever sent.
    highest: u64,
    taken: u64,
    end: Option<End>,
    /// This connection has the end.
    end_sent: bool,
    /// Room that the next read offers.
    room: usize,
    spare: Vec<Vec<u8>>,
    /// The program had nothing more to say.
    rests: bool,
}

#[derive(Debug)]
struct Piece {
    /// Position of its first byte.
    at: u64,
    /// With [`HEADER`] bytes before them.
    bytes: Vec<u8>,
}

impl Piece {
    fn end(&self) -> u64 {
        self.at + (self.bytes.len() - HEADER) as u64
    }
}

impl Default for Outgoing {
    fn default() -> Outgoing {
        Outgoing {
            pieces: VecDeque::new(),
            carried: 0,
            cursor: None,
            control: Vec::new(),
            control_at: 0,
            base: 0,
            next: 0,
            highest: 0,
            taken: 0,
            end: None,
            end_sent: false,
            room: LEAST_READ,
            spare: Vec::new(),
            rests: false,
        }
    }
}

impl Outgoing {
    /// A message, as soon as the frame under way has gone.
    pub fn say(&mut self, message: &[u8]) {
        self.control.extend_from_slice(message);
    }

    /// Whether the program may be read from. `deaf`: what the other end has cannot be heard now.
    pub fn takes(&mut self, deaf: bool) -> bool {
        if self.end.is_some() {
            return false;
        }
        while deaf && self.kept() >= MOST_KEPT && self.carried > 0 {
            self.forget_first();
        }
        self.kept() < MOST_KEPT
    }

    /// Bytes that are kept. The end, which has a position, is none.
    fn kept(&self) -> u64 {
        self.taken.saturating_sub(self.base)
    }

    /// Bytes of memory that it takes.
    pub fn memory(&self) -> usize {
        let spare: usize = self.spare.iter().map(Vec::capacity).sum();
        // Buffers are filled by half at least: see `take`.
        2 * usize::try_from(self.kept()).unwrap_or(usize::MAX / 2) + spare + self.control.capacity()
    }

    /// A buffer to read into, behind what it has, and how much.
    pub fn buffer(&mut self) -> (Vec<u8>, usize) {
        let room = HEADER + self.room;
        let mut buffer = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(room));
        buffer.clear();
        buffer.reserve_exact(room);
        buffer.extend_from_slice(&[0; HEADER]);
        (buffer, self.room)
    }

    /// Nothing could be read for now: a stream without bytes under way holds no buffers.
    pub fn rest(&mut self) {
        self.rests = true;
        if self.pieces.is_empty() {
            self.spare = Vec::new();
        }
    }

    /// A [`Self::buffer`] in which nothing came to lie.
    pub fn put_back(&mut self, buffer: Vec<u8>) {
        self.keep(buffer);
    }

    /// What was read lies in a [`Self::buffer`]; nothing more than was there is the end.
    pub fn take(&mut self, bytes: Vec<u8>) {
        let read = bytes.len() - HEADER;
        self.rests = false;
        if read == 0 {
            self.end = Some(End::Orderly);
            return;
        }
        let is_full = read == self.room;
        if 2 * read < self.room {
            self.take_copy(&bytes[HEADER..]);
            self.keep(bytes);
        } else {
            self.pieces.push_back(Piece { at: self.taken, bytes });
            self.taken += read as u64;
        }
        if is_full {
            self.room = (4 * self.room).min(MOST_READ);
        } else if 8 * read < self.room {
            self.room = (self.room / 4).max(LEAST_READ);
        }
    }

    fn keep(&mut self, buffer: Vec<u8>) {
        if buffer.capacity() >= HEADER + self.room && self.spare.len() < MOST_SPARE {
            self.spare.push(buffer);
        }
    }

    /// These bytes go as if they had been read.
    pub fn take_copy(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(MOST_PAYLOAD) {
            let piece = [&[0; HEADER][..], part].concat();
            self.pieces.push_back(Piece { at: self.taken, bytes: piece });
            self.taken += part.len() as u64;
        }
    }

    /// The program broke: the other end is to hear that, behind what was read before.
    pub fn reset(&mut self) {
        (self.end, self.end_sent) = (Some(End::Reset), false);
    }

    /// Nobody wants what was read before.
    pub fn drop_rest(&mut self) {
        // What has begun goes to its end, or the frame would not be one.
        self.pieces.truncate(self.carried + usize::from(self.cursor.is_some()));
    }

    /// What leaves next; `None`: nothing for now. [`Self::wrote`] says how much of it went.
    pub fn bytes(&mut self) -> Option<&[u8]> {
        if self.cursor.is_none() && self.control_at == self.control.len() {
            if let Some(piece) = self.pieces.get_mut(self.carried) {
                let skipped = usize::try_from(self.next.saturating_sub(piece.at)).unwrap_or(0);
                // Where a connection goes on inside a piece, the header takes the place of bytes that arrived.
                let length = piece.bytes.len() - HEADER - skipped;
                Frame::Data(length).put(&mut piece.bytes[skipped..skipped + HEADER]);
                self.cursor = Some(skipped);
                self.highest = self.highest.max(piece.end());
            } else if let Some(end) = self.end.filter(|_| !self.end_sent) {
                self.end_sent = true;
                self.say(&Frame::End(end).bytes());
                self.highest = self.highest.max(self.total());
            }
        }
        match self.cursor {
            Some(at) => self.pieces.get(self.carried).map(|piece| &piece.bytes[at..]),
            None => self.control.get(self.control_at..).filter(|rest| !rest.is_empty()),
        }
    }

    /// So many of [`Self::bytes`] went.
    pub fn wrote(&mut self, n: usize) {
        let Some(at) = &mut self.cursor else {
            self.control_at += n;
            if self.control_at == self.control.len() {
                (self.control, self.control_at) = (Vec::new(), 0);
            }
            return;
        };
        *at += n;
        let piece = &self.pieces[self.carried];
        if *at == piece.bytes.len() {
            self.next = piece.end();
            (self.cursor, self.carried) = (None, self.carried + 1);
        }
    }

    /// The other end has what lies before `position`.
    ///
    /// # Errors
    /// That was never sent.
    pub fn acked(&mut self, position: u64) -> Result<(), Violation> {
        if position > self.highest {
            return Err(Violation::NeverSent);
        }
        self.base = self.base.max(position);
        while self.carried > 0 && self.pieces.front().is_some_and(|p| p.end() <= self.base) {
            self.forget_first();
        }
        if (self.rests || self.end.is_some()) && self.pieces.is_empty() {
            self.spare = Vec::new();
        }
        Ok(())
    }

    fn forget_first(&mut self) {
        if let Some(piece) = self.pieces.pop_front() {
            self.base = self.base.max(piece.end());
            self.carried -= 1;
            self.keep(piece.bytes);
        }
    }

    /// Goes on over another connection, from `position`, before which the other end has everything.
    ///
    /// # Errors
    /// That was never sent, or is not kept any more.
    pub fn restart(&mut self, position: u64) -> Result<(), Violation> {
        if position > self.highest {
            return Err(Violation::NeverSent);
        }
        (self.control, self.control_at) = (Vec::new(), 0);
        (self.cursor, self.carried, self.next) = (None, 0, position);
        if self.end == Some(End::Reset) {
            self.pieces.clear();
            self.end_sent = false;
            return Ok(());
        }
        if position < self.base {
            return Err(Violation::Forgotten);
        }
        self.base = position;
        self.end_sent = self.end.is_some() && position == self.total();
        while self.pieces.front().is_some_and(|piece| piece.end() <= position) {
            self.pieces.pop_front();
        }
        Ok(())
    }

    /// Position behind everything, the end included.
    fn total(&self) -> u64 {
        self.taken + u64::from(self.end == Some(End::Orderly))
    }

    /// It has ended, and the other end knows.
    pub fn is_delivered(&self) -> bool {
        self.end.is_some() && self.base == self.total()
    }

    /// Bytes taken so far.
    pub fn passed(&self) -> u64 {
        self.taken
    }
}

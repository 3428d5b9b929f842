//! What the other end says, until the program has it.

use super::frame::{End, Frame, MOST_PAYLOAD, Violation};

/// What one read is offered at first; it grows while reads fill it.
const LEAST_READ: usize = 4 << 10;
/// The other end is told what we have whenever that is so much more, or a sixteenth of everything, whichever is
/// more; so often is enough for it not to keep much, and too rarely to cost the medium anything.
const TELL_EACH: u64 = 64 << 10;
/// It is told at least as often as this.
const TELL_AT_MOST: u64 = 1 << 20;

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// [`Incoming::payload`] has bytes for the program.
    Payload,
    /// The other end has everything before this position.
    Have(u64),
    /// The program is to hear of the end: [`Incoming::ended`] says that it has.
    End(End),
    /// More bytes are needed.
    Nothing,
}

/// See the [module's text](self).
#[derive(Debug)]
pub struct Incoming {
    buffer: Vec<u8>,
    start: usize,
    /// Bytes of the frame under way that the program has not got.
    left: usize,
    /// The program has everything before it.
    position: u64,
    /// The other end knows of everything before it.
    told: u64,
    end: Option<End>,
    ended: bool,
    room: usize,
}

impl Default for Incoming {
    fn default() -> Incoming {
        Incoming {
            buffer: Vec::new(),
            start: 0,
            left: 0,
            position: 0,
            told: 0,
            end: None,
            ended: false,
            room: LEAST_READ,
        }
    }
}

impl Incoming {
    /// What is to be done next.
    ///
    /// # Errors
    /// The other end does not keep to the protocol.
    pub fn poll(&mut self) -> Result<Next, Violation> {
        loop {
            if let Some(end) = self.end.filter(|_| !self.ended) {
                return Ok(Next::End(end));
            }
            if self.left > 0 {
                return Ok(if self.start < self.buffer.len() {
                    Next::Payload
                } else {
                    Next::Nothing
                });
            }
            let Some((frame, used)) = Frame::read(&self.buffer[self.start..])? else {
                return Ok(Next::Nothing);
            };
            self.start += used;
            match frame {
                Frame::Have(position) => return Ok(Next::Have(position)),
                // A reset may come behind an orderly end: the other direction was still open.
                Frame::End(End::Reset) => (self.end, self.ended) = (Some(End::Reset), false),
                _ if self.end.is_some() => return Err(Violation::AfterEnd),
                Frame::Data(length) => self.left = length,
                Frame::End(End::Orderly) => self.end = Some(End::Orderly),
            }
        }
    }

    /// Bytes for the program.
    pub fn payload(&self) -> &[u8] {
        let end = self.buffer.len().min(self.start.saturating_add(self.left));
        &self.buffer[self.start..end]
    }

    /// The program has so many of them.
    pub fn passed_on(&mut self, n: usize) {
        self.start += n;
        self.left -= n;
        self.position += n as u64;
    }

    /// The program knows of the end.
    pub fn ended(&mut self) {
        self.ended = true;
        self.position += u64::from(self.end == Some(End::Orderly));
    }

    /// Bytes of memory that it takes.
    pub fn memory(&self) -> usize {
        self.buffer.capacity()
    }

    /// Where more is to be put, and how much at most; none while that is much already.
    pub fn room(&mut self) -> (&mut Vec<u8>, usize) {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.start = 0;
        }
        let room = self.room.saturating_sub(self.buffer.len());
        self.buffer.reserve_exact(room);
        (&mut self.buffer, room)
    }

    /// More came.
    pub fn came(&mut self) {
        if self.buffer.len() >= self.room {
            self.room = (4 * self.room).min(MOST_PAYLOAD);
        }
    }

    /// Nothing comes for now: an idle stream holds no buffer.
    pub fn rest(&mut self) {
        if self.start == self.buffer.len() {
            (self.buffer, self.start) = (Vec::new(), 0);
        }
    }

    /// What to tell the other end that we have; `None`: nothing that is worth it. `early`: something is said
    /// anyway.
    pub fn tell(&mut self, early: bool) -> Option<u64> {
        let news = self.position - self.told;
        let worth = (self.position / 16).clamp(TELL_EACH, TELL_AT_MOST);
        let due = news >= worth || news > 0 && (early || self.ended);
        due.then(|| {
            self.told = self.position;
            self.position
        })
    }

    /// Goes on over another connection. What the program did not get is asked for once more.
    pub fn restart(&mut self) {
        (self.buffer, self.start, self.left) = (Vec::new(), 0, 0);
        if !self.ended {
            self.end = None;
        }
        self.told = self.position;
    }

    /// The program has everything before it.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The program knows of the end.
    pub fn is_over(&self) -> bool {
        self.ended
    }
}

/// Reads `bytes` as what another end says: it must be read or refused, and the program gets no byte that was
/// not announced. For fuzzing.
///
/// # Panics
/// If it is not so.
pub fn fuzz(bytes: &[u8]) {
    let mut incoming = Incoming::default();
    for piece in bytes.chunks(7) {
        incoming.room().0.extend_from_slice(piece);
        incoming.came();
        loop {
            match incoming.poll() {
                Err(_) => return,
                Ok(Next::Nothing) => break,
                Ok(Next::Payload) => incoming.passed_on(incoming.payload().len()),
                Ok(Next::Have(_)) => {}
                Ok(Next::End(End::Reset)) => return,
                Ok(Next::End(End::Orderly)) => incoming.ended(),
            }
        }
        assert!(incoming.position() <= bytes.len() as u64, "more than came");
    }
}

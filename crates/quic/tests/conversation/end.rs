//! What the conversations ask of a stack.

use std::net::SocketAddr;

use tack_units::Instant;

/// What came of reading a stream.
pub(crate) enum Read {
    /// Nothing is there yet.
    Nothing,
    /// It ended.
    End,
    /// Its speaker gave it up, with this code.
    Reset(u64),
}

/// What came of writing to a stream.
pub(crate) enum Written {
    /// So many bytes were taken.
    Bytes(usize),
    /// The other end wants no more of it: it is over.
    Stopped,
}

/// One end of a connection, of any stack.
pub(crate) trait End {
    fn connect(&mut self, now: Instant);
    /// A datagram came from `from`.
    fn handle(&mut self, from: SocketAddr, datagram: &mut [u8], now: Instant);
    /// The next datagram, and whom it is for.
    fn poll_transmit(&mut self, out: &mut Vec<u8>, now: Instant) -> Option<SocketAddr>;
    fn deadline(&mut self) -> Option<Instant>;
    fn handle_timeout(&mut self, now: Instant);
    fn is_connected(&self) -> bool;
    /// Streams may be opened and written: at the latest when it is connected.
    fn may_talk(&self) -> bool {
        self.is_connected()
    }
    /// What was said before it was connected has to be said again, on other streams: told once.
    fn has_to_begin_anew(&mut self) -> bool {
        false
    }
    /// What became of what was said early: it was taken, or not; `None`: there was nothing of the kind.
    fn was_taken_early(&self) -> Option<bool> {
        None
    }
    /// Opens a stream, by its number; `None`: not yet.
    fn open(&mut self, bidi: bool, now: Instant) -> Option<u64>;
    fn write(&mut self, id: u64, data: &[u8]) -> Written;
    /// Ends a stream, if nobody has stopped it.
    fn finish(&mut self, id: u64);
    fn reset(&mut self, id: u64, code: u64);
    /// Wants no more of a stream.
    fn stop(&mut self, id: u64, code: u64);
    /// Appends all that can be read.
    fn read(&mut self, id: u64, out: &mut Vec<u8>) -> Read;
    fn update_keys(&mut self);
    /// A client is about to write from another address; false: it may not.
    fn migrate(&mut self, now: Instant) -> bool;
    /// False: it is too long, or the other end takes none.
    fn send_datagram(&mut self, data: &[u8]) -> bool;
    fn recv_datagram(&mut self) -> Option<Vec<u8>>;
    fn close(&mut self, now: Instant);
    /// Why it failed, or that it was closed.
    fn ended(&self) -> Option<String>;
}

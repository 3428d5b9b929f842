//! Streams that have fallen quiet, asked once whether their peer still is where it was.
//!
//! Who only receives does not notice that its network is another one, or that a NAT has forgotten it:
//! nothing comes, and it has nothing to say. A sign of life is asked for as soon as a stream that was busy
//! is quiet. Over QUIC the question itself tells the server where we are now, and the stream goes on; over
//! TCP-TACK the answer is a reset, and the program may connect anew instead of waiting.

/// A stream that can be looked at and made to ask.
pub trait Guarded {
    /// Packets that came so far; `None`: the stream is no more.
    fn packets_received(&self) -> Option<u64>;

    /// Asks the peer for a sign of life in a moment (`true`), or as rarely as an idle stream does.
    fn ask(&self, soon: bool);
}

/// All streams of a client.
#[derive(Debug)]
pub struct Patrol<G>(Vec<Post<G>>);

#[derive(Debug)]
struct Post<G> {
    stream: G,
    seen: u64,
    mood: Mood,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    Idle,
    /// Something came since the look before the last.
    Busy,
    /// It was asked, and has not answered yet.
    Asked,
}

impl<G: Guarded> Patrol<G> {
    /// Of no stream.
    pub fn new() -> Patrol<G> {
        Patrol(Vec::new())
    }

    /// One more stream, which has just begun.
    pub fn add(&mut self, stream: G) {
        if let Some(seen) = stream.packets_received() {
            self.0.push(Post { stream, seen, mood: Mood::Busy });
        }
    }

    /// Looks at all of them; to be called once in a while, which is how long quiet has to last.
    pub fn round(&mut self) {
        self.0.retain_mut(|post| {
            let Some(seen) = post.stream.packets_received() else { return false };
            let came = std::mem::replace(&mut post.seen, seen) != seen;
            post.mood = match (post.mood, came) {
                (Mood::Idle | Mood::Busy, true) => Mood::Busy,
                (Mood::Idle, false) => Mood::Idle,
                (Mood::Busy, false) => {
                    post.stream.ask(true);
                    Mood::Asked
                }
                // What came is the answer, or more.
                (Mood::Asked, true) => {
                    post.stream.ask(false);
                    Mood::Idle
                }
                (Mood::Asked, false) => Mood::Asked,
            };
            true
        });
    }

    /// The network is another one: each stream asks now, the idle ones as well.
    pub fn ask_all(&mut self) {
        for post in &mut self.0 {
            post.stream.ask(true);
            post.mood = Mood::Asked;
        }
    }
}

impl<G: Guarded> Default for Patrol<G> {
    fn default() -> Patrol<G> {
        Patrol::new()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;

    use super::*;

    #[derive(Default)]
    struct Stream {
        packets: Cell<Option<u64>>,
        asked: RefCell<Vec<bool>>,
    }

    impl Guarded for Rc<Stream> {
        fn packets_received(&self) -> Option<u64> {
            self.packets.get()
        }

        fn ask(&self, soon: bool) {
            self.asked.borrow_mut().push(soon);
        }
    }

    /// A patrol and its only stream, on which something has come.
    fn patrol() -> (Patrol<Rc<Stream>>, Rc<Stream>) {
        let stream = Rc::new(Stream { packets: Cell::new(Some(1)), ..Stream::default() });
        let mut patrol = Patrol::new();
        patrol.add(stream.clone());
        (patrol, stream)
    }

    #[test]
    fn a_stream_that_falls_quiet_is_asked_once() {
        let (mut patrol, stream) = patrol();
        for packets in 2..10 {
            stream.packets.set(Some(packets));
            patrol.round();
        }
        assert!(stream.asked.borrow().is_empty(), "while it was busy");
        (0..10).for_each(|_| patrol.round());
        assert_eq!(*stream.asked.borrow(), [true]);
        // Its answer, and nothing more.
        stream.packets.set(Some(10));
        (0..10).for_each(|_| patrol.round());
        assert_eq!(*stream.asked.borrow(), [true, false]);
        // Busy once more.
        stream.packets.set(Some(11));
        (0..10).for_each(|_| patrol.round());
        assert_eq!(*stream.asked.borrow(), [true, false, true]);
    }

    #[test]
    fn in_another_network_idle_streams_are_asked_too() {
        let (mut patrol, stream) = patrol();
        (0..2).for_each(|_| patrol.round());
        stream.packets.set(Some(2));
        patrol.round();
        patrol.ask_all();
        assert_eq!(*stream.asked.borrow(), [true, false, true]);
    }

    #[test]
    fn a_stream_that_ended_is_forgotten() {
        let (mut patrol, stream) = patrol();
        stream.packets.set(None);
        patrol.round();
        assert!(patrol.0.is_empty());
        patrol.add(stream);
        assert!(patrol.0.is_empty());
    }
}

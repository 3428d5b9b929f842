//! Which streams ask their peer for a sign of life, and which are given up for another connection.
//!
//! Who only receives does not notice that its network is another one, or that a NAT has forgotten it: nothing
//! comes, and it has nothing to say. So the streams that something came on last ask after a second of silence.
//! Over TCP-TACK one is enough: a server that does not know its address answers with a reset, and then all ask.
//! Over QUIC each question tells the server where we are now, and says nothing of the others.
//!
//! Where silence lasts though somebody else gets through to the server, the connection is given up, and its
//! stream goes on over another one.

use std::cmp::Reverse;

/// Rounds without an answer after which a question counts as unanswered.
const SILENT: u64 = 3;
/// Packets within a round that are more than an answer.
const BUSY: u64 = 3;
/// Rounds for which streams ask after something has happened to one of them.
const ALARM: u64 = 5;

/// A stream's connection, as it is seen from beside.
pub trait Guarded {
    /// Packets that came so far; `None`: it is no more.
    fn packets_received(&self) -> Option<u64>;

    /// Asks the peer for a sign of life after a second of silence (`true`), or as rarely as an idle one does.
    fn ask(&self, soon: bool);

    /// Ends it, so that whoever uses it looks for another one.
    fn give_up(&self);
}

/// All streams of a client.
#[derive(Debug)]
pub struct Patrol<G> {
    posts: Vec<Post<G>>,
    /// How many ask though nothing came on them lately.
    sentries: usize,
    round: u64,
    /// All ask until then.
    alarm_until: u64,
    /// When somebody last got through to the server by a new way.
    passed: Option<u64>,
}

#[derive(Debug)]
struct Post<G> {
    conn: G,
    packets: u64,
    /// Round in which something last came, and in which it was more than an answer.
    heard: u64,
    busy: u64,
    /// Since when it asks.
    asks: Option<u64>,
}

impl<G: Guarded> Patrol<G> {
    /// Of no stream; so many ask in quiet times.
    pub fn new(sentries: usize) -> Patrol<G> {
        Patrol { posts: Vec::new(), sentries, round: 0, alarm_until: 0, passed: None }
    }

    /// One more connection, which has just begun to be used.
    pub fn add(&mut self, conn: G) {
        if let Some(packets) = conn.packets_received() {
            let now = self.round;
            self.posts.push(Post { conn, packets, heard: now, busy: now, asks: None });
        }
    }

    /// Looks at all of them, once a second. True: one that asks gets no answer.
    pub fn look(&mut self) -> bool {
        self.round += 1;
        let now = self.round;
        self.posts.retain_mut(|post| {
            let Some(packets) = post.conn.packets_received() else { return false };
            let came = packets.saturating_sub(std::mem::replace(&mut post.packets, packets));
            if came > 0 {
                post.heard = now;
            }
            if came >= if post.asks.is_some() { BUSY } else { 1 } {
                post.busy = now;
            }
            true
        });
        self.posts.sort_by_key(|post| Reverse(post.busy));
        let mut unanswered = false;
        for (place, post) in self.posts.iter_mut().enumerate() {
            let soon = place < self.sentries || now <= post.busy + 1 || now <= self.alarm_until;
            // A question that was asked is answered before it is let go of.
            let waits = post.asks.is_some_and(|since| post.heard <= since);
            post.ask(soon || waits, now);
            let Some(since) = post.asks.map(|since| since.max(post.heard)) else { continue };
            let silent = since + SILENT <= now;
            unanswered |= silent;
            if silent && self.passed.is_some_and(|passed| passed > since) {
                post.conn.give_up();
            }
        }
        unanswered
    }

    /// Something happened to one of them, or to the network: all ask, the idle ones as well.
    pub fn alarm(&mut self) {
        self.alarm_until = self.round + ALARM;
        for post in &mut self.posts {
            post.ask(true, self.round);
        }
    }

    /// Somebody got through to the server by a new way.
    pub fn passed(&mut self) {
        self.passed = Some(self.round);
    }
}

impl<G: Guarded> Post<G> {
    fn ask(&mut self, soon: bool, now: u64) {
        if soon != self.asks.is_some() {
            self.asks = soon.then_some(now);
            self.conn.ask(soon);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;

    use super::*;

    #[derive(Default)]
    struct Conn {
        packets: Cell<u64>,
        gone: Cell<bool>,
        asked: RefCell<Vec<bool>>,
        given_up: Cell<bool>,
    }

    impl Guarded for Rc<Conn> {
        fn packets_received(&self) -> Option<u64> {
            (!self.gone.get()).then_some(self.packets.get())
        }

        fn ask(&self, soon: bool) {
            self.asked.borrow_mut().push(soon);
        }

        fn give_up(&self) {
            self.given_up.set(true);
        }
    }

    impl Conn {
        fn hears(&self) {
            self.packets.set(self.packets.get() + 1);
        }

        fn asks(&self) -> bool {
            self.asked.borrow().last() == Some(&true)
        }
    }

    fn patrol(streams: usize) -> (Patrol<Rc<Conn>>, Vec<Rc<Conn>>) {
        let mut patrol = Patrol::new(1);
        let conns: Vec<Rc<Conn>> = (0..streams).map(|_| Rc::default()).collect();
        conns.iter().for_each(|conn| patrol.add(conn.clone()));
        (patrol, conns)
    }

    fn look_on(patrol: &mut Patrol<Rc<Conn>>, rounds: usize) {
        (0..rounds).for_each(|_| {
            patrol.look();
        });
    }

    #[test]
    fn of_idle_streams_the_one_that_was_heard_last_goes_on_asking() {
        let (mut patrol, conns) = patrol(3);
        patrol.look();
        conns.iter().for_each(|conn| conn.hears());
        patrol.look();
        conns[1].hears();
        patrol.look();
        // Whoever asked hears an answer, and the sentry one after the other.
        for _ in 0..10 {
            conns.iter().filter(|conn| conn.asks()).for_each(|conn| conn.hears());
            assert!(!patrol.look());
        }
        let asking: Vec<bool> = conns.iter().map(|conn| conn.asks()).collect();
        assert_eq!(asking.iter().filter(|asks| **asks).count(), 1, "{asking:?}");
        conns.iter().for_each(|conn| assert!(conn.asked.borrow().len() < 8, "no to and fro"));
    }

    #[test]
    fn after_an_alarm_all_ask_until_they_are_answered() {
        let (mut patrol, conns) = patrol(3);
        patrol.alarm();
        assert!(conns.iter().all(|conn| conn.asks()));
        conns[0].hears();
        look_on(&mut patrol, 20);
        assert!(conns[1].asks() && conns[2].asks());
        conns.iter().for_each(|conn| conn.hears());
        look_on(&mut patrol, 3);
        assert_eq!(conns.iter().filter(|conn| conn.asks()).count(), 1);
    }

    #[test]
    fn silence_is_noticed_and_a_connection_given_up_only_where_others_get_through() {
        let (mut patrol, conns) = patrol(1);
        patrol.look();
        assert!(!patrol.look());
        assert!((0..4).any(|_| patrol.look()), "noticed");
        assert!(!conns[0].given_up.get());
        patrol.passed();
        patrol.look();
        assert!(conns[0].given_up.get());
    }

    #[test]
    fn who_got_through_before_the_silence_says_nothing_of_it() {
        let (mut patrol, conns) = patrol(1);
        patrol.passed();
        conns[0].hears();
        look_on(&mut patrol, 10);
        assert!(!conns[0].given_up.get());
    }

    #[test]
    fn a_stream_that_ended_is_forgotten() {
        let (mut patrol, conns) = patrol(1);
        conns[0].gone.set(true);
        patrol.look();
        patrol.add(conns[0].clone());
        assert!(patrol.posts.is_empty());
    }
}

//! All streams of a connection: their IDs, who may open how many, what may be sent on them and in which
//! order, and what the application has to know [RFC 9000 §2 to §4].
//!
//! ```text
//! write, finish, reset ──► send ──► turn (by priority, then in rotation) ──► next_frame ──► packets
//! read, stop           ◄── recv ◄── on_stream, on_reset                  ◄── packets
//!                           └─ limits ──► owed: MAX_DATA, MAX_STREAM_DATA, MAX_STREAMS
//! ```
//!
//! What a packet carried comes back as acknowledged or lost (`Carried`); what is lost is owed again.

mod arrive;
mod flow;
mod id;
mod leave;
mod limits;
mod recv;
mod send;

use core::cmp::Reverse;
use core::ops::Range;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use rustls::Side;
use tack::Ranges;
use tack_units::Instant;

use crate::config::Config;
use crate::error::UseError;
use crate::wire::Parameters;

use flow::ConnectionFlow;
pub use id::{Dir, StreamId};
pub(crate) use limits::With;
use recv::RecvStream;
pub(crate) use send::{SendStream, Turn};

/// What happened to a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum StreamEvent {
    /// The peer opened it, and with it all of its kind below.
    Opened(StreamId),
    /// There is something to read, or its end.
    Readable(StreamId),
    /// A write that found no room may go on.
    Writable(StreamId),
    /// Everything has arrived, the end included.
    Finished(StreamId),
    /// The peer wants no more of it.
    Stopped(StreamId),
    /// It was reset, and the peer knows.
    GivenUp(StreamId),
    /// The peer allows another stream of this direction after it allowed none.
    Available(Dir),
}

/// What a packet carried of a stream, or of streams' limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Carried {
    Part { id: u64, range: Range<u64>, fin: bool },
    Reset(u64),
    Stop(u64),
    MaxData,
    MaxStreamData(u64),
    MaxStreams(Dir),
}

/// Something owed about a stream that fits no queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Owed {
    Reset(u64),
    Stop(u64),
    MaxData,
    MaxStreamData(u64),
    MaxStreams(Dir),
    // From here on: what is in the way, which waits for a packet of others.
    Blocked(u64),
    StreamsBlocked(Dir),
    DataBlocked,
}

/// How many streams one side may open in one direction, and has.
#[derive(Clone, Copy, Debug, Default)]
struct Opened {
    next: u64,
    most: u64,
}

/// Streams of which it is remembered that the peer stopped them, until they are let go; of more, the first are
/// forgotten.
const MOST_GONE: usize = 1 << 16;

/// See the [module's text](self).
#[derive(Debug)]
pub(crate) struct Streams {
    side: Side,
    config: Config,
    /// The peer's; those of nothing before they come.
    peer: Parameters,
    send: BTreeMap<u64, SendStream>,
    recv: BTreeMap<u64, RecvStream>,
    /// Streams that we opened, by direction.
    ours: [Opened; 2],
    /// That the peer opened; `most` is what it was told.
    theirs: [Opened; 2],
    /// Those of them that were opened by one above and never spoken of: they take nothing until they are.
    untouched: [Ranges; 2],
    /// Those of them that the application was told of.
    accepted: [u64; 2],
    /// When the peer last spoke of a stream.
    spoken_at: Instant,
    /// Those of them that are done with.
    closed: [u64; 2],
    wanted: [bool; 2],
    flow: ConnectionFlow,
    /// `beta` where TACK governs.
    waits_for_tack: Option<u32>,
    /// Streams with something to send, by priority and turn. The first in line has it, others had it when they came
    /// into line.
    turns: BTreeMap<(Reverse<i32>, Turn), u64>,
    /// The last turn that was given.
    turns_given: u64,
    /// Whose turn it was last: when the connection's limit rises, those behind it have theirs first.
    last_turn: u64,
    /// Streams with bytes under way, of which each acknowledgment may ask for larger buffers.
    flying: Vec<u64>,
    /// Streams with bytes to send that limits of the peer alone keep out of `turns`.
    held_back: BTreeSet<u64>,
    owed: BTreeSet<Owed>,
    /// Streams that are gone because the peer stopped them, and its reasons.
    gone: BTreeMap<u64, u64>,
    events: BTreeSet<StreamEvent>,
}

impl Streams {
    pub(crate) fn new(side: Side, config: &Config, now: Instant) -> Streams {
        let most = [config.max_streams_bidi, config.max_streams_uni];
        Streams {
            side,
            peer: Parameters::default(),
            send: BTreeMap::new(),
            recv: BTreeMap::new(),
            ours: [Opened::default(); 2],
            theirs: most.map(|most| Opened { next: 0, most }),
            untouched: [Ranges::new(), Ranges::new()],
            accepted: [0; 2],
            spoken_at: now,
            closed: [0; 2],
            wanted: [false; 2],
            flow: ConnectionFlow::new(config, now),
            waits_for_tack: None,
            turns: BTreeMap::new(),
            turns_given: 0,
            last_turn: 0,
            flying: Vec::new(),
            held_back: BTreeSet::new(),
            owed: BTreeSet::new(),
            gone: BTreeMap::new(),
            events: BTreeSet::new(),
            config: config.clone(),
        }
    }

    /// The peer's transport parameters came, or those that it had another time. They allow no less than what
    /// was known.
    pub(crate) fn on_parameters(&mut self, peer: &Parameters) {
        self.peer = peer.clone();
        let ids: Vec<u64> = self.send.keys().copied().collect();
        for id in ids {
            let most = self.max_data_at_first(StreamId(id));
            if let Some(stream) = self.send.get_mut(&id) {
                stream.limit.allow(most);
            }
            self.take_turn(id);
        }
        self.on_max_data(peer.max_data);
        self.on_max_streams(Dir::Bidi, peer.max_streams_bidi);
        self.on_max_streams(Dir::Uni, peer.max_streams_uni);
    }

    /// Nothing of what was sent is known to the peer, and these are its limits: what was written is sent from
    /// its beginning, as far as they go.
    pub(crate) fn begin_anew(&mut self, peer: &Parameters) {
        self.peer = peer.clone();
        self.flow.begin_anew(peer.max_data);
        self.ours[Dir::Bidi as usize].most = peer.max_streams_bidi;
        self.ours[Dir::Uni as usize].most = peer.max_streams_uni;
        self.turns.clear();
        self.owed.clear();
        let ids: Vec<u64> = self.send.keys().copied().collect();
        for id in ids {
            let most = self.max_data_at_first(StreamId(id));
            if let Some(stream) = self.send.get_mut(&id) {
                stream.begin_anew(most);
                // Until it may speak.
                self.held_back.insert(id);
            }
        }
        self.resume(Dir::Bidi);
        self.resume(Dir::Uni);
    }

    /// Whether the peer allows as many streams as this one of ours; more were opened only by what was
    /// remembered of it.
    fn may_speak(&self, id: u64) -> bool {
        let id = StreamId(id);
        id.opener() != self.side || id.index() < self.ours[id.dir() as usize].most
    }

    /// What streams of ours have to say is said, as far as they may speak.
    fn resume(&mut self, dir: Dir) {
        let all: BTreeSet<u64> = self.send.keys().chain(self.recv.keys()).copied().collect();
        let of_dir = all.into_iter().filter(|id| StreamId(*id).dir() == dir);
        let ids: Vec<u64> = of_dir.filter(|id| self.may_speak(*id)).collect();
        for id in ids {
            if self.send.get(&id).is_some_and(|stream| stream.reset().is_some()) {
                self.owed.insert(Owed::Reset(id));
            }
            if self.recv.get(&id).is_some_and(|stream| stream.stopped().is_some()) {
                self.owed.insert(Owed::Stop(id));
            }
            self.take_turn(id);
        }
    }

    /// Bytes of a stream that the peer allows before it says more.
    fn max_data_at_first(&self, id: StreamId) -> u64 {
        match (id.dir(), id.opener() == self.side) {
            (Dir::Uni, _) => self.peer.max_stream_data_uni,
            (Dir::Bidi, true) => self.peer.max_stream_data_bidi_remote,
            (Dir::Bidi, false) => self.peer.max_stream_data_bidi_local,
        }
    }

    pub(crate) fn poll_event(&mut self) -> Option<StreamEvent> {
        self.events.pop_first()
    }

    pub(crate) fn open(&mut self, dir: Dir, now: Instant) -> Result<StreamId, UseError> {
        let opened = &mut self.ours[dir as usize];
        if opened.next >= opened.most {
            // The peer is told once of a limit: whoever asks again with each acknowledgment would be answered by the next.
            if !core::mem::replace(&mut self.wanted[dir as usize], true) {
                self.owed.insert(Owed::StreamsBlocked(dir));
            }
            return Err(UseError::Limit);
        }
        let id = StreamId::new(self.side, dir, opened.next);
        opened.next += 1;
        self.create(id, now);
        Ok(id)
    }

    fn create(&mut self, id: StreamId, now: Instant) {
        let ours = id.opener() == self.side;
        if ours || id.dir() == Dir::Bidi {
            let max_data = self.max_data_at_first(id);
            self.send.insert(id.0, SendStream::new(max_data, self.config.send_buffer));
        }
        if !ours || id.dir() == Dir::Bidi {
            let (window, most) = (self.config.initial_window, self.config.max_window);
            let mut stream = RecvStream::new(window, most, now);
            if let Some(beta) = self.waits_for_tack {
                stream.allow_for_tacks(beta);
            }
            self.recv.insert(id.0, stream);
        }
    }

    fn sending(&mut self, id: StreamId) -> Result<&mut SendStream, UseError> {
        let wrong = id.dir() == Dir::Uni && id.opener() != self.side;
        let stopped = self.gone.get(&id.0).map(|code| UseError::Stopped(*code));
        let missing = if wrong { UseError::WrongWay } else { UseError::NoStream };
        self.send.get_mut(&id.0).ok_or(stopped.unwrap_or(missing))
    }

    fn receiving(&mut self, id: StreamId) -> Result<&mut RecvStream, UseError> {
        let wrong = id.dir() == Dir::Uni && id.opener() == self.side;
        let missing = if wrong { UseError::WrongWay } else { UseError::NoStream };
        self.recv.get_mut(&id.0).ok_or(missing)
    }

    pub(crate) fn write(&mut self, id: StreamId, data: &[u8]) -> Result<usize, UseError> {
        let stream = self.sending(id)?;
        if let Some(code) = stream.stopped() {
            return Err(UseError::Stopped(code));
        }
        if !stream.is_open() {
            return Err(UseError::Finished);
        }
        let taken = stream.write(data);
        self.take_turn(id.0);
        Ok(taken)
    }

    pub(crate) fn finish(&mut self, id: StreamId) -> Result<(), UseError> {
        let stream = self.sending(id)?;
        if let Some(code) = stream.stopped() {
            return Err(UseError::Stopped(code));
        }
        if !stream.is_open() {
            return Err(UseError::Finished);
        }
        stream.finish();
        self.take_turn(id.0);
        Ok(())
    }

    pub(crate) fn reset(&mut self, id: StreamId, code: u64) -> Result<(), UseError> {
        if self.sending(id)?.give_up(code) {
            self.owed.insert(Owed::Reset(id.0));
            self.settle_line();
        }
        Ok(())
    }

    pub(crate) fn set_priority(&mut self, id: StreamId, priority: i32) -> Result<(), UseError> {
        let stream = self.sending(id)?;
        let before = core::mem::replace(&mut stream.priority, priority);
        // Whoever waits stands among those of its priority.
        if before != priority
            && let Some(turn) = stream.turn.take()
        {
            self.turns.remove(&(Reverse(before), turn));
            self.take_turn(id.0);
            self.settle_line();
        }
        Ok(())
    }

    /// The next one that the peer opened.
    pub(crate) fn accept(&mut self, dir: Dir) -> Option<StreamId> {
        let accepted = &mut self.accepted[dir as usize];
        if *accepted >= self.theirs[dir as usize].next {
            return None;
        }
        *accepted += 1;
        let id = StreamId::new(arrive::opposite(self.side), dir, *accepted - 1);
        self.touch(id);
        Some(id)
    }

    /// Nothing of it is left to be delivered.
    pub(crate) fn is_done(&self, id: StreamId) -> bool {
        !self.send.contains_key(&id.0)
    }

    /// Nothing of any is left to be delivered, and no end that was told.
    pub(crate) fn is_delivered(&self) -> bool {
        self.send.values().all(SendStream::is_delivered)
    }

    pub(crate) fn stopped(&self, id: StreamId) -> Option<u64> {
        let stream = self.send.get(&id.0);
        stream.map_or_else(|| self.gone.get(&id.0).copied(), SendStream::stopped)
    }

    /// Nobody will ask what became of it.
    pub(crate) fn let_go(&mut self, id: StreamId) {
        self.gone.remove(&id.0);
        if let Some(stream) = self.send.get_mut(&id.0) {
            stream.is_let_go = true;
        }
    }

    /// A stream is gone that the peer may have stopped: whoever asks later is told so.
    fn note_stopped(&mut self, id: u64, stream: &SendStream) {
        let stopped = stream.stopped().filter(|_| !stream.is_let_go);
        self.gone.extend(stopped.map(|code| (id, code)));
        if self.gone.len() > MOST_GONE {
            self.gone.pop_first();
        }
    }

    pub(crate) fn unsent(&self, id: StreamId) -> u64 {
        self.send.get(&id.0).map_or(0, SendStream::unsent)
    }

    pub(crate) fn read(&mut self, id: StreamId, out: &mut [u8]) -> Result<Option<usize>, UseError> {
        let result = self.receiving(id)?.read(out);
        if let Ok(Some(taken)) = result {
            self.on_read(id.0, taken as u64);
        }
        self.after_reading(id.0);
        result
    }

    pub(crate) fn stop(&mut self, id: StreamId, code: u64) -> Result<(), UseError> {
        if self.receiving(id)?.stop(code) {
            self.owed.insert(Owed::Stop(id.0));
        }
        self.after_reading(id.0);
        Ok(())
    }

    fn on_read(&mut self, id: u64, bytes: u64) {
        self.flow.on_consumed(bytes);
        if self.flow.limit_to_tell(With::Nothing).is_some() {
            self.owed.insert(Owed::MaxData);
        }
        if self.recv.get(&id).is_some_and(|s| s.limit_to_tell(With::Nothing).is_some()) {
            self.owed.insert(Owed::MaxStreamData(id));
        }
    }

    /// What the application will never read is no reason to hold back the peer.
    fn after_reading(&mut self, id: u64) {
        if let Some(stream) = self.recv.get_mut(&id) {
            let unread = stream.take_unread();
            self.flow.on_consumed(unread);
            if self.flow.limit_to_tell(With::Nothing).is_some() {
                self.owed.insert(Owed::MaxData);
            }
        }
        self.forget_if_done(id);
    }

    /// TACK governs: see [`allowed_for_tacks`](tack_transport::allowed_for_tacks). What is allowed beyond the windows
    /// that the peer knows is told with the first limits.
    pub(crate) fn allow_for_tacks(&mut self, beta: u32) {
        self.waits_for_tack = Some(beta);
        self.flow.allow_for_tacks(beta);
        self.recv.values_mut().for_each(|stream| stream.allow_for_tacks(beta));
    }

    /// A round trip may have passed: windows follow what arrived in it and is read.
    pub(crate) fn tune(&mut self, id: u64, rtt: Option<Duration>, now: Instant) {
        let is_read = self.recv.get_mut(&id).is_none_or(|stream| stream.tune(rtt, now));
        self.flow.tune(rtt, is_read, now);
    }

    /// Forgets a stream of which nothing can come any more.
    fn forget_if_done(&mut self, id: u64) {
        if self.recv.get(&id).is_some_and(RecvStream::is_done) {
            self.recv.remove(&id);
            self.owed.remove(&Owed::MaxStreamData(id));
            self.owed.remove(&Owed::Stop(id));
            self.note_closed(id);
        }
    }

    /// One half of it is gone; with the other the peer may open another stream.
    fn note_closed(&mut self, id: u64) {
        let stream = StreamId(id);
        let gone = !self.send.contains_key(&id) && !self.recv.contains_key(&id);
        if !gone || stream.opener() == self.side {
            return;
        }
        let dir = stream.dir() as usize;
        self.closed[dir] += 1;
        let most = [self.config.max_streams_bidi, self.config.max_streams_uni][dir];
        // A frame for each stream would be many; an eighth of them is worth one.
        if self.closed[dir] + most >= self.theirs[dir].most + most.div_ceil(8) {
            self.owed.insert(Owed::MaxStreams(stream.dir()));
        }
    }

    /// Bytes written and not acknowledged, received in order and not read, and of memory that hold them.
    pub(crate) fn held(&self) -> [u64; 3] {
        let sent = self.send.values().map(|stream| [stream.held(), 0, stream.memory()]);
        let received = self.recv.values().map(|stream| [0, stream.readable(), stream.memory()]);
        sent.chain(received).fold([0; 3], |[a, b, c], [d, e, f]| [a + d, b + e, c + f])
    }

    /// Streams with unfinished business, for tests and statistics.
    pub(crate) fn open_count(&self) -> usize {
        self.send.len().max(self.recv.len())
    }
}

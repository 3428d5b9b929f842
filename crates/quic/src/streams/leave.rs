//! Frames about streams that leave, and what became of them.

use core::cmp::Reverse;

use tack_units::Instant;

use super::{Carried, Dir, Owed, StreamEvent, StreamId, Streams, Turn, With};
use crate::config::MOST_STREAMS;
use crate::wire::Frame;

/// A STREAM frame is not begun at the end of a packet that has no more room than this: a header at its
/// longest, but for the type, and a few bytes.
const LEAST_ROOM: usize = 1 + 8 + 8 + 2 + 16;

impl Streams {
    /// Stream `id` may have something to send: it gets in line.
    pub(super) fn take_turn(&mut self, id: u64) {
        let (may_speak, credit) = (self.may_speak(id), self.flow.credit());
        let Some(stream) = self.send.get_mut(&id) else { return };
        let is_held_back = stream.unsent() > 0 && !(may_speak && stream.has_data(credit));
        match is_held_back {
            true => self.held_back.insert(id),
            false => self.held_back.remove(&id),
        };
        if !may_speak {
            return;
        }
        // Once per limit: an application that goes on writing has nothing new to say.
        if stream.is_blocked_unheard() {
            self.owed.insert(Owed::Blocked(id));
        } else if !stream.is_blocked() && stream.unsent() > 0 && self.flow.is_blocked_unheard() {
            self.owed.insert(Owed::DataBlocked);
        }
        if stream.turn.is_none() && stream.has_data(credit) {
            self.stand_last(id);
        }
    }

    /// The stream is the last of its priority to have its turn, or, with repairs, of those that have some.
    fn stand_last(&mut self, id: u64) {
        let Some(stream) = self.send.get_mut(&id) else { return };
        self.turns_given += 1;
        let turn = Turn { is_new: !stream.repairs(), number: self.turns_given };
        stream.turn = Some(turn);
        self.turns.insert((Reverse(stream.priority), turn), id);
    }

    /// Stream data waits that may leave.
    pub(crate) fn has_data(&self) -> bool {
        self.first_turn().is_some()
    }

    /// Whoever is first in line and has nothing to send any more leaves it.
    pub(super) fn settle_line(&mut self) {
        while let Some(id) = self.first_turn() {
            let credit = self.flow.credit();
            if self.send.get(&id).is_some_and(|stream| stream.has_data(credit)) {
                return;
            }
            self.end_turn();
        }
    }

    /// Bytes that wait and may leave, up to about `enough`; of very many streams it is taken for enough.
    pub(crate) fn waiting(&self, enough: u64) -> u64 {
        let credit = self.flow.credit();
        let mut waiting = 0_u64;
        for (i, id) in self.turns.values().enumerate() {
            if waiting >= enough || i == MAX_EARLY {
                return waiting.max(enough);
            }
            let stream = self.send.get(id);
            waiting = waiting.saturating_add(stream.map_or(0, |stream| stream.waiting(credit)));
        }
        waiting
    }

    /// What leaves next has left before and needs a packet with more room than this.
    pub(crate) fn repairs_more_than(&self, room: u64) -> bool {
        let stream = self.first_turn().and_then(|id| self.send.get(&id));
        stream.is_some_and(|stream| stream.first_lost() > room)
    }

    /// Something other than stream data waits that is worth a packet. What is in the way is not while packets fly, of
    /// which the peer tells what it allows: it goes with others.
    pub(crate) fn has_control(&self, is_in_flight: bool) -> bool {
        self.owed.first().is_some_and(|owed| !is_in_flight || *owed < Owed::Blocked(0))
    }

    /// The peer's limits alone hold back what was written.
    pub(crate) fn is_blocked(&self) -> bool {
        let is_unsent = |id| self.send.get(id).is_some_and(|stream| stream.unsent() > 0);
        !self.has_data() && self.held_back.iter().any(is_unsent)
    }

    /// The peer is told once more which of its limits are in the way, of a few streams at least.
    pub(crate) fn say_what_is_held_back(&mut self) {
        let first: Vec<u64> = self.held_back.iter().take(MAX_EARLY).copied().collect();
        self.flow.limit.note_blocked(false);
        for id in first {
            if let Some(stream) = self.send.get_mut(&id) {
                stream.limit.note_blocked(false);
            }
            self.take_turn(id);
        }
    }

    /// Appends limits, resets and such to a packet with `room` bytes left.
    pub(crate) fn put_control(
        &mut self,
        room: usize,
        out: &mut Vec<u8>,
        carried: &mut impl Extend<Carried>,
    ) {
        /// A frame of numbers is no longer.
        const MOST: usize = 1 + 3 * 8;
        let end = out.len() + room;
        while end >= out.len() + MOST {
            let Some(owed) = self.owed.pop_first() else { return };
            carried.extend(self.put(owed, out));
        }
    }

    /// Limits that are not worth a packet, but a few bytes of one that leaves anyway.
    pub(crate) fn note_limits(&mut self, with: With) {
        if self.flow.limit_to_tell(with).is_some() {
            self.owed.insert(Owed::MaxData);
        }
        // Few streams move at a time; each is looked at when it does.
        let first = self.recv.iter().take(MAX_EARLY);
        let told = first.filter(|(_, stream)| stream.limit_to_tell(with).is_some());
        self.owed.extend(told.map(|(id, _)| Owed::MaxStreamData(*id)));
    }

    /// What of it somebody must hear of when it arrives or is lost.
    fn put(&mut self, owed: Owed, out: &mut Vec<u8>) -> Option<Carried> {
        if let Owed::Reset(id) | Owed::Stop(id) = owed
            && !self.may_speak(id)
        {
            return None;
        }
        let (frame, what) = match owed {
            Owed::Reset(id) => {
                let reset = self.send.get(&id).and_then(|s| s.reset())?;
                let (code, final_size) = (reset.code, reset.final_size);
                (Frame::ResetStream { id, code, final_size }, Some(Carried::Reset(id)))
            }
            Owed::Stop(id) => {
                let code = self.recv.get(&id).and_then(|s| s.stopped())?;
                (Frame::StopSending { id, code }, Some(Carried::Stop(id)))
            }
            Owed::MaxData => (Frame::MaxData(self.flow.tell_limit()), Some(Carried::MaxData)),
            Owed::MaxStreamData(id) => {
                let stream = self.recv.get_mut(&id)?;
                let most = stream.tell_limit();
                (Frame::MaxStreamData { id, most }, Some(Carried::MaxStreamData(id)))
            }
            Owed::MaxStreams(dir) => {
                let most = (self.closed[dir as usize] + self.most_open(dir)).min(MOST_STREAMS);
                self.theirs[dir as usize].most = self.theirs[dir as usize].most.max(most);
                let frame = Frame::MaxStreams { bidi: dir == Dir::Bidi, most };
                (frame, Some(Carried::MaxStreams(dir)))
            }
            Owed::Blocked(id) => {
                let stream = self.send.get_mut(&id).filter(|s| s.is_blocked())?;
                stream.limit.note_blocked(true);
                (Frame::StreamDataBlocked { id, at: stream.limit.limit() }, None)
            }
            Owed::StreamsBlocked(dir) => {
                let at = self.ours[dir as usize].most;
                (Frame::StreamsBlocked { bidi: dir == Dir::Bidi, at }, None)
            }
            Owed::DataBlocked if self.flow.credit() > 0 => return None,
            Owed::DataBlocked => {
                self.flow.limit.note_blocked(true);
                (Frame::DataBlocked(self.flow.limit.limit()), None)
            }
        };
        frame.emit(out);
        what
    }

    fn most_open(&self, dir: Dir) -> u64 {
        match dir {
            Dir::Bidi => self.config.max_streams_bidi,
            Dir::Uni => self.config.max_streams_uni,
        }
    }

    /// Appends stream data to a packet with `room` bytes left; streams of one priority take turns. True: some
    /// of it has left before.
    pub(crate) fn put_data(
        &mut self,
        room: usize,
        out: &mut Vec<u8>,
        carried: &mut impl Extend<Carried>,
    ) -> bool {
        let (end, mut again) = (out.len() + room, false);
        while end >= out.len() + LEAST_ROOM {
            let Some(id) = self.first_turn() else { break };
            let credit = self.flow.credit();
            let room = end - out.len();
            let Some(stream) = self.send.get_mut(&id) else { break };
            // No more than it takes: an application's write of nearly a packet should stay one.
            let header = Frame::stream_header_len(id, stream.next_offset(), room as u64);
            let room = (room - header) as u64;
            let Some(part) = stream.next(room, credit) else { break };
            self.flow.on_sent(part.fresh);
            if part.fresh > 0 {
                self.last_turn = id;
            }
            if !core::mem::replace(&mut stream.flies, true) {
                self.flying.push(id);
            }
            again |= part.fresh < part.range.end - part.range.start;
            let (a, b) = stream.slices(&part.range);
            Frame::put_stream_header(id, part.range.start, part.fin, a.len() + b.len(), out);
            out.extend_from_slice(a);
            out.extend_from_slice(b);
            self.end_turn();
            self.settle_line();
            carried.extend([Carried::Part { id, range: part.range, fin: part.fin }]);
        }
        again
    }

    fn first_turn(&self) -> Option<u64> {
        self.turns.first_key_value().map(|(_, id)| *id)
    }

    /// Whose turn it was is the last among those of its priority now, or not in line any more.
    fn end_turn(&mut self) {
        let Some((_, id)) = self.turns.pop_first() else { return };
        let Some(stream) = self.send.get_mut(&id) else { return };
        stream.turn = None;
        match stream.has_data(self.flow.credit()) {
            true => self.stand_last(id),
            false => self.take_turn(id),
        }
    }

    /// What a packet carried has arrived.
    pub(crate) fn on_acked(&mut self, carried: Carried) {
        match carried {
            Carried::Part { id, range, fin } => {
                let Some(stream) = self.send.get_mut(&id) else { return };
                stream.on_acked(range, fin);
                if stream.is_done() {
                    self.send.remove(&id);
                    self.events.remove(&StreamEvent::Writable(StreamId(id)));
                    self.events.insert(StreamEvent::Finished(StreamId(id)));
                    self.note_closed(id);
                } else if stream.take_writable() {
                    self.events.insert(StreamEvent::Writable(StreamId(id)));
                }
                self.settle_line();
            }
            Carried::Reset(id) => {
                if let Some(stream) = self.send.remove(&id) {
                    self.held_back.remove(&id);
                    self.note_stopped(id, &stream);
                    self.events.insert(StreamEvent::GivenUp(StreamId(id)));
                    self.note_closed(id);
                    self.settle_line();
                }
            }
            Carried::Stop(_)
            | Carried::MaxData
            | Carried::MaxStreamData(_)
            | Carried::MaxStreams(_) => {}
        }
    }

    /// It is lost: what of it still matters is owed again.
    pub(crate) fn on_lost(&mut self, carried: Carried) {
        match carried {
            Carried::Part { id, range, fin } => {
                if let Some(stream) = self.send.get_mut(&id) {
                    stream.on_lost(range, fin);
                    if let Some(turn) = stream.turn.take_if(|turn| turn.is_new) {
                        self.turns.remove(&(Reverse(stream.priority), turn));
                    }
                    self.take_turn(id);
                }
            }
            Carried::Reset(id) => drop(self.owed.insert(Owed::Reset(id))),
            Carried::Stop(id) => drop(self.owed.insert(Owed::Stop(id))),
            Carried::MaxData => drop(self.owed.insert(Owed::MaxData)),
            Carried::MaxStreamData(id) => drop(self.owed.insert(Owed::MaxStreamData(id))),
            Carried::MaxStreams(dir) => drop(self.owed.insert(Owed::MaxStreams(dir))),
        }
    }

    /// Send buffers follow the congestion window: those of streams with bytes under way, for of others, which may
    /// be thousands, none is too small.
    pub(crate) fn tune_sending(&mut self, window: u64, now: Instant) {
        let Streams { flying, send, events, .. } = self;
        flying.retain(|id| {
            let Some(stream) = send.get_mut(id) else { return false };
            stream.flies = stream.tune(window, now);
            if stream.take_writable() {
                events.insert(StreamEvent::Writable(StreamId(*id)));
            }
            stream.flies
        });
    }
}

/// Streams looked at for limits that ride along or are in the way, or for what waits.
const MAX_EARLY: usize = 8;

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64;
    use rustls::Side;
    use tack_units::Instant;

    use super::*;
    use crate::config::Config;
    use crate::streams::SendStream;
    use crate::wire::Parameters;

    /// Limits of a peer, some of them in the way of what is written.
    fn limits(rng: &mut Pcg64) -> Parameters {
        let mut few = |most: u64| rng.random_range(0..most);
        Parameters {
            max_data: few(3_000),
            max_stream_data_bidi_local: few(900),
            max_stream_data_bidi_remote: few(900),
            max_stream_data_uni: few(900),
            max_streams_bidi: few(4),
            max_streams_uni: few(4),
            ..Parameters::default()
        }
    }

    #[test]
    fn that_limits_alone_hold_bytes_back_is_known_whatever_happens_to_streams() {
        let (mut blocked, mut free) = (0, 0);
        for seed in 0..200 {
            let mut rng = Pcg64::seed_from_u64(seed);
            let mut streams = Streams::new(Side::Client, &Config::default(), Instant::ZERO);
            streams.on_parameters(&limits(&mut rng));
            let (mut ids, mut flying, mut out) = (Vec::new(), Vec::new(), Vec::new());
            for _ in 0..200 {
                let id = ids.get(rng.random_range(0..ids.len().max(1))).copied();
                let id = id.unwrap_or(StreamId(0));
                match rng.random_range(0..40) {
                    0..6 => ids.extend(streams.open(Dir::Uni, Instant::ZERO)),
                    6..9 => ids.extend(streams.open(Dir::Bidi, Instant::ZERO)),
                    9..16 => drop(streams.write(id, &vec![7; rng.random_range(0..700)])),
                    16 => drop(streams.finish(id)),
                    17 => drop(streams.reset(id, 1)),
                    18 => streams.on_stop_sending(id.0, 2, Instant::ZERO).unwrap_or_default(),
                    19 => drop(streams.set_priority(id, rng.random_range(0..3))),
                    20..23 => {
                        let most = rng.random_range(0..2_000);
                        streams.on_max_stream_data(id.0, most, Instant::ZERO).unwrap_or_default();
                    }
                    23..25 => streams.on_max_data(rng.random_range(0..9_000)),
                    25 => streams.on_max_streams(Dir::Uni, rng.random_range(0..9)),
                    26 if flying.is_empty() => streams.begin_anew(&limits(&mut rng)),
                    26..34 => {
                        streams.put_control(200, &mut out, &mut flying);
                        streams.put_data(rng.random_range(40..600), &mut out, &mut flying);
                    }
                    at if !flying.is_empty() => {
                        let what = flying.swap_remove(rng.random_range(0..flying.len()));
                        if at < 38 { streams.on_acked(what) } else { streams.on_lost(what) }
                    }
                    _ => {}
                }
                let (credit, waits) = (streams.flow.credit(), |s: &SendStream| s.unsent() > 0);
                let may_leave =
                    |(id, s): (&u64, &SendStream)| streams.may_speak(*id) && s.has_data(credit);
                assert_eq!(streams.has_data(), streams.send.iter().any(may_leave), "seed {seed}");
                let expected = streams.send.values().any(waits) && !streams.has_data();
                assert_eq!(streams.is_blocked(), expected, "seed {seed}");
                *(if expected { &mut blocked } else { &mut free }) += 1;
                out.clear();
            }
        }
        assert!(blocked > 1_000 && free > 1_000, "{blocked} and {free}");
    }

    /// A client with `count` streams, each of which has written `bytes`, that sends what the peer allows.
    fn speaking(count: u64, bytes: usize, max_data: u64) -> (Streams, Vec<Carried>) {
        let mut streams = Streams::new(Side::Client, &Config::default(), Instant::ZERO);
        let max_stream_data_uni = 1 << 20;
        let limits = Parameters {
            max_streams_uni: count,
            max_data,
            max_stream_data_uni,
            ..Parameters::default()
        };
        streams.on_parameters(&limits);
        for _ in 0..count {
            let id = streams.open(Dir::Uni, Instant::ZERO).unwrap();
            assert_eq!(streams.write(id, &vec![7; bytes]), Ok(bytes));
        }
        let mut flying = Vec::new();
        while streams.has_data() {
            streams.put_data(1_200, &mut Vec::new(), &mut flying);
        }
        (streams, flying)
    }

    #[test]
    fn streams_take_turns_also_where_the_limit_of_the_connection_lets_few_speak_at_a_time() {
        const PACKETS: u64 = 10;
        let (mut streams, mut flying) = speaking(40, 20_000, PACKETS * 1_150);
        for round in 2..30 {
            streams.on_max_data(round * PACKETS * 1_150);
            while streams.has_data() {
                streams.put_data(1_200, &mut Vec::new(), &mut flying);
            }
        }
        let said = streams.send.values().map(|stream| 20_000 - stream.unsent());
        let (least, most) = (said.clone().min().unwrap(), said.max().unwrap());
        assert!(2 * least > most, "{least} and {most} bytes");
    }

    #[test]
    fn a_limit_in_the_way_is_told_once_however_often_an_application_writes() {
        // Of the connection, and of a stream.
        for (max_data, max_stream_data_uni) in [(1_000, 1 << 20), (1 << 20, 1_000)] {
            let mut streams = Streams::new(Side::Client, &Config::default(), Instant::ZERO);
            let limits = Parameters { max_data, max_stream_data_uni, ..Parameters::default() };
            streams.on_parameters(&Parameters { max_streams_uni: 1, ..limits });
            let id = streams.open(Dir::Uni, Instant::ZERO).unwrap();
            assert_eq!(streams.write(id, &[7; 2_000]), Ok(2_000));
            streams.put_data(1_200, &mut Vec::new(), &mut Vec::new());
            let told = |streams: &mut Streams| {
                let mut out = Vec::new();
                streams.put_control(1_200, &mut out, &mut Vec::new());
                out.len()
            };
            assert!(told(&mut streams) > 0, "{max_data}");
            for _ in 0..100 {
                assert_eq!(streams.write(id, &[7]), Ok(1));
                assert_eq!(told(&mut streams), 0, "{max_data}");
            }
            // Nothing came of it for long: it may be lost.
            streams.say_what_is_held_back();
            assert!(told(&mut streams) > 0, "{max_data}");
            // It was raised, and is in the way again.
            streams.on_max_data(max_data + 1);
            streams.on_max_stream_data(id.0, max_stream_data_uni + 1, Instant::ZERO).unwrap();
            streams.put_data(1_200, &mut Vec::new(), &mut Vec::new());
            assert!(told(&mut streams) > 0, "{max_data}");
            assert_eq!(told(&mut streams), 0, "{max_data}");
        }
    }

    #[test]
    fn what_was_lost_goes_before_what_others_have_to_say_for_the_first_time() {
        let (mut streams, mut flying) = speaking(40, 20_000, 40 * 1_150);
        streams.on_max_data(1 << 20);
        let (first, urgent) = (StreamId(2), StreamId(14));
        streams.set_priority(urgent, 1).unwrap();
        streams.on_lost(flying.swap_remove(0));
        flying.clear();
        while streams.has_data() {
            streams.put_data(1_200, &mut Vec::new(), &mut flying);
        }
        let part = |carried: &Carried| match carried {
            Carried::Part { id, range, .. } => (*id, range.start),
            _ => panic!("{carried:?}"),
        };
        let before = flying.iter().map(part).take_while(|part| *part != (first.0, 0));
        assert_eq!(before.clone().find(|(id, _)| *id != urgent.0), None);
        assert!(before.count() > 10, "of greater priority, though new");
    }

    #[test]
    fn an_acknowledgment_asks_only_streams_with_bytes_under_way_whether_buffers_suffice() {
        let (mut streams, flying) = speaking(1_000, 100, 1 << 20);
        assert_eq!(streams.flying.len(), 1_000);
        flying.into_iter().for_each(|carried| streams.on_acked(carried));
        streams.tune_sending(1 << 20, Instant::ZERO);
        assert!(streams.flying.is_empty());
        assert_eq!(streams.write(StreamId(2), b"more"), Ok(4));
        streams.put_data(1_200, &mut Vec::new(), &mut Vec::new());
        assert_eq!(streams.flying, [2]);
    }
}

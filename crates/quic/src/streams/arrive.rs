//! Frames about streams that arrive.

use rustls::Side;
use tack_units::Instant;

use super::{Dir, Owed, StreamEvent, StreamId, Streams};
use crate::error::{Violation, code};

const STATE: Violation =
    Violation::new(code::STREAM_STATE_ERROR, "a frame for a stream that cannot have it");

/// Which half of a stream a frame of the peer is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Half {
    /// That we send on.
    Send,
    /// That we receive on.
    Recv,
}

impl Streams {
    /// The stream exists, has existed, or the peer opens it now, and those before it
    /// [RFC 9000 §3.2]. True: it exists.
    fn reach(&mut self, id: u64, half: Half, now: Instant) -> Result<bool, Violation> {
        let stream = StreamId(id);
        let ours = stream.opener() == self.side;
        let one_way = stream.dir() == Dir::Uni;
        if one_way && ours != (half == Half::Send) {
            return Err(STATE);
        }
        let dir = stream.dir() as usize;
        if ours {
            if stream.index() >= self.ours[dir].next {
                return Err(STATE);
            }
        } else if stream.index() >= self.theirs[dir].next {
            if stream.index() >= self.theirs[dir].most {
                return Err(Violation::new(code::STREAM_LIMIT_ERROR, "too many streams"));
            }
            self.untouched[dir].insert(self.theirs[dir].next..stream.index() + 1);
            self.events.insert(StreamEvent::Opened(stream));
            self.theirs[dir].next = stream.index() + 1;
        }
        self.spoken_at = now;
        self.touch(stream);
        Ok(match half {
            Half::Send => self.send.contains_key(&id),
            Half::Recv => self.recv.contains_key(&id),
        })
    }

    /// One that the peer opened by another is spoken of for the first time, or accepted.
    pub(super) fn touch(&mut self, id: StreamId) {
        let index = id.index()..id.index() + 1;
        if id.opener() != self.side && self.untouched[id.dir() as usize].remove(index) > 0 {
            self.create(id, self.spoken_at);
        }
    }

    /// STREAM. Returns whether it brought anything new.
    pub(crate) fn on_stream(
        &mut self,
        id: u64,
        offset: u64,
        fin: bool,
        data: &[u8],
        now: Instant,
    ) -> Result<(), Violation> {
        if !self.reach(id, Half::Recv, now)? {
            return Ok(());
        }
        let Some(stream) = self.recv.get_mut(&id) else { return Ok(()) };
        let more = stream.on_data(offset, data, fin)?;
        self.flow.on_received(more)?;
        self.after_arrival(id);
        Ok(())
    }

    /// RESET_STREAM.
    pub(crate) fn on_reset(
        &mut self,
        id: u64,
        code: u64,
        final_size: u64,
        now: Instant,
    ) -> Result<(), Violation> {
        if !self.reach(id, Half::Recv, now)? {
            return Ok(());
        }
        let Some(stream) = self.recv.get_mut(&id) else { return Ok(()) };
        let more = stream.on_reset(code, final_size)?;
        self.flow.on_received(more)?;
        self.after_arrival(id);
        Ok(())
    }

    fn after_arrival(&mut self, id: u64) {
        let Some(stream) = self.recv.get_mut(&id) else { return };
        if stream.is_readable() && !stream.told_readable {
            stream.told_readable = true;
            self.events.insert(StreamEvent::Readable(StreamId(id)));
        }
        if stream.is_left() {
            self.after_reading(id);
        }
    }

    /// STOP_SENDING.
    pub(crate) fn on_stop_sending(
        &mut self,
        id: u64,
        code: u64,
        now: Instant,
    ) -> Result<(), Violation> {
        if self.reach(id, Half::Send, now)?
            && let Some(stream) = self.send.get_mut(&id)
            && stream.on_stop(code)
        {
            self.owed.insert(Owed::Reset(id));
            self.settle_line();
            self.events.insert(StreamEvent::Stopped(StreamId(id)));
        }
        Ok(())
    }

    /// MAX_STREAM_DATA.
    pub(crate) fn on_max_stream_data(
        &mut self,
        id: u64,
        most: u64,
        now: Instant,
    ) -> Result<(), Violation> {
        if self.reach(id, Half::Send, now)?
            && let Some(stream) = self.send.get_mut(&id)
            && stream.limit.allow(most)
        {
            self.owed.remove(&Owed::Blocked(id));
            self.take_turn(id);
        }
        Ok(())
    }

    /// STREAM_DATA_BLOCKED says nothing that is not known.
    pub(crate) fn on_stream_data_blocked(
        &mut self,
        id: u64,
        now: Instant,
    ) -> Result<(), Violation> {
        self.reach(id, Half::Recv, now).map(|_| ())
    }

    /// MAX_DATA.
    pub(crate) fn on_max_data(&mut self, most: u64) {
        if self.flow.limit.allow(most) {
            self.owed.remove(&Owed::DataBlocked);
            let behind = self.held_back.range(self.last_turn + 1..);
            let before = self.held_back.range(..=self.last_turn);
            let waiting: Vec<u64> = behind.chain(before).copied().collect();
            for id in waiting {
                self.take_turn(id);
            }
        }
    }

    /// MAX_STREAMS.
    pub(crate) fn on_max_streams(&mut self, dir: Dir, most: u64) {
        let opened = &mut self.ours[dir as usize];
        if most > opened.most {
            // By what was remembered of the peer.
            let opened_more = opened.next > opened.most;
            opened.most = most;
            self.owed.remove(&Owed::StreamsBlocked(dir));
            if core::mem::take(&mut self.wanted[dir as usize]) {
                self.events.insert(StreamEvent::Available(dir));
            }
            if opened_more {
                self.resume(dir);
            }
        }
    }
}

pub(super) fn opposite(side: Side) -> Side {
    match side {
        Side::Client => Side::Server,
        Side::Server => Side::Client,
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::config::Config;

    /// What a peer that sends all that it may is allowed in the end beyond what was read, of a stream and of all.
    fn allowed(reads: bool) -> [u64; 2] {
        let (config, rtt) = (Config::default(), Some(Duration::from_millis(50)));
        let mut streams = Streams::new(Side::Server, &config, Instant::ZERO);
        let (mut sent, mut read) = (0, 0);
        let mut most = [config.initial_window, config.initial_connection_window];
        for ms in 0..1_000 {
            let now = Instant::from_millis(ms);
            let bytes = (most[0].min(most[1]) - sent).min(25_000);
            streams.on_stream(0, sent, false, &vec![1; bytes as usize], now).unwrap();
            streams.tune(0, rtt, now);
            sent += bytes;
            while reads && let Ok(Some(taken @ 1..)) = streams.read(StreamId(0), &mut [0; 25_000]) {
                read += taken as u64;
            }
            most = [streams.recv.get_mut(&0).unwrap().tell_limit(), streams.flow.tell_limit()];
        }
        most.map(|most| most - read)
    }

    #[test]
    fn windows_of_stream_and_connection_grow_for_who_reads_alone() {
        let Config { initial_window, initial_connection_window, .. } = Config::default();
        assert_eq!(allowed(false), [initial_window, initial_connection_window]);
        assert!(allowed(true).iter().all(|most| *most > 4_000_000), "{:?}", allowed(true));
    }
}

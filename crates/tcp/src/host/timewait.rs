//! TIME-WAIT: 4-tuples that must not be mistaken for new connections, in a few words each.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use tack_units::Instant;

use crate::conn::LastWords;
use crate::host::demux::Key;
use crate::host::ports::REUSE_AFTER;
use crate::wire::{AckType, Flags, Header, Options, Segment, Timestamps};

/// When a peer that does not know the round trip repeats its FIN [RFC 6298 §2.1].
const PEER_RTO: Duration = Duration::from_secs(1);

/// All connections in TIME-WAIT.
#[derive(Debug)]
pub(crate) struct TimeWait {
    entries: BTreeMap<Key, Waiting>,
    by_expiry: BTreeSet<(Instant, Key)>,
    wait: Duration,
    max: usize,
    /// Borrowed ports whose wait is over, and whether they had timestamps.
    over: Vec<(Key, bool)>,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    words: LastWords,
    until: Instant,
    /// The local port goes back to [`LocalPorts`](crate::host::ports::LocalPorts).
    borrowed: bool,
    /// Its ACK left once more, since the program was about to end.
    repeated: bool,
}

/// What a segment for a 4-tuple in TIME-WAIT leads to.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// Nothing.
    Ignore,
    /// This ACK.
    Answer(Box<Header>),
    /// The peer opens a new connection; the old one is forgotten.
    Reopen,
}

impl TimeWait {
    pub(crate) fn new(wait: Duration, max: usize) -> TimeWait {
        let (entries, by_expiry) = (BTreeMap::new(), BTreeSet::new());
        TimeWait { entries, by_expiry, wait, max: max.max(1), over: Vec::new() }
    }

    pub(crate) fn insert(&mut self, key: Key, words: LastWords, borrowed: bool, now: Instant) {
        self.forget(&key);
        if self.entries.len() >= self.max
            && let Some(&(_, oldest)) = self.by_expiry.first()
        {
            self.forget(&oldest);
        }
        let until = now + self.wait;
        self.entries.insert(key, Waiting { words, until, borrowed, repeated: false });
        self.by_expiry.insert((until, key));
    }

    pub(crate) fn contains(&self, key: &Key) -> bool {
        self.entries.contains_key(key)
    }

    /// Whether we may open a connection of this 4-tuple: nothing is known of it, or its timestamps
    /// tell the new one from the old [RFC 6191 §2].
    pub(crate) fn may_reuse(&self, key: &Key, now: Instant) -> bool {
        self.entries.get(key).is_none_or(|Waiting { words, .. }| {
            words.ts_recent.is_some() && now.saturating_since(words.noted) >= REUSE_AFTER
        })
    }

    /// What was known of a 4-tuple, which is known no more.
    pub(crate) fn forget(&mut self, key: &Key) -> Option<LastWords> {
        let Waiting { words, until, borrowed, .. } = self.entries.remove(key)?;
        self.by_expiry.remove(&(until, *key));
        if borrowed {
            self.over.push((*key, words.ts_recent.is_some()));
        }
        Some(words)
    }

    /// A borrowed port that is needed no more, and whether it had timestamps.
    pub(crate) fn pop_over(&mut self) -> Option<(Key, bool)> {
        self.over.pop()
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.by_expiry.first().map(|(at, _)| *at)
    }

    pub(crate) fn expire(&mut self, now: Instant) {
        while let Some(&(at, key)) = self.by_expiry.first()
            && at <= now
        {
            self.forget(&key);
        }
    }

    /// The ACK of each FIN that came so lately that the peer may still repeat it, for the first time.
    pub(crate) fn repeat_last_words(&mut self, now: Instant) -> Vec<(Key, Header)> {
        let (entries, last) = (&mut self.entries, now + self.wait);
        let recent = self.by_expiry.iter().rev().take_while(|(until, _)| *until + PEER_RTO > last);
        let unrepeated = recent.filter_map(|(_, key)| {
            let waiting = entries.get_mut(key).filter(|it| !it.repeated)?;
            waiting.repeated = true;
            Some((*key, waiting.words.ack(key, now)))
        });
        unrepeated.collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// [RFC 9293 §3.10.7.4] for TIME-WAIT, reuse after [RFC 6191 §2], RST ignored as
    /// [RFC 1337 §3] asks.
    pub(crate) fn on_segment(&mut self, key: &Key, seg: &Segment<'_>, now: Instant) -> Verdict {
        let Some(&Waiting { words, .. }) = self.entries.get(key) else { return Verdict::Ignore };
        let header = &seg.header;
        if header.flags.has(Flags::RST) {
            return Verdict::Ignore;
        }
        if header.flags.has(Flags::SYN) && !header.flags.has(Flags::ACK) {
            let newer_stamp = match (header.options.timestamps, words.ts_recent) {
                (Some(ts), Some(recent)) => ts.val.wrapping_sub(recent) as i32 > 0,
                _ => false,
            };
            if newer_stamp || header.seq.since(words.rcv_nxt) > 0 {
                self.forget(key);
                return Verdict::Reopen;
            }
            return Verdict::Answer(Box::new(words.ack(key, now)));
        }
        if header.flags.has(Flags::FIN) {
            // Ours was lost: another 2 MSL.
            let until = now + self.wait;
            if let Some(waiting) = self.entries.get_mut(key) {
                self.by_expiry.remove(&(waiting.until, *key));
                waiting.until = until;
                self.by_expiry.insert((until, *key));
            }
            return Verdict::Answer(Box::new(words.ack(key, now)));
        }
        let body = header.options.ack_type.is_some();
        if !seg.payload.is_empty() && !body {
            return Verdict::Answer(Box::new(words.ack(key, now)));
        }
        Verdict::Ignore
    }
}

impl LastWords {
    fn ack(&self, key: &Key, now: Instant) -> Header {
        let elapsed = now.saturating_since(self.noted);
        let ticks = if self.micros { elapsed.as_micros() } else { elapsed.as_millis() };
        let timestamps = self
            .ts_recent
            .map(|ecr| Timestamps { val: self.clock_offset.wrapping_add(ticks as u32), ecr });
        // Without text at SND.UNA, which is SND.NXT: an empty body.
        let ack_type = self.tack.then_some(AckType::WindowIack);
        Header {
            src_port: key.local_port,
            dst_port: key.remote_port,
            seq: self.snd_nxt,
            ack: self.rcv_nxt,
            flags: Flags::ACK,
            window: 0,
            urgent: 0,
            options: Options { timestamps, ack_type, ..Options::default() },
        }
    }
}

//! 1-RTT keys, and their update [RFC 9001 §6].
//!
//! Three generations are held: the one in force, the next, so that an update by the peer takes no longer
//! to find out than a damaged packet, and the last, for packets that are late.

use rustls::quic::{HeaderProtectionKey, Keys, PacketKey, PacketKeySet, Secrets};

use crate::error::{Violation, code};
use crate::protection::{OpenError, Opened, SealKeys, open_payload, unprotect};

/// An update is begun so many packets before a key is worn out.
const MARGIN: u64 = 1 << 16;
/// Where none may begin the connection ends so many packets before: its CONNECTION_CLOSE needs the key as well, and goes
/// again for the 1st, 2nd, 4th, ... packet that comes after it [RFC 9001 §6.6].
const FAREWELL: u64 = 1 + u64::BITS as u64;

/// See the [module's text](self).
pub(crate) struct OneRtt {
    /// Of headers, local and remote: they stay.
    headers: [Box<dyn HeaderProtectionKey>; 2],
    current: PacketKeySet,
    next: PacketKeySet,
    previous: Option<Box<dyn PacketKey>>,
    secrets: Secrets,
    phase: bool,
    /// The first packet of ours in this phase; `None`: none has left.
    first_sent: Option<u64>,
    /// The first of the peer's; of those below, the last key opens the late ones.
    first_received: Option<u64>,
    /// A packet of ours in this phase was acknowledged: only then another update may begin.
    settled: bool,
    sealed: u64,
    /// Packets that could not be opened, of all generations.
    forged: u64,
    /// Generations after the first.
    updates: u64,
    /// The largest number that the last key opened since another is in force.
    last_of_previous: Option<u64>,
}

impl core::fmt::Debug for OneRtt {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "OneRtt(phase {}, {} sealed)", self.phase, self.sealed)
    }
}

impl OneRtt {
    pub(crate) fn new(keys: Keys, mut secrets: Secrets) -> OneRtt {
        let next = secrets.next_packet_keys();
        let Keys { local, remote } = keys;
        OneRtt {
            headers: [local.header, remote.header],
            current: PacketKeySet { local: local.packet, remote: remote.packet },
            next,
            previous: None,
            secrets,
            phase: false,
            first_sent: None,
            first_received: None,
            settled: false,
            sealed: 0,
            forged: 0,
            updates: 0,
            last_of_previous: None,
        }
    }

    /// Generations that followed the first.
    pub(crate) fn updates(&self) -> u64 {
        self.updates
    }

    /// The keys, and the phase, of packet `number` that leaves now.
    pub(crate) fn seal(&mut self, number: u64) -> (SealKeys<'_>, bool) {
        if self.sealed + MARGIN > self.current.local.confidentiality_limit() && self.settled {
            self.advance();
        }
        self.sealed += 1;
        self.first_sent.get_or_insert(number);
        (SealKeys { header: &*self.headers[0], packet: &*self.current.local }, self.phase)
    }

    /// The key cannot be used any more, and no other may be.
    pub(crate) fn is_worn_out(&self) -> bool {
        let limit = self.current.local.confidentiality_limit();
        self.sealed >= limit.saturating_sub(FAREWELL)
            || self.forged >= self.current.remote.integrity_limit()
    }

    /// Another generation, if one may begin already; true if it does.
    pub(crate) fn update(&mut self) -> bool {
        let may = self.settled;
        if may {
            self.advance();
        }
        may
    }

    fn advance(&mut self) {
        let after = self.secrets.next_packet_keys();
        let next = core::mem::replace(&mut self.next, after);
        let last = core::mem::replace(&mut self.current, next);
        self.previous = Some(last.remote);
        self.phase = !self.phase;
        (self.first_sent, self.first_received) = (None, None);
        (self.settled, self.sealed) = (false, 0);
        (self.updates, self.last_of_previous) = (self.updates + 1, None);
    }

    /// The peer has acknowledged packet `largest`.
    pub(crate) fn on_acked(&mut self, largest: u64) {
        self.settled |= self.first_sent.is_some_and(|first| largest >= first);
    }

    /// Opens a packet in place; see [`unprotect`].
    pub(crate) fn open<'a>(
        &mut self,
        packet: &'a mut [u8],
        number_at: usize,
        expected: u64,
    ) -> Result<Result<Opened<'a>, OpenError>, Violation> {
        let unprotected = match unprotect(&*self.headers[1], packet, number_at, expected) {
            Ok(unprotected) => unprotected,
            Err(e) => return Ok(Err(e)),
        };
        let number = unprotected.number;
        let is_late = self.first_received.is_none_or(|first| number < first);
        let (key, is_next) = match unprotected.key_phase == self.phase {
            true => (&self.current.remote, false),
            false => match &self.previous {
                // Before the peer followed our update, what it sends has the last key.
                Some(previous) if is_late => (previous, false),
                _ => (&self.next.remote, true),
            },
        };
        let opened = match open_payload(&**key, packet, &unprotected) {
            Ok(opened) => opened,
            Err(e) => {
                self.forged += u64::from(e == OpenError::Damaged);
                return Ok(Err(e));
            }
        };
        if is_next {
            if self.first_sent.is_none() && self.previous.is_some() {
                let reason = "keys are updated before the last update was acknowledged";
                return Err(Violation::new(code::KEY_UPDATE_ERROR, reason));
            }
            self.advance();
        }
        if opened.key_phase == self.phase {
            self.first_received = Some(self.first_received.map_or(number, |f| f.min(number)));
        } else {
            self.last_of_previous = self.last_of_previous.max(Some(number));
        }
        // A new key is never left again [RFC 9001 §6.4].
        if self.last_of_previous > self.first_received && self.first_received.is_some() {
            return Err(Violation::new(
                code::KEY_UPDATE_ERROR,
                "an old key is used after a new one",
            ));
        }
        Ok(Ok(opened))
    }
}

//! Connection IDs [RFC 9000 §5.1]: those that the peer issued to us, and those that we issue.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{Violation, code};
use crate::secret::Secret;
use crate::wire::{ConnectionId, Parameters};

/// IDs of the peer that are kept at a time, and told to it as our limit.
pub(crate) const ACTIVE_LIMIT: u64 = 4;
/// IDs that we issue at a time, at most.
const MOST_ISSUED: u64 = 4;
/// IDs that wait to be retired; of a peer that makes us retire more, the connection ends.
const MAX_RETIRING: usize = 32;

/// IDs that packets to the peer go to.
#[derive(Debug)]
pub(crate) struct RemoteCids {
    active: BTreeMap<u64, (ConnectionId, Option<[u8; 16]>)>,
    current: u64,
    retire_prior_to: u64,
    /// To be told.
    retiring: BTreeSet<u64>,
}

impl RemoteCids {
    pub(crate) fn new(first: ConnectionId) -> RemoteCids {
        RemoteCids {
            active: BTreeMap::from([(0, (first, None))]),
            current: 0,
            retire_prior_to: 0,
            retiring: BTreeSet::new(),
        }
    }

    /// In use.
    pub(crate) fn current(&self) -> ConnectionId {
        self.active.get(&self.current).map_or(ConnectionId::default(), |(cid, _)| *cid)
    }

    /// The peer has chosen another ID for itself, in the handshake.
    pub(crate) fn replace_first(&mut self, cid: ConnectionId) {
        self.active.insert(0, (cid, None));
    }

    /// The first ID's token, from the server's transport parameters.
    pub(crate) fn set_token(&mut self, token: [u8; 16]) {
        if let Some((_, known)) = self.active.get_mut(&0) {
            *known = Some(token);
        }
    }

    /// NEW_CONNECTION_ID.
    pub(crate) fn on_new(
        &mut self,
        sequence: u64,
        retire_prior_to: u64,
        cid: ConnectionId,
        token: [u8; 16],
    ) -> Result<(), Violation> {
        if self.current().as_bytes().is_empty() {
            return Err(Violation::of_protocol("a peer without connection IDs issues one"));
        }
        let differs = |known: &(ConnectionId, Option<[u8; 16]>)| *known != (cid, Some(token));
        let known = self.active.get(&sequence);
        let reused = self.active.iter().any(|(n, (id, _))| *n != sequence && *id == cid);
        if known.filter(|_| sequence > 0).is_some_and(differs) || reused {
            return Err(Violation::of_protocol("a connection ID is issued twice"));
        }
        self.retire_prior_to = self.retire_prior_to.max(retire_prior_to);
        let was_left = sequence < self.current && !self.active.contains_key(&sequence);
        if sequence < self.retire_prior_to || was_left {
            // Told again, or late: it is not taken up once more.
            self.active.remove(&sequence);
            self.retiring.insert(sequence);
        } else {
            self.active.entry(sequence).or_insert((cid, Some(token)));
        }
        while let Some((&lowest, _)) =
            self.active.first_key_value().filter(|(n, _)| **n < self.retire_prior_to)
        {
            self.active.remove(&lowest);
            self.retiring.insert(lowest);
        }
        if let Some((&lowest, _)) = self.active.first_key_value()
            && !self.active.contains_key(&self.current)
        {
            self.current = lowest;
        }
        if self.active.len() as u64 > ACTIVE_LIMIT || self.retiring.len() > MAX_RETIRING {
            let reason = "more connection IDs than were allowed";
            return Err(Violation::new(code::CONNECTION_ID_LIMIT_ERROR, reason));
        }
        Ok(())
    }

    /// An ID that was not used yet, for another path.
    pub(crate) fn spare(&self) -> Option<ConnectionId> {
        self.active.range(self.current + 1..).next().map(|(_, (cid, _))| *cid)
    }

    /// An ID for packets to another address: one that nobody has seen, or none at all of a peer that has
    /// none, which links no two paths [RFC 9000 §9.5].
    pub(crate) fn elsewhere(&self) -> Option<ConnectionId> {
        let current = self.current();
        if current.as_bytes().is_empty() { Some(current) } else { self.spare() }
    }

    /// Moves to an ID that was not used yet, as on another path; false: there is none.
    pub(crate) fn advance(&mut self) -> bool {
        let Some((&next, _)) = self.active.range(self.current + 1..).next() else { return false };
        self.active.remove(&self.current);
        self.retiring.insert(self.current);
        self.current = next;
        true
    }

    /// The next RETIRE_CONNECTION_ID that is owed.
    pub(crate) fn take_retiring(&mut self) -> Option<u64> {
        self.retiring.pop_first()
    }

    pub(crate) fn owes(&self) -> bool {
        !self.retiring.is_empty()
    }

    /// RETIRE_CONNECTION_ID was lost.
    pub(crate) fn retire_again(&mut self, sequence: u64) {
        self.retiring.insert(sequence);
    }

    /// The tail of a datagram resets the connection.
    pub(crate) fn is_reset(&self, tail: &[u8]) -> bool {
        // Tokens are compared in constant time: who asks may try often.
        let equals = |token: &[u8; 16]| {
            token.iter().zip(tail).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
        };
        // Of IDs that were never used, or are not any more, tokens say nothing [RFC 9000 §10.3.1].
        let current = self.active.get(&self.current).and_then(|(_, token)| *token);
        tail.len() == 16 && current.is_some_and(|token| equals(&token))
    }
}

/// A change of what the endpoint finds a connection by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CidChange {
    Issued(ConnectionId),
    Retired(ConnectionId),
}

/// IDs that packets to us go to.
#[derive(Debug)]
pub(crate) struct LocalCids {
    secret: Secret,
    /// Of the connection at its endpoint.
    number: u64,
    /// The one in long headers.
    first: ConnectionId,
    active: BTreeMap<u64, ConnectionId>,
    next: u64,
    /// One past the greatest number that the peer was told.
    told: u64,
    /// What the peer keeps at a time.
    limit: u64,
    to_tell: BTreeSet<u64>,
    changes: Vec<CidChange>,
}

impl LocalCids {
    pub(crate) fn new(secret: Secret, number: u64) -> LocalCids {
        let first = secret.cid(number, 0);
        LocalCids {
            secret,
            number,
            first,
            active: BTreeMap::from([(0, first)]),
            next: 1,
            told: 1,
            limit: 2,
            to_tell: BTreeSet::new(),
            changes: vec![CidChange::Issued(first)],
        }
    }

    pub(crate) fn first(&self) -> ConnectionId {
        self.first
    }

    pub(crate) fn reset_token(&self) -> [u8; 16] {
        self.secret.reset_token(&self.first())
    }

    /// The handshake is done: the peer gets as many as it keeps.
    pub(crate) fn on_parameters(&mut self, peer: &Parameters) {
        self.limit = peer.active_cid_limit.min(MOST_ISSUED);
        self.issue();
    }

    fn issue(&mut self) {
        while (self.active.len() as u64) < self.limit {
            let cid = self.secret.cid(self.number, self.next);
            self.active.insert(self.next, cid);
            self.to_tell.insert(self.next);
            self.changes.push(CidChange::Issued(cid));
            self.next += 1;
        }
    }

    /// RETIRE_CONNECTION_ID; `used` is what its packet was sent to.
    pub(crate) fn on_retire(
        &mut self,
        sequence: u64,
        used: &ConnectionId,
    ) -> Result<(), Violation> {
        if sequence >= self.told {
            return Err(Violation::of_protocol("a connection ID is retired that was not issued"));
        }
        if self.active.get(&sequence) == Some(used) {
            return Err(Violation::of_protocol("a connection ID is retired by a packet to it"));
        }
        if let Some(cid) = self.active.remove(&sequence) {
            self.to_tell.remove(&sequence);
            self.changes.push(CidChange::Retired(cid));
            self.issue();
        }
        Ok(())
    }

    /// The next NEW_CONNECTION_ID that is owed: number, ID, token.
    pub(crate) fn take_untold(&mut self) -> Option<(u64, ConnectionId, [u8; 16])> {
        let sequence = self.to_tell.pop_first()?;
        let cid = *self.active.get(&sequence)?;
        self.told = self.told.max(sequence + 1);
        Some((sequence, cid, self.secret.reset_token(&cid)))
    }

    pub(crate) fn owes(&self) -> bool {
        !self.to_tell.is_empty()
    }

    /// NEW_CONNECTION_ID was lost.
    pub(crate) fn tell_again(&mut self, sequence: u64) {
        if self.active.contains_key(&sequence) {
            self.to_tell.insert(sequence);
        }
    }

    pub(crate) fn take_changes(&mut self) -> Vec<CidChange> {
        core::mem::take(&mut self.changes)
    }

    /// All that are in force.
    pub(crate) fn active(&self) -> impl Iterator<Item = ConnectionId> + '_ {
        self.active.values().copied()
    }
}

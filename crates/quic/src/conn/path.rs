//! Where the peer is, and how much may be sent there before it has shown so [RFC 9000 §8.1, §8.2].

use core::time::Duration;
use std::net::SocketAddr;

use tack_units::Instant;

use super::mtu::BASE;

/// What may be sent to an address that is not validated, in what came from it.
const AMPLIFICATION: u64 = 3;
/// A path of which nothing is known takes no longer to answer, as far as can be said: the probe timeout of
/// kInitialRtt [RFC 9000 §8.2.4, RFC 9002 §6.2.2].
const INITIAL_PTO: Duration = Duration::from_millis(3 * 333);
/// Probe timeouts in which a path has to answer [RFC 9000 §8.2.4].
const PATIENCE: u32 = 3;
/// Responses that wait; a peer that asks for more at once gets the last ones.
pub(super) const MAX_RESPONSES: usize = 4;

/// Where the peer was before.
#[derive(Debug)]
struct Former {
    remote: SocketAddr,
    is_validated: bool,
}

/// What was found out about a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Validated {
    /// It is not the one there was, but for a port: of it nothing is known [RFC 9000 §9.4].
    pub(crate) is_another: bool,
    /// That it takes full-sized datagrams is not known either.
    pub(crate) small: bool,
}

/// See the [module's text](self).
#[derive(Debug)]
pub(crate) struct Path {
    remote: SocketAddr,
    is_validated: bool,
    received: u64,
    sent: u64,
    challenge: Option<Challenge>,
    /// To be sent back.
    responses: Vec<Response>,
    former: Option<Former>,
}

/// A PATH_RESPONSE that is owed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) data: [u8; 8],
    /// Where the challenge came from [RFC 9000 §8.2.2].
    pub(crate) to: SocketAddr,
    /// Enough came with it for a full-sized answer.
    pub(crate) full: bool,
}

#[derive(Debug)]
struct Challenge {
    data: [u8; 8],
    owed: bool,
    /// It left in a datagram that shows nothing of what the path takes.
    small: bool,
    /// It is given up then.
    until: Instant,
    again_at: Option<Instant>,
    /// From the next time that it leaves to the one after that.
    every: Duration,
}

impl Challenge {
    /// The path that is known has this probe timeout. Another one may take far longer.
    fn new(data: [u8; 8], pto: Duration, now: Instant) -> Challenge {
        let until = now + PATIENCE * pto.max(INITIAL_PTO);
        Challenge { data, owed: true, small: false, until, again_at: None, every: pto }
    }
}

impl Path {
    pub(crate) fn new(remote: SocketAddr, is_validated: bool) -> Path {
        Path {
            remote,
            is_validated,
            received: 0,
            sent: 0,
            challenge: None,
            responses: Vec::new(),
            former: None,
        }
    }

    pub(crate) fn remote(&self) -> SocketAddr {
        self.remote
    }

    pub(crate) fn is_validated(&self) -> bool {
        self.is_validated
    }

    pub(crate) fn on_received(&mut self, bytes: usize) {
        self.received += bytes as u64;
    }

    pub(crate) fn on_sent(&mut self, bytes: usize) {
        self.sent += bytes as u64;
    }

    /// Bytes that may leave.
    pub(crate) fn credit(&self) -> u64 {
        match self.is_validated {
            true => u64::MAX,
            false => (AMPLIFICATION * self.received).saturating_sub(self.sent),
        }
    }

    /// The peer has shown that it is there.
    pub(crate) fn validate(&mut self) {
        self.is_validated = true;
        self.challenge = None;
        self.former = None;
    }

    /// The peer writes from elsewhere: it is asked whether it is there, with `data`. The path to where it was has
    /// the probe timeout `pto`.
    pub(crate) fn move_to(
        &mut self,
        remote: SocketAddr,
        data: [u8; 8],
        pto: Duration,
        now: Instant,
    ) {
        let (from, was_validated) = (self.remote, self.is_validated);
        let former = match self.former.take() {
            // Of a place that was never validated nothing is kept.
            Some(former) if !was_validated => Some(former),
            _ => Some(Former { remote: from, is_validated: was_validated }),
        };
        let responses = core::mem::take(&mut self.responses);
        *self = Path { former, responses, ..Path::new(remote, false) };
        self.challenge = Some(Challenge::new(data, pto, now));
    }

    /// We write from elsewhere: the peer is asked whether it hears us there, with `data`. `pto` as of
    /// [`Self::move_to`].
    pub(crate) fn probe(&mut self, data: [u8; 8], pto: Duration, now: Instant) {
        self.challenge = Some(Challenge::new(data, pto, now));
        self.former = None;
    }

    /// PATH_CHALLENGE came from `from`, in a packet of so many bytes.
    pub(crate) fn on_challenge(&mut self, data: [u8; 8], from: SocketAddr, bytes: usize) {
        if self.responses.len() == MAX_RESPONSES {
            self.responses.remove(0);
        }
        let full = AMPLIFICATION * bytes as u64 >= u64::from(BASE);
        self.responses.push(Response { data, to: from, full });
    }

    /// PATH_RESPONSE came: how the path has changed if it is validated by it.
    pub(crate) fn on_response(&mut self, data: [u8; 8]) -> Option<Validated> {
        self.challenge.as_ref().filter(|challenge| challenge.data == data)?;
        let former = self.former.as_ref().map(|former| former.remote.ip());
        let is_another = former.is_some_and(|former| former != self.remote.ip());
        let small = self.challenge.as_ref().is_some_and(|challenge| challenge.small);
        self.validate();
        Some(Validated { is_another, small })
    }

    pub(crate) fn owes(&self) -> bool {
        self.owes_challenge() || self.owes_response()
    }

    pub(crate) fn owes_challenge(&self) -> bool {
        self.challenge.as_ref().is_some_and(|challenge| challenge.owed)
    }

    /// One that goes where everything goes.
    pub(crate) fn owes_response(&self) -> bool {
        self.responses.iter().any(|response| response.to == self.remote)
    }

    /// The next response that goes where everything goes.
    pub(crate) fn take_response(&mut self) -> Option<[u8; 8]> {
        let at = self.responses.iter().position(|response| response.to == self.remote)?;
        Some(self.responses.remove(at).data)
    }

    /// The responses that go elsewhere, to one place: the peer asks whether we would hear it there. They go
    /// together, for one packet may have asked several times, and what came from there is not counted.
    pub(crate) fn take_responses_elsewhere(&mut self) -> Vec<Response> {
        let elsewhere = self.responses.iter().map(|response| response.to);
        let Some(to) = elsewhere.into_iter().find(|to| *to != self.remote) else {
            return Vec::new();
        };
        self.responses.extract_if(.., |response| response.to == to).collect()
    }

    /// The challenge that is owed leaves now, in a `small` datagram or in a full-sized one.
    pub(crate) fn take_challenge(&mut self, small: bool, now: Instant) -> Option<[u8; 8]> {
        let challenge = self.challenge.as_mut().filter(|challenge| challenge.owed)?;
        (challenge.owed, challenge.small) = (false, small);
        challenge.again_at = Some(now + challenge.every);
        challenge.every *= 2;
        Some(challenge.data)
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        // One that is owed may have nothing to leave with, for little came from there: that ends as well.
        let challenge = self.challenge.as_ref()?;
        Some(challenge.again_at.unwrap_or(challenge.until).min(challenge.until))
    }

    /// Asks again, or goes back to where the peer was; true if it went back.
    pub(crate) fn on_timeout(&mut self, now: Instant) -> bool {
        let Some(challenge) = &mut self.challenge else { return false };
        if challenge.until <= now {
            self.challenge = None;
            if let Some(former) = self.former.take() {
                *self = Path::new(former.remote, former.is_validated);
                return true;
            }
        } else if challenge.again_at.is_some_and(|at| at <= now) {
            (challenge.owed, challenge.again_at) = (true, None);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: u16) -> SocketAddr {
        ([10, 0, 0, 1], port).into()
    }

    #[test]
    fn three_times_what_came_may_leave_before_an_address_is_validated() {
        let mut path = Path::new(address(1), false);
        assert_eq!(path.credit(), 0);
        path.on_received(1_200);
        path.on_sent(3_000);
        assert_eq!(path.credit(), 600);
        path.on_sent(1_000);
        assert_eq!(path.credit(), 0);
        path.validate();
        assert_eq!(path.credit(), u64::MAX);
    }

    #[test]
    fn a_path_that_does_not_answer_is_left_for_the_one_that_did() {
        let mut path = Path::new(address(1), true);
        let second = Duration::from_secs(1);
        path.move_to(address(2), [7; 8], second, Instant::ZERO);
        assert_eq!(path.take_challenge(false, Instant::ZERO), Some([7; 8]));
        assert_eq!(path.take_challenge(false, Instant::ZERO), None);
        assert_eq!(path.deadline(), Some(Instant::ZERO + second));
        assert!(!path.on_timeout(Instant::ZERO + second));
        assert!(path.owes());
        assert_eq!(path.on_response([8; 8]), None);
        assert!(path.on_timeout(Instant::ZERO + 3 * second));
        assert_eq!((path.remote(), path.is_validated()), (address(1), true));
    }

    #[test]
    fn a_path_that_gave_no_bytes_to_ask_again_with_is_left_in_time_as_well() {
        let mut path = Path::new(address(1), true);
        let second = Duration::from_secs(1);
        path.move_to(address(2), [7; 8], second, Instant::ZERO);
        path.take_challenge(true, Instant::ZERO);
        path.on_timeout(Instant::ZERO + second);
        assert!(path.owes());
        assert_eq!(path.deadline(), Some(Instant::ZERO + 3 * second));
        assert!(path.on_timeout(Instant::ZERO + 3 * second));
    }
}

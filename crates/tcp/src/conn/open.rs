//! The handshake: SYN, SYN/ACK, simultaneous open [RFC 9293 §3.5, §3.10.7.3].

use core::time::Duration;

use tack_units::Instant;

use crate::conn::acceptable::FIRST_BYTE;
use crate::conn::ack_policy::Acknowledging;
use crate::conn::agenda::Owed;
use crate::conn::negotiate::{Offer, SynBits};
use crate::conn::timers::Timer;
use crate::conn::{Connection, ConnectionError, EventSet, Reset, State};
use crate::wire::{Flags, Header, Segment};

/// State of the handshake.
#[derive(Debug)]
pub(crate) struct Opening {
    offer: Offer,
    /// It began with a SYN from the peer.
    passive: bool,
    /// SYNs or SYN/ACKs sent.
    transmissions: u32,
    first_sent: Option<Instant>,
    /// What the control bits of the peer's SYN offer.
    peer: SynBits,
    /// The peer's SYN had no options: what answers it is larger than it was.
    bare: bool,
}

/// First wait for an answer to a SYN, doubled each time [RFC 6298 §2.1].
const INITIAL_RTO: Duration = Duration::from_secs(1);
const MAX_RTO: Duration = Duration::from_secs(60);
/// SYNs that carry TACK-Permitted or a poll mark over IP, before a path is suspect that drops what it does not
/// know: as many as Linux sends with MPTCP's option. Where a tenth is lost each way, chance takes two of 4 % of
/// connections and three of 0.7 %.
const OFFERING_TRIES: u32 = 3;
/// SYN/ACKs that one SYN is worth: whoever forges its source makes us send three times as much to
/// somebody else, and no more. A peer that did not hear them sends its SYN again.
const MAX_SYN_ACKS: u32 = 3;

impl Opening {
    pub(crate) fn new(offer: Offer, passive: bool) -> Opening {
        let peer = SynBits::default();
        Opening { offer, passive, transmissions: 0, first_sent: None, peer, bare: false }
    }

    pub(crate) fn is_passive(&self) -> bool {
        self.passive
    }

    /// SYNs or SYN/ACKs sent.
    pub(crate) fn transmissions(&self) -> u32 {
        self.transmissions
    }

    /// A retransmission would be more than the peer's SYN is worth.
    fn is_answered_enough(&self) -> bool {
        self.passive && self.transmissions >= MAX_SYN_ACKS - u32::from(self.bare)
    }

    /// When an answer to the last transmission is overdue.
    fn overdue(&self, now: Instant) -> Instant {
        let backoff = INITIAL_RTO * (1 << self.transmissions.saturating_sub(1).min(6));
        now + backoff.min(MAX_RTO)
    }

    /// What answers our SYN/ACK is not what the peer sent first: that was lost, and a timeout of the peer's
    /// may lie between.
    pub(crate) fn note_loss(&mut self) {
        self.first_sent = None;
    }

    /// RTT of the handshake, if no retransmission makes it ambiguous.
    fn rtt(&self, now: Instant) -> Option<Duration> {
        let sent = self.first_sent.filter(|_| self.transmissions == 1)?;
        Some(now.saturating_since(sent))
    }
}

impl Connection {
    /// Flags and options of the SYN or SYN/ACK that is due.
    pub(crate) fn syn_header(&mut self, now: Instant) -> Header {
        let answers = self.state.get() == State::SynReceived;
        self.agenda.strike(Owed::Syn);
        let open = &mut self.open;
        open.transmissions += 1;
        open.first_sent.get_or_insert(now);
        self.timers.set(Timer::Handshake, open.overdue(now));
        let flags = open.offer.flags(answers);
        Header {
            src_port: self.ports.local,
            dst_port: self.ports.remote,
            seq: self.send.iss(),
            ack: if answers { self.rcv.ack_num() } else { Default::default() },
            flags,
            window: self.rcv.announce_unscaled(),
            urgent: 0,
            options: self.open.offer.options(self.clock.stamp(now)),
        }
    }

    /// The SYN/ACK left as a cookie, no connection being there yet.
    pub(crate) fn syn_was_sent(&mut self, now: Instant) {
        self.agenda.strike(Owed::Syn);
        self.open.transmissions = 2;
        let _window_of_the_cookie = self.rcv.announce_unscaled();
        self.timers.set(Timer::Handshake, now + INITIAL_RTO);
    }

    /// Nobody answered in time.
    pub(crate) fn on_handshake_timeout(&mut self, now: Instant) {
        if self.open.transmissions >= self.config.max_syn_transmissions {
            let error = self.path.explain(ConnectionError::HandshakeTimedOut);
            return self.fail(error, now);
        }
        if self.open.is_answered_enough() {
            // It may still come in, for as long as it would have been asked to.
            self.open.transmissions += 1;
            self.timers.set(Timer::Handshake, self.open.overdue(now));
            return;
        }
        if self.open.transmissions >= OFFERING_TRIES && self.liveness.may_lose_options() {
            self.open.offer.tack = false;
            self.open.offer.polls = false;
        }
        // [RFC 3168 §6.1.1.1]: some drop what asks for ECN.
        if !self.open.passive {
            self.open.offer.give_up_ecn();
        }
        self.agenda.owe(Owed::Syn);
    }

    /// A SYN created this connection.
    pub(crate) fn on_first_syn(&mut self, seg: &Segment<'_>, now: Instant) {
        self.take_syn(seg, now);
        self.open.bare = seg.header.options.mss.is_none();
        self.open.offer = self.open.offer.answer(&seg.header.options, self.open.peer);
    }

    /// RCV.NXT, TS.Recent and what the SYN offers.
    fn take_syn(&mut self, seg: &Segment<'_>, now: Instant) {
        self.rcv.synchronize(seg.header.seq);
        self.clock.on_syn(seg.header.options.timestamps, now);
        self.open.peer = SynBits::of(seg.header.flags);
        let mut options = seg.header.options.clone();
        options.mss.get_or_insert(self.send.sure_mss());
        self.send.agree(self.open.offer.agree(&options, self.open.peer));
        self.send.on_syn(seg.header.window);
    }

    /// [RFC 9293 §3.10.7.3].
    pub(crate) fn arrives_syn_sent(&mut self, seg: &Segment<'_>, now: Instant) {
        let flags = seg.header.flags;
        let acks_syn = self.send.ack_offset(seg.header.ack) == FIRST_BYTE;
        if flags.has(Flags::ACK) && !acks_syn {
            if !flags.has(Flags::RST) {
                self.agenda.owe_reset(Reset { seq: seg.header.ack, ack: None });
            }
            return;
        }
        if flags.has(Flags::RST) {
            if flags.has(Flags::ACK) {
                self.fail(ConnectionError::Refused, now);
            }
            return;
        }
        if !flags.has(Flags::SYN) {
            return;
        }
        self.take_syn(seg, now);
        if flags.has(Flags::ACK) {
            self.establish(now);
            // A bare ACK, also under TACK: nothing of TACK precedes it.
            self.agenda.owe(Owed::HandshakeAck);
        } else {
            // Both opened at once; our SYN/ACK offers what we offered, not what they did.
            self.state.enter(State::SynReceived);
            self.agenda.owe(Owed::Syn);
        }
    }

    /// A SYN came again, or theirs crossed ours, while we wait for its acknowledgment.
    pub(crate) fn repeated_syn(&mut self, header: &Header) {
        let mut agreed = *self.send.agreed();
        // ECN is off when the peer repeats its SYN without [RFC 3168 §6.1.1.1]. Of the options of
        // all TCPs the first SYN counts, as in Linux.
        if !header.flags.has(Flags::ECE | Flags::CWR) {
            self.open.offer.give_up_ecn();
            agreed.ecn = false;
        }
        // The peer gave up polls or TACK-Permitted between its SYNs: so do we.
        if !header.flags.has(Flags::POLL) {
            self.open.offer.polls = false;
            agreed.polls = false;
        }
        if !header.options.tack_permitted {
            self.open.offer.tack = false;
            agreed.tack = false;
            agreed.compact = false;
            agreed.series = false;
        }
        self.send.agree(agreed);
        self.agenda.owe(Owed::Syn);
    }

    /// Both SYNs are exchanged and ours is acknowledged.
    pub(crate) fn establish(&mut self, now: Instant) {
        let rtt = self.open.rtt(now);
        self.begin(rtt, now);
        self.state.enter(State::Established);
        self.timers.stop(Timer::Handshake);
        self.agenda.strike(Owed::Syn);
        self.events.add(EventSet::ESTABLISHED);
        self.events.add(EventSet::WRITABLE);
        self.liveness.on_heard(now);
        if let Some(keepalive) = self.config.keepalive {
            self.timers.set(Timer::Keepalive, now + keepalive.idle);
        }
        self.shut_down_early();
    }

    /// Builds what depends on the agreement.
    fn begin(&mut self, rtt: Option<Duration>, now: Instant) {
        let agreed = *self.send.agreed();
        self.clock.agree(agreed.timestamps);
        self.ecn.agree(agreed.ecn);
        let tack = self.send.establish(&self.config, rtt, now);
        let mss = self.send.payload_mss();
        self.rcv.configure(agreed.rcv_shift, mss);
        match tack {
            Some(params) => {
                let first = u64::from(self.config.first_pkt_seq);
                self.acks = Acknowledging::tack(params, first, rtt);
                self.rcv.buffer.offered.allow_for_tacks(params.beta);
            }
            None => {
                self.clock.coarsen(now);
                let strategy = self.send.strategy(&self.config);
                self.acks = Acknowledging::plain(strategy.receiver(mss));
            }
        }
    }
}

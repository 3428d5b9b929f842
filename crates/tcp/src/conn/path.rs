//! What the network says of the path: ICMP errors, and the size of packets.
//!
//! ```text
//! error        SYN-SENT, SYN-RECEIVED                 later
//! hard         ends the attempt at once               remembered
//! soft         remembered; ends it when two SYNs      remembered
//!              met one [RFC 5461 §4.2]
//! ```
//!
//! What is remembered is the reason given if the connection then times out
//! [RFC 1122 §4.2.3.9, §4.2.3.5]; an acknowledgment of something new ends the memory. So a forged
//! error cannot end a connection once it is established [RFC 5927 §5.2].

use tack::Acked;
use tack_units::Instant;

use crate::conn::snd::Fresh;
use crate::conn::{Connection, ConnectionError, State};
use crate::seq::SeqNum;
use crate::wire::icmp::PathError;

/// What came of an ICMP error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// What it quotes is not in flight: it is forged, or late.
    Implausible,
    /// It was taken in.
    Heeded,
    /// Every connection to this destination should know: packets of so many bytes pass.
    Learned(u16),
}

/// The last error of the path.
#[derive(Debug, Default)]
pub(crate) struct PathNews {
    last: Option<PathError>,
    /// The SYN that first met one, counted from 1.
    first_syn: Option<u32>,
}

impl PathNews {
    pub(crate) fn last(&self) -> Option<PathError> {
        self.last
    }

    /// Something new was acknowledged: the path works.
    pub(crate) fn on_progress(&mut self) {
        *self = PathNews::default();
    }

    /// Why nobody answers: what the path said, or that we only waited.
    pub(crate) fn explain(&self, timed_out: ConnectionError) -> ConnectionError {
        self.last.map_or(timed_out, ConnectionError::Unreachable)
    }

    /// A soft error met the SYN with this number; whether it is the second one.
    fn repeats(&mut self, syn: u32) -> bool {
        *self.first_syn.get_or_insert(syn) != syn
    }
}

impl Connection {
    /// A router or host could not deliver what we sent with SEG.SEQ `seq`.
    pub(crate) fn on_path_error(&mut self, error: PathError, seq: SeqNum, now: Instant) -> Verdict {
        if !self.is_in_flight(seq) {
            return Verdict::Implausible;
        }
        self.path.last = Some(error);
        if matches!(self.state.get(), State::SynSent | State::SynReceived) {
            let repeats = self.path.repeats(self.open.transmissions());
            if error == PathError::PortUnreachable {
                self.fail(ConnectionError::Refused, now);
            } else if error.is_hard() || repeats {
                self.fail(ConnectionError::Unreachable(error), now);
            }
        }
        Verdict::Heeded
    }

    /// A router takes packets of `mtu` bytes only.
    pub(crate) fn on_too_big(&mut self, mtu: u16, seq: SeqNum, now: Instant) -> Verdict {
        if !self.is_in_flight(seq) {
            return Verdict::Implausible;
        }
        let offset = self.snd.ack_offset(seq);
        if self.mtu.on_too_big(mtu, offset, now) {
            return Verdict::Learned(mtu);
        }
        self.cut_anew();
        Verdict::Heeded
    }

    /// `SND.UNA <= SEG.SEQ < SND.NXT` [RFC 5927 §4.1]; probes are one before, and a TACK's body
    /// begins up to its length before.
    fn is_in_flight(&self, seq: SeqNum) -> bool {
        let behind = if self.agreed.tack { u64::from(self.agreed.mss) } else { 1 };
        let least = match self.state.get() {
            State::Closed | State::TimeWait => return false,
            State::SynSent | State::SynReceived => self.snd.una(),
            _ => self.snd.una() - behind,
        };
        (least..self.snd.nxt()).contains(&self.snd.ack_offset(seq))
    }

    /// What the host knows of packets on this path: the largest in bytes, or no bound.
    pub(crate) fn on_path_mtu(&mut self, mtu: Option<u16>, now: Instant) {
        let fell = self.mtu.on_told(mtu, now);
        self.follow_mtu();
        if fell {
            self.cut_anew();
        }
    }

    /// A timeout: was the segment at the head too long for a path that says nothing?
    pub(crate) fn suspect_packet_size(&mut self, in_a_row: u32, now: Instant) {
        let head = self.recovery.next_lost(now).map_or(0, |head| head.end - head.start);
        let mss = u64::from(self.mtu.mss());
        let size = (head + mss).saturating_sub(u64::from(self.payload_mss()));
        if self.mtu.on_timeout(size, in_a_row, now) {
            self.counters.black_holes += 1;
            self.follow_mtu();
            self.cut_anew();
        }
    }

    /// Something new was acknowledged.
    pub(crate) fn on_path_progress(&mut self, now: Instant) {
        self.path.on_progress();
        if self.mtu.on_acked(self.snd.una(), now) {
            self.follow_mtu();
        }
    }

    /// A probe that did not fit is no sign of congestion [RFC 4821 §7.6].
    pub(crate) fn excuse_probe(&mut self, acked: &mut Acked, now: Instant) {
        if acked.lost_bytes == 0 {
            return;
        }
        if let Some(lost) = self.recovery.next_lost(now) {
            self.mtu.on_lost(lost.start, now);
        }
        if self.mtu.excuses(acked.lost_bytes) {
            (acked.lost_bytes, acked.recovery_started) = (0, false);
        }
    }

    /// New data for a segment longer than `payload`, which is what fits by now, if one is to be
    /// tried and enough follows it to tell that it is lost [RFC 4821 §7.4].
    pub(crate) fn probe_segment(&self, payload: usize, now: Instant) -> Option<(Fresh, u16)> {
        let mss = self.mtu.wanted(now)?;
        let longer = payload + usize::from(mss - self.mtu.mss());
        let needed = (longer + 3 * payload) as u64;
        let room = needed <= self.congestion.window()
            && needed <= self.snd.unsent()
            && needed <= self.snd.usable();
        if !room || self.recovery.in_recovery(self.snd.una()) {
            return None;
        }
        let fresh = self.snd.fresh(longer, true, false)?;
        (fresh.len == longer).then_some((fresh, mss))
    }

    /// The MSS changed: so does whatever counts by it. Congestion window and rate are bytes, and
    /// stay [RFC 8201 §5.4].
    pub(crate) fn follow_mtu(&mut self) {
        let mss = self.payload_mss();
        self.recovery.set_mss(mss);
        self.congestion.set_mss(mss);
    }

    /// What is outstanding and too long is lost, but not by congestion: it is sent again in pieces
    /// at once [RFC 8201 §5.4].
    pub(crate) fn cut_anew(&mut self) {
        self.recovery.lose_longer_than(u64::from(self.payload_mss()));
    }

    /// A packet size that a search found to be the largest, for the host's table.
    pub(crate) fn take_settled_mtu(&mut self) -> Option<u16> {
        self.mtu.take_settled()
    }
}

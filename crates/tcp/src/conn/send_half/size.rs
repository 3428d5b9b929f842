//! How large the segments of the sending half are, as the path and the options allow.

use tack::Acked;
use tack_transport::SizeSearch;
use tack_units::Instant;

use crate::conn::send_half::SendHalf;
use crate::conn::snd::Span;
use crate::seq::SeqNum;
use crate::stats::Mode;
use crate::wire::Form;
use crate::wire::compact::COMPACT_LEN;
use crate::wire::options::TIMESTAMPS_BYTES;
use crate::wire::tack_option::{PKT_SEQ_BYTES, SERIES_BYTES};

/// Bytes of a TCP header without options.
pub(super) const HEADER: usize = 20;

impl SendHalf {
    /// Text per full segment of a connection at rest, options that are always there taken off.
    pub(crate) fn payload_mss(&self) -> u32 {
        let fell_back = matches!(self.recovery.mode(), Mode::FellBack(_));
        if self.agreed.compact && !fell_back {
            return self.payload_in(Form::Compact, 0) as u32;
        }
        let pkt_seq = if self.agreed.tack && !fell_back { self.pkt_seq_len() } else { 0 };
        u32::from(self.mtu.mss()) - (self.timestamps_len() + pkt_seq) as u32
    }

    /// Text that fits the next segment, whose whole header has `sack_len` bytes of SACK blocks.
    pub(super) fn payload_in(&self, form: Form, sack_len: usize) -> usize {
        if form == Form::Compact {
            return HEADER + usize::from(self.mtu.mss()) - COMPACT_LEN;
        }
        let pkt_seq = if self.is_tack() { self.pkt_seq_len() } else { 0 };
        usize::from(self.mtu.mss()) - self.timestamps_len() - pkt_seq - sack_len
    }

    fn timestamps_len(&self) -> usize {
        if self.agreed.timestamps { TIMESTAMPS_BYTES } else { 0 }
    }

    /// Bytes that a PKT.SEQ takes in a whole header.
    fn pkt_seq_len(&self) -> usize {
        if self.agreed.series { SERIES_BYTES } else { PKT_SEQ_BYTES }
    }

    /// Bytes of the header in front of that text.
    pub(super) fn header_len(&self, form: Form, sack_len: usize) -> usize {
        HEADER + usize::from(self.mtu.mss()) - self.payload_in(form, sack_len)
    }

    /// Bytes of the longest body of a TACK or IACK.
    pub(crate) fn max_body(&self) -> usize {
        usize::from(self.mtu.feedback_mss()) - HEADER
    }

    /// See [`PathMtu::sure_mss`](crate::conn::mtu::PathMtu::sure_mss).
    pub(crate) fn sure_mss(&self) -> u16 {
        self.mtu.sure_mss()
    }

    /// A packet size that a search found to be the largest, for the host's table.
    pub(crate) fn take_settled_mtu(&mut self) -> Option<u16> {
        self.mtu.take_settled()
    }

    /// Timeouts lowered the size of segments, and nothing was acknowledged since.
    pub(crate) fn was_lowered_blindly(&self) -> bool {
        self.mtu.was_lowered_blindly()
    }

    /// What the host knows of packets on this path: the largest in bytes, or no bound.
    pub(crate) fn on_path_mtu(&mut self, mtu: Option<u16>, now: Instant) {
        let fell = self.mtu.on_told(mtu, now);
        self.follow_mtu();
        if fell {
            self.cut_anew();
        }
    }

    /// A router takes packets of `mtu` bytes, and what began at `seq` was longer. True: the host
    /// should know.
    pub(crate) fn on_too_big(&mut self, mtu: u16, seq: SeqNum, now: Instant) -> bool {
        let offset = self.snd.ack_offset(seq);
        if self.mtu.on_too_big(mtu, offset, now) {
            return true;
        }
        self.cut_anew();
        false
    }

    /// A timeout: was the segment at the head too long for a path that says nothing? True if it is
    /// believed to be.
    pub(super) fn suspect_packet_size(&mut self, in_a_row: u32, now: Instant) -> bool {
        let head = self.recovery.next_lost(now).map_or(0, |head| head.end - head.start);
        let former = self.mtu.mss();
        let mss = u64::from(self.mtu.mss());
        let size = (head + mss).saturating_sub(u64::from(self.payload_mss()));
        let by_chance = self.timeouts_by_chance(SizeSearch::FALSE_ALARM);
        let suspected = self.mtu.on_timeout(size, in_a_row, by_chance, now);
        if suspected {
            self.mtu.doubt(former, self.snd.nxt());
            self.follow_mtu();
            self.cut_anew();
        }
        suspected
    }

    /// SND.UNA moved: a probe may be what was acknowledged.
    pub(super) fn confirm_packet_size(&mut self, now: Instant) {
        if self.mtu.on_acked(self.snd.una(), now) {
            self.follow_mtu();
        }
    }

    /// Timeouts proved needless, and with them what they said of sizes.
    pub(super) fn restore_packet_size(&mut self) {
        if self.mtu.on_undone() {
            self.follow_mtu();
        }
    }

    /// A probe that did not fit is no sign of congestion [RFC 4821 §7.6].
    pub(super) fn excuse_probe(&mut self, acked: &mut Acked, now: Instant) {
        if acked.lost_bytes == 0 {
            return;
        }
        if let Some(lost) = self.recovery.next_lost(now) {
            if self.recovery.is_tack() && self.mtu.acquits(lost.start) {
                self.follow_mtu();
            }
            self.mtu.on_lost(lost.start, now);
        }
        if self.mtu.excuses(acked.lost_bytes, now) {
            (acked.lost_bytes, acked.recovery_started) = (0, false);
        }
    }

    /// New data for a segment longer than `payload`, which is what fits by now, if one is to be
    /// tried and enough follows it to tell that it is lost [RFC 4821 §7.4]; and the MSS it tries.
    pub(super) fn size_probe(&self, payload: usize, now: Instant) -> Option<(Span, u16)> {
        let mss = self.mtu.wanted(now)?;
        let longer = payload + usize::from(mss - self.mtu.mss());
        let needed = (longer + 3 * payload) as u64;
        let room = needed <= self.congestion.window()
            && needed <= self.snd.unsent()
            && needed <= self.snd.usable();
        if !room || self.recovery.in_recovery() {
            return None;
        }
        let span = self.snd.fresh(longer, true, false)?;
        (span.len == longer).then_some((span, mss))
    }

    /// The MSS changed: so does whatever counts by it. Congestion window and rate are bytes, and
    /// stay [RFC 8201 §5.4].
    fn follow_mtu(&mut self) {
        let mss = self.payload_mss();
        self.recovery.set_mss(mss);
        self.congestion.set_mss(mss);
    }

    /// What is outstanding and too long is lost, but not by congestion: it is sent again in pieces
    /// at once [RFC 8201 §5.4].
    fn cut_anew(&mut self) {
        self.recovery.lose_longer_than(u64::from(self.payload_mss()));
    }
}

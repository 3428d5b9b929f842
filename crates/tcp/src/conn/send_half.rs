//! The sending half of a connection: what was written and sent, what of it is lost, how much may
//! leave, and in segments of what size.
//!
//! ```text
//!          write                    acknowledgments, timeouts, news of the path
//!            |                          |
//!      +-----v------+    +--------------v------------+
//!      | snd        |    | recovery  congestion  mtu |
//!      +-----+------+    +--------------+------------+
//!            +---------+----------------+
//!                      v
//!               the next segment      its header is the connection's: half of it is about
//!                                     what is received
//! ```
//!
//! Timers, states, counters and the order of what is owed to the wire are the connection's: this
//! half answers with what came of something, and the connection draws the conclusions.

mod acked;
mod info;
mod next;
mod size;

use core::time::Duration;

use tack::Timeout;
use tack_cc::{Config, CongestionControl, WindowRules};
use tack_transport::Congestion;
use tack_units::Instant;

use crate::config::ConnConfig;
use crate::conn::acceptable::{AckPlace, FIRST_BYTE, place_ack};
use crate::conn::ecn::EcnReaction;
use crate::conn::mtu::{PathLimits, PathMtu};
use crate::conn::negotiate::Agreed;
use crate::conn::persist::Persist;
use crate::conn::recovery_mode::Recovery;
use crate::conn::snd::Snd;
use crate::recovery::PlainSender;
use crate::seq::SeqNum;
use crate::stats::{FallbackReason, Mode};
use tack_strategies::{AckStrategy, Needs, SenderSide};

pub(crate) use acked::Progress;
pub(crate) use info::RestOfInfo;
pub(crate) use next::{Front, Next, Sent};

/// See the [module's text](self).
#[derive(Debug)]
pub(crate) struct SendHalf {
    /// What the SYNs seen so far agree on. Most of it is what segments with text may look like.
    agreed: Agreed,
    snd: Snd,
    recovery: Recovery,
    congestion: Congestion,
    /// What the acknowledgment strategy changes at us, the sender of data.
    rule: SenderSide,
    ecn: EcnReaction,
    mtu: PathMtu,
    persist: Persist,
    /// The frequency was asked for before anything was sent.
    asked: bool,
    /// Of congestion control's random choice.
    seed: u64,
}

/// A timer of loss recovery expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expired {
    /// A tail loss probe should leave.
    Probe,
    /// What was in flight, in bytes, is taken for lost: see [`SendHalf::on_rto`].
    Rto { lost_bytes: u64 },
}

/// What the persist timer asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PersistAction {
    /// The window is open, and what waits may leave though it is little.
    Send,
    /// The window is closed: probe it.
    Probe,
    /// The peer is gone.
    GiveUp,
}

impl SendHalf {
    /// Before the handshake: `mss` is what our SYN offers.
    pub(crate) fn new(
        config: &ConnConfig,
        iss: SeqNum,
        seed: u64,
        path: PathLimits,
        mss: u16,
        now: Instant,
    ) -> SendHalf {
        let bytes = u32::from(mss);
        SendHalf {
            agreed: Agreed::nothing(mss),
            snd: Snd::new(iss, config.send_buffer),
            recovery: Recovery::plain(PlainSender::new(bytes, FIRST_BYTE, false, now)),
            congestion: congestion(config, config.window_rules, bytes, seed, now),
            rule: SenderSide::default(),
            ecn: EcnReaction::default(),
            mtu: PathMtu::new(path, mss, config.probe_mtu),
            persist: Persist::default(),
            asked: false,
            seed,
        }
    }

    /// What the SYNs seen so far agree on.
    pub(crate) fn agreed(&self) -> &Agreed {
        &self.agreed
    }

    /// A SYN changed what is agreed on.
    pub(crate) fn agree(&mut self, agreed: Agreed) {
        self.agreed = agreed;
    }

    /// The peer's window before any is scaled: its SYN's.
    pub(crate) fn on_syn(&mut self, window: u16) {
        self.snd.offer_unscaled_window(window, FIRST_BYTE - 1);
    }

    /// Both SYNs are exchanged, ours `rtt` ago if that is known: builds what depends on the
    /// agreement. Returns the parameters of TACK where that governs.
    pub(crate) fn establish(
        &mut self,
        config: &ConnConfig,
        rtt: Option<Duration>,
        now: Instant,
    ) -> Option<tack::Params> {
        let agreed = self.agreed;
        self.ecn.agree(agreed.ecn);
        self.snd.set_shift(agreed.snd_shift);
        self.mtu.agree(agreed.mss);
        let mss = self.payload_mss();
        self.congestion = self.new_congestion(config, mss, now);
        self.rule = SenderSide::new(&self.strategy(config).sender());
        let tack = config.ack.tack().filter(|_| agreed.tack);
        let tack = tack.map(|&params| tack::Params { mss, ..params });
        self.recovery = match tack {
            Some(params) => {
                Recovery::tack(params, u64::from(config.first_pkt_seq), FIRST_BYTE, now)
            }
            None => Recovery::plain(self.plain_sender(config, FIRST_BYTE, now)),
        };
        self.snd.acknowledge(FIRST_BYTE);
        let acked = self.recovery.on_syn_acked(rtt, now);
        self.congestion.on_acked(&acked, &self.recovery.path_state(&acked), now);
        tack
    }

    /// The strategy of acknowledgment in force.
    pub(crate) fn strategy(&self, config: &ConnConfig) -> AckStrategy {
        let agreed = match (self.recovery.mode(), self.agreed.tack, self.agreed.polls) {
            (Mode::FellBack(_), ..) | (_, false, false) => Needs::Nothing,
            (_, true, _) => Needs::Tack,
            (_, false, true) => Needs::Polls,
        };
        config.ack.in_force(agreed)
    }

    fn plain_sender(&self, config: &ConnConfig, first: u64, now: Instant) -> PlainSender {
        PlainSender::new(self.payload_mss(), first, self.agreed.sack, now)
            .detecting(config.loss_detection)
    }

    fn new_congestion(&self, config: &ConnConfig, mss: u32, now: Instant) -> Congestion {
        let rules = self.strategy(config).sender().window_rules(config.window_rules);
        congestion(config, rules, mss, self.seed, now)
    }

    /// TACK governs.
    pub(crate) fn is_tack(&self) -> bool {
        self.recovery.is_tack()
    }

    /// TACK does not survive this path: plain TCP goes on from what is outstanding. False: it did
    /// not govern anyway.
    pub(crate) fn fall_back(
        &mut self,
        config: &ConnConfig,
        reason: FallbackReason,
        now: Instant,
    ) -> bool {
        if !self.recovery.is_tack() {
            return false;
        }
        let una = self.snd.una();
        let plain = self.plain_sender(config, una, now);
        self.recovery.fall_back(plain, reason, now);
        // PKT.SEQ takes no more room, and headers are whole.
        let mss = self.payload_mss();
        self.recovery.set_mss(mss);
        let fresh = self.new_congestion(config, mss, now);
        self.congestion = self.congestion.handed_over(fresh);
        if self.recovery.in_recovery() {
            // What the fresh controller has not seen: without it, it would fill the path anew.
            self.congestion.on_timeout(0, self.recovery.in_flight(), now);
        }
        true
    }

    /// When [`SendHalf::on_deadline`] is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.recovery.deadline()
    }

    /// Runs what is due of loss recovery.
    pub(crate) fn on_deadline(&mut self, now: Instant) -> Option<Expired> {
        let lost_bytes = self.recovery.in_flight();
        let timeout = self.recovery.on_timeout(now)?;
        self.rule.on_timeout();
        Some(match timeout {
            Timeout::Probe => Expired::Probe,
            Timeout::Rto => Expired::Rto { lost_bytes },
        })
    }

    /// The connection outlives the retransmission timeout that took `lost_bytes`, one of
    /// `in_a_row`. True: the path is believed to swallow long segments, which are shorter now.
    pub(crate) fn on_rto(&mut self, lost_bytes: u64, in_a_row: u32, now: Instant) -> bool {
        self.congestion.on_timeout(lost_bytes, self.recovery.in_flight(), now);
        if self.recovery.repairs_alone() {
            self.congestion.send_alone();
        }
        self.suspect_packet_size(in_a_row, now)
    }

    /// Timeouts in a row that the loss of both ways explains, unless with this chance.
    pub(crate) fn timeouts_by_chance(&self, chance: f64) -> u32 {
        self.recovery.timeouts_by_chance(chance)
    }

    /// The frequency the peer should acknowledge at, when it must be told.
    pub(crate) fn poll_frequency(&mut self, now: Instant) -> Option<tack::Frequency> {
        // Nothing that it depends on changes before something is sent.
        if self.snd.is_untouched() && core::mem::replace(&mut self.asked, true) {
            return None;
        }
        self.recovery.poll_frequency(|| self.congestion.snapshot(), now)
    }

    /// The persist timer fired; `most` probes may stay without an answer, or with one where nobody waits for
    /// the window to open.
    pub(crate) fn on_persist_timer(&mut self, most: u32, orphaned: bool) -> PersistAction {
        if self.persist.in_vain(orphaned) >= most {
            return PersistAction::GiveUp;
        }
        let open = self.snd.usable() > 0;
        self.persist.on_timer(open);
        if open { PersistAction::Send } else { PersistAction::Probe }
    }

    /// Takes what there is room for; returns how many bytes.
    pub(crate) fn write(&mut self, data: &[u8]) -> usize {
        self.snd.buffer.write(data)
    }

    /// Room for more, in bytes.
    pub(crate) fn space(&self) -> usize {
        self.snd.buffer.space()
    }

    /// Bytes written and not acknowledged.
    pub(crate) fn buffered(&self) -> usize {
        self.snd.buffer.len()
    }

    /// Bytes written and never sent.
    pub(crate) fn unsent(&self) -> u64 {
        self.snd.unsent()
    }

    /// Bytes of memory held.
    pub(crate) fn memory(&self) -> usize {
        self.snd.buffer.memory()
    }

    /// Gives memory back while nothing is held.
    pub(crate) fn release(&mut self) {
        self.snd.buffer.release();
    }

    /// FIN goes after the last byte.
    pub(crate) fn queue_fin(&mut self) {
        self.snd.queue_fin();
    }

    /// FIN waits for its turn.
    pub(crate) fn fin_is_queued(&self) -> bool {
        self.snd.fin_is_queued()
    }

    /// Everything sent, FIN included, is acknowledged.
    pub(crate) fn is_idle(&self) -> bool {
        self.snd.is_idle()
    }

    /// Nothing leaves any more: what the sender waits for is no longer counted.
    pub(crate) fn close(&mut self, now: Instant) {
        self.congestion.note_limit(None, 0, now);
    }

    /// SEG.ACK as stream offset.
    pub(crate) fn ack_offset(&self, ack: SeqNum) -> u64 {
        self.snd.ack_offset(ack)
    }

    /// SND.UNA.
    pub(crate) fn una(&self) -> u64 {
        self.snd.una()
    }

    /// ISS.
    pub(crate) fn iss(&self) -> SeqNum {
        self.snd.iss()
    }

    /// SND.NXT as it travels.
    pub(crate) fn nxt_num(&self) -> SeqNum {
        self.snd.seq_num(self.snd.nxt())
    }

    /// Where an acknowledgment lies.
    pub(crate) fn place_ack(&self, ack: u64) -> AckPlace {
        place_ack(ack, self.snd.una(), self.snd.nxt(), self.snd.max_wnd().max(1 << 16))
    }

    /// `SND.UNA <= SEG.SEQ < SND.NXT` [RFC 5927 §4.1]; once both ends are `synchronized`, probes
    /// are one before, and a TACK's body begins up to its length before.
    pub(crate) fn has_in_flight(&self, seq: SeqNum, synchronized: bool) -> bool {
        let behind = match (synchronized, self.agreed.tack) {
            (false, _) => 0,
            (true, true) => u64::from(self.agreed.mss),
            (true, false) => 1,
        };
        (self.snd.una() - behind..self.snd.nxt()).contains(&self.snd.ack_offset(seq))
    }

    /// RTTmin as the sender of data knows it.
    pub(crate) fn rtt_min(&self) -> Option<Duration> {
        self.recovery.rtt_min()
    }

    /// The retransmission timeout.
    pub(crate) fn rto(&self) -> Duration {
        self.recovery.rto()
    }
}

/// The congestion state of a connection with `config`; `rules`: the configured ones as the
/// acknowledgment strategy in force would have them.
fn congestion(
    config: &ConnConfig,
    rules: WindowRules,
    mss: u32,
    seed: u64,
    now: Instant,
) -> Congestion {
    let usual = Config::new(mss);
    let asked = config.initial_window_segments.map(|n| u64::from(n) * u64::from(mss));
    let initial_window = asked.unwrap_or(usual.initial_window);
    let sizes = Config { seed, rules, initial_window, pacing: config.pacing, ..usual };
    let control = match &config.controller {
        Some(factory) => CongestionControl::own(factory, sizes, now),
        None => CongestionControl::new(config.congestion.unwrap_or_default(), sizes, now),
    };
    Congestion::new(control, mss, now)
}

//! How large a segment may be: path MTU discovery, by ICMP and without [RFC 4821].
//!
//! Sizes are MSS as the option says it: options included, TCP and IP headers not.
//!
//! ```text
//!  floor            mss                        high          ceiling
//!    |---------------|===== not known yet ======|--- too big --|
//!
//! told by the host       a router said "too big", or another connection found out: mss falls at
//!                        once, and what is outstanding and longer is cut anew
//! black hole             timeouts in a row with a long segment at the head: mss falls to what fits
//!                        1280 bytes, then 576 (IPv4); the search begins. If the timeouts prove needless, or
//!                        TACKs show that short segments are lost as well before it found anything, it
//!                        was no hole: mss is what it was
//! search                 one segment of new data is longer ([`SizeSearch`] says by how much)
//!   acknowledged         mss rises to it
//!   lost, twice          high falls to it; it says nothing of congestion [RFC 4821 §7.6]
//! ```

use core::ops::Range;

use tack_transport::SizeSearch;
use tack_units::Instant;

/// What the host knows of a connection's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PathLimits {
    /// IP, perhaps UDP, and TCP header, in bytes.
    pub(crate) headers: u16,
    /// Packets that every path takes, for all practical purposes: 576 bytes over IPv4
    /// [RFC 9293 §3.7.1], 1280 over IPv6 [RFC 8200 §5].
    pub(crate) sure: u16,
}

/// See the [module's text](self).
#[derive(Debug)]
pub(crate) struct PathMtu {
    limits: PathLimits,
    /// Whether sizes are searched for without ICMP.
    searches: bool,
    /// What both ends agreed on.
    ceiling: u16,
    /// What the host allows; `None`: it knows of no bound.
    told: Option<u16>,
    /// Of the MSS.
    search: SizeSearch,
    probe: Option<Probe>,
    /// Length of a lost probe that the next report of losses will name.
    excuse: Option<u64>,
    settled: Option<u16>,
    lowered_blindly: bool,
    doubt: Option<Doubt>,
    acquittals: u8,
}

/// Timeouts lowered the MSS from this, and nothing else says yet that it was the size.
#[derive(Clone, Copy, Debug)]
struct Doubt {
    mss: u16,
    /// New text that left since is short.
    from: u64,
}

#[derive(Clone, Debug)]
struct Probe {
    mss: u16,
    text: Range<u64>,
}

/// Packets that pass nearly everywhere: the least that IPv6 links take, and what tunnels over
/// Ethernet leave.
const SAFE_MTU: u16 = 1_280;
/// A single loss may be congestion; a second one of the same size is hardly.
const MAX_LOSSES: u8 = 2;
/// A hole that is real loses short segments now and then, too, and three timeouts find it again.
const MOST_ACQUITTALS: u8 = 3;

impl PathMtu {
    pub(crate) fn new(limits: PathLimits, mss: u16, searches: bool) -> PathMtu {
        PathMtu {
            limits,
            searches,
            ceiling: mss,
            told: None,
            search: SizeSearch::new(mss, mss, MAX_LOSSES),
            probe: None,
            excuse: None,
            settled: None,
            lowered_blindly: false,
            doubt: None,
            acquittals: 0,
        }
    }

    /// The handshake agreed on `mss`.
    pub(crate) fn agree(&mut self, mss: u16) {
        self.ceiling = mss;
        let most = self.most();
        self.search = SizeSearch::new(most, most, MAX_LOSSES);
    }

    /// In force now.
    pub(crate) fn mss(&self) -> u16 {
        self.search.size()
    }

    /// What every path takes, and every peer that names no MSS: 536 bytes over IPv4, 1220 over
    /// IPv6 [RFC 9293 §3.7.1].
    pub(crate) fn sure_mss(&self) -> u16 {
        self.mss_of(self.limits.sure)
    }

    /// For a body: nobody would notice that long ones do not pass, since none is sent again.
    pub(crate) fn feedback_mss(&self) -> u16 {
        self.mss().min(self.mss_of(SAFE_MTU))
    }

    /// The packet that comes to, in bytes.
    pub(crate) fn mtu(&self) -> u16 {
        self.mss().saturating_add(self.limits.headers)
    }

    fn mss_of(&self, mtu: u16) -> u16 {
        mtu.saturating_sub(self.limits.headers).max(super::negotiate::LEAST_MSS)
    }

    /// The host's table says something else of the path than before. True if the MSS fell.
    pub(crate) fn on_told(&mut self, mtu: Option<u16>, now: Instant) -> bool {
        let told = mtu.map(|mtu| self.mss_of(mtu));
        if told == self.told {
            return false;
        }
        (self.told, self.doubt) = (told, None);
        let most = self.most();
        if self.search.limit(most) {
            self.probe = None;
            return true;
        }
        if self.searches {
            // More may pass than before: one segment finds out, not all of them.
            self.search.begin(now);
        } else {
            self.search.set(most);
        }
        false
    }

    fn most(&self) -> u16 {
        self.ceiling.min(self.told.unwrap_or(u16::MAX))
    }

    /// A router takes packets of `mtu` bytes, and what began at `seq` was longer. True: the host
    /// should know; false: only a probe of ours was too long, or the news is old.
    pub(crate) fn on_too_big(&mut self, mtu: u16, seq: u64, now: Instant) -> bool {
        let mss = self.mss_of(mtu);
        if mss < self.mss() {
            return true;
        }
        let tried = |probe: &mut Probe| probe.text.start == seq && mss < probe.mss;
        if self.probe.take_if(tried).is_some() {
            let ended = self.search.on_told(mss, now);
            self.note_end(ended);
        }
        false
    }

    /// A timeout with a segment at the head that takes `size` bytes with its options. `in_a_row`
    /// of them and no answer make a black hole, unless the path's loss makes as many (`by_chance`).
    /// True if the MSS fell.
    pub(crate) fn on_timeout(
        &mut self,
        size: u64,
        in_a_row: u32,
        by_chance: u32,
        now: Instant,
    ) -> bool {
        if self.probe.take().is_some() {
            self.search.on_timeout(now);
        }
        if !self.searches || !SizeSearch::is_black_hole(in_a_row, by_chance) {
            return false;
        }
        let steps = [self.mss_of(SAFE_MTU), self.sure_mss()];
        let Some(&next) = steps.iter().find(|&&s| s < self.mss() && u64::from(s) < size) else {
            return false;
        };
        self.search.set(next);
        self.search.begin(now);
        self.lowered_blindly = true;
        true
    }

    /// Timeouts lowered the MSS, which was `former`, with everything below `snd_nxt` sent before.
    pub(crate) fn doubt(&mut self, former: u16, snd_nxt: u64) {
        let mss = self.doubt.map_or(former, |doubt| doubt.mss);
        self.doubt = (self.acquittals < MOST_ACQUITTALS).then_some(Doubt { mss, from: snd_nxt });
    }

    /// A receiver of TACK's says that what begins at `seq` was lost. True if it is short, and tells that timeouts
    /// were those of a queue too full: the MSS is what it was. What plain TCP takes for lost may only be late, and
    /// each change of size sends all of it once more.
    pub(crate) fn acquits(&mut self, seq: u64) -> bool {
        if self.probe.as_ref().is_some_and(|probe| probe.text.contains(&seq)) {
            return false;
        }
        let doubt = self.doubt.take_if(|doubt| doubt.from <= seq);
        self.restore(doubt)
    }

    /// The timeouts proved needless: what they took for lost had arrived, long as it was, and only acknowledgments were
    /// lost, or late. True if the MSS is what it was.
    pub(crate) fn on_undone(&mut self) -> bool {
        let doubt = self.doubt.take();
        self.restore(doubt)
    }

    fn restore(&mut self, doubt: Option<Doubt>) -> bool {
        let Some(doubt) = doubt else { return false };
        self.acquittals += 1;
        self.probe = None;
        self.search.set(doubt.mss.min(self.most()));
        true
    }

    /// Timeouts lowered the MSS: they need not mean what they else would.
    pub(crate) fn was_lowered_blindly(&self) -> bool {
        self.lowered_blindly
    }

    /// The size to try now.
    pub(crate) fn wanted(&self, now: Instant) -> Option<u16> {
        let may_probe = self.searches && self.probe.is_none();
        may_probe.then(|| self.search.wanted(now)).flatten()
    }

    pub(crate) fn on_probe_sent(&mut self, mss: u16, text: Range<u64>) {
        self.probe = Some(Probe { mss, text });
    }

    /// Everything below `una` is acknowledged. True if the MSS rose.
    pub(crate) fn on_acked(&mut self, una: u64, now: Instant) -> bool {
        self.lowered_blindly = false;
        let Some(probe) = self.probe.take_if(|probe| probe.text.end <= una) else { return false };
        self.doubt = None;
        let ended = self.search.on_passed(probe.mss, now);
        self.note_end(ended);
        true
    }

    /// What begins at `seq` is lost, or sent again.
    pub(crate) fn on_lost(&mut self, seq: u64, now: Instant) {
        if let Some(probe) = self.probe.take_if(|probe| probe.text.contains(&seq)) {
            self.excuse = Some(probe.text.end - probe.text.start);
            self.search.try_again(probe.mss, now);
        }
    }

    /// The losses reported are those of a probe, and nothing else: only then do they tell of its
    /// size. What is lost in company may as well have met a full queue, and is tried again.
    pub(crate) fn excuses(&mut self, lost_bytes: u64, now: Instant) -> bool {
        let alone = lost_bytes > 0 && self.excuse.take() == Some(lost_bytes);
        if alone {
            self.doubt = None;
            let ended = self.search.on_loss(now);
            self.note_end(ended);
        }
        alone
    }

    fn note_end(&mut self, ended: bool) {
        if ended {
            self.settled = Some(self.mtu());
        }
    }

    /// A search ended with a bound below the ceiling, which the host should know, as packet size.
    pub(crate) fn take_settled(&mut self) -> Option<u16> {
        self.settled.take()
    }
}

#[cfg(test)]
#[path = "mtu_tests.rs"]
mod tests;

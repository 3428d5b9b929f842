//! What a winner of contention is about to put on the air, and which of it survives.

use rand_pcg::Pcg64Mcg;

use super::config::HiddenInterferer;
use super::phy::{DataRate, Ns};
use super::rng::{chance, exponential};

/// What an exchange carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// This many MPDUs of a flow, which together have this many bytes.
    Data { flow: usize, mpdus: usize, psdu_bytes: u32 },
    /// A BlockAckReq of a flow.
    Bar { flow: usize },
    /// This many MPDUs of a neighbour.
    Neighbour { index: usize, mpdus: u32 },
    /// A beacon.
    Beacon { index: usize },
}

/// One exchange: protection, PPDU, response.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) contender: u32,
    pub(super) node: u32,
    pub(super) what: What,
    pub(super) start: Ns,
    /// Protection before the PPDU, the SIFS after it included.
    pub(super) lead: Ns,
    /// Duration of an RTS; 0 without.
    pub(super) rts: Ns,
    /// Duration of the frame that answers it or goes ahead alone; 0 without protection.
    pub(super) cts: Ns,
    pub(super) ppdu: Ns,
    pub(super) rate: DataRate,
    /// Duration of the response; 0 if none is due.
    pub(super) response: Ns,
    pub(super) timeout: Ns,
    pub(super) sifs: Ns,
}

impl Plan {
    pub(super) fn ppdu_start(&self) -> Ns {
        self.start + self.lead
    }

    pub(super) fn ppdu_end(&self) -> Ns {
        self.start + self.lead + self.ppdu
    }

    /// End of the exchange if it succeeds.
    pub(super) fn end(&self) -> Ns {
        self.ppdu_end() + if self.response > 0 { self.sifs + self.response } else { 0 }
    }

    /// When its sender stops if it collides: an RTS that is not answered ends the exchange.
    pub(super) fn collided_end(&self) -> Ns {
        if self.rts > 0 { self.start + self.rts } else { self.ppdu_end() }
    }

    /// Start of the MPDU that begins after `bytes_before` of the PSDU's `psdu_bytes`.
    pub(super) fn mpdu_start(&self, bytes_before: u32, psdu_bytes: u32) -> Ns {
        let preamble = self.rate.preamble_ns();
        let data = self.ppdu - preamble.min(self.ppdu);
        let before = data * Ns::from(bytes_before) / Ns::from(psdu_bytes.max(1));
        self.ppdu_start() + preamble + before
    }
}

/// The bursts of a hidden interferer that touch `[from, to)`, as times of overlap.
///
/// Returns `true` at once if one hits before `fatal_until` or if any hit is fatal.
pub(super) fn interfere(
    hidden: &HiddenInterferer,
    from: Ns,
    to: Ns,
    fatal_until: Ns,
    bursts: &mut Vec<(Ns, Ns)>,
    rng: &mut Pcg64Mcg,
) -> bool {
    bursts.clear();
    let per_ns = hidden.bursts_per_s / 1e9;
    if per_ns <= 0.0 {
        return false;
    }
    let Some(burst) = hidden.burst else {
        return chance(rng, 1.0 - (-per_ns * (to - from) as f64).exp());
    };
    // Bursts that began up to their own length before the PPDU still overlap it.
    let burst = burst.as_nanos() as Ns;
    let mut begin = from as f64 - burst as f64;
    loop {
        begin += exponential(rng) / per_ns;
        if begin >= to as f64 {
            return false;
        }
        let (begin, end) = (begin.max(0.0) as Ns, (begin + burst as f64).max(0.0) as Ns);
        if begin < fatal_until && end > from {
            return true;
        }
        bursts.push((begin, end));
    }
}

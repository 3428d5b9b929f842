//! What the ends of a conversation have to say: both know, so that whoever hears can compare.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

/// All that is said, by a seed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Script {
    pub(crate) seed: u64,
    /// Streams of each kind that each end opens.
    pub(crate) streams: u64,
    /// Bytes of one, at most.
    pub(crate) most: usize,
    /// Share of the streams that their speaker gives up, and as many that their hearer wants no more of.
    pub(crate) quits: f64,
}

/// What is to become of one direction of a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) len: usize,
    /// After how many bytes the speaker resets it.
    pub(crate) resets: Option<usize>,
    /// After how many bytes at least the hearer stops it.
    pub(crate) stops: Option<usize>,
}

impl Script {
    /// What `who` says on a stream.
    pub(crate) fn plan(&self, who: usize, id: u64) -> Plan {
        let seed = self.seed ^ (id << 8 | who as u64) << 20;
        let mut rng = Pcg64::seed_from_u64(seed);
        let len = match rng.random_range(0..4) {
            0 => rng.random_range(0..3),
            1 => rng.random_range(0..3_000),
            _ => rng.random_range(0..self.most),
        };
        let mut quits = || rng.random_bool(self.quits).then(|| rng.random_range(0..=len));
        let (resets, stops) = (quits(), quits());
        Plan { len, resets, stops }
    }

    /// Byte `at` of what `who` says on a stream.
    pub(crate) fn byte(&self, who: usize, id: u64, at: usize) -> u8 {
        let x = self.seed.wrapping_add(id << 3 | who as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (x >> 32) as u8 ^ (at as u64).wrapping_mul(0x2545_f491).to_le_bytes()[1]
    }

    /// Streams that `who` hears the other on.
    pub(crate) fn heard_by(&self, who: usize) -> Vec<u64> {
        let ids = (0..4 * self.streams).filter(|id| {
            let (opener, one_way) = ((id & 1) as usize, id & 2 > 0);
            !one_way || opener != who
        });
        ids.collect()
    }
}

/// What one end sends on a stream, and has sent.
#[derive(Debug)]
pub(crate) struct Speech {
    pub(crate) plan: Plan,
    pub(crate) sent: usize,
    pub(crate) finished: bool,
}

impl Speech {
    pub(crate) fn new(plan: Plan) -> Speech {
        Speech { plan, sent: 0, finished: false }
    }

    /// Bytes that are written before it ends, one way or the other.
    pub(crate) fn upto(&self) -> usize {
        self.plan.resets.unwrap_or(self.plan.len)
    }
}

/// What an end has heard of a stream.
#[derive(Debug, Default)]
pub(crate) struct Hearing {
    pub(crate) bytes: Vec<u8>,
    pub(crate) ended: bool,
}

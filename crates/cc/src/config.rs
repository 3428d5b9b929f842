//! What a controller is built from: sizes in bytes, and a seed for the one random choice BBR makes.

/// Sizes and limits shared by all controllers.
///
/// Every value is accepted; [`Config::sane`] says what nonsense becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Sender maximum segment size in bytes, options excluded.
    pub mss: u32,
    /// Window before the first acknowledgment, in bytes.
    pub initial_window: u64,
    /// The window never exceeds this, in bytes: the send buffer or a limit of the host.
    pub max_window: u64,
    /// Appropriate Byte Counting's limit `L`: one acknowledgment grows a window-based controller in
    /// slow start by at most `L * MSS` bytes [RFC 3465 §2.2]. `u32::MAX` counts every byte, which
    /// is what acknowledgments rarer than every second segment need; pacing bounds the burst
    /// instead.
    pub abc_limit: u32,
    /// BBR falls nearly silent (or, for video, slows down a little) when RTTmin is old, to measure
    /// it anew. Without, RTTmin is the least sample of the last ten seconds, queue included.
    pub probe_rtt: bool,
    /// Seed of the phase at which BBR begins to probe, so that flows do not probe in step.
    pub seed: u64,
}

impl Config {
    /// Ten segments to start with [RFC 6928 §2], no other limit, every acknowledged byte counted.
    pub fn new(mss: u32) -> Self {
        let mss = mss.max(1);
        Self {
            mss,
            initial_window: initial_window(mss),
            max_window: u64::MAX,
            abc_limit: u32::MAX,
            probe_rtt: true,
            seed: 0,
        }
    }

    /// The nearest configuration that makes sense: an MSS of at least one byte, an initial window
    /// of at least one MSS, a greatest window of at least [`MIN_MAX_WINDOW_MSS`] of them, and `L`
    /// from 1.
    pub fn sane(self) -> Self {
        let mss = self.mss.max(1);
        let one = u64::from(mss);
        let max_window = self.max_window.max(MIN_MAX_WINDOW_MSS * one);
        Self {
            mss,
            initial_window: self.initial_window.clamp(one, max_window),
            max_window,
            abc_limit: self.abc_limit.max(1),
            ..self
        }
    }
}

/// Four segments: what BBR needs to keep the ACK clock alive while it probes for RTTmin.
pub const MIN_MAX_WINDOW_MSS: u64 = 4;

/// `min(10 MSS, max(2 MSS, 14600))` bytes [RFC 6928 §2].
pub fn initial_window(mss: u32) -> u64 {
    let mss = u64::from(mss);
    (10 * mss).min((2 * mss).max(14_600))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initial_window_is_ten_segments_up_to_14600_bytes_and_two_beyond() {
        assert_eq!(initial_window(536), 5_360);
        assert_eq!(initial_window(1_460), 14_600);
        assert_eq!(initial_window(4_000), 14_600);
        assert_eq!(initial_window(9_000), 18_000);
    }

    #[test]
    fn nonsense_becomes_the_nearest_sense() {
        let ours = Config::new(1_460);
        let zero = Config { mss: 0, initial_window: 0, max_window: 0, abc_limit: 0, ..ours };
        let sane = Config { mss: 1, initial_window: 1, max_window: 4, abc_limit: 1, ..ours };
        assert_eq!(zero.sane(), sane);
        assert_eq!(Config::new(1_460).sane(), Config::new(1_460));
    }
}

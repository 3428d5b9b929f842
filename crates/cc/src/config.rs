//! What a controller is built from: sizes in bytes, and a seed for the one random choice BBR makes.

/// Sizes and limits shared by all controllers.
///
/// Every value is accepted; [`Config::sane`] says what nonsense becomes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Sender maximum segment size in bytes, options excluded.
    pub mss: u32,
    /// Window before the first acknowledgment, in bytes.
    pub initial_window: u64,
    /// The window never exceeds this, in bytes: the send buffer or a limit of the host.
    pub max_window: u64,
    /// How window-based controllers count and fall.
    pub rules: WindowRules,
    /// Who is paced.
    pub pacing: Pacing,
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
            rules: WindowRules::default(),
            pacing: Pacing::default(),
            probe_rtt: true,
            seed: 0,
        }
    }

    /// The nearest configuration that makes sense: an MSS of at least one byte, an initial window
    /// of at least one MSS, a greatest window of at least [`MIN_MAX_WINDOW_MSS`] of them, `L` from
    /// 1, and no `beta` rather than an impossible one.
    pub fn sane(self) -> Self {
        let mss = self.mss.max(1);
        let one = u64::from(mss);
        let max_window = self.max_window.max(MIN_MAX_WINDOW_MSS * one);
        Self {
            mss,
            initial_window: self.initial_window.clamp(one, max_window),
            max_window,
            rules: self.rules.sane(),
            ..self
        }
    }
}

/// What the acknowledgment strategy asks of a window-based controller. BBR needs none of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WindowRules {
    /// Appropriate Byte Counting's limit `L`: one acknowledgment grows the window in slow start by
    /// at most `L * MSS` bytes [RFC 3465 §2.2]. `u32::MAX` counts every byte, which is what
    /// acknowledgments rarer than every second segment need; pacing bounds the burst instead.
    /// Congestion avoidance knows no limit: there every acknowledged byte counts, and a window of
    /// them is worth one MSS [RFC 3465 §2.1].
    pub abc_limit: u32,
    /// What one acknowledgment counts in the slow start after a timeout.
    pub abc_limit_after_rto: AfterRto,
    /// Part of the window that a lost packet or a mark costs once the initial slow start is over,
    /// in (0, 1), instead of NewReno's half: `beta` of Landström & Larzon, who let 2W lose 2/7
    /// [Landström & Larzon §4.4]. A timeout halves all the same. CUBIC keeps its own.
    pub beta: Option<f64>,
}

/// The limit of byte counting in the slow start that follows a timeout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AfterRto {
    /// One segment: what an acknowledgment then covers may have left the network before the timeout
    /// [RFC 3465 §2.3]. With rare acknowledgments this slow start is not exponential any more.
    One,
    /// `min(L, window)` segments: a window that one acknowledgment covers still doubles
    /// [Landström & Larzon §4.2].
    #[default]
    Window,
}

/// Who waits for the pacer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pacing {
    /// Every controller [TON §V-C].
    #[default]
    Always,
    /// Only those that think in rates. Window-based ones are clocked by acknowledgments alone, as
    /// Linux's are without `fq`, and ns-2's.
    OnlyIfRateBased,
}

impl Default for WindowRules {
    fn default() -> Self {
        Self { abc_limit: u32::MAX, abc_limit_after_rto: AfterRto::default(), beta: None }
    }
}

impl WindowRules {
    fn sane(self) -> Self {
        let beta = self.beta.filter(|beta| *beta > 0.0 && *beta < 1.0);
        Self { abc_limit: self.abc_limit.max(1), beta, ..self }
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
        let nothing = WindowRules { abc_limit: 0, beta: Some(f64::NAN), ..ours.rules };
        let one = WindowRules { abc_limit: 1, ..ours.rules };
        let zero = Config { mss: 0, initial_window: 0, max_window: 0, rules: nothing, ..ours };
        let sane = Config { mss: 1, initial_window: 1, max_window: 4, rules: one, ..ours };
        assert_eq!(zero.sane(), sane);
        for beta in [-0.1, 0.0, 1.0, f64::INFINITY] {
            assert_eq!(WindowRules { beta: Some(beta), ..ours.rules }.sane().beta, None, "{beta}");
        }
        assert_eq!(Config::new(1_460).sane(), Config::new(1_460));
    }
}

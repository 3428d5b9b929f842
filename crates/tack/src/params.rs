//! Parameters of the mechanism, their defaults and the reasons for them.

use core::time::Duration;

/// All knobs of the mechanism. Both ends need not agree, except where a field says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Params {
    /// `beta`: TACKs per RTTmin when the period rules; at least 2. 4 keeps a lost TACK harmless
    /// and the bottleneck buffer need at bdp/(beta-1) = 0.33 bdp [TON §IV-A, App. B].
    pub beta: u32,
    /// `L`: full-sized segments per TACK when counting rules. 2 as TCP; 1 for interactive use.
    pub segments_per_ack: u32,
    /// Full-sized segment in bytes, options excluded.
    pub mss: u32,
    /// TACKs while bandwidth is probed.
    pub startup: StartupAcks,
    /// Bound on the flush timer: what arrived is acknowledged at most
    /// `max(alpha, flush)` later, and later where packets usually come further apart. Below the 500 ms of [RFC 9293 §3.8.6.3, MUST-40], and not below
    /// the delayed-ACK timer of TCPs (40 ms): a sparse flow would pay for it in acknowledgments.
    pub flush: Duration,
    /// `tau`: window of the RTTmin filter, at most 10 s [TON §V-B].
    pub tau: Duration,
    /// The loss IACK waits RTTmin divided by this against reordering [TON §VIII].
    pub settling_divisor: u32,
    /// How many holes a TACK lists.
    pub rbb: RbbPolicy,
    /// Send loss IACKs. Off only to reproduce [TON Fig. 6a].
    pub loss_iacks: bool,
    /// Acknowledge at once at the end of every push, for request-response traffic.
    pub ack_on_push: bool,
    /// Time RTTmin by the least OWD; off samples the newest packet only, to reproduce
    /// [TON Fig. 7a].
    pub owd_timing: bool,
}

/// How often a flow is acknowledged while its sender probes for bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StartupAcks {
    /// So many TACKs per RTTmin, each for at least `L` segments.
    ///
    /// Deviation: [TON §VI-D] suggests an acknowledgment per packet. Growth needs to hear of
    /// deliveries a few times per round trip only, since rates are measured at the receiver and
    /// pacing spreads what an acknowledgment allows: at 16, a round of growth takes 1/32 longer.
    PerRtt(u32),
    /// One per packet, as the paper has it.
    PerPacket,
}

/// How many holes a TACK lists [TON §V-A].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RbbPolicy {
    /// One hole, until Eq. 5 comes near (`receiver/report.rs` says how near) or one of them was
    /// announced in vain; then every hole up to the MSS. A loss is told by a TACK in an IACK's place.
    OnDemand,
    /// Always every hole up to the MSS ("TACK-rich"), and IACKs that tell of losses beside the TACKs.
    Rich,
    /// Always `Q` holes ("TACK-poor" at 1), and such IACKs.
    Poor(u32),
    /// Every hole once, also one that has not settled: where holes are never filled, what is
    /// not a hole is the only word that it has arrived. A loss is told by a TACK in an IACK's place: that says
    /// all that the next one would have.
    Every,
}

impl Params {
    /// What the field comments recommend.
    pub const DEFAULT: Params = Params {
        beta: 4,
        segments_per_ack: 2,
        mss: 1448,
        startup: StartupAcks::PerRtt(16),
        flush: Duration::from_millis(40),
        tau: Duration::from_secs(10),
        settling_divisor: 4,
        rbb: RbbPolicy::OnDemand,
        loss_iacks: true,
        ack_on_push: false,
        owd_timing: true,
    };
}

impl Default for Params {
    fn default() -> Self {
        Params::DEFAULT
    }
}

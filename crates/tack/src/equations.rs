//! Equations 1 to 5 and the papers' bounds, as pure functions.
//!
//! Nothing here is called per packet; the receiver's schedule is Eq. 4 in the time domain, and
//! tests hold it against the functions below. Frequencies are in Hz, sizes in bytes.

use core::time::Duration;

use tack_units::Rate;

use crate::StartupAcks;

/// Eq. 1: byte-counting ACK, `f_b = bw / (L * MSS)`.
pub fn byte_counting_frequency(bw: Rate, segments_per_ack: u32, mss: u32) -> f64 {
    bw.as_bps() as f64 / 8.0 / (f64::from(segments_per_ack.max(1)) * f64::from(mss.max(1)))
}

/// Eq. 2: periodic ACK, `f_p = 1 / alpha`. Infinite at `alpha` zero.
pub fn periodic_frequency(alpha: Duration) -> f64 {
    1.0 / alpha.as_secs_f64()
}

/// Eq. 3: delayed ACK, the more frequent of the two.
pub fn delayed_frequency(bw: Rate, alpha: Duration, segments_per_ack: u32, mss: u32) -> f64 {
    byte_counting_frequency(bw, segments_per_ack, mss).max(periodic_frequency(alpha))
}

/// Eq. 4: TACK, the less frequent of the two, with `alpha = RTTmin / beta`.
pub fn tack_frequency(
    bw: Rate,
    rtt_min: Duration,
    beta: u32,
    segments_per_ack: u32,
    mss: u32,
) -> f64 {
    byte_counting_frequency(bw, segments_per_ack, mss).min(periodic_frequency(alpha(rtt_min, beta)))
}

/// `alpha = RTTmin / beta`, the least time between two TACKs.
pub fn alpha(rtt_min: Duration, beta: u32) -> Duration {
    rtt_min / beta.max(1)
}

/// The least time between two TACKs while bandwidth is probed; zero where each packet is
/// acknowledged.
pub fn startup_interval(rtt_min: Duration, acks: StartupAcks) -> Duration {
    match acks {
        StartupAcks::PerRtt(n) => rtt_min / n.max(1),
        StartupAcks::PerPacket => Duration::ZERO,
    }
}

/// What of a wait in the data path's queue stretches the interval of TACKs: all of it where the period
/// rules; nothing under 4 ms, which hosts and 802.11 aggregates make without a queue, and nothing
/// where counting rules, which a queue does not make more frequent.
pub fn stretching(queued: Duration, link: &Link) -> Duration {
    let period = period_rules(link.bdp, link.beta, link.segments_per_ack, link.mss);
    if period && queued >= Duration::from_millis(4) { queued } else { Duration::ZERO }
}

/// An interval of a path on which data waits for `queued` in a queue: about the same part of a round
/// trip, `interval * max(1, 1/2 + queued/RTTmin)`, 64 times the interval at most. What a sender's
/// probes for bandwidth put into the queue, less than half an RTTmin, changes nothing. As it is while
/// RTTmin is unknown.
pub fn stretched(interval: Duration, queued: Duration, rtt_min: Duration) -> Duration {
    if rtt_min.is_zero() || queued <= rtt_min / 2 {
        return interval;
    }
    let [interval, queued, rtt_min] = [interval, queued, rtt_min].map(nanos);
    let factor = (0.5 + queued / rtt_min).clamp(1.0, 64.0);
    Duration::from_nanos((interval * factor) as u64)
}

/// In nanoseconds, of which a double holds 104 days exactly. Quicker than seconds where it is done for each packet.
fn nanos(time: Duration) -> f64 {
    time.as_nanos() as u64 as f64
}

/// `bdp = bw * RTTmin`, bytes.
pub fn bdp(bw: Rate, rtt_min: Duration) -> u64 {
    bw.bytes_in(rtt_min)
}

/// How long `L` full-sized segments take at `bw`: the interval where counting rules. Zero at infinite
/// `bw`, and the longest there is at none.
pub fn counting_interval(bw: Rate, segments_per_ack: u32, mss: u32) -> Duration {
    let interval = 1.0 / byte_counting_frequency(bw, segments_per_ack, mss);
    Duration::try_from_secs_f64(interval).unwrap_or(Duration::MAX)
}

/// Whether the period governs Eq. 4 (`bdp >= beta * L * MSS`); otherwise counting does.
pub fn period_rules(bdp: u64, beta: u32, segments_per_ack: u32, mss: u32) -> bool {
    bdp >= u64::from(beta) * u64::from(segments_per_ack) * u64::from(mss)
}

/// Packets whose loss one lost TACK can leave unreported, times `rho'`: the quantity that Eq. 5
/// compares with Q. `rho * rho' * bdp / MSS` under the period rule, `rho * rho' * L` below it.
fn unreported(rho: f64, rho_prime: f64, link: &Link) -> f64 {
    let packets = if period_rules(link.bdp, link.beta, link.segments_per_ack, link.mss) {
        link.bdp as f64 / f64::from(link.mss.max(1))
    } else {
        f64::from(link.segments_per_ack)
    };
    rho * rho_prime * packets
}

/// What Eq. 5 needs to know besides the loss rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// `bdp`, bytes.
    pub bdp: u64,
    /// `beta`.
    pub beta: u32,
    /// `L`.
    pub segments_per_ack: u32,
    /// `MSS`, bytes.
    pub mss: u32,
}

/// Eq. 5: whether a TACK that lists `q` holes should list more, at loss rates `rho` (data path)
/// and `rho_prime` (ACK path). False when nothing is lost, or a rate is not a number.
pub fn more_blocks_needed(rho: f64, rho_prime: f64, q: u32, link: &Link) -> bool {
    unreported(rho, rho_prime, link) > f64::from(q)
}

/// `dQ`: how many blocks more than `q` Eq. 5 asks for, rounded up.
///
/// Deviation: one edition's appendix prints `Q/(rho*L) - Q` below the period rule; that is a
/// misprint, since only `rho*rho'*L - Q` follows from "lost IACKs must not exceed Q".
pub fn additional_blocks(rho: f64, rho_prime: f64, q: u32, link: &Link) -> u32 {
    // `as` saturates, and takes NaN to zero.
    (unreported(rho, rho_prime, link) - f64::from(q)).max(0.0).ceil() as u32
}

/// `W_min = beta/(beta-1) * bdp`: the least send window for full utilisation, bytes
/// [TON §VIII]. `None` below beta = 2, where no window suffices.
pub fn minimum_window(bdp: u64, beta: u32) -> Option<u64> {
    (beta >= 2).then(|| scale(bdp, beta, beta - 1))
}

/// The bottleneck buffer that `W_min` asks for, `bdp/(beta-1)`: 0.33 bdp at beta = 4.
pub fn bottleneck_buffer(bdp: u64, beta: u32) -> Option<u64> {
    (beta >= 2).then(|| scale(bdp, 1, beta - 1))
}

/// With pacing only `bdp * (1 + 1/beta)` must be in flight, bytes.
pub fn paced_in_flight(bdp: u64, beta: u32) -> u64 {
    bdp.saturating_add(bdp / u64::from(beta.max(1)))
}

/// Least `beta` when the share `rho_prime` of TACKs is lost: `2/(1 - rho')`. Infinite when all are.
pub fn minimum_beta(rho_prime: f64) -> f64 {
    2.0 / (1.0 - rho_prime.clamp(0.0, 1.0))
}

/// Greatest `L` for which Q blocks suffice: `Q/(rho * rho')`. Infinite without loss.
pub fn maximum_segments_per_ack(q: u32, rho: f64, rho_prime: f64) -> f64 {
    f64::from(q) / (rho * rho_prime)
}

/// `value * num / den`, rounded up, without overflow.
fn scale(value: u64, num: u32, den: u32) -> u64 {
    let exact = (u128::from(value) * u128::from(num)).div_ceil(u128::from(den.max(1)));
    u64::try_from(exact).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn frequencies_of_figure_12b_are_exact() {
        // [TON Fig. 12b] with 802.11b at 7.056 Mbit/s and 802.11ac at 594.65 Mbit/s, MSS 1500.
        let (b, ac) = (Rate::from_kbps(7_056), Rate::from_kbps(594_650));
        assert_eq!(byte_counting_frequency(b, 2, 1_500).round(), 294.0);
        assert_eq!(byte_counting_frequency(ac, 2, 1_500).round(), 24_777.0);
        for (rtt, on_b, on_ac) in [(10, 294.0, 400.0), (80, 50.0, 50.0), (200, 20.0, 20.0)] {
            assert_eq!(tack_frequency(b, ms(rtt), 4, 2, 1_500).round(), on_b, "{rtt} ms");
            assert_eq!(tack_frequency(ac, ms(rtt), 4, 2, 1_500).round(), on_ac, "{rtt} ms");
        }
    }

    #[test]
    fn tack_is_never_more_frequent_than_delayed_ack() {
        // [TON §IV-A], first insight.
        for mbps in [0, 1, 10, 100, 1_000] {
            for rtt in [1, 10, 80, 200] {
                let bw = Rate::from_mbps(mbps);
                let tack = tack_frequency(bw, ms(rtt), 4, 2, 1_500);
                assert!(tack <= delayed_frequency(bw, alpha(ms(rtt), 4), 2, 1_500));
            }
        }
    }

    #[test]
    fn example_of_section_four_b_gives_twenty_hertz() {
        // [TON §IV-B]: 200 ms, 10 Mbit/s, L = 1.
        assert_eq!(tack_frequency(Rate::from_mbps(10), ms(200), 4, 1, 1_500).round(), 20.0);
    }

    #[test]
    fn both_rules_meet_where_bdp_is_beta_l_mss() {
        let boundary = 4 * 2 * 1_500;
        assert!(period_rules(boundary, 4, 2, 1_500));
        assert!(!period_rules(boundary - 1, 4, 2, 1_500));
        let bw = Rate::from_bytes_over(boundary, ms(10)).unwrap();
        let counting = byte_counting_frequency(bw, 2, 1_500);
        assert!((counting - periodic_frequency(alpha(ms(10), 4))).abs() < 1e-6);
    }

    #[test]
    fn bounds_at_the_default_beta() {
        assert_eq!(minimum_window(3_000, 4), Some(4_000));
        assert_eq!(bottleneck_buffer(3_000, 4), Some(1_000));
        assert_eq!(paced_in_flight(4_000, 4), 5_000);
        assert_eq!(minimum_window(3_000, 1), None);
        assert_eq!(minimum_beta(0.0), 2.0);
        assert_eq!(minimum_beta(0.5), 4.0);
        assert_eq!(minimum_beta(1.0), f64::INFINITY);
        assert!((maximum_segments_per_ack(1, 0.1, 0.1) - 100.0).abs() < 1e-9);
    }

    #[test]
    fn equation_5_in_both_regimes() {
        // 1 Gbit/s, 200 ms: bdp 25 MB = 16 667 packets; 1 % of 10 % of them are 16.7.
        let large = Link { bdp: 25_000_000, beta: 4, segments_per_ack: 2, mss: 1_500 };
        assert!(more_blocks_needed(0.01, 0.1, 16, &large));
        assert!(!more_blocks_needed(0.01, 0.1, 17, &large));
        assert_eq!(additional_blocks(0.01, 0.1, 1, &large), 16);
        let small = Link { bdp: 1_000, segments_per_ack: 299, ..large };
        assert!(more_blocks_needed(0.1, 0.1, 2, &small));
        assert!(!more_blocks_needed(0.1, 0.1, 3, &small));
        assert_eq!(additional_blocks(0.1, 0.1, 1, &small), 2);
        assert!(!more_blocks_needed(0.0, 1.0, 0, &large));
        assert_eq!(additional_blocks(f64::NAN, 1.0, 0, &large), 0);
    }
}

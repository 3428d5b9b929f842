//! `L` full-sized segments, as both ends count them.

/// Bytes of options that some segments carry and others do not, as where a short header follows a
/// whole one, or of QUIC's headers. With them a segment is full-sized, too, or its TACK would wait for one
/// beyond `L`.
const OPTIONS: u64 = 24;

/// Least bytes of `L` full-sized segments.
pub(crate) fn quota(segments_per_ack: u32, mss: u32) -> u64 {
    let mss = u64::from(mss);
    u64::from(segments_per_ack).saturating_mul(mss - OPTIONS.min(mss / 4))
}

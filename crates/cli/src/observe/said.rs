//! What TCP-TACK's acknowledgments say, read from a segment alone.

use tack_net::SeqNum;
use tack_net::wire::body::{BodyError, Context, Iack, IackReason, Tack, parse_iack, parse_tack};
use tack_net::wire::{AckType, Segment};

/// An acknowledgment's body.
pub(super) enum Said {
    Tack(Tack),
    /// `None`: of a kind that is none of ours.
    Iack(Option<Iack>),
}

/// What the body of `segment` says, an acknowledgment of this `kind`. Nothing is known here of a connection's
/// numbers but the low 32 bits: they are right as they travel, and no further.
pub(super) fn said(kind: AckType, segment: &Segment<'_>) -> Result<Said, BodyError> {
    let cum_ack = u64::from(segment.header.ack.0);
    let near = 1 << 32;
    let context = Context {
        seq_near: near | cum_ack,
        isn: SeqNum(0),
        pkt_seq_near: near,
        counter_near: 0,
        cum_ack: near | cum_ack,
        window: u64::from(segment.header.window),
    };
    match kind {
        AckType::Tack => parse_tack(segment.payload, &context).map(Said::Tack),
        _ => parse_iack(kind, segment.payload, &context).map(Said::Iack),
    }
}

/// What is lost: the first and the last PKT.SEQ of each gap, as they travel.
pub(super) fn lost(said: &Said) -> Vec<[u32; 2]> {
    let gaps = match said {
        Said::Tack(tack) => &tack.lost,
        Said::Iack(Some(Iack { reason: IackReason::Loss { gaps }, .. })) => gaps,
        Said::Iack(_) => return Vec::new(),
    };
    gaps.iter().map(|gap| [gap.start as u32, (gap.end - 1) as u32]).collect()
}

//! Datagrams that leave together.

use std::collections::VecDeque;
use std::net::SocketAddr;

use tack_transport::{Ecn, Transmit};
use tack_units::Instant;

use crate::conn::Connection;

pub(super) fn transmit(to: SocketAddr, ecn: Ecn, segment_size: usize, bytes: usize) -> Transmit {
    let segments = bytes.div_ceil(segment_size);
    Transmit { to, from: None, segment_size, bytes, segments, ecn, offload: None }
}

/// Datagrams of one connection, of one length but the last. One that does not fit is put into `alone`:
/// its length, mark and address are not known before it is made.
pub(super) fn burst(
    conn: &mut Connection,
    alone: &mut VecDeque<(SocketAddr, Ecn, Vec<u8>)>,
    out: &mut Vec<u8>,
    most: usize,
    now: Instant,
) -> Option<Transmit> {
    let start = out.len();
    let first = conn.poll_transmit(out, now)?;
    let segment_size = out.len() - start;
    let mut last_len = segment_size;
    while last_len == segment_size
        && out.len() - start + segment_size <= most
        && conn.is_established()
        && !conn.may_grow(now)
    {
        let before = out.len();
        let Some(next) = conn.poll_transmit(out, now) else { break };
        last_len = out.len() - before;
        if last_len > segment_size || (next.to, next.ecn) != (first.to, first.ecn) {
            let packet = out.split_off(before);
            alone.push_back((next.to, Ecn::from_bits(next.ecn), packet));
            break;
        }
    }
    let bytes = out.len() - start;
    Some(transmit(first.to, Ecn::from_bits(first.ecn), segment_size, bytes))
}

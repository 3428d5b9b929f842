//! Buffers that receive batches of coalesced datagrams, reused for ever.

use core::iter::FusedIterator;
use std::io::IoSliceMut;
use std::net::{IpAddr, SocketAddr};

use quinn_udp::RecvMeta;

use crate::ecn::Ecn;

/// One coalesced message is at most this long: UDP's 16-bit length field.
const MESSAGE_BYTES: usize = 1 << 16;
/// Messages per system call at most.
pub(crate) const MAX_MESSAGES: usize = quinn_udp::BATCH_SIZE;
/// Bytes a batch aims at. More leaves the processor's second-level cache before it is read.
const BATCH_BYTES: usize = 256 << 10;

/// Receive buffers and what the last call put in them.
///
/// Holds 32 buffers of 64 KiB. Only as many are offered to the kernel as are likely to carry
/// 256 KiB together: coalesced messages fill their buffer, lone datagrams only its beginning.
#[derive(Debug)]
pub struct RecvBatch {
    buffers: Box<[u8]>,
    meta: [RecvMeta; MAX_MESSAGES],
    /// Messages the last call filled.
    filled: usize,
    /// Messages the next call may fill.
    wanted: usize,
}

impl Default for RecvBatch {
    fn default() -> Self {
        RecvBatch::new()
    }
}

impl RecvBatch {
    /// Allocates the buffers.
    pub fn new() -> RecvBatch {
        RecvBatch {
            buffers: vec![0; MESSAGE_BYTES * MAX_MESSAGES].into_boxed_slice(),
            meta: [RecvMeta::default(); MAX_MESSAGES],
            filled: 0,
            wanted: MAX_MESSAGES,
        }
    }

    /// Lets `receive` fill buffers; it returns how many it filled.
    pub(crate) fn fill(
        &mut self,
        receive: impl FnOnce(&mut [IoSliceMut<'_>], &mut [RecvMeta]) -> std::io::Result<usize>,
    ) -> std::io::Result<usize> {
        self.filled = 0;
        let mut chunks = self.buffers.chunks_exact_mut(MESSAGE_BYTES);
        let mut slices: [IoSliceMut<'_>; MAX_MESSAGES] =
            core::array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()));
        let n = receive(&mut slices[..self.wanted], &mut self.meta[..self.wanted])?;
        self.filled = n.min(self.wanted);
        self.adapt();
        Ok(self.filled)
    }

    fn adapt(&mut self) {
        let bytes: usize = self.meta[..self.filled].iter().map(|m| m.len).sum();
        let mean = bytes.checked_div(self.filled).unwrap_or(0).max(1);
        self.wanted = (BATCH_BYTES / mean).clamp(1, MAX_MESSAGES);
    }

    /// Whether the last call filled every buffer offered: there may be more to read.
    pub(crate) fn offered(&self) -> usize {
        self.wanted
    }

    /// As [`RecvBatch::messages`], for whoever decrypts where it lies.
    pub fn messages_mut(&mut self) -> impl Iterator<Item = Message<'_>> {
        let chunks = self.buffers.chunks_exact_mut(MESSAGE_BYTES);
        chunks.zip(&self.meta[..self.filled]).map(|(b, m)| Message {
            from: m.addr,
            to: m.dst_ip,
            ecn: m.ecn.map(Ecn::from),
            bytes: &mut b[..m.len.min(MESSAGE_BYTES)],
            stride: m.stride.max(1),
        })
    }

    /// What arrived, in order. Each item holds one or more datagrams of one flow.
    pub fn messages(&self) -> impl Iterator<Item = Datagrams<'_>> {
        self.buffers.chunks_exact(MESSAGE_BYTES).zip(&self.meta[..self.filled]).map(|(b, m)| {
            Datagrams {
                from: m.addr,
                to: m.dst_ip,
                ecn: m.ecn.map(Ecn::from),
                bytes: &b[..m.len.min(MESSAGE_BYTES)],
                stride: m.stride.max(1),
            }
        })
    }
}

/// Datagrams that arrived together from one sender, and an iterator over them.
#[derive(Clone, Debug)]
pub struct Datagrams<'a> {
    /// Who sent them.
    pub from: SocketAddr,
    /// The local address they were sent to, where the platform tells: a socket bound to the
    /// wildcard address must answer from it.
    pub to: Option<IpAddr>,
    /// Congestion marking; `None` is not-ECT.
    pub ecn: Option<Ecn>,
    bytes: &'a [u8],
    /// Bytes per datagram; the last may be shorter.
    stride: usize,
}

/// Datagrams that arrived together from one sender, as one piece that may be changed.
#[derive(Debug)]
pub struct Message<'a> {
    /// See [`Datagrams::from`].
    pub from: SocketAddr,
    /// See [`Datagrams::to`].
    pub to: Option<IpAddr>,
    /// See [`Datagrams::ecn`].
    pub ecn: Option<Ecn>,
    /// The payloads, one behind the other.
    pub bytes: &'a mut [u8],
    /// Bytes per datagram; the last may be shorter. At least 1.
    pub stride: usize,
}

impl Message<'_> {
    /// How many datagrams it holds.
    pub fn datagrams(&self) -> usize {
        self.bytes.len().div_ceil(self.stride)
    }
}

impl<'a> Datagrams<'a> {
    /// The payloads that are left, one behind the other.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Bytes per datagram; the last may be shorter. At least 1.
    pub fn stride(&self) -> usize {
        self.stride
    }
}

impl<'a> Iterator for Datagrams<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.bytes.is_empty() {
            return None;
        }
        let (datagram, rest) = self.bytes.split_at(self.stride.min(self.bytes.len()));
        self.bytes = rest;
        Some(datagram)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let n = self.bytes.len().div_ceil(self.stride);
        (n, Some(n))
    }
}

impl ExactSizeIterator for Datagrams<'_> {}
impl FusedIterator for Datagrams<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch_of(messages: &[(usize, usize)]) -> RecvBatch {
        let mut batch = RecvBatch::new();
        let n = batch
            .fill(|buffers, meta| {
                for ((b, m), &(len, stride)) in buffers.iter_mut().zip(meta).zip(messages) {
                    b[..len].fill(7);
                    m.len = len;
                    m.stride = stride;
                }
                Ok(messages.len())
            })
            .unwrap();
        assert_eq!(n, messages.len());
        batch
    }

    #[test]
    fn a_coalesced_message_splits_at_its_stride() {
        let batch = batch_of(&[(2_500, 1_000), (40, 40), (0, 0)]);
        let sizes: Vec<Vec<usize>> =
            batch.messages().map(|m| m.map(<[u8]>::len).collect()).collect();
        assert_eq!(sizes, [vec![1_000, 1_000, 500], vec![40], vec![]]);
    }

    #[test]
    fn full_messages_shrink_the_next_batch_and_small_ones_widen_it() {
        let mut batch = batch_of(&[(65_000, 1_000); 32]);
        assert_eq!(batch.offered(), BATCH_BYTES / 65_000);
        batch
            .fill(|buffers, meta| {
                assert_eq!(buffers.len(), BATCH_BYTES / 65_000);
                meta[0].len = 60;
                Ok(1)
            })
            .unwrap();
        assert_eq!(batch.offered(), MAX_MESSAGES);
    }
}

//! What is sent for no connection: RST, SYN cookies, ACKs of TIME-WAIT, echo replies.

use std::collections::VecDeque;
use std::net::IpAddr;

use crate::host::demux::Key;
use crate::wire::Header;

/// One of them.
#[derive(Debug)]
pub(crate) enum Stray {
    /// A segment without text.
    Segment(Key, Box<Header>),
    /// A whole IP packet.
    Packet { src: IpAddr, dst: IpAddr, bytes: Vec<u8> },
}

/// Those that wait; what does not fit is dropped, as a network would.
#[derive(Debug, Default)]
pub(crate) struct Strays {
    queue: VecDeque<Stray>,
    packet_bytes: usize,
}

const MAX: usize = 1_024;
/// A flood of large pings holds no more memory than this.
const MAX_PACKET_BYTES: usize = 256 << 10;

impl Strays {
    pub(crate) fn push_segment(&mut self, key: Key, header: Header) {
        if self.queue.len() < MAX {
            self.queue.push_back(Stray::Segment(key, Box::new(header)));
        }
    }

    /// False: there was no room.
    pub(crate) fn push_packet(&mut self, src: IpAddr, dst: IpAddr, bytes: Vec<u8>) -> bool {
        let fits = self.queue.len() < MAX && self.packet_bytes + bytes.len() <= MAX_PACKET_BYTES;
        if fits {
            self.packet_bytes += bytes.len();
            self.queue.push_back(Stray::Packet { src, dst, bytes });
        }
        fits
    }

    pub(crate) fn pop(&mut self) -> Option<Stray> {
        let stray = self.queue.pop_front()?;
        if let Stray::Packet { bytes, .. } = &stray {
            self.packet_bytes -= bytes.len();
        }
        Some(stray)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

//! DATAGRAM frames that wait, to be sent or to be read [RFC 9221].

use std::collections::VecDeque;

/// What one costs beside its bytes.
const OVERHEAD: usize = 32;

/// The oldest go first, also where there is no room: whoever sends datagrams prefers fresh ones
/// [RFC 9221 §5.2].
#[derive(Debug, Default)]
pub(super) struct Datagrams {
    held: VecDeque<Vec<u8>>,
    /// Of all that are held: a peer may send many in a packet, so they are not counted anew for each.
    cost: usize,
}

impl Datagrams {
    /// Puts one behind the others; what then costs more than `most` bytes goes.
    pub(super) fn push(&mut self, data: &[u8], most: usize) {
        self.held.push_back(data.to_vec());
        self.cost += data.len() + OVERHEAD;
        while self.cost > most && self.pop().is_some() {}
    }

    pub(super) fn pop(&mut self) -> Option<Vec<u8>> {
        let oldest = self.held.pop_front()?;
        self.cost -= oldest.len() + OVERHEAD;
        Some(oldest)
    }

    pub(super) fn front(&self) -> Option<&[u8]> {
        self.held.front().map(Vec::as_slice)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_freshest_are_kept_within_the_bound_whatever_is_read_between() {
        const MOST: usize = 1_000;
        let mut datagrams = Datagrams::default();
        let mut expected: VecDeque<Vec<u8>> = VecDeque::new();
        for round in 0..2_000_usize {
            let data = vec![round as u8; round * 37 % 300];
            datagrams.push(&data, MOST);
            expected.push_back(data);
            while expected.iter().map(|held| held.len() + OVERHEAD).sum::<usize>() > MOST {
                expected.pop_front();
            }
            if round % 3 == 0 {
                assert_eq!(datagrams.pop(), expected.pop_front());
            }
            assert_eq!(datagrams.held, expected);
        }
        datagrams.push(&[0; MOST], MOST);
        assert!(datagrams.is_empty() && datagrams.cost == 0, "none is kept that is too long");
    }
}

//! Which requests a server has carried out lately, so that none is carried out twice.
//!
//! A client whose connection is silent cannot know whether its request arrived. It makes it again, and if it
//! was carried out the first time it hears so instead of having it done once more.

use std::collections::{BTreeSet, VecDeque};

use super::protocol::RequestName;

/// Names that are remembered, of all clients together: several times as many as streams may begin within
/// the half minute that a client goes on asking for.
pub const MOST_SEEN: usize = 1 << 17;

/// The names of requests, the latest of them.
#[derive(Debug, Default)]
pub struct Seen {
    all: BTreeSet<RequestName>,
    /// The oldest first.
    order: VecDeque<RequestName>,
}

impl Seen {
    /// Remembers a request. False: it came before.
    pub fn is_new(&mut self, name: RequestName) -> bool {
        if !self.all.insert(name) {
            return false;
        }
        self.order.push_back(name);
        if self.order.len() > MOST_SEEN
            && let Some(oldest) = self.order.pop_front()
        {
            self.all.remove(&oldest);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(n: usize) -> RequestName {
        (n as u128).to_le_bytes()
    }

    #[test]
    fn a_request_is_new_once() {
        let mut seen = Seen::default();
        assert!(seen.is_new(name(1)) && seen.is_new(name(2)));
        assert!(!seen.is_new(name(1)) && !seen.is_new(name(2)));
    }

    #[test]
    fn of_more_requests_than_are_remembered_the_oldest_is_forgotten() {
        let mut seen = Seen::default();
        for n in 0..=MOST_SEEN {
            assert!(seen.is_new(name(n)));
        }
        assert_eq!((seen.all.len(), seen.order.len()), (MOST_SEEN, MOST_SEEN));
        assert!(!seen.is_new(name(1)) && seen.is_new(name(0)));
    }
}

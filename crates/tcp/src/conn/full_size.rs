//! How long the peer's full-sized segments are: TACK counts by them, as its sender does.
//!
//! Both ends agreed on an MSS, but where the path takes less only the sender learns of that. Two of its segments
//! were then less than two for the receiver, which waited for a third: each lone pair was probed for.
//!
//! A segment without PSH has more behind it, and is as long as any may be: whatever is shorter has PSH, sent again or
//! not. Probes of the path are longer, and a box on the way may cut: a length counts once a second one in a row is the same.

/// Options that some segments have and others not, in bytes: within this, lengths are the same.
const OPTIONS: u64 = 24;

/// See the [module's text](self).
#[derive(Clone, Copy, Debug)]
pub(crate) struct FullSize {
    bytes: u64,
    /// Of the segment before, if it was of another length.
    other: Option<u64>,
}

impl FullSize {
    /// `mss` bytes of text are what both ends agreed on.
    pub(crate) fn new(mss: u32) -> FullSize {
        FullSize { bytes: u64::from(mss), other: None }
    }

    /// A segment with `len` bytes of new text arrived that has more behind it. Full-sized ones are of another length from
    /// now on if it says so: of that.
    pub(crate) fn on_text(&mut self, len: u64) -> Option<u32> {
        let same = |other: u64| other.abs_diff(len) <= OPTIONS;
        if len <= self.bytes && same(self.bytes) {
            self.other = None;
            return None;
        }
        let before = self.other.replace(len).filter(|other| same(*other))?;
        self.bytes = before.max(len);
        self.other = None;
        u32::try_from(self.bytes).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(lens: &[u64]) -> Vec<u32> {
        let mut full = FullSize::new(1_454);
        lens.iter().filter_map(|len| full.on_text(*len)).collect()
    }

    #[test]
    fn a_length_that_comes_twice_in_a_row_is_that_of_full_segments() {
        assert_eq!(changes(&[1_432, 1_454, 1_454, 1_432]), [], "options apart");
        assert_eq!(changes(&[1_352, 1_374, 1_374, 1_352]), [1_374]);
        assert_eq!(changes(&[1_352, 1_352, 1_374, 1_374, 1_352]), [1_352, 1_374]);
        assert_eq!(
            changes(&[1_222, 1_222, 1_440, 1_440, 1_440]),
            [1_222, 1_440],
            "the path is wider again"
        );
    }

    #[test]
    fn probes_of_the_path_and_parts_of_segments_are_not_full_segments() {
        assert_eq!(changes(&[1_222, 1_222, 1_440, 1_222, 1_222, 1_440, 1_222]), [1_222]);
        assert_eq!(changes(&[1_352, 100, 1_352, 100, 1_352, 100, 1_352, 1_352]), [1_352]);
        assert_eq!(changes(&[700, 1_454, 700, 1_454]), []);
    }
}

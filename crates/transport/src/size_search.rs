//! The search for the largest packets of a path that says nothing.

use core::time::Duration;

use tack_units::Instant;

/// The search for the largest packets of a path that says nothing: one probe is longer than what is
/// known to pass, and arrives or does not [RFC 4821 §7, RFC 8899 §5].
///
/// ```text
///              size                      high          most
/// ---------------|===== not known yet ====|---- too big --|
///
/// begin        the largest is tried first, for a path that was only dark; then the middle
/// on_passed    size rises to what passed
/// on_loss      after some losses of one size, high falls to it
/// high - size small   the end, and another search later: paths change
/// on_timeout   a probe ended in one: the next waits for a second, then for two, four, ...
/// ```
///
/// What a size is (an MSS, a UDP payload), what a probe carries and when one counts as lost is the
/// transport's business.
#[derive(Clone, Copy, Debug)]
pub struct SizeSearch {
    size: u16,
    most: u16,
    /// Losses of one size that say that it does not pass.
    max_losses: u8,
    /// It goes on from this time; `None`: there is nothing to find.
    from: Option<Instant>,
    /// A size to try before halving.
    first: Option<u16>,
    /// Least size that does not pass; 0: none is known.
    high: u16,
    /// Losses of the size being tried.
    losses: u8,
    /// Probes in a row that ended in a timeout.
    pauses: u32,
}

/// Timeouts in a row that a full queue alone hardly makes. Linux, too, begins to probe at three.
const SUSPICIOUS: u32 = 3;
/// Timeouts in a row that make a black hole on the worst of paths, too: it may be one besides.
const ENOUGH: u32 = 2 * SUSPICIOUS;
/// Between a timeout and the next probe; twice as long with each one that follows, since the path may
/// be lossy or too small, and a timeout is what a probe too large costs.
const PAUSE: Duration = Duration::from_secs(1);
/// How often it doubles at most.
const MAX_DOUBLINGS: u32 = 6;

impl SizeSearch {
    /// Chance that loss alone makes as many timeouts in a row as call packets too long.
    pub const FALSE_ALARM: f64 = 1e-3;
    /// A finer answer is not worth a probe; bytes.
    pub const RESOLUTION: u16 = 16;
    /// When a path that has a bound is searched again [RFC 4821 §7.7, RFC 8201 §4, RFC 8899 §5.1.1].
    pub const AGAIN: Duration = Duration::from_secs(600);

    /// `size` bytes pass, more than `most` are never tried, and a size that was lost `max_losses` times
    /// does not pass. Nothing is searched for yet.
    pub fn new(size: u16, most: u16, max_losses: u8) -> SizeSearch {
        let size = size.min(most);
        let (from, first, high, losses, pauses) = (None, None, 0, 0, 0);
        SizeSearch { size, most, max_losses, from, first, high, losses, pauses }
    }

    /// `in_a_row` timeouts and no answer say that packets are too long, unless the loss of both ways makes as
    /// many: `by_chance` of them, with a chance of [`Self::FALSE_ALARM`].
    pub fn is_black_hole(in_a_row: u32, by_chance: u32) -> bool {
        in_a_row >= by_chance.clamp(SUSPICIOUS, ENOUGH)
    }

    /// Bytes that pass.
    pub fn size(&self) -> u16 {
        self.size
    }

    /// Bytes beyond which nothing is tried.
    pub fn most(&self) -> u16 {
        self.most
    }

    /// No more than `most` bytes from now on. True if the size fell by it; the search has then ended.
    pub fn limit(&mut self, most: u16) -> bool {
        self.most = most;
        let fell = self.size > most;
        if fell {
            self.set(most);
        } else if self.high > most {
            // What does not pass is not tried any more, and half of the way to it may not be either.
            self.high = 0;
        }
        fell
    }

    /// `size` bytes pass, whatever was found before; nothing is searched for.
    pub fn set(&mut self, size: u16) {
        let pauses = self.pauses;
        *self = SizeSearch { pauses, ..SizeSearch::new(size, self.most, self.max_losses) };
    }

    /// Begins a search at this time, if there is something to find.
    pub fn begin(&mut self, at: Instant) {
        let from = (self.size < self.most).then_some(at);
        let first = Some(self.most);
        (self.from, self.first, self.high, self.losses) = (from, first, 0, 0);
    }

    /// A timeout took a probe with all else: what followed it is lost as well, which tells of the path and not
    /// of a size. A search that has ended stays so.
    pub fn on_timeout(&mut self, now: Instant) {
        let until = now + PAUSE * (1 << self.pauses.min(MAX_DOUBLINGS));
        self.from = self.from.map(|_| until);
        self.pauses += 1;
    }

    /// The size to try now.
    pub fn wanted(&self, now: Instant) -> Option<u16> {
        let due = self.from? <= now;
        due.then(|| self.next())
    }

    fn next(&self) -> u16 {
        let first = self.first.map(|first| first.min(self.most)).filter(|&first| first > self.size);
        first.unwrap_or_else(|| self.size.midpoint(self.high()))
    }

    fn high(&self) -> u16 {
        match self.high {
            0 => self.most.saturating_add(1),
            high => high,
        }
    }

    /// A probe of `size` bytes arrived. True if that ends the search at a bound below the most.
    pub fn on_passed(&mut self, size: u16, now: Instant) -> bool {
        self.size = self.size.max(size.min(self.most));
        (self.first, self.losses, self.pauses) = (None, 0, 0);
        self.go_on(now)
    }

    /// A probe of `size` bytes was lost for a reason that may be another: it is tried again at once.
    pub fn try_again(&mut self, size: u16, now: Instant) {
        (self.first, self.from) = (Some(size), Some(now));
    }

    /// What was tried was lost, and by its size as it seems. True as for [`Self::on_passed`].
    pub fn on_loss(&mut self, now: Instant) -> bool {
        self.losses += 1;
        if self.losses < self.max_losses {
            return false;
        }
        (self.high, self.losses) = (self.next(), 0);
        self.first = None;
        self.go_on(now)
    }

    /// Somebody says that a probe was too long and `size` bytes are not, or hardly. True as for
    /// [`Self::on_passed`].
    pub fn on_told(&mut self, size: u16, now: Instant) -> bool {
        let first = (size > self.size).then_some(size);
        (self.from, self.first, self.losses) = (Some(now), first, 0);
        self.high = size.saturating_add(1);
        first.is_none() && self.go_on(now)
    }

    fn go_on(&mut self, now: Instant) -> bool {
        if self.high().saturating_sub(self.size) > Self::RESOLUTION {
            return false;
        }
        let bounded = self.high > 0;
        self.begin(now + Self::AGAIN);
        bounded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches on a path that takes `path` bytes; what it found, and what it tried.
    fn search(path: u16, max_losses: u8) -> (u16, Vec<u16>) {
        let (mut search, mut tried, now) =
            (SizeSearch::new(1_200, 1_452, max_losses), Vec::new(), Instant::from_secs(1));
        search.begin(now);
        while let Some(size) = search.wanted(now) {
            assert!(size > search.size() && size <= search.most() && tried.len() < 50);
            tried.push(size);
            let ended =
                if size <= path { search.on_passed(size, now) } else { search.on_loss(now) };
            assert_eq!(ended, search.wanted(now).is_none() && search.size() < search.most());
        }
        let again = search.wanted(now + SizeSearch::AGAIN);
        assert_eq!(again, (search.size() < 1_452).then_some(1_452), "paths change");
        (search.size(), tried)
    }

    #[test]
    fn the_largest_size_is_tried_first_and_a_bound_is_found_whatever_it_is() {
        assert_eq!(search(1_500, 3), (1_452, vec![1_452]));
        for path in 1_200..1_452 {
            for max_losses in 1..4 {
                let (found, tried) = search(path, max_losses);
                let near = found <= path && found + SizeSearch::RESOLUTION >= path;
                assert!(near, "{found} of {path} by {tried:?}");
            }
        }
    }

    #[test]
    fn a_limit_ends_the_search_only_where_it_cuts() {
        let now = Instant::from_secs(1);
        let mut search = SizeSearch::new(1_200, 1_452, 2);
        search.begin(now);
        assert!(!search.limit(1_400));
        search.on_passed(1_400, now);
        assert!(search.limit(1_300));
        assert_eq!((search.size(), search.wanted(now)), (1_300, None));
        search.on_timeout(now);
        assert_eq!(search.wanted(now + SizeSearch::AGAIN), None, "a pause begins nothing");
    }

    #[test]
    fn nothing_beyond_a_limit_is_tried_where_what_does_not_pass_lies_beyond_it_too() {
        let now = Instant::from_secs(1);
        let mut search = SizeSearch::new(1_200, 1_452, 1);
        search.begin(now);
        search.on_loss(now);
        search.limit(1_300);
        let mut tried = 0;
        while let Some(size) = search.wanted(now) {
            assert!(size <= 1_300 && tried < 50, "{size} is tried");
            search.on_passed(size, now);
            tried += 1;
        }
        assert!(search.size() + SizeSearch::RESOLUTION > 1_300, "{}", search.size());
    }

    #[test]
    fn a_probe_that_a_timeout_takes_is_tried_again_after_a_second_then_two_and_four() {
        let mut search = SizeSearch::new(1_200, 1_452, 2);
        let mut now = Instant::from_secs(1);
        search.begin(now);
        for n in 0..10 {
            assert_eq!(search.wanted(now), Some(1_452));
            search.on_timeout(now);
            let pause = Duration::from_secs(1 << n.min(6));
            assert_eq!(search.wanted(now + pause - Duration::from_millis(1)), None);
            now += pause;
        }
        search.on_passed(1_300, now);
        search.on_timeout(now);
        assert!(search.wanted(now + Duration::from_secs(1)).is_some(), "what passes ends it");
    }

    #[test]
    fn timeouts_are_a_black_hole_where_the_loss_of_the_path_does_not_make_as_many() {
        for (by_chance, first) in [(0, 3), (3, 3), (4, 4), (6, 6), (7, 6), (u32::MAX, 6)] {
            let found = (1..10).find(|n| SizeSearch::is_black_hole(*n, by_chance));
            assert_eq!(found, Some(first), "{by_chance}");
        }
    }
}

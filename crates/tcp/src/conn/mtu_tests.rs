use core::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::*;

const IPV4: PathLimits = PathLimits { headers: 40, sure: 576 };
const NOW: Instant = Instant::from_secs(5);

fn agreed(mss: u16) -> PathMtu {
    let mut mtu = PathMtu::new(IPV4, 1_460, true);
    mtu.agree(mss);
    mtu
}

/// Sends probes over a path that takes `real` until none is wanted; returns their number.
fn search(mtu: &mut PathMtu, real: u16, now: Instant) -> u32 {
    let mut at = 1_000;
    for sent in 0..100 {
        let Some(mss) = mtu.wanted(now) else { return sent };
        assert!(mss > mtu.mss() && mss <= 1_460, "{mss} with {}", mtu.mss());
        mtu.on_probe_sent(mss, at..at + u64::from(mss));
        assert_eq!(mtu.wanted(now), None, "one at a time");
        if mss <= real {
            assert!(mtu.on_acked(at + u64::from(mss), now));
            assert_eq!(mtu.mss(), mss);
        } else {
            mtu.on_lost(at, now);
            assert!(mtu.excuses(u64::from(mss), NOW));
        }
        at += 10_000;
    }
    panic!("the search does not end")
}

#[test]
fn a_search_ends_within_its_resolution_of_the_real_size_whatever_that_is() {
    for real in 1_240..=1_460 {
        let mut mtu = agreed(1_460);
        assert!(!mtu.on_timeout(1_460, 2, 0, NOW), "two timeouts are no black hole");
        assert!(mtu.on_timeout(1_460, 3, 0, NOW));
        assert_eq!((mtu.mss(), mtu.mtu()), (1_240, 1_280));
        let probes = search(&mut mtu, real, NOW);
        assert!(probes <= 12, "{probes} for {real}");
        let near = mtu.mss() <= real && mtu.mss() + SizeSearch::RESOLUTION >= real;
        assert!(near, "{} of {real}", mtu.mss());
        let settled = mtu.take_settled();
        assert_eq!(settled, (real < 1_460).then_some(mtu.mtu()), "{real}");
        assert_eq!(mtu.take_settled(), None);
        // Later the path may have changed.
        assert_eq!(mtu.wanted(NOW + SizeSearch::AGAIN).is_some(), real < 1_460);
    }
}

#[test]
fn short_segments_that_are_lost_as_well_acquit_the_long_ones_a_few_times() {
    let mut mtu = agreed(1_460);
    for n in 0..5 {
        let sent = 100_000 * n;
        assert!(mtu.on_timeout(1_460, 3, 0, NOW));
        mtu.doubt(1_460, sent + 5_000);
        assert!(mtu.on_timeout(1_240, 4, 0, NOW));
        mtu.doubt(1_240, sent + 5_000);
        assert!(!mtu.acquits(sent + 4_999), "it was long when it left");
        mtu.on_probe_sent(1_460, sent + 6_000..sent + 7_460);
        assert!(!mtu.acquits(sent + 6_000), "so is a probe");
        assert_eq!(mtu.acquits(sent + 9_000), n < 3, "{n}");
        assert_eq!(mtu.mss(), if n < 3 { 1_460 } else { 536 });
        mtu.agree(1_460);
    }
}

#[test]
fn timeouts_that_prove_needless_say_nothing_of_size() {
    let mut mtu = agreed(1_460);
    assert!(!mtu.on_undone());
    assert!(mtu.on_timeout(1_460, 3, 0, NOW));
    mtu.doubt(1_460, 5_000);
    assert!(mtu.on_timeout(1_240, 4, 0, NOW));
    mtu.doubt(1_240, 5_000);
    assert!(mtu.on_undone());
    assert_eq!(mtu.mss(), 1_460);
    assert!(!mtu.on_undone(), "decided");
}

#[test]
fn what_a_search_found_is_not_acquitted_any_more() {
    for lost in [true, false] {
        let mut mtu = agreed(1_460);
        mtu.on_timeout(1_460, 3, 0, NOW);
        mtu.doubt(1_460, 5_000);
        mtu.on_probe_sent(1_460, 6_000..7_460);
        if lost {
            mtu.on_lost(6_000, NOW);
            assert!(mtu.excuses(1_460, NOW));
        } else {
            mtu.on_acked(7_460, NOW);
        }
        assert!(!mtu.acquits(9_000));
    }
}

#[test]
fn timeouts_of_segments_that_are_short_already_say_nothing_of_size() {
    let mut mtu = agreed(1_460);
    assert!(!mtu.on_timeout(536, 9, 0, NOW));
    assert!(!mtu.on_timeout(0, 9, 0, NOW));
    assert!(mtu.on_timeout(537, 9, 0, NOW), "a segment longer than what surely passes");
    assert_eq!(mtu.mss(), 536);
    assert!(!mtu.on_timeout(537, 9, 0, NOW), "there is no lower step");
}

#[test]
fn a_second_step_follows_when_the_first_did_not_help() {
    let mut mtu = agreed(1_460);
    assert!(mtu.on_timeout(1_460, 3, 0, NOW) && mtu.was_lowered_blindly());
    assert!(mtu.on_timeout(1_240, 4, 0, NOW));
    assert_eq!(mtu.mtu(), 576);
    mtu.on_acked(2_000, NOW);
    assert!(!mtu.was_lowered_blindly());
}

#[test]
fn one_lost_probe_is_tried_again_before_its_size_is_given_up() {
    let mut mtu = agreed(1_460);
    mtu.on_timeout(1_460, 3, 0, NOW);
    assert_eq!(mtu.wanted(NOW), Some(1_460), "perhaps it was only dark");
    mtu.on_probe_sent(1_460, 0..1_460);
    for (at, next) in [(0, 1_460), (5_000, 1_350)] {
        mtu.on_lost(at, NOW);
        assert!(mtu.excuses(1_460, NOW));
        assert_eq!(mtu.wanted(NOW), Some(next), "half-way the second time");
        mtu.on_probe_sent(1_460, 5_000..6_460);
    }
}

#[test]
fn a_probe_that_is_lost_in_company_or_to_a_timeout_says_nothing_of_its_size() {
    let mut mtu = agreed(1_460);
    mtu.on_timeout(1_460, 3, 0, NOW);
    let mut now = NOW;
    for n in 0..20 {
        assert_eq!(mtu.wanted(now), Some(1_460));
        mtu.on_probe_sent(1_460, n * 5_000..n * 5_000 + 1_460);
        if n % 2 == 0 {
            mtu.on_lost(n * 5_000, now);
            assert!(!mtu.excuses(2 * 1_460, now));
        } else {
            mtu.on_timeout(1_460, 1, 0, now);
            let pause = Duration::from_secs(1 << (n / 2).min(6));
            assert_eq!(mtu.wanted(now + pause - Duration::from_millis(1)), None, "not at once");
            now += pause;
        }
    }
    assert_eq!(mtu.take_settled(), None);
}

#[test]
fn what_a_router_says_of_a_probe_names_the_next_one() {
    let mut mtu = agreed(1_460);
    mtu.on_timeout(1_460, 3, 0, NOW);
    mtu.on_probe_sent(1_460, 7_000..8_460);
    assert!(!mtu.on_too_big(1_400, 7_000, NOW), "the host has nothing to learn yet");
    assert_eq!(mtu.wanted(NOW), Some(1_360));
    mtu.on_probe_sent(1_360, 9_000..10_360);
    assert!(mtu.on_acked(10_360, NOW));
    assert_eq!((mtu.wanted(NOW), mtu.take_settled()), (None, Some(1_400)));
    // Nothing larger than what is in force anyway: the search ends.
    let mut mtu = agreed(1_460);
    mtu.on_timeout(1_460, 3, 0, NOW);
    mtu.on_probe_sent(1_460, 7_000..8_460);
    assert!(!mtu.on_too_big(1_280, 7_000, NOW));
    assert_eq!((mtu.wanted(NOW), mtu.take_settled()), (None, Some(1_280)));
}

#[test]
fn what_the_host_knows_bounds_at_once_and_more_is_tried_with_one_segment() {
    let mut mtu = PathMtu::new(IPV4, 1_460, true);
    assert!(mtu.on_told(Some(1_400), NOW), "before the handshake");
    mtu.agree(1_460);
    assert_eq!(mtu.mss(), 1_360);
    assert!(!mtu.on_told(Some(1_400), NOW));
    assert!(mtu.on_told(Some(1_300), NOW));
    assert_eq!((mtu.mss(), mtu.wanted(NOW)), (1_260, None));
    assert!(!mtu.on_told(None, NOW));
    assert_eq!((mtu.mss(), mtu.wanted(NOW)), (1_260, Some(1_460)));
    let mut small = agreed(500);
    assert!(!small.on_told(Some(1_400), NOW));
    assert_eq!((small.mss(), small.wanted(NOW)), (500, None), "the peer takes no more");
}

#[test]
fn without_searching_only_what_the_host_says_counts() {
    let mut mtu = PathMtu::new(IPV4, 1_460, false);
    mtu.agree(1_460);
    assert!(!mtu.on_timeout(1_460, 9, 0, NOW));
    assert!(mtu.on_told(Some(1_400), NOW));
    assert!(!mtu.on_told(None, NOW));
    assert_eq!((mtu.mss(), mtu.wanted(NOW)), (1_460, None), "all at once, as without RFC 4821");
}

#[test]
fn any_sequence_of_news_keeps_sizes_within_bounds() {
    for seed in 0..500 {
        let rng = &mut Pcg64::seed_from_u64(seed);
        let ceiling = rng.random_range(88..=u16::MAX - 40);
        let mut mtu = PathMtu::new(IPV4, ceiling, true);
        mtu.agree(ceiling);
        let mut now = Instant::ZERO;
        let mut at = 0;
        for _ in 0..300 {
            now += Duration::from_secs(rng.random_range(0..200));
            match rng.random_range(0..6) {
                0 => {
                    let told = rng.random_bool(0.7).then(|| rng.random_range(552..=u16::MAX));
                    let before = mtu.mss();
                    assert_eq!(mtu.on_told(told, now), mtu.mss() < before, "seed {seed}");
                }
                1 => {
                    mtu.on_too_big(rng.random_range(552..=u16::MAX), at, now);
                }
                2 => {
                    mtu.on_timeout(rng.random_range(0..2_000), rng.random_range(1..5), 0, now);
                }
                3 => mtu.on_lost(at, now),
                4 => {
                    mtu.on_acked(at + rng.random_range(0..70_000), now);
                }
                _ => {
                    if let Some(mss) = mtu.wanted(now) {
                        assert!(mss > mtu.mss() && mss <= ceiling, "seed {seed}");
                        at += 100_000;
                        mtu.on_probe_sent(mss, at..at + u64::from(mss));
                    }
                }
            }
            assert!(mtu.mss() <= ceiling && mtu.mss() >= 88, "seed {seed}");
        }
    }
}

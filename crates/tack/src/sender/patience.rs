//! How long a silence has been that ended with all having arrived: none that is shorter is a reason to send again.

use core::time::Duration;

use tack_units::Instant;

/// Silence that may be learnt, at most: the least RTO of [RFC 6298 §2.4].
const MAX: Duration = Duration::from_secs(1);
/// It is forgotten after so many times its length.
const MEMORY: u32 = 16;

/// What silence is borne, and until when.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Patience {
    silence: Duration,
    until: Instant,
}

impl Patience {
    /// What was sent again after this silence, which ends now, was sent in vain.
    pub(super) fn learn(&mut self, silence: Duration, now: Instant) {
        let silence = silence.min(MAX);
        if silence >= self.silence || now >= self.until {
            *self = Patience { silence, until: now + MEMORY * silence };
        }
    }

    /// A silence that ends now, before anything was sent again, was nearly as long: it is well that it was borne.
    pub(super) fn confirm(&mut self, silence: Duration, now: Instant) {
        if now < self.until && silence >= self.silence * 3 / 4 {
            self.until = now + MEMORY * self.silence;
        }
    }

    /// What is borne of a silence that began then.
    pub(super) fn borne(&self, since: Instant) -> Duration {
        if since < self.until { self.silence } else { Duration::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn at(n: u64) -> Instant {
        Instant::from_millis(n)
    }

    #[test]
    fn a_silence_is_borne_for_sixteen_times_its_length_and_again_from_each_like_it() {
        let mut p = Patience::default();
        assert_eq!(p.borne(at(0)), ms(0));
        p.learn(ms(100), at(1_000));
        assert_eq!((p.borne(at(2_599)), p.borne(at(2_600))), (ms(100), ms(0)));
        p.confirm(ms(74), at(2_000));
        assert_eq!(p.borne(at(2_600)), ms(0), "shorter ones say nothing");
        p.confirm(ms(80), at(2_000));
        assert_eq!((p.borne(at(3_599)), p.borne(at(3_600))), (ms(100), ms(0)));
        p.confirm(ms(100), at(3_600));
        assert_eq!(p.borne(at(3_600)), ms(0), "it is forgotten");
    }

    #[test]
    fn a_longer_silence_is_learnt_and_a_shorter_one_only_when_that_is_forgotten() {
        let mut p = Patience::default();
        p.learn(ms(100), at(0));
        p.learn(ms(50), at(1_599));
        assert_eq!(p.borne(at(1_599)), ms(100));
        p.learn(ms(50), at(1_600));
        assert_eq!(p.borne(at(1_600)), ms(50));
        p.learn(ms(5_000), at(1_700));
        assert_eq!(p.borne(at(1_700)), MAX);
    }
}

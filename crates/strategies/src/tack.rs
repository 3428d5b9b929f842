//! TCP-TACK [TON §IV]: the less frequent of counting and period.
//!
//! ```text
//! f = min(bw / (L * MSS), beta / RTTmin)                          [TON Eq. 4]
//! ```
//!
//! The mechanism is the crate `tack`'s; here are its name and its formula. Its receiver takes over
//! when both ends permit it; until then, and when the path proves to strip what it
//! says, acknowledgments come as by [`AckStrategy::PLAIN`].

use ::tack::{Params, equations};

use super::{AckStrategy, Needs, PathFacts, Receiver, Rule};

impl AckStrategy {
    /// TCP-TACK with the parameters recommended.
    pub const TACK: AckStrategy = AckStrategy::Tack(Params::DEFAULT);

    /// TACK's parameters, if that is what it is.
    pub fn tack(&self) -> Option<&Params> {
        match self {
            AckStrategy::Tack(params) => Some(params),
            _ => None,
        }
    }

    /// See [`Self::tack`].
    pub fn tack_mut(&mut self) -> Option<&mut Params> {
        match self {
            AckStrategy::Tack(params) => Some(params),
            _ => None,
        }
    }
}

impl Rule for Params {
    type Receiver = Box<Receiver>;

    fn spelling() -> &'static str {
        "tack"
    }

    fn parse(name: &str) -> Option<Params> {
        (name == "tack").then_some(Params::DEFAULT)
    }

    fn name(&self) -> String {
        "tack".to_owned()
    }

    fn frequency(&self, path: &PathFacts) -> f64 {
        let (beta, l) = (self.beta, self.segments_per_ack);
        equations::tack_frequency(path.bw, path.rtt_min, beta, l, path.mss)
    }

    fn receiver(&self, mss: u32) -> Box<Receiver> {
        Box::new(AckStrategy::PLAIN.receiver(mss))
    }

    fn needs(&self) -> Needs {
        Needs::Tack
    }
}

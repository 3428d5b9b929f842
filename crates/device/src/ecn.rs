//! Congestion marks.

use quinn_udp::EcnCodepoint;

/// Congestion marking of a datagram [RFC 3168 §5]; not-ECT is `None` where one is optional.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ecn {
    /// ECN-capable, codepoint 01.
    Ect1,
    /// ECN-capable, codepoint 10.
    Ect0,
    /// Congestion experienced, codepoint 11.
    Ce,
}

impl From<EcnCodepoint> for Ecn {
    fn from(e: EcnCodepoint) -> Ecn {
        match e {
            EcnCodepoint::Ect0 => Ecn::Ect0,
            EcnCodepoint::Ect1 => Ecn::Ect1,
            EcnCodepoint::Ce => Ecn::Ce,
        }
    }
}

impl From<Ecn> for EcnCodepoint {
    fn from(e: Ecn) -> EcnCodepoint {
        match e {
            Ecn::Ect0 => EcnCodepoint::Ect0,
            Ecn::Ect1 => EcnCodepoint::Ect1,
            Ecn::Ce => EcnCodepoint::Ce,
        }
    }
}

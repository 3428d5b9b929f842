//! Who is paced.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// Whose window-based controllers are paced; BBR always is.
///
/// Strategies come from unpaced transports (ns-2's: AE, DAL2, AnLn, xW) and from paced ones (QUIC's,
/// SRT's, TACK). One half alone paced is another question: a flow whose packets are spread over the
/// round trip meets a drop-tail queue's losses one by one, one whose packets come in clumps meets
/// several at once, and a window falls by the event [Landström & Larzon §4.7].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Paced {
    /// Acknowledgments are the clock, as in ns-2.
    Nobody,
    /// Both halves, and who sends against them.
    Everybody,
    /// The half with the strategy alone.
    Others,
}

impl Paced {
    const ALL: [(Paced, &str); 3] =
        [(Paced::Nobody, "nobody"), (Paced::Everybody, "everybody"), (Paced::Others, "others")];

    pub(super) fn every_segment(self) -> bool {
        self == Paced::Everybody
    }

    pub(super) fn others(self) -> bool {
        self != Paced::Nobody
    }
}

impl fmt::Display for Paced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Paced::ALL.iter().find(|(paced, _)| paced == self).map_or("", |(_, name)| name);
        f.pad(name)
    }
}

impl FromStr for Paced {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let found = Paced::ALL.iter().find(|(_, name)| *name == s).map(|(paced, _)| *paced);
        found.ok_or_else(|| format!("`{s}` paced? nobody, everybody or others"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_as_who_they_name() {
        for (paced, name) in Paced::ALL {
            assert_eq!((paced.to_string().as_str(), name.parse()), (name, Ok(paced)));
        }
        assert!("all".parse::<Paced>().unwrap_err().contains("everybody"));
    }
}

//! What must hold on every path, whoever limits a flow: a table of predicates over two records, of
//! TACK and of TCP with an acknowledgment per two segments, on the same path with the same seed.
//!
//! A predicate answers with how far beyond its bar a pair is, relative to the bar: up to 0 the
//! property holds. Bars have room for what one packet, one segment or one event decides, and for the
//! spread of the means where a draw ran with several seeds; that room is named below.

use crate::record::Record;

/// The records of one draw.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// What is in question.
    pub tack: Record,
    /// What it is held against.
    pub tcp: Record,
}

/// Something that must hold.
pub struct Property {
    /// In files and on the command line.
    pub name: &'static str,
    /// In a sentence.
    pub what: &'static str,
    /// How far beyond the bar, relative to it; holds up to 0. `None`: it says nothing of this pair.
    pub excess: fn(&Pair) -> Option<f64>,
}

/// Packets without text that one event more or less brings each flow: SYNs, FINs, their answers.
const SPARE_PACKETS: f64 = 4.0;
/// Segments of each flow at the edge of a run: a moment earlier or later they count.
const SPARE_SEGMENTS: f64 = 10.0;
const SEGMENT_BYTES: f64 = 1_448.0;
/// By how much a flow of a few packets may end later: a timer's tick.
const SPARE_SECONDS: f64 = 0.002;
/// Packets per second of a flow so far apart that each is acknowledged: a delayed ACK is 200 ms late
/// at most.
const LONE_PACKETS: f64 = 5.0;
/// Most that the spread of the means may excuse, relative.
const MOST_SPREAD: f64 = 0.1;
/// Share of data packets resent beyond TCP's.
const SPARE_RESENT: f64 = 0.01;
/// Of RTTmin, relative: 1 %, and a bucket of the histogram of delays.
const RTT_MIN_SLACK: f64 = 0.01 + 1.0 / 64.0;
/// Of RTTmin, microseconds: the next packet's time on the wire or the air, where that is shorter than
/// the mean time between two.
const SPARE_RTT_US: f64 = 500.0;

/// All of them.
pub const PROPERTIES: &[Property] = &[
    Property {
        name: "stall",
        what: "a flow with data to send, room and a living path always moves",
        excess: |pair| Some(if pair.tack.void.is_some() { 1.0 } else { 0.0 }),
    },
    Property {
        name: "acks",
        what: "never more packets without text than TCP's, for as many bytes",
        excess: acks,
    },
    Property {
        name: "goodput",
        what: "at least 97 % of TCP's goodput; in company, of its fair share where TCP took more",
        excess: goodput,
    },
    Property {
        name: "completion",
        what: "a file is there after at most 103 % of TCP's time; in company, of its time at a fair share",
        excess: completion,
    },
    Property {
        name: "eq4",
        what: "ACKs at most 5 % over [TON Eq. 4] and the IACKs, after ten round trips; \
               five per second where packets come singly",
        excess: eq4,
    },
    Property {
        name: "rtt_min",
        what: "RTTmin within 1 % of the truth plus the real queue of the way back",
        excess: rtt_min,
    },
    Property {
        name: "resent",
        what: "no greater share of its packets resent than TCP's, and a hundredth",
        excess: resent,
    },
];

/// The property of that name.
pub fn property(name: &str) -> Option<&'static Property> {
    PROPERTIES.iter().find(|p| p.name == name)
}

impl Pair {
    /// Both figures of that name.
    fn both(&self, name: &str) -> Option<(f64, f64)> {
        Some((self.tack.get(name)?, self.tcp.get(name)?))
    }

    /// How many flows are under test.
    fn flows(&self) -> f64 {
        self.tcp.get("flows").unwrap_or(1.0)
    }

    /// How sure the difference of the means is: its standard error, bounded relative to TCP's.
    fn spread(&self, name: &str) -> f64 {
        let (ours, theirs) = (self.tack.error(name), self.tcp.error(name));
        let error = (ours * ours + theirs * theirs).sqrt();
        error.min(self.tcp.get(name).unwrap_or(0.0) * MOST_SPREAD)
    }

    /// TACK's figure over TCP's; `None` where either has none, or TCP's is zero.
    pub fn ratio(&self, name: &str) -> Option<f64> {
        let (tack, tcp) = self.both(name)?;
        (tcp > 0.0).then(|| tack / tcp)
    }

    /// The properties among `names` that it breaks, with their excess.
    pub fn broken<'a>(&self, names: impl Iterator<Item = &'a str>) -> Vec<(&'static str, f64)> {
        names
            .filter_map(property)
            .filter_map(|p| Some((p.name, (p.excess)(self).filter(|excess| *excess > 0.0)?)))
            .collect()
    }
}

/// Who delivers more may acknowledge more.
fn acks(pair: &Pair) -> Option<f64> {
    let (tack, tcp) = pair.both("acks")?;
    let more = pair.ratio("delivered").unwrap_or(1.0).max(1.0);
    let allowed = tcp * more + SPARE_PACKETS * pair.flows() + pair.spread("acks");
    Some(tack / allowed - 1.0)
}

fn goodput(pair: &Pair) -> Option<f64> {
    // Of files that both delivered, the time says it all.
    if pair.both("completion").is_some() {
        return None;
    }
    let (_, bytes) = pair.both("delivered")?;
    let (tack, tcp) = pair.both("goodput")?;
    // What TCP takes from others beyond its share is nothing to be equalled.
    let tcp = pair.tcp.get("fair_share").map_or(tcp, |fair| tcp.min(fair));
    let spare = SPARE_SEGMENTS * pair.flows() * SEGMENT_BYTES / bytes.max(1.0) * tcp;
    let least = 0.97 * tcp - spare - pair.spread("goodput");
    Some(if least <= 0.0 { 0.0 } else { 1.0 - tack / least })
}

fn completion(pair: &Pair) -> Option<f64> {
    let tcp = pair.tcp.get("completion")?;
    if pair.tack.void.is_some() {
        return None;
    }
    // Not at all is later than any time.
    let Some(tack) = pair.tack.get("completion") else { return Some(f64::from(u8::MAX)) };
    // As for goodput: TCP may have been early at the cost of others.
    let fair = pair.tcp.get("fair_share").zip(pair.tcp.get("delivered"));
    let at_fair_share = fair.map_or(0.0, |(rate, bytes)| bytes * 8.0 / rate.max(1e-9));
    let latest = 1.03 * tcp.max(at_fair_share) + SPARE_SECONDS + pair.spread("completion");
    Some(tack / latest - 1.0)
}

fn eq4(pair: &Pair) -> Option<f64> {
    let tack = &pair.tack;
    let (counted, iacks, eq4) =
        (tack.get("ack_rate")?, tack.get("iack_rate")?, tack.get("eq4_rate")?);
    // Nobody waits for a packet that comes more than a delayed ACK later.
    let duration = tack.get("delivered")? * 8.0 / tack.get("goodput")?.max(1e-9);
    let packets = tack.get("data")? / duration.max(1e-9);
    let lone = packets.min(LONE_PACKETS * pair.flows());
    let allowed = 1.05 * eq4.max(lone) + iacks;
    let spare = SPARE_PACKETS * pair.flows() / tack.get("measured")?.max(1e-9);
    Some(counted / (allowed + spare) - 1.0)
}

fn rtt_min(pair: &Pair) -> Option<f64> {
    let low = pair.tack.get("rtt_min_low")? - RTT_MIN_SLACK;
    let usual = pair.tack.get("rtt_usual")?;
    let rate = pair.tack.get("goodput").filter(|rate| *rate > 0.0);
    let packet_us = rate.map_or(0.0, |rate| SEGMENT_BYTES * 8.0 / rate * 1e6);
    let high = pair.tack.get("rtt_min_high")? - SPARE_RTT_US.max(packet_us);
    Some(low.max(high / usual.max(1.0) - RTT_MIN_SLACK))
}

fn resent(pair: &Pair) -> Option<f64> {
    let share = |r: &Record, spare: f64| {
        Some((r.get("resent")? - spare).max(0.0) / r.get("data")?.max(1.0))
    };
    let (tack, tcp) = (share(&pair.tack, SPARE_SEGMENTS * pair.flows())?, share(&pair.tcp, 0.0)?);
    Some(tack - tcp - SPARE_RESENT)
}

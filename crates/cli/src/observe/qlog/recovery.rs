//! What connections find out of their paths: losses, windows and round trips, as far as they are news.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tack_net::wire::Segment;
use tack_net::{Direction, Figures};

use super::Event;
use super::segment::header;
use crate::observe::said::{lost, said};

/// Connections whose last figures are known: beyond them all are forgotten, and told anew.
const MOST: usize = 4_096;
/// Packets that one IACK is taken to tell of. A peer may say any number.
const MOST_LOST: u32 = 1_024;

/// What was last said of each connection, by its `group_id`.
#[derive(Debug, Default)]
pub(super) struct Recoveries(BTreeMap<String, Said>);

#[derive(Debug, Default)]
struct Said {
    metrics: Value,
    state: &'static str,
    /// The last PKT.SEQ of a TCP-TACK connection that left, and that was told to be lost.
    sent: Option<u32>,
    lost: Option<u32>,
}

impl Recoveries {
    /// What `figures` say that was not said before.
    pub(super) fn on_figures(&mut self, group: &str, figures: &Figures) -> Vec<Event> {
        let said = self.said(group);
        let mut events = Vec::new();
        if said.state != figures.congestion_state {
            let mut data = json!({ "new": figures.congestion_state });
            if !said.state.is_empty() {
                data["old"] = json!(said.state);
            }
            said.state = figures.congestion_state;
            events.push(("recovery:congestion_state_updated", data));
        }
        let metrics = metrics(figures);
        if said.metrics != metrics {
            said.metrics = metrics.clone();
            events.push(("recovery:metrics_updated", metrics));
        }
        events
    }

    /// The packets that an acknowledgment tells to be lost. Under TACK it is the receiver that finds losses.
    pub(super) fn on_segment(
        &mut self,
        group: &str,
        direction: Direction,
        segment: &Segment<'_>,
    ) -> Vec<Event> {
        let options = &segment.header.options;
        match (direction, options.pkt_seq, options.ack_type) {
            (Direction::Sent, Some(number), _) => {
                self.said(group).sent = Some(number);
                Vec::new()
            }
            (Direction::Received, _, Some(kind)) => {
                let gaps = said(kind, segment).map(|said| lost(&said)).unwrap_or_default();
                let known = self.said(group);
                let lost = gaps.into_iter().flat_map(|gap| known.newly_lost(gap));
                lost.take(MOST_LOST as usize).map(|n| packet_lost(header(Some(n)), None)).collect()
            }
            _ => Vec::new(),
        }
    }

    fn said(&mut self, group: &str) -> &mut Said {
        if self.0.len() >= MOST && !self.0.contains_key(group) {
            self.0.clear();
        }
        self.0.entry(group.to_owned()).or_default()
    }
}

impl Said {
    /// What of a gap was sent and not told of before. Numbers wrap.
    fn newly_lost(&mut self, [first, last]: [u32; 2]) -> impl Iterator<Item = u32> + use<> {
        let ahead = |of: u32, other: u32| other.wrapping_sub(of).cast_signed();
        let told = self.lost.map(|lost| lost.wrapping_add(1));
        let first = told.filter(|told| ahead(first, *told) > 0).unwrap_or(first);
        let count = match self.sent.filter(|sent| ahead(last, *sent) >= 0) {
            Some(_) => ahead(first, last).saturating_add(1).max(0).cast_unsigned(),
            None => 0,
        };
        if count > 0 {
            self.lost = Some(last);
        }
        (0..count.min(MOST_LOST)).map(move |i| first.wrapping_add(i))
    }
}

/// A packet is taken for lost.
pub(super) fn packet_lost(header: Value, trigger: Option<&str>) -> Event {
    let mut data = json!({ "header": header });
    if let Some(trigger) = trigger {
        data["trigger"] = json!(trigger);
    }
    ("recovery:packet_lost", data)
}

/// What is not known is left out. The last two are not the draft's.
fn metrics(figures: &Figures) -> Value {
    let ms = |duration: Option<Duration>| duration.map(|d| json!(d.as_secs_f64() * 1_000.0));
    let known = [
        ("smoothed_rtt", ms(figures.srtt)),
        ("rtt_variance", ms(figures.rttvar)),
        ("min_rtt", ms(figures.rtt_min)),
        ("congestion_window", Some(json!(figures.cwnd))),
        ("bytes_in_flight", Some(json!(figures.in_flight))),
        ("ssthresh", figures.ssthresh.map(|bytes| json!(bytes))),
        ("pacing_rate", figures.pacing_rate.map(|rate| json!(rate.as_bps()))),
        ("delivery_rate_bps", figures.delivery_rate.map(|rate| json!(rate.as_bps()))),
        ("packets_lost", Some(json!(figures.retransmissions))),
    ];
    let known = known.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(known.collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_did_not_change_is_not_said_again_and_what_is_remembered_is_bounded() {
        let mut all = Recoveries::default();
        let names = |events: Vec<Event>| events.into_iter().map(|(n, _)| n).collect::<Vec<_>>();
        let figures = Figures { cwnd: 9, congestion_state: "slow_start", ..Figures::default() };
        let first = all.on_figures("a", &figures);
        assert!(first[0].1.get("old").is_none() && first[0].1["new"] == "slow_start");
        assert_eq!(names(first), ["recovery:congestion_state_updated", "recovery:metrics_updated"]);
        assert_eq!(all.on_figures("a", &figures), []);
        let wider = Figures { cwnd: 10, ..figures };
        assert_eq!(names(all.on_figures("a", &wider)), ["recovery:metrics_updated"]);
        let lost = Figures { congestion_state: "recovery", ..wider };
        let told = all.on_figures("a", &lost);
        assert_eq!(told[0].1, json!({ "old": "slow_start", "new": "recovery" }));
        assert_eq!(told.len(), 1, "the metrics are the same");
        for n in 0..2 * MOST {
            all.on_figures(&n.to_string(), &figures);
        }
        assert!(all.0.len() <= MOST);
    }

    #[test]
    fn a_loss_is_told_once_of_what_was_sent_and_a_peer_cannot_name_more() {
        let mut said = Said::default();
        let told = |said: &mut Said, gap| said.newly_lost(gap).collect::<Vec<_>>();
        assert!(told(&mut said, [1, 5]).is_empty(), "nothing left yet");
        said.sent = Some(20);
        assert_eq!(told(&mut said, [3, 5]), [3, 4, 5]);
        assert!(told(&mut said, [3, 5]).is_empty(), "a repeated IACK");
        assert_eq!(told(&mut said, [4, 7]), [6, 7]);
        assert!(told(&mut said, [9, 21]).is_empty(), "21 has not left");
        assert!(told(&mut said, [9, 8]).is_empty());
        said.sent = Some(20_u32.wrapping_sub(40));
        assert!(told(&mut said, [9, 10]).is_empty());
        let mut wrapped = Said { sent: Some(3), lost: Some(u32::MAX - 4), ..Said::default() };
        assert_eq!(
            told(&mut wrapped, [u32::MAX - 9, 1]),
            [u32::MAX - 3, u32::MAX - 2, u32::MAX - 1, u32::MAX, 0, 1]
        );
        let mut many = Said { sent: Some(1 << 30), ..Said::default() };
        assert_eq!(told(&mut many, [1, 1 << 30]).len(), MOST_LOST as usize);
    }
}

//! `tack doctor`: what TACK saves on one path, and when it is not worth it.
//!
//! Both run with the same controller against the same `tack perf -s`, alternately, so that a path
//! that changes in between changes for both: TACK, plain, plain, TACK, each way. What the runs of
//! either kind differ by, together, is what a difference between the kinds must exceed to be one: of
//! paths on which both are the same, one in eight is then told to differ. It was one in three where
//! half of that was enough.

use crate::perf::report::{Extremes, Interval, Report};
use crate::units::rate_text;

/// A difference of goodput that anybody would notice.
const WORTHWHILE: f64 = 0.05;

/// Reports come several times a second: one of so many seconds is of a machine that slept.
const SLEPT: f64 = 2.0;

/// What one run found.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// Bytes that arrived.
    pub bytes: u64,
    /// Over how long.
    pub seconds: f64,
    /// Acknowledgments that the receiver of the data sent.
    pub acks: u64,
    /// Packets of data.
    pub data_packets: u64,
    /// Processor time of both ends, in per cent of one core.
    pub cpu_percent: f64,
    /// Mean of the smoothed round-trip times during the run and the least there was, in ms; zero
    /// where this end cannot tell, as the receiver.
    pub rtt_ms: (f64, f64),
    /// Whether TACK was spoken.
    pub tack: bool,
    /// Whether it says nothing of the path: nothing arrived, or this machine slept.
    pub is_void: bool,
}

impl Sample {
    /// Of one stream that one side sends on; `None` if the other side did not say what it counted.
    pub fn of(report: &Report) -> Option<Sample> {
        let (sender, receiver) = report.ends(0);
        let (sent, got) = (sender?.flow.as_ref()?, receiver?.flow.as_ref()?);
        let extremes = Extremes::of(&report.intervals, 0);
        let remote = report.remote.as_ref()?;
        let (mean, least) = match report.start.lanes[0].sends {
            true => (extremes.mean_rtt, sent.rtt_min_us),
            false => (sent.rtt_us, sent.rtt_min_us),
        };
        Some(Sample {
            bytes: receiver?.bytes,
            seconds: receiver?.seconds,
            acks: got.acks_sent_total(),
            data_packets: sent.data_packets_sent,
            cpu_percent: report.local.cpu.total + remote.cpu.total,
            rtt_ms: (mean as f64 / 1_000.0, least as f64 / 1_000.0),
            tack: sent.tack,
            is_void: receiver?.bytes == 0 || slept(&report.intervals),
        })
    }

    fn goodput(&self) -> f64 {
        if self.seconds > 0.0 { self.bytes as f64 * 8.0 / self.seconds } else { 0.0 }
    }

    /// Acknowledgments for a thousand packets of data.
    fn acks_per_thousand(&self) -> f64 {
        1_000.0 * self.acks as f64 / self.data_packets.max(1) as f64
    }

    /// Milliseconds of processor time for a megabyte.
    fn cpu_per_megabyte(&self) -> f64 {
        let megabytes = (self.bytes as f64 / 1e6).max(1e-6);
        10.0 * self.cpu_percent * self.seconds / megabytes
    }

    /// What the flow adds to the path's own round trip.
    fn queue_ms(&self) -> f64 {
        (self.rtt_ms.0 - self.rtt_ms.1).max(0.0)
    }
}

fn slept(intervals: &[Interval]) -> bool {
    intervals.iter().any(|it| it.end - it.start >= SLEPT)
}

/// What was found one way.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    /// Runs with TACK.
    pub tack: Vec<Sample>,
    /// Runs with plain TCP's acknowledgments.
    pub plain: Vec<Sample>,
}

fn mean(samples: &[Sample], of: fn(&Sample) -> f64) -> f64 {
    samples.iter().map(of).sum::<f64>() / samples.len().max(1) as f64
}

/// What the runs of one kind lie apart.
fn spread(samples: &[Sample], of: fn(&Sample) -> f64) -> f64 {
    let values = || samples.iter().map(of);
    (values().fold(f64::MIN, f64::max) - values().fold(f64::MAX, f64::min)).max(0.0)
}

/// TACK's value over the plain one's, less one; `None` if runs of one kind differ as much.
fn difference(findings: &Findings, of: fn(&Sample) -> f64) -> Option<f64> {
    let (tack, plain) = (mean(&findings.tack, of), mean(&findings.plain, of));
    let noise = spread(&findings.tack, of) + spread(&findings.plain, of);
    let told_apart = plain > 0.0 && (tack - plain).abs() > noise;
    told_apart.then(|| tack / plain - 1.0)
}

fn percent(difference: Option<f64>) -> String {
    match difference {
        Some(d) if d.abs() >= 0.005 => format!("{:+.0} %", 100.0 * d),
        Some(_) => "the same".to_owned(),
        None => "no difference beyond what runs differ by".to_owned(),
    }
}

/// A percentage fewer, or more: where a plain receiver answers whole batches, TACK sends more.
fn comparison(fewer: f64) -> String {
    if fewer < 0.0 { format!("{:.0} % more", -fewer) } else { format!("{fewer:.0} % fewer") }
}

/// The three lines for one way, `towards` saying which.
pub fn verdict(towards: &str, findings: &Findings) -> [String; 3] {
    if !findings.tack.iter().all(|sample| sample.tack) {
        return [
            format!("{towards}: TACK was not spoken: the path strips it, or the other side is old"),
            "What follows would compare plain TCP with itself.".to_owned(),
            "Not worth it here.".to_owned(),
        ];
    }
    if findings.tack.iter().chain(&findings.plain).any(|sample| sample.is_void) {
        return [
            format!("{towards}: in one of the runs nothing arrived, or this machine slept"),
            "What follows cannot be compared.".to_owned(),
            "Measure again.".to_owned(),
        ];
    }
    let goodput = difference(findings, Sample::goodput);
    let (tack, plain) = (
        mean(&findings.tack, Sample::acks_per_thousand),
        mean(&findings.plain, Sample::acks_per_thousand),
    );
    let fewer = if plain > 0.0 { 100.0 * (1.0 - tack / plain) } else { 0.0 };
    let gains = goodput.is_some_and(|d| d >= WORTHWHILE);
    let loses = goodput.is_some_and(|d| d <= -WORTHWHILE);
    let advice = match (gains, loses) {
        (true, _) => "Worth it here: more goodput.",
        (_, true) => "Not worth it here: plain TCP is faster on this path.",
        _ if fewer >= 50.0 => {
            "Not worth it for speed here: fewer ACKs count where both ways share a medium, or the way \
             back is thin."
        }
        _ => "Not worth it here: nothing is saved that anybody would notice.",
    };
    [
        format!("{towards}: {} ACK packets; goodput {}", comparison(fewer), percent(goodput)),
        format!(
            "CPU for a megabyte: {}; queueing under load {:.1} ms against {:.1} ms",
            percent(difference(findings, Sample::cpu_per_megabyte)),
            mean(&findings.tack, Sample::queue_ms),
            mean(&findings.plain, Sample::queue_ms),
        ),
        advice.to_owned(),
    ]
}

/// The numbers behind, a line for each run.
pub fn numbers(findings: &Findings) -> Vec<String> {
    let line = |kind: &str, s: &Sample| {
        format!(
            "  {kind:<6} {:>16}  {:>8} ACKs for {:>8} packets  {:>6.2} ms CPU/MB  RTT {:.1} ms \
             (least {:.1})",
            rate_text(s.bytes, s.seconds),
            s.acks,
            s.data_packets,
            s.cpu_per_megabyte(),
            s.rtt_ms.0,
            s.rtt_ms.1
        )
    };
    let tack = findings.tack.iter().map(|s| line("TACK", s));
    tack.chain(findings.plain.iter().map(|s| line("plain", s))).collect()
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64;

    use super::*;

    fn sample(tack: bool, mbytes: u64, acks: u64) -> Sample {
        Sample {
            bytes: mbytes * 1_000_000,
            seconds: 3.0,
            acks,
            data_packets: mbytes * 700,
            cpu_percent: 20.0,
            rtt_ms: (25.0, 20.0),
            tack,
            is_void: false,
        }
    }

    fn findings(tack: [u64; 2], plain: [u64; 2]) -> Findings {
        Findings {
            tack: tack.map(|mbytes| sample(true, mbytes, 60)).to_vec(),
            plain: plain.map(|mbytes| sample(false, mbytes, mbytes * 350)).to_vec(),
        }
    }

    #[test]
    fn more_goodput_than_the_noise_is_worth_it() {
        let [first, second, advice] = verdict("to us", &findings([120, 124], [100, 102]));
        assert!(first.contains("100 % fewer ACK packets") && first.contains("+21 %"), "{first}");
        assert!(second.contains("5.0 ms"), "{second}");
        assert!(advice.starts_with("Worth it"), "{advice}");
    }

    #[test]
    fn a_difference_within_the_noise_is_none_and_fewer_acks_are_still_said() {
        let [first, _, advice] = verdict("to us", &findings([90, 120], [85, 110]));
        assert!(first.contains("no difference"), "{first}");
        assert!(advice.starts_with("Not worth it for speed"), "{advice}");
    }

    #[test]
    fn a_path_on_which_both_are_the_same_is_seldom_told_to_differ() {
        let mut rng = Pcg64::seed_from_u64(0xd0c);
        let mut runs = || [0; 2].map(|_| rng.random_range(60..=140));
        let differs = (0..1_000).filter(|_| {
            let found = findings(runs(), runs());
            !verdict("to us", &found)[0].contains("no difference")
        });
        assert!(differs.count() < 200);
    }

    #[test]
    fn a_path_on_which_plain_tcp_is_faster_is_told_so() {
        let [first, _, advice] = verdict("to us", &findings([80, 81], [100, 101]));
        assert!(first.contains("-20 %") && advice.starts_with("Not worth it"), "{first} {advice}");
    }

    #[test]
    fn more_acks_are_said_to_be_more() {
        let mut found = findings([100, 100], [100, 100]);
        found.plain.iter_mut().for_each(|sample| sample.acks = 30);
        let [first, _, advice] = verdict("to us", &found);
        assert!(first.contains("to us: 100 % more ACK packets"), "{first}");
        assert!(advice.starts_with("Not worth it"), "{advice}");
    }

    #[test]
    fn runs_of_which_one_is_void_are_not_compared() {
        let mut found = findings([120, 124], [100, 102]);
        found.plain[0].is_void = true;
        let [first, _, advice] = verdict("to us", &found);
        assert!(first.contains("nothing arrived") && advice == "Measure again.", "{first}");
        let one = |end| Interval { start: 0.0, end, omitted: false, spans: Vec::new() };
        assert!(slept(&[one(0.25), one(5.0)]) && !slept(&[one(0.25), one(0.5)]));
    }

    #[test]
    fn without_tack_nothing_is_compared() {
        let mut found = findings([100, 100], [100, 100]);
        found.tack[1].tack = false;
        assert!(verdict("to us", &found)[0].contains("not spoken"));
        assert_eq!(numbers(&found).len(), 4);
    }
}

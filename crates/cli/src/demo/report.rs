//! What the demo prints.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use tack_link::wlan::Use;

use super::path::{Air, Path};

/// Lateness of the relay beyond which its numbers are not those of the path asked for, µs.
const MAX_LATE_P99_US: u64 = 3_000;
const MAX_LATE_US: u64 = 30_000;

/// One transfer.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Run {
    pub(crate) strategy: String,
    /// Bytes of the file over the time from the handshake to the last byte.
    pub(crate) goodput_bps: f64,
    /// Packets with data that entered the path, retransmissions included.
    pub(crate) data_packets: u64,
    /// Acknowledgments that entered the path.
    pub(crate) ack_packets: u64,
    pub(crate) acks_by_kind: BTreeMap<&'static str, u64>,
    /// While the second half of the file arrived, past Startup.
    pub(crate) acks_per_s: f64,
    /// What Eq. 4 allows at this goodput and RTT.
    pub(crate) eq4_acks_per_s: f64,
    pub(crate) retransmissions: u64,
    pub(crate) needless_retransmissions: u64,
    /// The sender's estimate.
    pub(crate) rtt_min_us: u64,
    /// Least delay there plus least delay back, as the relay saw them.
    pub(crate) true_rtt_min_us: u64,
    pub(crate) owd_p95_us: u64,
    /// Of both ends; the relay's share is taken off.
    pub(crate) cpu_s: f64,
    pub(crate) sha256_ok: bool,
    /// The same for the second half of the file, past Startup.
    pub(crate) steady_goodput_bps: f64,
    /// Wi-Fi only, from the first data packet to the last.
    #[serde(flatten)]
    pub(crate) air: Option<AirShares>,
    /// How long packets left the path after they were due: median, 99th percentile, greatest.
    pub(crate) late_p50_us: u64,
    pub(crate) late_p99_us: u64,
    pub(crate) late_max_us: u64,
    /// Datagrams that the kernel dropped before or after the path, beside what the path lost; what
    /// overflows the receiver's own socket is not seen.
    pub(crate) lost_beside_path: u64,
}

/// Where the air's time went, as shares.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct AirShares {
    /// Carrying data.
    pub(crate) data_airtime: f64,
    /// Carrying the transport's acknowledgments.
    pub(crate) ack_airtime: f64,
    /// Lost to collisions.
    pub(crate) collision_airtime: f64,
    /// Share of accesses to the air that began together with another.
    pub(crate) collision_share: f64,
}

impl From<Air> for AirShares {
    fn from(air: Air) -> AirShares {
        AirShares {
            data_airtime: air.time.share(Use::Data),
            ack_airtime: air.time.share(Use::Ack),
            collision_airtime: air.time.share(Use::Collision),
            collision_share: air.nodes.collision_probability(),
        }
    }
}

impl Run {
    /// Says so when the path was not what was asked for.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.late_p99_us > MAX_LATE_P99_US || self.late_max_us > MAX_LATE_US {
            warnings.push(format!(
                "this machine was busy: the emulated path ran late by {:.1} ms (99th percentile), \
                 {:.1} ms at most; run again when it is idle",
                self.late_p99_us as f64 / 1e3,
                self.late_max_us as f64 / 1e3
            ));
        }
        if self.lost_beside_path > 0 {
            warnings.push(format!(
                "the kernel dropped {} datagrams before or after the emulated path",
                self.lost_beside_path
            ));
        }
        warnings
    }
}

/// Both transfers.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Report {
    pub(crate) runs: Vec<Run>,
}

impl Report {
    pub(crate) fn to_json(&self) -> String {
        let json = serde_json::to_string_pretty(self).expect("numbers and strings are JSON");
        json + "\n"
    }
}

/// What is about to happen.
pub(crate) fn headline(bytes: u64, path: &Path) -> String {
    // Decimal, as the rates below.
    let megabytes = bytes as f64 / 1e6;
    format!("Sending {megabytes:.1} MB of random bytes twice through {}.\n", path.describe())
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut row = |name: &str, value: &dyn Fn(&Run) -> String| {
            write!(f, "{name:<34}")?;
            self.runs.iter().try_for_each(|r| write!(f, "{:>16}", value(r)))?;
            writeln!(f)
        };
        let kind = |name: &'static str| {
            move |r: &Run| r.acks_by_kind.get(name).copied().unwrap_or(0).to_string()
        };
        let ms = |us: u64| format!("{:.2} ms", us as f64 / 1e3);
        row("", &|r| r.strategy.clone())?;
        row("goodput", &|r| format!("{:.1} Mbit/s", r.goodput_bps / 1e6))?;
        row("  second half of the file", &|r| format!("{:.1} Mbit/s", r.steady_goodput_bps / 1e6))?;
        row("data packets", &|r| r.data_packets.to_string())?;
        row("ACK packets", &|r| r.ack_packets.to_string())?;
        for (label, name) in [
            ("  TACKs", "tack"),
            ("  loss IACKs", "loss"),
            ("  window IACKs", "window"),
            ("  frequency IACKs", "frequency"),
            ("  plain ACKs", "plain"),
        ] {
            row(label, &kind(name))?;
        }
        row("ACKs per second, second half", &|r| format!("{:.1}", r.acks_per_s))?;
        row("  Eq. 4 at this goodput and RTT", &|r| format!("{:.1}", r.eq4_acks_per_s))?;
        row("ACKs per data packet", &|r| {
            format!("1:{:.1}", r.data_packets as f64 / r.ack_packets.max(1) as f64)
        })?;
        if self.runs.iter().all(|r| r.air.is_some()) {
            let share = |of: fn(&AirShares) -> f64| {
                move |r: &Run| format!("{:.2} %", r.air.as_ref().map_or(0.0, of) * 100.0)
            };
            row("airtime of data", &share(|a| a.data_airtime))?;
            row("airtime of ACKs", &share(|a| a.ack_airtime))?;
            row("airtime of collisions", &share(|a| a.collision_airtime))?;
            row("  accesses that collided", &share(|a| a.collision_share))?;
        }
        row("retransmissions", &|r| r.retransmissions.to_string())?;
        row("  of them needless", &|r| r.needless_retransmissions.to_string())?;
        row("RTTmin estimated", &|r| ms(r.rtt_min_us))?;
        row("  true", &|r| ms(r.true_rtt_min_us))?;
        row("one-way delay, 95th percentile", &|r| ms(r.owd_p95_us))?;
        row("CPU of both ends", &|r| format!("{:.2} s", r.cpu_s))?;
        row("SHA-256", &|r| if r.sha256_ok { "ok" } else { "DIFFERS" }.to_owned())?;
        row("emulated path late, median", &|r| ms(r.late_p50_us))?;
        row("  99th percentile", &|r| ms(r.late_p99_us))?;
        row("  greatest", &|r| ms(r.late_max_us))?;
        match &self.runs[..] {
            [tack, tcp] => write!(f, "\n{}\n", verdict(tack, tcp)),
            _ => Ok(()),
        }
    }
}

/// The two runs in one sentence: the whole file, and its second half, which Startup is no part of.
fn verdict(tack: &Run, tcp: &Run) -> String {
    let gain = |of: fn(&Run) -> f64| (of(tack) / of(tcp).max(1.0) - 1.0) * 100.0;
    let acks = gain(|run| run.ack_packets as f64);
    let (acks, how) = (acks.abs(), if acks > 0.0 { "more" } else { "fewer" });
    format!(
        "The whole file: TACK {:+.1} % goodput against TCP ({:+.1} % in the second half), with {acks:.1} % \
         {how} ACK packets.",
        gain(|run| run.goodput_bps),
        gain(|run| run.steady_goodput_bps),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> Run {
        Run {
            strategy: "tack".to_owned(),
            goodput_bps: 9e7,
            data_packets: 100,
            ack_packets: 5,
            acks_by_kind: BTreeMap::from([("tack", 4), ("loss", 1)]),
            acks_per_s: 50.0,
            eq4_acks_per_s: 50.0,
            retransmissions: 1,
            needless_retransmissions: 0,
            rtt_min_us: 80_100,
            true_rtt_min_us: 80_000,
            owd_p95_us: 41_000,
            cpu_s: 0.5,
            sha256_ok: true,
            steady_goodput_bps: 9.5e7,
            air: None,
            late_p50_us: 40,
            late_p99_us: 50,
            late_max_us: 900,
            lost_beside_path: 0,
        }
    }

    /// The keys are an interface: scripts read them.
    #[test]
    fn json_has_the_documented_keys_and_the_airs_over_wifi() {
        let air = AirShares {
            data_airtime: 0.8,
            ack_airtime: 0.01,
            collision_airtime: 0.02,
            collision_share: 0.05,
        };
        let json = Report { runs: vec![run(), Run { air: Some(air), ..run() }] }.to_json();
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        let keys = |i: usize| {
            let run = value["runs"][i].as_object().unwrap();
            run.keys().cloned().collect::<std::collections::BTreeSet<_>>()
        };
        let expected = "strategy goodput_bps data_packets ack_packets acks_by_kind acks_per_s \
             eq4_acks_per_s retransmissions needless_retransmissions rtt_min_us true_rtt_min_us \
             owd_p95_us cpu_s sha256_ok steady_goodput_bps late_p50_us late_p99_us late_max_us \
             lost_beside_path";
        let mut expected: std::collections::BTreeSet<_> =
            expected.split_whitespace().map(str::to_owned).collect();
        assert_eq!(keys(0), expected);
        let airs = ["data_airtime", "ack_airtime", "collision_airtime", "collision_share"];
        expected.extend(airs.map(str::to_owned));
        assert_eq!(keys(1), expected);
    }

    #[test]
    fn the_table_shows_the_air_only_over_wifi_and_ends_with_the_gain() {
        let tcp = Run { goodput_bps: 7.5e7, steady_goodput_bps: 7.6e7, ack_packets: 50, ..run() };
        let table = Report { runs: vec![run(), tcp] }.to_string();
        assert!(!table.contains("airtime"), "{table}");
        let verdict = "TACK +20.0 % goodput against TCP (+25.0 % in the second half), with 90.0 % fewer ACK packets.\n";
        assert!(table.ends_with(verdict), "{table}");
    }

    #[test]
    fn what_the_machine_did_to_the_path_is_said() {
        assert!(run().warnings().is_empty());
        for odd in [
            Run { late_p99_us: 5_000, ..run() },
            Run { late_max_us: 90_000, ..run() },
            Run { lost_beside_path: 1, ..run() },
        ] {
            assert_eq!(odd.warnings().len(), 1, "{odd:?}");
        }
    }
}

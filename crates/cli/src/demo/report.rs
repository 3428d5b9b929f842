//! What the demo prints.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::relay::Path;

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
    /// Of the second half of the transfer, past Startup.
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
    /// How late the relay was: 99th percentile and greatest.
    #[serde(skip)]
    pub(crate) late_us: (u64, u64),
}

impl Run {
    /// Says so when the path was not what was asked for.
    pub(crate) fn lateness_warning(&self) -> Option<String> {
        let (p99, max) = self.late_us;
        (p99 > MAX_LATE_P99_US || max > MAX_LATE_US).then(|| {
            format!(
                "this machine was busy: the emulated path ran late by {:.1} ms (99th percentile), \
                 {:.1} ms at most; run again when it is idle",
                p99 as f64 / 1e3,
                max as f64 / 1e3
            )
        })
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
    format!(
        "Sending {:.1} MiB of random bytes twice through {}, RTT {:.1} ms, loss {:.2} % there and \
         {:.2} % back, buffer {} KiB.\n",
        bytes as f64 / f64::from(1 << 20),
        path.rate,
        path.rtt.as_secs_f64() * 1e3,
        path.loss * 100.0,
        path.ack_loss * 100.0,
        path.buffer_bytes() >> 10,
    )
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
        row("retransmissions", &|r| r.retransmissions.to_string())?;
        row("  of them needless", &|r| r.needless_retransmissions.to_string())?;
        row("RTTmin estimated", &|r| ms(r.rtt_min_us))?;
        row("  true", &|r| ms(r.true_rtt_min_us))?;
        row("one-way delay, 95th percentile", &|r| ms(r.owd_p95_us))?;
        row("CPU of both ends", &|r| format!("{:.2} s", r.cpu_s))?;
        row("SHA-256", &|r| if r.sha256_ok { "ok" } else { "DIFFERS" }.to_owned())
    }
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
            late_us: (50, 900),
        }
    }

    /// The keys are an interface: scripts read them.
    #[test]
    fn json_has_the_documented_keys_and_no_others() {
        let json = Report { runs: vec![run()] }.to_json();
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        let keys: Vec<&str> =
            value["runs"][0].as_object().unwrap().keys().map(String::as_str).collect();
        let mut expected = vec![
            "strategy",
            "goodput_bps",
            "data_packets",
            "ack_packets",
            "acks_by_kind",
            "acks_per_s",
            "eq4_acks_per_s",
            "retransmissions",
            "needless_retransmissions",
            "rtt_min_us",
            "true_rtt_min_us",
            "owd_p95_us",
            "cpu_s",
            "sha256_ok",
        ];
        expected.sort_unstable();
        let mut keys = keys;
        keys.sort_unstable();
        assert_eq!(keys, expected);
    }

    #[test]
    fn a_late_relay_is_reported_and_a_punctual_one_is_not() {
        assert_eq!(run().lateness_warning(), None);
        assert!(Run { late_us: (5_000, 9_000), ..run() }.lateness_warning().is_some());
        assert!(Run { late_us: (100, 90_000), ..run() }.lateness_warning().is_some());
    }
}

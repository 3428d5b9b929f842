//! A test as text, with iperf3's lines.

use crate::conn::Flow;
use crate::perf::client::Observer;
use crate::perf::control::StreamResult;
use crate::perf::cpu::CpuUse;
use crate::perf::json::start::hex;
use crate::perf::params::{Direction, Until};
use crate::perf::report::{Interrupted, Interval, Report, Start};
use crate::units::{RateUnit, bytes_text, rate_text};

const RULE: &str = "- - - - - - - - - - - - - - - - - - - - - - - - -";

/// How a test is written.
#[derive(Clone, Debug, Default)]
pub struct Style {
    /// The unit of rates; `None` is what fits.
    pub unit: Option<RateUnit>,
    /// Says more, the controller by this name.
    pub details: Option<String>,
}

/// Writes lines as things happen.
#[derive(Debug)]
pub struct Text<F> {
    line: F,
    style: Style,
    is_client: bool,
    bidir: bool,
}

impl<F: FnMut(&str)> Text<F> {
    /// `line` takes each line, without its end.
    pub fn new(is_client: bool, style: Style, line: F) -> Self {
        Self { line, style, is_client, bidir: false }
    }

    /// The summary at the end.
    pub fn summary(&mut self, report: &Report) {
        (self.line)(RULE);
        if self.style.details.is_some() {
            (self.line)("Test Complete. Summary Results:");
        }
        if let Some(interrupted) = report.interrupted {
            let whose = match interrupted {
                Interrupted::Here => "Interrupted",
                Interrupted::There => "Interrupted by the other side",
            };
            (self.line)(&format!("{whose}: this is what was measured until then"));
        }
        let role = if self.bidir { "[Role]" } else { "" };
        let header = format!("[ ID]{role} Interval           Transfer     Bitrate         Retr");
        (self.line)(&header);
        for (index, lane) in report.start.lanes.iter().enumerate() {
            let (sender, receiver) = report.ends(index);
            let id = self.id(&format!("{:3}", lane.id), lane.sends);
            self.total(&id, sender, "sender");
            self.total(&id, receiver, "receiver");
        }
        for sends in [true, false] {
            if report.lanes_that(sends).count() > 1 {
                let (sender, receiver) = report.sums(sends);
                let id = self.id("SUM", sends);
                self.total(&id, sender.as_ref(), "sender");
                self.total(&id, receiver.as_ref(), "receiver");
            }
        }
        self.cpu(report);
        for sends in [true, false] {
            if report.lanes_that(sends).count() > 0 {
                self.tack(report, sends);
            }
        }
        (self.line)("");
    }

    fn cpu(&mut self, report: &Report) {
        let remote = report.remote.as_ref().map(|remote| remote.cpu);
        let Some(congestion) = &self.style.details else {
            let remote = remote.map_or("unknown".to_owned(), |cpu| percent(cpu.total));
            let local = percent(report.local.cpu.total);
            (self.line)(&format!("CPU: local {local}, remote {remote}"));
            return;
        };
        let share = |cpu: CpuUse| {
            format!("{} ({:.1} % user, {:.1} % system)", percent(cpu.total), cpu.user, cpu.system)
        };
        let remote = remote.map_or("unknown".to_owned(), share);
        let (here, there) = match report.start.lanes.first().is_some_and(|lane| lane.sends) {
            true => ("sender", "receiver"),
            false => ("receiver", "sender"),
        };
        let local = share(report.local.cpu);
        (self.line)(&format!("CPU Utilization: local/{here} {local}, remote/{there} {remote}"));
        (self.line)(&format!("snd_tcp_congestion {congestion}"));
    }

    /// What the test is, for those who want to know.
    fn parameters(&mut self, start: &Start) {
        let params = &start.params;
        let until = match params.until {
            Until::Seconds(s) => format!("{s} second test"),
            Until::Bytes(n) => format!("{n} bytes to send"),
            Until::Stopped => "until it is stopped".to_owned(),
        };
        (self.line)(&format!(
            "Starting Test: protocol: {}, {} streams, {} byte blocks, omitting {} seconds, {until}, \
             tos {}",
            if start.lanes.iter().any(|lane| lane.tack) { "TACK" } else { "TCP" },
            params.streams,
            params.block_bytes,
            params.omit_seconds,
            params.dscp << 2,
        ));
    }

    /// `[  5]`, or `[  5][TX-C]` when both directions are measured.
    fn id(&self, id: &str, sends: bool) -> String {
        let role = match (self.bidir, sends, self.is_client) {
            (false, _, _) => "",
            (true, true, true) => "[TX-C]",
            (true, false, true) => "[RX-C]",
            (true, true, false) => "[TX-S]",
            (true, false, false) => "[RX-S]",
        };
        format!("[{id}]{role}")
    }

    fn total(&mut self, id: &str, one: Option<&StreamResult>, who: &str) {
        let Some(one) = one else { return };
        let retransmits = match (&one.flow, who) {
            (Some(flow), "sender") => flow.retransmits.to_string(),
            _ => String::new(),
        };
        let amounts = self.amounts(one.bytes, one.seconds);
        let times = times(0.0, one.seconds);
        (self.line)(format!("{id} {times}  {amounts}  {retransmits:>4}  {who:>14}").trim_end());
    }

    /// What the acknowledgments of one direction cost: the point of it all.
    fn tack(&mut self, report: &Report, sends: bool) {
        let (Some(sender), receiver) = report.sums(sends) else { return };
        let Some(flow) = sender.flow else { return };
        let acks = flow.acks_received_total();
        let name = if flow.tack { "TACK" } else { "TCP " };
        let ratio = if acks == 0 { 0.0 } else { flow.data_packets_sent as f64 / acks as f64 };
        let rate = if sender.seconds > 0.0 { acks as f64 / sender.seconds } else { 0.0 };
        // Either side counts to a moment of its own; what has arrived was sent.
        let sent = receiver.and_then(|r| r.flow).map_or(acks, |f| f.acks_sent_total().max(acks));
        let eq4 = if flow.tack {
            format!(", Eq. 4: {:.1}/s", flow.eq4_acks_per_s)
        } else {
            String::new()
        };
        (self.line)(&format!(
            "{name} {acks} of {sent} ACKs arrived ({rate:.1}/s{eq4}) for {} data packets: 1 ACK per \
             {ratio:.1}; RTTmin {:.3} ms",
            flow.data_packets_sent,
            flow.rtt_min_us as f64 / 1000.0,
        ));
        let kinds: Vec<_> = flow.acks_received.iter().filter(|&(_, &n)| n > 0).collect();
        let kinds: Vec<_> = kinds.iter().map(|(kind, n)| format!("{kind} {n}")).collect();
        if !kinds.is_empty() {
            (self.line)(&format!("     by kind: {}", kinds.join(", ")));
        }
    }

    fn amounts(&self, bytes: u64, seconds: f64) -> String {
        let rate = match self.style.unit {
            Some(unit) => unit.text(bytes, seconds),
            None => rate_text(bytes, seconds),
        };
        format!("{:>11}  {rate:>14}", bytes_text(bytes))
    }

    fn span(&mut self, id: &str, interval: &Interval, bytes: u64, sender: Option<(u64, &Flow)>) {
        let seconds = interval.end - interval.start;
        let amounts = self.amounts(bytes, seconds);
        let times = times(interval.start, interval.end);
        let tail = sender.map_or(String::new(), |(retransmits, flow)| {
            format!("  {retransmits:>4}   {:>11}", bytes_text(flow.snd_cwnd))
        });
        let omitted = if interval.omitted { "  (omitted)" } else { "" };
        (self.line)(format!("{id} {times}  {amounts}{tail}{omitted}").trim_end());
    }
}

impl<F: FnMut(&str)> Observer for Text<F> {
    fn connected(&mut self, start: &Start) {
        let lanes = &start.lanes;
        self.bidir = start.params.direction == Direction::Both;
        if self.style.details.is_some() {
            (self.line)(&format!("      Cookie: {}", hex(&start.cookie)));
            let mss = lanes.iter().map(|lane| lane.mss).max().unwrap_or(0);
            (self.line)(&format!("      TCP MSS: {mss}"));
        }
        for lane in lanes {
            if let Some((local, remote)) = lane.addresses {
                let ((a, p), (b, q)) = ((local.ip(), local.port()), (remote.ip(), remote.port()));
                let id = format!("[{:3}]", lane.id);
                (self.line)(&format!("{id} local {a} port {p} connected to {b} port {q}"));
            }
        }
        if self.style.details.is_some() {
            self.parameters(start);
        }
        let role = if self.bidir { "[Role]" } else { "" };
        let sender = if lanes.iter().any(|l| l.sends) { "         Retr  Cwnd" } else { "" };
        (self.line)(&format!("[ ID]{role} Interval           Transfer     Bitrate{sender}"));
    }

    fn interval(&mut self, start: &Start, interval: &Interval) {
        let lanes = &start.lanes;
        if lanes.len() > 1 && interval.start > 0.0 {
            (self.line)(RULE);
        }
        for (lane, span) in lanes.iter().zip(&interval.spans) {
            let id = self.id(&format!("{:3}", lane.id), lane.sends);
            let sender = span.flow.as_ref().filter(|_| lane.sends);
            self.span(&id, interval, span.bytes, sender.map(|f| (span.retransmits, f)));
        }
        for sends in [true, false] {
            let these = || lanes.iter().zip(&interval.spans).filter(|(l, _)| l.sends == sends);
            if these().count() > 1 {
                let bytes = these().map(|(_, s)| s.bytes).sum();
                let id = self.id("SUM", sends);
                self.span(&id, interval, bytes, None);
            }
        }
    }
}

fn times(start: f64, end: f64) -> String {
    format!("{start:6.2}-{end:<6.2} sec")
}

fn percent(value: f64) -> String {
    format!("{value:.1} %")
}

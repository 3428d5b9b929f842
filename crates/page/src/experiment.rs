//! The experiment file that settings stand for.

use std::fmt::Write as _;

use crate::settings::Settings;

/// Bytes of `file`, and of one response of `requests`.
const FILE_BYTES: u32 = 10_000_000;
const RESPONSE_BYTES: u32 = 100_000;

impl Settings {
    /// The file, as `tack lab run` reads it: two variants of one scenario.
    pub fn experiment(&self) -> String {
        let mut out = String::from(
            "# Made by the lab in a browser; `tack lab run page.toml --json` gives the same.\n\
             id = \"page\"\n\n",
        );
        let seconds = self.number("seconds");
        // A file is measured from its first byte.
        let warmup = if self.get("traffic") == "file" { 0.0 } else { seconds / 5.0 };
        let _ = writeln!(
            out,
            "[base]\nduration_s = {seconds}\nwarmup_s = {warmup}         # left out of every rate\n\
             seed = {}\n",
            self.get("seed")
        );
        let _ = writeln!(
            out,
            "[base.wifi]\nphy = \"{}\"\npreset = \"{}\"\nstations = {}\nqueue = \"{}\"\n",
            self.get("phy"),
            self.get("preset"),
            self.get("stations"),
            self.get("queue")
        );
        out += &self.wan();
        for direction in self.directions() {
            let _ = writeln!(
                out,
                "[[base.flow]]\nstrategy = \"tack\"     # the variants below set it\ncount = {}\n\
                 direction = \"{direction}\"\n{}",
                self.get("stations"),
                self.app()
            );
        }
        for (name, which) in [("A", "a"), ("B", "b")] {
            out += &self.variant(name, which);
        }
        out += "[[view]]\nmetrics = [\n    \"goodput_bps\", \"ack_packets_per_s\", \"ack_airtime\",\n    \
                \"collision_share\", \"retransmissions\", \"rtt_p50_us\", \"rtt_p95_us\",\n]\n";
        out
    }

    fn wan(&self) -> String {
        let mut out =
            format!("[base.wan]\ndelay_ms = {}          # each way\n", self.number("rtt") / 2.0);
        let rate = self.number("rate");
        if rate > 0.0 {
            let _ = writeln!(out, "rate_mbps = {rate}");
        }
        for (key, direction) in [("loss", "down"), ("ack_loss", "up")] {
            let share = self.number(key) / 100.0;
            if share > 0.0 {
                let _ = writeln!(out, "{direction}.loss = {share}");
            }
        }
        out + "\n"
    }

    fn directions(&self) -> &'static [&'static str] {
        match self.get("traffic") {
            // Who asks is who connects.
            "upload" | "requests" => &["up"],
            "both" => &["down", "up"],
            _ => &["down"],
        }
    }

    /// What the application does, unless it sends as much as goes.
    fn app(&self) -> String {
        match self.get("traffic") {
            "file" => format!("app = {{ kind = \"file\", bytes = {FILE_BYTES} }}\n"),
            "stream" => "app = { kind = \"cbr\", mbps = 10 }\n".to_owned(),
            "requests" => format!(
                "app = {{ kind = \"request-response\", request_bytes = 500, response_bytes = \
                 {RESPONSE_BYTES}, think_ms = 100 }}\n"
            ),
            "on-off" => "app = { kind = \"on-off\", on_ms = 1000, off_ms = 1000 }\n".to_owned(),
            _ => String::new(),
        }
    }

    fn variant(&self, name: &str, which: &str) -> String {
        let (strategy, cc) = (self.get(which), self.get(&format!("{which}_cc")));
        let is_udp = strategy == "udp";
        let mut out = format!("[[variant]]\nname = \"{}\"\n\n", self.name(name, which));
        out += "[variant.set]\n";
        for flow in 0..self.directions().len() {
            let _ = writeln!(out, "\"flow.{flow}.strategy\" = \"{strategy}\"");
            if !is_udp {
                let _ = writeln!(out, "\"flow.{flow}.cc\" = \"{cc}\"");
            } else if self.get("traffic") == "requests" {
                // Nobody asks: what would be answered is sent.
                let _ = writeln!(out, "\"flow.{flow}.direction\" = \"down\"");
            }
        }
        out + "\n"
    }

    /// What a variant is called: `A: tack, bbr`.
    fn name(&self, name: &str, which: &str) -> String {
        match self.get(which) {
            "udp" => format!("{name}: udp"),
            strategy => format!("{name}: {strategy}, {}", self.get(&format!("{which}_cc"))),
        }
    }
}

//! The wired path: what `[wan]`, `[wan.down]` and `[wan.up]` may say.

use core::time::Duration;

use serde::{Deserialize, Serialize};
use tack_link::loss::LossConfig;
use tack_link::queue::{CodelConfig, Discipline, FqCodelConfig, Limit, QueueConfig, RedConfig};
use tack_link::trace::DeliveryTrace;
use tack_link::wired::{
    Capacity, Corruption, DelayStep, DirectionConfig, Jitter, Outages, RateStep, Reordering,
};
use tack_units::{Instant, Rate};

use super::error::{Problem, plain, within};
use super::keys::keys;

macro_rules! direction {
    ($($(#[$doc:meta])* $name:ident: $t:ty,)*) => {
        keys! {
            /// One direction. Keys left out fall back to `[wan]`, then to "none of it".
            #[derive(Clone, Debug, Default, PartialEq)]
            pub struct WanDirection {
                ;
                $($(#[$doc])* $name: $t,)*
            }
        }

        impl WanDirection {
            /// These keys, then those of `wan`.
            fn over(&self, wan: &Wan) -> WanDirection {
                WanDirection { $($name: self.$name.clone().or_else(|| wan.$name.clone()),)* }
            }
        }

        keys! {
            /// The path behind the AP, or the whole path where there is no Wi-Fi: every key of a
            /// direction as the default of both, and the directions' own.
            #[derive(Clone, Debug, Default, PartialEq)]
            pub struct Wan {
                ;
                $($(#[$doc])* $name: $t,)*
                /// Server to client; overrides key by key.
                down: WanDirection,
                /// Client to server; overrides key by key.
                up: WanDirection,
            }
        }
    };
}

direction! {
    /// Mbit/s of IP-level bytes; left out: no bottleneck.
    rate_mbps: f64,
    /// Rate over time as `[[seconds, Mbit/s], …]` instead of `rate_mbps`.
    rate_steps: Vec<(f64, f64)>,
    /// After so many seconds `rate_steps` begin anew; the first must be at 0.
    rate_steps_every_s: f64,
    /// A mahimahi packet-delivery trace, its text, instead of a rate.
    trace: String,
    /// One way, milliseconds.
    delay_ms: f64,
    /// One way from moments on, as another route has it: `[[seconds, milliseconds], …]`.
    delay_steps: Vec<(f64, f64)>,
    /// Queueing noise that wanders between 0 and this, milliseconds; order is kept.
    jitter_ms: f64,
    /// From one level of that noise to the next, milliseconds (100).
    jitter_time_ms: f64,
    /// Share of packets lost at random.
    loss: f64,
    /// Mean length of a burst of losses; left out or 1: independent losses.
    loss_burst: f64,
    /// Instead: every so manieth packet is lost, the first ten thousand times.
    loss_every: f64,
    /// Instead: exactly the packets with these numbers, from 0, ascending.
    loss_at: Vec<u64>,
    /// Share of packets with flipped bits.
    corruption: f64,
    /// Share of packets that arrive twice.
    duplication: f64,
    /// Share of packets held back.
    reordering: f64,
    /// How long those are held at most, milliseconds (10).
    reordering_ms: f64,
    /// Buffer in packets; if nothing says, a second of the rate, at least 20 and at most 1000, with
    /// `fq-codel` 10240.
    buffer_packets: u32,
    /// Buffer in bytes.
    buffer_bytes: u64,
    /// Buffer in bandwidth-delay products: rate times round trip without queues, in packets of
    /// `packet_bytes`.
    buffer_bdp: f64,
    /// IP-level size of the packets in which bandwidth-delay products are counted (1500).
    packet_bytes: u32,
    /// `drop-tail`, `red`, `codel` or `fq-codel`.
    queue: QueueKind,
    /// RED's thresholds in bandwidth-delay products; left out: a quarter and all of the buffer.
    red_bdp: (f64, f64),
    /// RED's probability at the upper threshold (0.1).
    red_max_p: f64,
    /// Weight of a new sample in RED's average (0.002).
    red_weight: f64,
    /// RED and CoDel mark ECN-capable packets instead of dropping them (on with `fq-codel`).
    ecn: bool,
    /// Thin TCP acknowledgments in the queue [RFC 3449 §5.2.1].
    ack_filter: bool,
    /// Windows `[[start_s, end_s], …]` in which everything is lost.
    outages: Vec<(f64, f64)>,
}

/// Queue discipline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueueKind {
    /// Drops what does not fit.
    DropTail,
    /// Random early detection, gentle, thresholds at `red_bdp`.
    Red,
    /// CoDel with the defaults of RFC 8289.
    Codel,
    /// A queue per flow under CoDel, with the defaults of RFC 8290.
    FqCodel,
}

/// How many times a packet is lost where every so manieth is.
const LOSSES_EVERY: u32 = 10_000;

/// Shortest period of a cycle of rates: a run of shorter ones would not end in anybody's time.
const LEAST_CYCLE_S: f64 = 1e-6;

/// Ethernet's.
const DEFAULT_PACKET_BYTES: u32 = 1_500;

fn ms(v: f64) -> Duration {
    Duration::from_secs_f64(v / 1e3)
}

fn at(s: f64) -> Instant {
    Instant::ZERO + Duration::from_secs_f64(s)
}

/// Whether the moments of steps rise, in the whole nanoseconds that links count in.
fn rising(steps: &[(f64, f64)]) -> bool {
    steps.windows(2).all(|w| at(w[0].0) < at(w[1].0))
}

impl Wan {
    /// Server to client, as meant.
    pub fn down(&self) -> WanDirection {
        self.down.clone().unwrap_or_default().over(self)
    }

    /// Client to server, as meant.
    pub fn up(&self) -> WanDirection {
        self.up.clone().unwrap_or_default().over(self)
    }

    /// Whether packets may arrive with other bytes than they left.
    pub(crate) fn damages(&self) -> bool {
        [self.up(), self.down()].iter().any(|way| way.corruption.unwrap_or(0.0) > 0.0)
    }

    /// There and back over this path, without queues.
    pub fn round_trip(&self) -> Duration {
        ms(self.down().delay_ms.unwrap_or(0.0)) + ms(self.up().delay_ms.unwrap_or(0.0))
    }

    pub(super) fn check(&self, alone: bool) -> Result<(), Problem> {
        for (name, direction, own) in
            [("down", self.down(), &self.down), ("up", self.up(), &self.up)]
        {
            let own_keys = own.clone().unwrap_or_default();
            direction.check().and(own_keys.say_something([&direction; 2])).map_err(|p| {
                let owned = own.as_ref().is_some_and(|d| d.has(&p.key));
                let key =
                    if owned { format!("wan.{name}.{}", p.key) } else { format!("wan.{}", p.key) };
                Problem::new(key, p.what)
            })?;
            if alone && direction.capacity().is_ok_and(|c| matches!(c, Capacity::Unlimited)) {
                let what = "is missing: without [wifi] something must limit the rate";
                return Err(Problem::new("wan.rate_mbps", what));
            }
        }
        // What both share is of use where it is to one of them.
        WanDirection::default()
            .over(self)
            .say_something([&self.down(), &self.up()])
            .map_err(|p| Problem::new(format!("wan.{}", p.key), p.what))
    }
}

impl WanDirection {
    fn has(&self, key: &str) -> bool {
        toml::Table::try_from(self).is_ok_and(|t| t.contains_key(key))
    }

    fn check(&self) -> Result<(), Problem> {
        within("rate_mbps", self.rate_mbps, 1e-3, 1e6)?;
        within("delay_ms", self.delay_ms, 0.0, 1e5)?;
        within("jitter_ms", self.jitter_ms, 0.0, 1e4)?;
        within("jitter_time_ms", self.jitter_time_ms, 1e-3, 1e6)?;
        within("buffer_bdp", self.buffer_bdp, 1e-3, 1e4)?;
        within("red_max_p", self.red_max_p, 0.0, 1.0)?;
        within("red_weight", self.red_weight, 1e-9, 1.0)?;
        for (key, v) in [
            ("loss", self.loss),
            ("corruption", self.corruption),
            ("duplication", self.duplication),
            ("reordering", self.reordering),
        ] {
            within(key, v, 0.0, 1.0)?;
        }
        within("loss_burst", self.loss_burst, 1.0, 1e6)?;
        within("loss_every", self.loss_every, 2.0, 1e9)?;
        let kinds = [self.loss.is_some(), self.loss_every.is_some(), self.loss_at.is_some()];
        if kinds.iter().filter(|k| **k).count() > 1 {
            let what = "is given twice: one of loss, loss_every, loss_at";
            return Err(Problem::new("loss", what));
        }
        if let Some(numbers) = &self.loss_at
            && !(numbers.is_sorted() && numbers.len() <= LOSSES_EVERY as usize)
        {
            let what = format!("must list at most {LOSSES_EVERY} numbers, ascending");
            return Err(Problem::new("loss_at", what));
        }
        within("reordering_ms", self.reordering_ms, 0.0, 1e4)?;
        if self.loss_burst.is_some_and(|b| b > 1.0) && self.loss == Some(1.0) {
            return Err(Problem::new("loss_burst", "needs a loss below 1"));
        }
        if self.buffer_packets == Some(0) || self.buffer_bytes == Some(0) {
            let key =
                if self.buffer_packets == Some(0) { "buffer_packets" } else { "buffer_bytes" };
            return Err(Problem::new(key, "must hold something"));
        }
        if let Some(steps) = &self.rate_steps {
            let each = |s: &(f64, f64)| (0.0..=1e6).contains(&s.0) && (0.0..=1e6).contains(&s.1);
            if steps.is_empty() || !steps.iter().all(each) || !rising(steps) {
                let what = "must be [[seconds, Mbit/s], …], seconds rising, all from 0 to 1000000";
                return Err(Problem::new("rate_steps", what));
            }
        }
        if let Some(steps) = &self.delay_steps {
            let each = |s: &(f64, f64)| (0.0..=1e6).contains(&s.0) && (0.0..=1e5).contains(&s.1);
            if !steps.iter().all(each) || !rising(steps) {
                let what = "must be [[seconds, milliseconds], …], seconds rising, up to 1000000 and 100000";
                return Err(Problem::new("delay_steps", what));
            }
        }
        self.check_cycle()?;
        if let Some(outages) = &self.outages {
            let each = |o: &(f64, f64)| o.0 >= 0.0 && o.0 < o.1 && o.1 <= 1e6;
            let lasts = |o: &(f64, f64)| at(o.0) < at(o.1);
            let apart = |w: &[(f64, f64)]| at(w[0].1) <= at(w[1].0);
            let sound = outages.iter().all(|o| each(o) && lasts(o));
            if !sound || !outages.windows(2).all(apart) {
                let what = "must be [[start_s, end_s], …], rising and apart";
                return Err(Problem::new("outages", what));
            }
        }
        let sources = [self.rate_mbps.is_some(), self.rate_steps.is_some(), self.trace.is_some()];
        if sources.iter().filter(|s| **s).count() > 1 {
            let what = "says the rate twice: one of rate_mbps, rate_steps, trace";
            return Err(Problem::new("rate_mbps", what));
        }
        self.check_queue()?;
        self.capacity().map(|_| ())
    }

    /// Keys that only say more of another one say nothing where none of `ways` has that one.
    fn say_something(&self, ways: [&WanDirection; 2]) -> Result<(), Problem> {
        let burst = self.loss_burst.filter(|mean| *mean > 1.0);
        let any = |has: fn(&WanDirection) -> Option<f64>| ways.iter().any(|way| has(way).is_some());
        for (key, given, of, has) in [
            ("loss_burst", burst, "loss", any(|way| way.loss)),
            ("jitter_time_ms", self.jitter_time_ms, "jitter_ms", any(|way| way.jitter_ms)),
            ("reordering_ms", self.reordering_ms, "reordering", any(|way| way.reordering)),
        ] {
            if given.is_some() && !has {
                return Err(Problem::new(key, format!("needs {of}, of which it says more")));
            }
        }
        Ok(())
    }

    fn check_cycle(&self) -> Result<(), Problem> {
        let Some(every) = self.rate_steps_every_s else { return Ok(()) };
        let bad = |what: String| Err(Problem::new("rate_steps_every_s", what));
        let Some(((first, _), (last, _))) =
            self.rate_steps.as_ref().and_then(|s| Some((*s.first()?, *s.last()?)))
        else {
            return bad("needs rate_steps, which it repeats".to_owned());
        };
        if first != 0.0 {
            return bad("needs rate_steps that begin at 0".to_owned());
        }
        if !(every > last && (LEAST_CYCLE_S..=1e6).contains(&every)) {
            let what = format!(
                "is {}, but must lie after the last step, {LEAST_CYCLE_S} to 1000000",
                plain(every)
            );
            return bad(what);
        }
        Ok(())
    }

    fn check_queue(&self) -> Result<(), Problem> {
        let buffers =
            [self.buffer_packets.is_some(), self.buffer_bytes.is_some(), self.buffer_bdp.is_some()];
        if buffers.iter().filter(|b| **b).count() > 1 {
            let what = "is given twice: one of buffer_packets, buffer_bytes, buffer_bdp";
            let key = if self.buffer_bdp.is_some() { "buffer_bdp" } else { "buffer_bytes" };
            return Err(Problem::new(key, what));
        }
        if self.ack_filter == Some(true) && self.queue == Some(QueueKind::FqCodel) {
            let what = "thins one queue: leave it out, or take another queue than \"fq-codel\"";
            return Err(Problem::new("ack_filter", what));
        }
        within("packet_bytes", self.packet_bytes.map(f64::from), 40.0, 65_535.0)?;
        for (key, given) in
            [("buffer_bdp", self.buffer_bdp.is_some()), ("red_bdp", self.red_bdp.is_some())]
        {
            if given && self.rate_mbps.is_none() {
                let what = "needs rate_mbps: without a rate there is no bandwidth-delay product";
                return Err(Problem::new(key, what));
            }
        }
        if let Some((min, max)) = self.red_bdp
            && !(0.0 <= min && min < max && max <= 1e3)
        {
            let what = "must be [least, greatest], rising, from 0 to 1000";
            return Err(Problem::new("red_bdp", what));
        }
        for (key, given) in [
            ("red_bdp", self.red_bdp.is_some()),
            ("red_max_p", self.red_max_p.is_some()),
            ("red_weight", self.red_weight.is_some()),
        ] {
            if given && self.queue != Some(QueueKind::Red) {
                return Err(Problem::new(key, "needs queue = \"red\""));
            }
        }
        Ok(())
    }

    fn capacity(&self) -> Result<Capacity, Problem> {
        let rate = |mbps: f64| Rate::from_bps((mbps * 1e6) as u64);
        if let Some(text) = &self.trace {
            let trace = DeliveryTrace::parse(text)
                .map_err(|e| Problem::new("trace", format!("cannot be read: {e}")))?;
            return Ok(Capacity::Trace(trace));
        }
        let steps = self
            .rate_steps
            .as_ref()
            .map(|steps| steps.iter().map(|s| RateStep { at: at(s.0), rate: rate(s.1) }).collect());
        Ok(match (steps, self.rate_mbps) {
            (Some(steps), _) => match self.rate_steps_every_s {
                Some(s) => Capacity::Cycle { steps, period: Duration::from_secs_f64(s) },
                None => Capacity::Steps(steps),
            },
            (None, Some(mbps)) => Capacity::Constant(rate(mbps)),
            (None, None) => Capacity::Unlimited,
        })
    }

    /// The mean rate from one moment to another, Mbit/s; `None` where nothing limits it, or a trace does.
    pub(crate) fn mean_mbps(&self, from_s: f64, to_s: f64) -> Option<f64> {
        let Some(steps) = &self.rate_steps else { return self.rate_mbps };
        // Megabits of one cycle until a moment of it: the first step holds before its time, too.
        let within = |until_s: f64| {
            let ends = steps.iter().skip(1).map(|step| step.0.min(until_s)).chain([until_s]);
            let add = |(sum, from): (f64, f64), ((_, mbps), end): (&(f64, f64), f64)| {
                (sum + mbps * (end - from), end)
            };
            steps.iter().zip(ends).fold((0.0, 0.0), add).0
        };
        let until = |s: f64| match self.rate_steps_every_s {
            Some(every) => (s / every).floor() * within(every) + within(s % every),
            None => within(s),
        };
        Some((until(to_s) - until(from_s)) / (to_s - from_s))
    }

    /// Rate times `base_rtt`, in packets; `None` without a constant rate.
    fn bdp_packets(&self, base_rtt: Duration) -> Option<f64> {
        let packet = f64::from(self.packet_bytes.unwrap_or(DEFAULT_PACKET_BYTES));
        Some(self.rate_mbps? * 1e6 / 8.0 * base_rtt.as_secs_f64() / packet)
    }

    fn limit(&self, base_rtt: Duration) -> Limit {
        if let Some((bdps, bdp)) = self.buffer_bdp.zip(self.bdp_packets(base_rtt)) {
            return Limit::Packets((bdps * bdp).round().clamp(1.0, 1e9) as u32);
        }
        match (self.buffer_bytes, self.buffer_packets) {
            (Some(bytes), _) => Limit::Bytes(bytes),
            (None, Some(packets)) => Limit::Packets(packets),
            (None, None) if self.queue == Some(QueueKind::FqCodel) => FqCodelConfig::LIMIT,
            (None, None) => Limit::Packets(self.usual_packets()),
        }
    }

    /// As many as leave within a second, at the greatest of several rates, or a trace's mean: interfaces have a thousand
    /// whatever their rate, which at 1 Mbit/s would be twelve seconds of delay that nobody asked for.
    fn usual_packets(&self) -> u32 {
        let packet = f64::from(self.packet_bytes.unwrap_or(DEFAULT_PACKET_BYTES));
        let rate = self.capacity().ok().and_then(|capacity| capacity.greatest_rate());
        let per_s = rate.map(|rate| rate.as_mbps_f64() * 1e6 / 8.0 / packet);
        per_s.map_or(1_000.0, |n| n.ceil().clamp(20.0, 1_000.0)) as u32
    }

    fn queue(&self, base_rtt: Duration) -> QueueConfig {
        let limit = self.limit(base_rtt);
        let ecn = self.ecn.unwrap_or(false);
        let discipline = match self.queue.unwrap_or(QueueKind::DropTail) {
            QueueKind::DropTail => Discipline::DropTail,
            QueueKind::Codel => Discipline::Codel(CodelConfig { ecn, ..CodelConfig::default() }),
            QueueKind::FqCodel => {
                let fq = FqCodelConfig::default();
                let codel = CodelConfig { ecn: self.ecn.unwrap_or(fq.codel.ecn), ..fq.codel };
                Discipline::FqCodel(FqCodelConfig { codel, ..fq })
            }
            QueueKind::Red => Discipline::Red(self.red(limit, base_rtt)),
        };
        QueueConfig { limit, discipline, ack_filter: self.ack_filter.unwrap_or(false) }
    }

    fn red(&self, limit: Limit, base_rtt: Duration) -> RedConfig {
        let packet_bytes = self.packet_bytes.unwrap_or(DEFAULT_PACKET_BYTES);
        let packets = match limit {
            Limit::Packets(p) => f64::from(p),
            Limit::Bytes(b) => b as f64 / f64::from(packet_bytes),
        };
        let thresholds = self.red_bdp.zip(self.bdp_packets(base_rtt));
        let (min_packets, max_packets) =
            thresholds.map_or((packets / 4.0, packets), |((lo, hi), bdp)| (lo * bdp, hi * bdp));
        let default = RedConfig::default();
        let rate = self.rate_mbps.map(|mbps| Rate::from_bps((mbps * 1e6) as u64));
        let packet_time = rate.and_then(|r| r.time_for(u64::from(packet_bytes)));
        RedConfig {
            min_packets,
            max_packets,
            max_p: self.red_max_p.unwrap_or(default.max_p),
            weight: self.red_weight.unwrap_or(default.weight),
            packet_time: packet_time.unwrap_or(default.packet_time),
            ecn: self.ecn.unwrap_or(false),
        }
    }

    /// What the link model takes. Checked before: it cannot fail for a scenario that was parsed.
    /// `base_rtt` is the round trip without queues that bandwidth-delay products count.
    pub fn config(&self, base_rtt: Duration) -> DirectionConfig {
        let loss = self.loss.unwrap_or(0.0);
        DirectionConfig {
            capacity: self.capacity().unwrap_or_default(),
            queue: self.queue(base_rtt),
            holds: Outages::Never,
            blackouts: match &self.outages {
                Some(windows) if !windows.is_empty() => {
                    Outages::At(windows.iter().map(|w| (at(w.0), at(w.1))).collect())
                }
                _ => Outages::Never,
            },
            loss: match (&self.loss_at, self.loss_every, self.loss_burst) {
                (Some(numbers), ..) => LossConfig::Listed(numbers.clone()),
                (_, Some(every), _) => {
                    let times = (1..=LOSSES_EVERY).map(|n| (f64::from(n) * every) as u64);
                    LossConfig::Listed(times.collect())
                }
                _ if loss == 0.0 => LossConfig::None,
                (.., Some(burst)) if burst > 1.0 => LossConfig::bursts(loss, burst),
                _ => LossConfig::Bernoulli(loss),
            },
            corruption: Corruption { probability: self.corruption.unwrap_or(0.0), max_flips: 1 },
            duplication: self.duplication.unwrap_or(0.0),
            delay: ms(self.delay_ms.unwrap_or(0.0)),
            delay_steps: self
                .delay_steps
                .iter()
                .flatten()
                .map(|s| DelayStep { at: at(s.0), delay: ms(s.1) })
                .collect(),
            jitter: match self.jitter_ms {
                Some(max) if max > 0.0 => Jitter::Wander {
                    max: ms(max),
                    period: ms(self.jitter_time_ms.unwrap_or(100.0)),
                },
                _ => Jitter::None,
            },
            reordering: Reordering {
                probability: self.reordering.unwrap_or(0.0),
                min: Duration::ZERO,
                max: ms(self.reordering_ms.unwrap_or(10.0)),
            },
        }
    }
}

//! Controller, pacer, and the one place where samples for them are made.

use core::time::Duration;

use tack::Acked;
use tack_cc::{
    AckSample, BurstFit, CongestionControl, Controller, LossKind, LossSample, Pacer, PacerConfig,
    RateSample, Snapshot,
};
use tack_units::{Instant, Rate};

/// What kept the sender from sending more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Nothing more was written.
    App,
    /// The peer's window.
    Rwnd,
    /// The congestion window, or the rule of the acknowledgment strategy.
    Cwnd,
    /// The pacer.
    Pacing,
}

/// How long a sender with data waited for what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitedTime {
    /// The application had nothing to send.
    pub app: Duration,
    /// The peer's window was full.
    pub rwnd: Duration,
    /// The congestion window was full, or the pacer held data.
    pub cwnd: Duration,
}

/// What loss recovery knows of the path once an acknowledgment was applied to it.
#[derive(Clone, Copy, Debug, Default)]
pub struct PathState {
    /// See [`AckSample::srtt`].
    pub srtt: Option<Duration>,
    /// See [`AckSample::rtt_min`].
    pub rtt_min: Option<Duration>,
    /// What the acknowledgment shows of the delivery rate.
    pub rate: Option<RateSample>,
    /// See [`AckSample::ack_interval`].
    pub ack_interval: Duration,
    /// See [`AckSample::in_recovery`].
    pub in_recovery: bool,
}

/// Congestion state of one connection.
#[derive(Debug)]
pub struct Congestion {
    control: CongestionControl,
    /// Bytes of a full-sized segment.
    mss: u32,
    pacer: Pacer,
    burst: BurstFit,
    delivery_rate: Option<Rate>,
    limit: Option<(Limit, Instant)>,
    limited: LimitedTime,
    /// The window, not the application, held the sender since the last acknowledgment.
    cwnd_limited: bool,
    /// The acknowledgment under way says that marks arrived.
    ece: bool,
    /// One segment may be in flight until something arrives.
    alone: bool,
}

impl Congestion {
    /// Of a fresh controller for packets of `mss` bytes.
    pub fn new(control: CongestionControl, mss: u32, now: Instant) -> Self {
        let pacer = PacerConfig::new(mss);
        Congestion {
            control,
            mss,
            pacer: Pacer::new(pacer, now),
            burst: BurstFit::new(pacer.burst_time),
            delivery_rate: None,
            limit: None,
            limited: LimitedTime::default(),
            cwnd_limited: false,
            ece: false,
            alone: false,
        }
    }

    /// The state a fallback to plain TCP goes on with: a fresh controller, whose samples have
    /// another source, with the accounts of the old one.
    pub fn handed_over(&self, fresh: Congestion) -> Congestion {
        Congestion {
            delivery_rate: self.delivery_rate,
            limit: self.limit,
            limited: self.limited,
            ..fresh
        }
    }

    /// Full-sized segments are of another length from now on, in bytes.
    pub fn set_mss(&mut self, mss: u32) {
        self.control.set_mss(mss);
        self.mss = mss;
    }

    /// The most that may be in flight, bytes.
    pub fn window(&self) -> u64 {
        let window = self.control.window();
        if self.alone { window.min(u64::from(self.mss)) } else { window }
    }

    /// What the controller believes.
    pub fn snapshot(&self) -> Snapshot {
        self.control.snapshot()
    }

    /// The last delivery rate that was measured.
    pub fn delivery_rate(&self) -> Option<Rate> {
        self.delivery_rate
    }

    /// Bytes the pacer lets go now; `None`: not before a whole burst, or all of `waiting`, can.
    pub fn budget(&mut self, waiting: u64, now: Instant) -> Option<u64> {
        let budget = self.pacer.budget(now);
        (budget >= self.pacer.burst().min(waiting)).then_some(budget)
    }

    /// When it lets the next burst go.
    pub fn next_departure(&mut self, now: Instant) -> Instant {
        self.pacer.next_departure(now)
    }

    /// See [`Controller::on_sent`].
    #[inline]
    pub fn on_sent(&mut self, bytes: u64, in_flight: u64, app_limited: bool, now: Instant) {
        self.control.on_sent(bytes, in_flight, app_limited, now);
        self.pacer.on_sent(bytes, now);
    }

    /// The acknowledgment to be applied next carries ECN-Echo.
    pub fn note_echo(&mut self) {
        self.ece = true;
    }

    /// An acknowledgment was applied, and `path` is what loss recovery knows now.
    pub fn on_acked(&mut self, acked: &Acked, path: &PathState, now: Instant) {
        if acked.spurious {
            self.on_loss(LossKind::Spurious, acked, now);
        }
        if acked.recovery_started {
            self.on_loss(LossKind::Recovery, acked, now);
        }
        self.delivery_rate = acked.rate.or(self.delivery_rate);
        let sample = AckSample {
            now,
            acked_bytes: acked.acked_bytes,
            lost_bytes: acked.lost_bytes,
            delivered: acked.delivered,
            prior_in_flight: acked.prior_in_flight,
            in_flight: acked.in_flight,
            rtt: acked.rtt,
            queued: acked.queued,
            srtt: path.srtt,
            rtt_min: path.rtt_min,
            rate: path.rate,
            newest_sent_at: acked.newest_sent_at,
            lost_sent_at: acked.lost_sent_at,
            ack_interval: path.ack_interval,
            cwnd_limited: self.cwnd_limited,
            in_recovery: path.in_recovery,
            ece: core::mem::take(&mut self.ece),
        };
        self.control.on_ack(&sample);
        if acked.acked_bytes > 0 {
            self.cwnd_limited = false;
            self.alone = false;
        }
        let rate = self.control.pacing_rate();
        self.pacer.set_min_burst(self.min_burst(sample.ack_interval), now);
        self.pacer.set_burst_time(self.burst.on_ack(&sample, rate), now);
        self.pacer.set_rate(rate, now);
    }

    /// Two segments, which a receiver waits for, or one where pairs overflow. Plain TCP, as Linux, sends pairs.
    fn min_burst(&self, ack_interval: Duration) -> u64 {
        let alone = self.burst.is_overfull() && !ack_interval.is_zero();
        u64::from(self.mss.max(1)) * if alone { 1 } else { 2 }
    }

    fn on_loss(&mut self, kind: LossKind, acked: &Acked, now: Instant) {
        let (lost_bytes, in_flight) = (acked.lost_bytes, acked.in_flight);
        self.control.on_loss(&LossSample { now, kind, lost_bytes, in_flight });
        self.pacer.set_rate(self.control.pacing_rate(), now);
    }

    /// The retransmission timer expired with `lost_bytes` outstanding.
    pub fn on_timeout(&mut self, lost_bytes: u64, in_flight: u64, now: Instant) {
        let kind = LossKind::Timeout;
        self.control.on_loss(&LossSample { now, kind, lost_bytes, in_flight });
        self.pacer.set_rate(self.control.pacing_rate(), now);
    }

    /// What leaves next leaves alone, whatever the controller's window is: until something arrives.
    pub fn send_alone(&mut self) {
        self.alone = true;
    }

    /// The peer echoed a congestion mark.
    pub fn on_mark(&mut self, in_flight: u64, now: Instant) {
        let kind = LossKind::CongestionExperienced;
        self.control.on_loss(&LossSample { now, kind, lost_bytes: 0, in_flight });
        self.pacer.set_rate(self.control.pacing_rate(), now);
    }

    /// Why the sender stopped; `None`: everything is acknowledged and nothing waits.
    pub fn note_limit(&mut self, limit: Option<Limit>, in_flight: u64, now: Instant) {
        self.cwnd_limited |= match limit {
            Some(Limit::Cwnd) => true,
            // A window that is paced out is used, unless most of it never is.
            Some(Limit::Pacing) => in_flight.saturating_mul(2) > self.control.window(),
            Some(Limit::App | Limit::Rwnd) | None => false,
        };
        if limit != Some(Limit::Pacing) {
            self.pacer.stop_waiting();
        }
        if self.limit.map(|(l, _)| l) == limit {
            return;
        }
        self.settle(now);
        self.limit = limit.map(|l| (l, now));
    }

    fn settle(&mut self, now: Instant) {
        let Some((limit, since)) = self.limit else { return };
        *time_of(&mut self.limited, limit) += now.saturating_since(since);
        self.limit = Some((limit, now));
    }

    /// Times up to the last change.
    pub fn limited(&self) -> LimitedTime {
        self.limited
    }
}

fn time_of(limited: &mut LimitedTime, limit: Limit) -> &mut Duration {
    match limit {
        Limit::App => &mut limited.app,
        Limit::Rwnd => &mut limited.rwnd,
        Limit::Cwnd | Limit::Pacing => &mut limited.cwnd,
    }
}

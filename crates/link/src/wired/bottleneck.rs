//! Serves the queue, one packet after the other, at exact times.
//!
//! A rate serves a packet in `8 bytes / rate`. The finish is rounded up to the nanosecond, and
//! what the link could have sent in the rounded-up part is credited to the next packet of the same
//! busy period, so a long run is exact to the packet.

use tack_units::Instant;

use super::capacity::{Capacity, RateClock};
use super::outage::OutageClock;
use crate::link::Packet;
use crate::queue::Queue;
use crate::trace::{self, Cursor, DeliveryTrace};

/// The server behind a queue.
#[derive(Debug)]
pub(super) enum Bottleneck {
    Rate(RateServer),
    Trace(TraceServer),
}

impl Bottleneck {
    pub(super) fn new(capacity: Capacity, holds: OutageClock) -> Self {
        match capacity {
            Capacity::Trace(trace) => Bottleneck::Trace(TraceServer::new(trace, holds)),
            capacity => Bottleneck::Rate(RateServer::new(RateClock::new(capacity, holds))),
        }
    }

    /// A packet was queued at `now`, and every departure up to `now` has been taken.
    pub(super) fn wake(&mut self, queue: &mut Queue, now: Instant) {
        match self {
            Bottleneck::Rate(server) => server.wake(queue, now),
            Bottleneck::Trace(server) => server.wake(now),
        }
    }

    /// The next departure not after `now`, and its exact time.
    pub(super) fn depart(&mut self, queue: &mut Queue, now: Instant) -> Option<(Packet, Instant)> {
        match self {
            Bottleneck::Rate(server) => server.depart(queue, now),
            Bottleneck::Trace(server) => server.depart(queue, now),
        }
    }

    /// When to ask again.
    pub(super) fn deadline(&self, queue: &Queue) -> Option<Instant> {
        match self {
            Bottleneck::Rate(server) => server.in_service.as_ref().and_then(|s| s.finish),
            Bottleneck::Trace(server) => server.deadline(queue),
        }
    }

    /// Whether a packet is in service, taken from the queue but not departed.
    pub(super) fn is_busy(&self) -> bool {
        match self {
            Bottleneck::Rate(server) => server.in_service.is_some(),
            Bottleneck::Trace(server) => server.in_service.is_some(),
        }
    }
}

#[derive(Debug)]
struct InService {
    packet: Packet,
    /// `None`: the rate is zero from here on.
    finish: Option<Instant>,
}

/// Work is counted in bits times 10^9, so that `rate * nanoseconds` is work without rounding.
const WORK_PER_BYTE: u128 = 8_000_000_000;

#[derive(Debug)]
pub(super) struct RateServer {
    clock: RateClock,
    in_service: Option<InService>,
    /// Work already done for the next packet of this busy period: less than a nanosecond's worth.
    credit: u128,
}

impl RateServer {
    fn new(clock: RateClock) -> Self {
        RateServer { clock, in_service: None, credit: 0 }
    }

    fn wake(&mut self, queue: &mut Queue, now: Instant) {
        if self.in_service.is_none() {
            self.credit = 0;
            self.begin(queue, now);
        }
    }

    fn depart(&mut self, queue: &mut Queue, now: Instant) -> Option<(Packet, Instant)> {
        let finish = self.in_service.as_ref()?.finish.filter(|finish| *finish <= now)?;
        let done = self.in_service.take().expect("checked above");
        self.begin(queue, finish);
        Some((done.packet, finish))
    }

    fn begin(&mut self, queue: &mut Queue, start: Instant) {
        if let Some(packet) = queue.pop(start) {
            let finish = self.finish(packet.ip_bytes, start);
            self.in_service = Some(InService { packet, finish });
        }
    }

    fn finish(&mut self, ip_bytes: u32, start: Instant) -> Option<Instant> {
        let mut work = u128::from(ip_bytes) * WORK_PER_BYTE;
        work -= self.credit.min(work);
        self.credit = 0;
        let mut t = start;
        loop {
            let (rate, until) = self.clock.at(t);
            let Some(rate) = rate else { return Some(t) };
            let rate = u128::from(rate.as_bps());
            let left_ns = until.map_or(u64::MAX - t.as_nanos(), |u| u.as_nanos() - t.as_nanos());
            let possible = rate * u128::from(left_ns);
            if work <= possible {
                // Zero work takes no time, at rate zero as well.
                let ns = if work == 0 { 0 } else { div_ceil(work, rate) };
                self.credit = rate * ns - work;
                return Some(Instant::from_nanos(t.as_nanos() + ns as u64));
            }
            work -= possible;
            t = until?;
        }
    }
}

/// Rounded up. Dividing 128 bits is slow, and hardly ever needed.
fn div_ceil(work: u128, rate: u128) -> u128 {
    match (u64::try_from(work), u64::try_from(rate)) {
        (Ok(work), Ok(rate)) => work.div_ceil(rate).into(),
        _ => work.div_ceil(rate),
    }
}

/// Serves at a trace's opportunities, as Mahimahi does: each moves up to
/// [`trace::OPPORTUNITY_BYTES`], across packet borders, and what nobody waits for is lost.
#[derive(Debug)]
pub(super) struct TraceServer {
    trace: DeliveryTrace,
    cursor: Cursor,
    holds: OutageClock,
    /// A packet and how much of it is still to be moved, framing included.
    in_service: Option<(Packet, u32)>,
    /// The opportunity in use: its time and the bytes it has left.
    open: Option<(Instant, u32)>,
}

impl TraceServer {
    fn new(trace: DeliveryTrace, holds: OutageClock) -> Self {
        TraceServer { trace, cursor: Cursor::default(), holds, in_service: None, open: None }
    }

    fn wake(&mut self, now: Instant) {
        if self.in_service.is_none() {
            // Opportunities up to now found nothing to serve, unless the queue was busy, and then
            // none of them is left.
            self.cursor.skip_until(&self.trace, Instant::from_nanos(now.as_nanos() + 1));
        }
    }

    fn depart(&mut self, queue: &mut Queue, now: Instant) -> Option<(Packet, Instant)> {
        loop {
            let (at, left) = match self.open.take() {
                Some(open) => open,
                None => (self.next_opportunity(queue, now)?, trace::OPPORTUNITY_BYTES),
            };
            let (packet, missing) = match self.in_service.take() {
                Some(in_service) => in_service,
                None => match queue.pop(at) {
                    Some(packet) => {
                        let bytes = packet.ip_bytes.saturating_add(trace::FRAMING_BYTES);
                        (packet, bytes)
                    }
                    // The rest of this opportunity is lost.
                    None => continue,
                },
            };
            let moved = left.min(missing);
            if left > moved {
                self.open = Some((at, left - moved));
            }
            if missing == moved {
                return Some((packet, at));
            }
            self.in_service = Some((packet, missing - moved));
        }
    }

    /// Takes the next opportunity if something waits for it and it is not after `now`.
    fn next_opportunity(&mut self, queue: &Queue, now: Instant) -> Option<Instant> {
        loop {
            let at = self.deadline(queue).filter(|at| *at <= now)?;
            match self.holds.covering(at) {
                Some(end) => self.cursor.skip_until(&self.trace, end),
                None => {
                    self.cursor.step(&self.trace);
                    return Some(at);
                }
            }
        }
    }

    fn deadline(&self, queue: &Queue) -> Option<Instant> {
        let waiting = self.in_service.is_some() || queue.len() > 0;
        waiting.then(|| self.cursor.at(&self.trace))
    }
}

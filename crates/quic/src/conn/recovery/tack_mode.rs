//! Loss recovery of 1-RTT packets by TACK (`docs/quic-tack.md`). Packet `n` is PKT.SEQ `n + 1`.

use core::time::Duration;

use tack::{Acked, Frequency, Params, RbbPolicy, Timeout};
use tack_cc::Snapshot;
use tack_units::{Instant, Rate};

use super::{Became, Expired, Fate, Heard, Recovery};
use crate::conn::space::SpaceId;
use crate::error::Violation;
use crate::seen::LossReason;

impl Recovery {
    /// Both ends speak TACK: it governs 1-RTT packets, of which none has left yet, and takes over the 0-RTT
    /// packets before them.
    pub(crate) fn begin_tack(&mut self, params: Params, now: Instant) {
        let params = Params { rbb: RbbPolicy::Every, ..params };
        let log = &self.logs[SpaceId::Data as usize];
        let mut at = log.packets.first().and_then(|first| log.packets.get(first)).map(|it| it.at);
        let mut sender = tack::Sender::of_packets(params, 1, at.unwrap_or(now));
        for number in 0..log.next {
            match log.packets.get(number) {
                Some(logged) if logged.sent.eliciting => {
                    at = Some(logged.at);
                    sender.on_packet(logged.sent.bytes, logged.at);
                }
                // It was given up, as by a Retry.
                _ => drop(sender.on_uncounted(at.unwrap_or(now))),
            }
        }
        self.tack = Some(Box::new(sender));
    }

    pub(crate) fn is_tack(&self) -> bool {
        self.tack.is_some()
    }

    pub(super) fn on_tack_ack(
        &mut self,
        heard: &Heard<'_>,
        now: Instant,
    ) -> Result<Acked, Violation> {
        let is_former = match heard.report {
            Some(report) => self.is_of_former_path(report, now),
            None => self.former.has(SpaceId::Data, heard.ack.largest()),
        };
        let before = self.former_in_flight();
        let Some(tack) = &mut self.tack else { return Ok(Acked::default()) };
        let oldest = tack.settled_below();
        let acked = match (heard.report, heard.loss) {
            (Some(report), _) => {
                let mut told = report.tack(heard.ack, oldest);
                if is_former {
                    (told.timing, told.delivery_rate) = (None, None);
                }
                tack.on_tack(&told, now.as_micros() as u32, now)
            }
            (None, Some(loss)) => tack.on_iack(&loss.iack(heard.ack, oldest), now),
            (None, None) => {
                let ranges = heard.ack.ranges.iter().rev();
                let ranges = ranges.map(|range| range.start + 1..range.end + 1);
                // What was waited all the time makes no sample.
                let delay = if is_former { Duration::MAX } else { heard.delay };
                tack.on_ranges(ranges, delay, now)
            }
        };
        self.read_fates()?;
        let prior_in_flight = acked.prior_in_flight.saturating_sub(before);
        let in_flight = acked.in_flight.saturating_sub(self.former_in_flight());
        Ok(Acked { prior_in_flight, in_flight, ..acked })
    }

    /// Hands on what the mechanism says of packets.
    fn read_fates(&mut self) -> Result<(), Violation> {
        let Some(tack) = &mut self.tack else { return Ok(()) };
        let log = &mut self.logs[SpaceId::Data as usize];
        while let Some(fate) = tack.poll_fate() {
            let (became, sent) = match fate {
                tack::Fate::Arrived(pkt_seq) => {
                    let logged = log.remove(pkt_seq - 1);
                    let marked = logged.as_ref().is_some_and(|logged| logged.sent.marked);
                    self.marked += u64::from(marked && pkt_seq > self.marked_from);
                    let became = Became::Arrived(pkt_seq - 1);
                    (became, logged.map(|logged| (logged.sent.bytes, logged.sent.carried)))
                }
                // It may be late only, and then what it carried has arrived.
                tack::Fate::Lost(pkt_seq) => {
                    self.lost_packets += 1;
                    (Became::Lost(pkt_seq - 1, LossReason::Told), log.note_lost(pkt_seq - 1))
                }
                tack::Fate::Forged(_) => {
                    let reason = "a packet is acknowledged that was never sent";
                    return Err(Violation::of_protocol(reason));
                }
            };
            let (bytes, carried) = sent.unwrap_or_default();
            self.fates.push_back(Fate { space: SpaceId::Data, became, bytes, carried });
        }
        let forgotten = tack.forgotten_below().saturating_sub(1);
        while let Some(number) = log.packets.first().filter(|number| *number < forgotten) {
            log.remove(number);
        }
        Ok(())
    }

    pub(super) fn on_tack_timeout(&mut self, now: Instant) -> Option<Expired> {
        let tack = self.tack.as_mut().filter(|_| self.confirmed)?;
        let before = tack.in_flight();
        let timeout = tack.on_timeout(now)?;
        self.probes += 1;
        self.read_fates().expect("a timeout acknowledges nothing, so nothing that was skipped");
        Some(match timeout {
            Timeout::Probe => Expired::Probe(SpaceId::Data),
            Timeout::Rto => Expired::Rto { lost_bytes: before },
        })
    }

    /// The frequency to tell the peer now, if any. `estimate`: what congestion control makes of the path.
    pub(crate) fn poll_frequency(
        &mut self,
        estimate: &Snapshot,
        now: Instant,
    ) -> Option<Frequency> {
        let tack = self.tack.as_mut()?;
        // Before the first rate sample, which the receiver makes only once it knows a frequency.
        let guess = || Rate::from_bytes_over(estimate.cwnd, tack.srtt()?);
        let bw = estimate.bandwidth.or_else(guess)?;
        tack.poll_frequency(bw, estimate.startup, now)
    }
}

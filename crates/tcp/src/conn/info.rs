//! What a connection tells about itself.

use crate::ack::PathFacts;
use crate::conn::Connection;
use crate::conn::recovery_mode::Recovery;
use crate::stats::Info;

impl Connection {
    /// See [`Info`].
    pub(crate) fn info(&self) -> Info {
        let snapshot = self.congestion.snapshot();
        let rtt_min = self.recovery.rtt_min();
        let (rho, rho_prime) = match &self.recovery {
            Recovery::Plain(_) => (0.0, 0.0),
            Recovery::Tack(side) => (side.rho, side.sender.rho_prime()),
        };
        let mss = self.payload_mss();
        let window = self.congestion.window().min(self.snd.wnd());
        let tack = self.config.ack.tack().and(Some(self.config.ack));
        let eq4 = tack
            .zip(snapshot.bandwidth)
            .zip(rtt_min)
            .map(|((ack, bw), rtt_min)| ack.frequency(&PathFacts { bw, rtt_min, window, mss }));
        Info {
            state: self.state.get(),
            mode: self.mode,
            ack: self.strategy(),
            mss,
            path_mtu: self.mtu.mtu(),
            path_error: self.path.last(),
            srtt: self.recovery.srtt(),
            rttvar: self.recovery.rttvar(),
            rtt_min,
            rto: self.recovery.rto(),
            cwnd: self.congestion.window(),
            pacing_rate: snapshot.pacing_rate,
            delivery_rate: self.congestion.delivery_rate(),
            bandwidth: snapshot.bandwidth,
            in_flight: self.recovery.in_flight(),
            snd_wnd: self.snd.wnd(),
            send_buffered: self.snd.buffer.len(),
            recv_buffered: self.rcv.buffer.len(),
            recv_blocked: self.rcv.buffer.queued().covered(),
            buffer_memory: self.snd.buffer.memory() + self.rcv.buffer.memory(),
            counters: self.counters,
            limited: self.congestion.limited(),
            eq4_frequency: eq4,
            rho,
            rho_prime,
            owd: self.owd.clone(),
        }
    }
}

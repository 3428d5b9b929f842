//! What the sending half tells about a connection.

use crate::config::ConnConfig;
use crate::conn::send_half::SendHalf;
use crate::state::State;
use crate::stats::{Counters, Glance, Info, OwdHistogram};
use crate::wire::icmp::PathError;
use tack_strategies::PathFacts;

/// What of [`Info`] the rest of a connection tells.
#[derive(Debug)]
pub(crate) struct RestOfInfo {
    pub(crate) state: State,
    pub(crate) path_error: Option<PathError>,
    pub(crate) recv_buffered: usize,
    pub(crate) recv_blocked: u64,
    /// Bytes of memory that the receive buffer holds.
    pub(crate) recv_memory: usize,
    pub(crate) counters: Counters,
    pub(crate) owd: OwdHistogram,
}

impl SendHalf {
    /// See [`Info`].
    pub(crate) fn info(&self, config: &ConnConfig, rest: RestOfInfo) -> Info {
        let snapshot = self.congestion.snapshot();
        let rtt_min = self.recovery.rtt_min();
        let (rho, rho_prime) = self.recovery.loss_rates();
        let mss = self.payload_mss();
        let window = self.congestion.window().min(self.snd.wnd());
        let tack = config.ack.tack().and(Some(config.ack));
        let eq4 = tack
            .zip(snapshot.bandwidth)
            .zip(rtt_min)
            .map(|((ack, bw), rtt_min)| ack.frequency(&PathFacts { bw, rtt_min, window, mss }));
        Info {
            state: rest.state,
            mode: self.recovery.mode(),
            ack: self.strategy(config),
            mss,
            path_mtu: self.mtu.mtu(),
            path_error: rest.path_error,
            srtt: self.recovery.srtt(),
            rttvar: self.recovery.rttvar(),
            rtt_min,
            rto: self.recovery.rto(),
            cwnd: self.congestion.window(),
            ssthresh: snapshot.ssthresh,
            congestion_state: snapshot.state,
            pacing_rate: snapshot.pacing_rate,
            delivery_rate: self.congestion.delivery_rate(),
            bandwidth: snapshot.bandwidth,
            in_flight: self.recovery.in_flight(),
            snd_wnd: self.snd.wnd(),
            send_buffered: self.buffered(),
            recv_buffered: rest.recv_buffered,
            recv_blocked: rest.recv_blocked,
            buffer_memory: self.memory() + rest.recv_memory,
            counters: rest.counters,
            limited: self.congestion.limited(),
            eq4_frequency: eq4,
            rho,
            rho_prime,
            owd: rest.owd,
        }
    }

    /// See [`Glance`]; of what was received, so much is blocked.
    pub(crate) fn glance(&self, recv_blocked: u64) -> Glance {
        Glance {
            cwnd: self.congestion.window(),
            pacing_rate: self.congestion.snapshot().pacing_rate,
            in_flight: self.recovery.in_flight(),
            srtt: self.recovery.srtt(),
            rtt_min: self.recovery.rtt_min(),
            recv_blocked,
        }
    }
}

//! A listening port: whom it accepts and how many wait.

use std::collections::VecDeque;

use crate::config::ListenConfig;
use crate::host::ConnId;

/// What a connection may always be sent before it is accepted: a request, or a TLS hello.
pub(crate) const LEAST_WINDOW: usize = 8 << 10;

/// State of one listening port.
#[derive(Debug)]
pub(crate) struct Listener {
    config: ListenConfig,
    /// Established, not yet accepted.
    ready: VecDeque<ConnId>,
    /// Connections in SYN-RECEIVED.
    half_open: usize,
}

impl Listener {
    pub(crate) fn new(config: ListenConfig) -> Self {
        Listener { config, ready: VecDeque::new(), half_open: 0 }
    }

    pub(crate) fn config(&self) -> &ListenConfig {
        &self.config
    }

    /// Another handshake may hold state.
    pub(crate) fn has_room_for_handshake(&self) -> bool {
        self.half_open < self.config.syn_backlog
    }

    /// Another connection may be established.
    pub(crate) fn has_room_for_connection(&self) -> bool {
        self.ready.len() < self.config.backlog
    }

    /// What the next connection may be sent before it is accepted, in bytes: see
    /// [`ListenConfig::unaccepted_bytes`].
    pub(crate) fn window(&self) -> usize {
        let initial = self.config.conn.initial_recv_buffer;
        let unaccepted = self.half_open + self.ready.len() + 1;
        if unaccepted.saturating_mul(initial) <= self.config.unaccepted_bytes {
            initial
        } else {
            initial.min(LEAST_WINDOW)
        }
    }

    pub(crate) fn on_handshake_started(&mut self) {
        self.half_open += 1;
    }

    pub(crate) fn on_handshake_ended(&mut self) {
        debug_assert!(self.half_open > 0, "a handshake ends once");
        self.half_open = self.half_open.saturating_sub(1);
    }

    pub(crate) fn push(&mut self, id: ConnId) {
        self.ready.push_back(id);
    }

    pub(crate) fn pop(&mut self) -> Option<ConnId> {
        self.ready.pop_front()
    }

    /// A waiting connection ended before it was accepted.
    pub(crate) fn forget(&mut self, id: ConnId) {
        self.ready.retain(|&waiting| waiting != id);
    }

    pub(crate) fn into_waiting(self) -> VecDeque<ConnId> {
        self.ready
    }
}

//! Who waits for what.

use std::collections::BTreeMap;
use std::task::{Context, Waker};

use tack_tcp::{ConnId, Event, EventKind};

/// Tasks that wait for one connection: at most one per direction, as `AsyncRead` and `AsyncWrite`
/// have it, and one for its beginning or end.
#[derive(Debug, Default)]
pub(crate) struct ConnWaiters {
    pub(crate) read: Option<Waker>,
    pub(crate) write: Option<Waker>,
    /// Waits for the handshake, or for everything to be over.
    pub(crate) state: Option<Waker>,
    /// The handshake succeeded.
    pub(crate) connected: bool,
}

/// All tasks that wait for something of one endpoint.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    conns: BTreeMap<ConnId, ConnWaiters>,
    /// Listening ports and who waits for a connection there.
    listeners: BTreeMap<u16, Option<Waker>>,
    idle: Vec<Waker>,
}

/// Keeps `cx`'s waker in `slot`.
pub(crate) fn park(slot: &mut Option<Waker>, cx: &Context<'_>) {
    match slot {
        Some(waker) if waker.will_wake(cx.waker()) => {}
        _ => *slot = Some(cx.waker().clone()),
    }
}

fn wake(slot: &mut Option<Waker>) {
    if let Some(waker) = slot.take() {
        waker.wake();
    }
}

impl Waiters {
    pub(crate) fn add_conn(&mut self, id: ConnId) {
        self.conns.insert(id, ConnWaiters::default());
    }

    pub(crate) fn remove_conn(&mut self, id: ConnId) {
        self.conns.remove(&id);
    }

    /// The waiters of a connection that has a handle.
    pub(crate) fn conn(&mut self, id: ConnId) -> &mut ConnWaiters {
        self.conns.entry(id).or_default()
    }

    pub(crate) fn add_listener(&mut self, port: u16) {
        self.listeners.insert(port, None);
    }

    pub(crate) fn remove_listener(&mut self, port: u16) {
        self.listeners.remove(&port);
    }

    pub(crate) fn listener(&mut self, port: u16) -> &mut Option<Waker> {
        self.listeners.entry(port).or_default()
    }

    /// Adds a task that waits until nothing is left to do.
    pub(crate) fn await_idle(&mut self, cx: &Context<'_>) {
        if !self.idle.iter().any(|w| w.will_wake(cx.waker())) {
            self.idle.push(cx.waker().clone());
        }
    }

    pub(crate) fn somebody_awaits_idle(&self) -> bool {
        !self.idle.is_empty()
    }

    pub(crate) fn wake_idle(&mut self) {
        self.idle.drain(..).for_each(Waker::wake);
    }

    /// Wakes whom `event` concerns.
    pub(crate) fn on_event(&mut self, event: &Event) {
        if let EventKind::Accepted { listener } = event.kind {
            if let Some(slot) = self.listeners.get_mut(&listener) {
                wake(slot);
            }
            return;
        }
        let Some(conn) = self.conns.get_mut(&event.conn) else { return };
        match event.kind {
            EventKind::Connected => {
                conn.connected = true;
                wake(&mut conn.state);
            }
            EventKind::Readable | EventKind::PeerClosed => wake(&mut conn.read),
            EventKind::Writable => wake(&mut conn.write),
            EventKind::Closed(_) => conn.wake_all(),
            EventKind::Accepted { .. } => {}
        }
    }

    /// The endpoint is over.
    pub(crate) fn wake_everyone(&mut self) {
        self.conns.values_mut().for_each(ConnWaiters::wake_all);
        self.listeners.values_mut().for_each(wake);
        self.wake_idle();
    }
}

impl ConnWaiters {
    fn wake_all(&mut self) {
        wake(&mut self.read);
        wake(&mut self.write);
        wake(&mut self.state);
    }
}

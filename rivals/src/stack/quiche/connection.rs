//! A connection: quiche's state, whom a change of it wakes, and what has it go on.

use std::future::pending;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use anyhow::{Result, anyhow};
use bytes::Bytes;
use quiche::{BufFactory, RecvInfo};
use tokio::sync::Notify;
use tokio::time::sleep_until;

use super::endpoint::{Endpoint, MAX_DATAGRAM_BYTES};

/// QUIC's `INTERNAL_ERROR` [RFC 9000 §20.1].
const INTERNAL_ERROR: u64 = 1;

/// Has quiche hold what is written without copying it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shared;

impl BufFactory for Shared {
    type Buf = Bytes;
    type DgramBuf = Vec<u8>;

    fn buf_from_slice(bytes: &[u8]) -> Bytes {
        Bytes::copy_from_slice(bytes)
    }

    fn dgram_buf_from_slice(bytes: &[u8]) -> Vec<u8> {
        bytes.to_vec()
    }
}

pub(crate) type State = quiche::Connection<Shared>;

pub(crate) struct Connection {
    state: Mutex<State>,
    /// Who reads or writes may find it changed.
    changed: Notify,
    /// It may have something to send.
    due: Notify,
}

/// What it asks of who drives it.
pub(super) enum Output {
    Send(Burst),
    /// Until then pacing holds back what could leave; `None`: nothing could.
    Wait(Option<Instant>),
}

/// Datagrams one behind the other in a buffer.
pub(super) struct Burst {
    pub(super) to: SocketAddr,
    /// All of them of `segment_bytes` each, of which the last may have fewer.
    pub(super) even_bytes: usize,
    pub(super) segment_bytes: usize,
    /// Of one behind them that is longer, as probes of the path are.
    pub(super) odd_bytes: usize,
}

impl Connection {
    pub(super) fn new(state: State) -> Connection {
        Connection { state: Mutex::new(state), changed: Notify::new(), due: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics who holds it")
    }

    /// A datagram arrived. What cannot be read is dropped.
    pub(super) fn take(&self, datagram: &mut [u8], info: RecvInfo) {
        let _ = self.state().recv(datagram, info);
        self.changed.notify_one();
        self.due.notify_one();
    }

    /// Changes it in a way that may have something sent.
    pub(super) fn tell<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let told = change(&mut self.state());
        self.due.notify_one();
        told
    }

    /// Waits until `look` finds something. Of one task at a time; cancel safe.
    pub(super) async fn until<T>(
        &self,
        mut look: impl FnMut(&mut State) -> Result<Option<T>>,
    ) -> Result<T> {
        loop {
            {
                let mut state = self.state();
                if let Some(found) = look(&mut state)? {
                    self.due.notify_one();
                    return Ok(found);
                }
                if state.is_closed() || state.is_draining() {
                    let (theirs, ours) = (state.peer_error(), state.local_error());
                    return Err(anyhow!("the connection ended: {theirs:?} {ours:?}"));
                }
            }
            self.changed.notified().await;
        }
    }

    /// Sends what may leave and keeps the time until it is closed.
    pub(super) async fn drive(&self, endpoint: &Endpoint) {
        loop {
            let held_until = endpoint.flush(self).await;
            let timeout = {
                let state = self.state();
                if state.is_closed() {
                    break;
                }
                state.timeout_instant()
            };
            let next = [held_until, timeout].into_iter().flatten().min();
            let timer = async {
                match next {
                    Some(next) => sleep_until(next.into()).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                () = self.due.notified() => {}
                () = timer => self.state().on_timeout(),
            }
        }
        self.changed.notify_one();
    }

    /// Writes to `out` what may leave at once, `most` datagrams at most.
    pub(super) fn output(&self, out: &mut [u8], most: usize, now: Instant) -> Output {
        let mut state = self.state();
        // Without a queue that releases packets at their times, as early as quiche says that they may be queued
        // in one: timers of a millisecond would hold up whoever sends each at its own.
        let early = state.max_release_into_future();
        let mut burst: Option<Burst> = None;
        for _ in 0..most {
            let release = state.get_next_release_time().and_then(|release| release.time(now));
            if let Some(at) = release.filter(|at| *at > now + early) {
                return burst.map_or(Output::Wait(Some(at - early)), Output::Send);
            }
            let used = burst.as_ref().map_or(0, |burst| burst.even_bytes);
            let Some(room) = out.get_mut(used..used + MAX_DATAGRAM_BYTES) else { break };
            match (state.send(room), &mut burst) {
                (Ok((n, info)), None) => {
                    let to = info.to;
                    burst = Some(Burst { to, even_bytes: n, segment_bytes: n, odd_bytes: 0 });
                }
                (Ok((n, _)), Some(burst)) if n > burst.segment_bytes => {
                    burst.odd_bytes = n;
                    break;
                }
                (Ok((n, _)), Some(burst)) => {
                    burst.even_bytes += n;
                    if n < burst.segment_bytes {
                        break;
                    }
                }
                (Err(quiche::Error::Done), _) => break,
                // It may know why already. What is next to leave says that it is closed.
                (Err(_), _) => drop(state.close(false, INTERNAL_ERROR, b"")),
            }
        }
        burst.map_or(Output::Wait(None), Output::Send)
    }
}

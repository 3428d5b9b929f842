//! One connection: its streams, its datagrams, its end.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tack_quic::streams::{Dir, StreamId};
use tack_quic::{ConnId, ConnectionError, Early, Info, UseError};

use super::error::{closed, ended, refused};
use super::machine::{Key, What};
use super::{RecvStream, SendStream, Version};
use crate::handle::{Handle, wait};
use crate::shared::State;
use crate::tls::Fingerprint;

type Quic = tack_quic::Endpoint;

/// One connection. Clones are the same connection; with the last of them and of its streams it is
/// closed, with code 0.
///
/// What was written to a stream and is not acknowledged when the connection is closed may be lost:
/// [`SendStream::finished`] waits for it.
#[derive(Clone, Debug)]
pub struct Connection {
    place: Arc<Place>,
}

impl Connection {
    pub(super) fn new(handle: Handle<Quic>, id: ConnId) -> Connection {
        Connection { place: Arc::new(Place { handle, id }) }
    }

    /// Waits until the handshake is done.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    /// How the connection ended.
    pub async fn established(&self) -> Result<(), ConnectionError> {
        let place = &self.place;
        place
            .wait(What::State, |state| {
                if let Some(error) = closed(state, place.id) {
                    return Some(Err(error));
                }
                let under_way = state.host.peek(place.id).is_some_and(|c| c.is_handshaking());
                (!under_way).then_some(Ok(()))
            })
            .await
    }

    /// Opens a stream for both sides, as soon as the peer allows one more. The peer hears of it with the
    /// first bytes.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    /// How the connection ended.
    pub async fn open_bi(&self) -> io::Result<(SendStream, RecvStream)> {
        let id = self.place.open(Dir::Bidi).await?;
        Ok(self.both(id))
    }

    /// Opens a stream for this side, as soon as the peer allows one more.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    /// How the connection ended.
    pub async fn open_uni(&self) -> io::Result<SendStream> {
        let id = self.place.open(Dir::Uni).await?;
        Ok(SendStream::new(self.place.clone(), id))
    }

    /// The next stream for both sides that the peer opened.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    /// How the connection ended.
    pub async fn accept_bi(&self) -> io::Result<(SendStream, RecvStream)> {
        let id = self.place.accept(Dir::Bidi).await?;
        Ok(self.both(id))
    }

    /// The next stream for its side that the peer opened.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    /// How the connection ended.
    pub async fn accept_uni(&self) -> io::Result<RecvStream> {
        let id = self.place.accept(Dir::Uni).await?;
        Ok(RecvStream::new(self.place.clone(), id))
    }

    fn both(&self, id: StreamId) -> (SendStream, RecvStream) {
        (SendStream::new(self.place.clone(), id), RecvStream::new(self.place.clone(), id))
    }

    /// Sends a datagram, once, if the path lets it through [RFC 9221]. Of many that wait to be sent the
    /// oldest are dropped, beyond a megabyte.
    ///
    /// # Errors
    /// It is longer than [`Self::max_datagram`], or the connection ended.
    pub fn send_datagram(&self, data: &[u8]) -> io::Result<()> {
        let place = &self.place;
        let mut state = place.handle.0.lock();
        let conn = state.host.connection(place.id);
        let sent = conn.map_or(Err(UseError::Closed), |conn| conn.send_datagram(data));
        let sent = sent.map_err(|error| refused(&state, place.id, error));
        state.settle(&place.handle.0);
        sent
    }

    /// The oldest datagram that arrived and was not read.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    /// How the connection ended.
    pub async fn read_datagram(&self) -> io::Result<Vec<u8>> {
        let place = &self.place;
        place
            .wait(What::Datagram, |state| {
                let datagram = state.host.connection(place.id).and_then(|c| c.recv_datagram());
                let datagram = datagram.map(Ok);
                datagram.or_else(|| closed(state, place.id).map(|error| Err(ended(error))))
            })
            .await
    }

    /// Longest datagram that can be sent now, bytes; 0: none.
    pub fn max_datagram(&self) -> usize {
        self.place.look(|conn| conn.max_datagram())
    }

    /// Ends the connection at once, and tells the peer the application's `code` and `reason`, of which
    /// 256 bytes are told.
    pub fn close(&self, code: u64, reason: &[u8]) {
        let shared = &self.place.handle.0;
        let mut state = shared.lock();
        if let Some(conn) = state.host.connection(self.place.id) {
            conn.close(code, reason, shared.clock.now());
        }
        state.settle(shared);
    }

    /// Leaves the connection: it is closed with code 0 once what was written has arrived, and after a
    /// minute whatever has.
    pub(super) fn leave(&self) {
        let shared = &self.place.handle.0;
        let mut state = shared.lock();
        if let Some(conn) = state.host.connection(self.place.id) {
            conn.leave(shared.clock.now());
        }
        state.settle(shared);
    }

    /// A peer from which nothing came for so long is asked for a sign of life, which keeps the
    /// connection from ending by silence; `None`: it is not.
    pub fn set_keep_alive(&self, after: Option<Duration>) {
        let shared = &self.place.handle.0;
        let mut state = shared.lock();
        if let Some(conn) = state.host.connection(self.place.id) {
            conn.set_keep_alive(after);
        }
        state.settle(shared);
    }

    /// Looks on from beside whoever uses the connection.
    pub fn watch(&self) -> ConnectionWatch {
        ConnectionWatch(Arc::downgrade(&self.place))
    }

    /// Waits until the connection has ended, and says how.
    ///
    /// Cancel safe.
    pub async fn closed(&self) -> ConnectionError {
        self.place.wait(What::State, |state| closed(state, self.place.id)).await
    }

    /// How the connection ended; `None`: it has not.
    pub fn close_reason(&self) -> Option<ConnectionError> {
        closed(&self.place.handle.0.lock(), self.place.id)
    }

    /// Everything the connection tells about itself.
    pub fn info(&self) -> Info {
        self.place.look(|conn| conn.info())
    }

    /// Where the peer's datagrams come from.
    pub fn remote_address(&self) -> SocketAddr {
        self.place.look(|conn| conn.remote())
    }

    /// Our socket's address.
    pub fn local_address(&self) -> SocketAddr {
        self.place.handle.0.lock().way.link().local_addr()
    }

    /// The version of QUIC spoken.
    pub fn version(&self) -> Version {
        self.place.look(|conn| conn.version())
    }

    /// The handshake went on with what both ends kept of an earlier connection.
    pub fn is_resumed(&self) -> bool {
        self.place.look(|conn| conn.is_resumed())
    }

    /// What became of what the client said before the handshake was done (0-RTT). Of a server's connection:
    /// whether something of the kind is taken.
    pub fn early(&self) -> Early {
        self.place.look(|conn| conn.early())
    }

    /// Uses other keys from now on, which the peer follows [RFC 9001 §6]; false: it is too early, for the
    /// last ones are not known to be in use at both ends. Without being asked, it happens before keys are
    /// worn out.
    pub fn update_keys(&self) -> bool {
        let mut state = self.place.handle.0.lock();
        state.host.connection(self.place.id).is_some_and(|conn| conn.update_keys())
    }

    /// The application protocol agreed on.
    pub fn protocol(&self) -> Option<Vec<u8>> {
        self.place.look(|conn| conn.protocol().map(<[u8]>::to_vec))
    }

    /// The key that the peer has shown; `None`: none.
    pub fn peer_fingerprint(&self) -> Option<Fingerprint> {
        self.place.look(|conn| {
            let certificate = conn.peer_certificates()?.first()?;
            Fingerprint::of(certificate).ok()
        })
    }
}

/// Looks at a connection that somebody else uses, and may end it. Does not keep it open.
#[derive(Clone, Debug)]
pub struct ConnectionWatch(Weak<Place>);

impl ConnectionWatch {
    /// See [`Connection::info`]; `None` once the connection was dropped.
    pub fn info(&self) -> Option<Info> {
        self.0.upgrade().map(|place| place.look(|conn| conn.info()))
    }

    /// Bytes of memory that its streams' buffers take; none once the connection was dropped.
    pub fn buffer_memory(&self) -> usize {
        let held = |place: Arc<Place>| place.look(|conn| conn.figures().buffer_memory);
        self.0.upgrade().map_or(0, |place| usize::try_from(held(place)).unwrap_or(usize::MAX))
    }

    /// See [`Connection::set_keep_alive`].
    pub fn set_keep_alive(&self, after: Option<Duration>) {
        if let Some(place) = self.0.upgrade() {
            Connection { place }.set_keep_alive(after);
        }
    }

    /// See [`Connection::close`]. Whoever uses the connection finds it ended.
    pub fn close(&self, code: u64, reason: &[u8]) {
        if let Some(place) = self.0.upgrade() {
            Connection { place }.close(code, reason);
        }
    }
}

/// A connection's place in its endpoint, given up on drop.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) handle: Handle<Quic>,
    pub(super) id: ConnId,
}

impl Place {
    fn look<T>(&self, look: impl FnOnce(&tack_quic::Connection) -> T) -> T {
        let state = self.handle.0.lock();
        look(state.host.peek(self.id).expect("a connection that is held stays"))
    }

    async fn open(&self, dir: Dir) -> io::Result<StreamId> {
        let shared = &self.handle.0;
        self.wait(What::Open(dir), |state| {
            let conn = state.host.connection(self.id);
            let opened = conn.map_or(Err(UseError::Closed), |c| c.open(dir, shared.clock.now()));
            match opened {
                Err(UseError::Limit) => None,
                opened => Some(opened.map_err(|error| refused(state, self.id, error))),
            }
        })
        .await
    }

    async fn accept(&self, dir: Dir) -> io::Result<StreamId> {
        self.wait(What::Accept(dir), |state| {
            let accepted = state.host.connection(self.id).and_then(|conn| conn.accept_stream(dir));
            let accepted = accepted.map(Ok);
            accepted.or_else(|| closed(state, self.id).map(|error| Err(ended(error))))
        })
        .await
    }

    /// What `look` says as soon as it says something: asked now, and whenever `what` happened. Any
    /// number of tasks may wait for the same.
    pub(super) async fn wait<T>(
        &self,
        what: What,
        look: impl FnMut(&mut State<Quic>) -> Option<T>,
    ) -> T {
        wait(&self.handle, Key::Conn(self.id, what), look).await
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let shared = &self.handle.0;
        let mut state = shared.lock();
        state.waiters.forget(Key::all_of(self.id));
        state.host.release(self.id, shared.clock.now());
        state.settle(shared);
        // It may have been the last one somebody waits for.
        state.wake_driver();
    }
}

//! Where newcomers wait: what is said with each before it is accepted runs beside what is said with the
//! others, within limits, so that a stranger who is silent delays nobody.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout;

use crate::budget::{Budget, Peer};
use crate::tls::TlsError;

/// What strangers may make a listener hold.
///
/// One too many of a peer is turned away with a reset, which is [`TlsError::Reset`] there: a client that
/// opens hundreds of streams at once begins a few at a time, or its server has higher limits. They bound
/// handshakes alone, not streams that were accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HandshakeLimits {
    /// Time for a handshake, and for what [`SecureListener::admitting`](crate::SecureListener::admitting)
    /// does. 10 s.
    pub time: Duration,
    /// Handshakes under way at once. 128; beyond it, who has the most makes room.
    pub at_once: usize,
    /// The same of one peer, an IPv4 address or an IPv6 network of 64 bits. 32.
    pub of_one_peer: usize,
}

impl Default for HandshakeLimits {
    fn default() -> Self {
        HandshakeLimits { time: Duration::from_secs(10), at_once: 128, of_one_peer: 32 }
    }
}

impl HandshakeLimits {
    /// The same with changes: fields may be added in later versions, so none is written as a whole.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

type Admitting<T> = Pin<Box<dyn Future<Output = Result<T, TlsError>> + Send>>;
type Admit<T> = Arc<dyn Fn(T) -> Admitting<T> + Send + Sync>;
type Talked<T> = Result<(T, SocketAddr), TlsError>;

/// See the [module's text](self). `T` is what is accepted in the end.
pub(crate) struct Lobby<T> {
    limits: HandshakeLimits,
    places: Budget,
    admit: Option<Admit<T>>,
    talks: Mutex<JoinSet<Talked<T>>>,
}

impl<T: Send + 'static> Lobby<T> {
    pub(crate) fn new() -> Lobby<T> {
        let limits = HandshakeLimits::default();
        let places = Budget::new(limits.at_once, limits.of_one_peer);
        Lobby { limits, places, admit: None, talks: Mutex::default() }
    }

    pub(crate) fn limits(mut self, limits: HandshakeLimits) -> Lobby<T> {
        self.places = Budget::new(limits.at_once, limits.of_one_peer);
        self.limits = limits;
        self
    }

    /// What is said last.
    pub(crate) fn admitting<F, R>(mut self, admit: F) -> Lobby<T>
    where
        F: Fn(T) -> R + Send + Sync + 'static,
        R: Future<Output = Result<T, TlsError>> + Send + 'static,
    {
        self.admit = Some(Arc::new(move |newcomer| Box::pin(admit(newcomer))));
        self
    }

    /// The next of those that `arrive` with whom `shake` and what is said after it succeeded. Those for
    /// whom there is no place are turned away.
    ///
    /// Cancel safe if `arrive` is.
    pub(crate) async fn next<A, Arriving, Shaking>(
        &self,
        arrive: impl Fn() -> Arriving,
        shake: impl Fn(A) -> Shaking,
        turn_away: impl Fn(A),
    ) -> io::Result<(T, SocketAddr)>
    where
        Arriving: Future<Output = io::Result<(A, SocketAddr)>>,
        Shaking: Future<Output = Result<T, TlsError>> + Send + 'static,
    {
        let mut talks = self.talks.lock().await;
        loop {
            tokio::select! {
                arrived = arrive() => {
                    let (newcomer, peer) = arrived?;
                    tracing::info!(%peer, "connection");
                    match self.places.take_or_displace(Peer::of(Some(peer)), 1) {
                        Ok(place) => {
                            let talking = self.talk(Box::pin(shake(newcomer)));
                            drop(talks.spawn(async move {
                                let talked = tokio::select! {
                                    biased;
                                    talked = talking => talked,
                                    () = place.revoked() => Err(TlsError::Displaced),
                                };
                                Ok((talked?, peer))
                            }));
                        }
                        Err(_) => {
                            tracing::warn!(%peer, "too many handshakes");
                            turn_away(newcomer);
                        }
                    }
                }
                Some(talked) = talks.join_next() => {
                    if let Some(accepted) = heeded(talked) {
                        return Ok(accepted);
                    }
                }
            }
        }
    }

    fn talk(
        &self,
        shaking: Admitting<T>,
    ) -> impl Future<Output = Result<T, TlsError>> + Send + use<T> {
        let (admit, limit) = (self.admit.clone(), self.limits.time);
        let talking = async move {
            let newcomer = shaking.await?;
            match admit {
                Some(admit) => admit(newcomer).await,
                None => Ok(newcomer),
            }
        };
        async move { timeout(limit, talking).await.map_err(|_| TlsError::TimedOut(limit))? }
    }

    /// Turns away who was not accepted yet.
    pub(crate) async fn close(self) {
        self.talks.into_inner().shutdown().await;
    }
}

/// Who came in, or a word in the log.
fn heeded<T>(talked: Result<Talked<T>, JoinError>) -> Option<(T, SocketAddr)> {
    match talked {
        Ok(Ok(accepted)) => return Some(accepted),
        // Whoever turned it away knows.
        Ok(Err(TlsError::Io(error))) if error.kind() == io::ErrorKind::PermissionDenied => {
            tracing::info!(%error, "a client was turned away");
        }
        Ok(Err(error)) => tracing::warn!(%error, "a handshake failed"),
        Err(error) => tracing::warn!(%error, "a handshake was aborted"),
    }
    None
}

impl<T> fmt::Debug for Lobby<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lobby").field("limits", &self.limits).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::Mutex as Taken;
    use std::time::Duration;

    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::{Instant, sleep};

    use super::*;
    use crate::tls::{Acceptor, ClientTrust, Connector, Fingerprint, ServerIdentity, TlsStream};

    /// Lets through from a client what it says, to a byte drawn from the seed, and drips noughts then: a
    /// record without end, at which no silence ever shows.
    async fn half_way(seed: u64, server: Fingerprint, to_server: DuplexStream) {
        let mut rng = Pcg64::seed_from_u64(seed);
        let (near, far) = duplex(1 << 16);
        let connector = Connector::new(ClientTrust::Pinned(server)).unwrap();
        let connector = connector.with_limit(Duration::MAX);
        let client = connector.connect("there:1", near);
        let (mut from_client, mut to_client) = tokio::io::split(far);
        let (mut from_server, mut to_server) = tokio::io::split(to_server);
        let stops_after = rng.random_range(0..900);
        let saying = async {
            let said = &mut (&mut from_client).take(stops_after);
            // A server that has let go takes no more, which is heard below.
            if tokio::io::copy(said, &mut to_server).await.is_err() {
                return pending().await;
            }
            loop {
                sleep(Duration::from_secs(1)).await;
                if to_server.write_all(&[0]).await.is_err() {
                    return pending().await;
                }
            }
        };
        let hearing = async {
            // Of a client that has given up, only the server's end matters.
            if tokio::io::copy(&mut from_server, &mut to_client).await.is_err() {
                tokio::io::copy(&mut from_server, &mut tokio::io::sink()).await.unwrap();
            }
        };
        tokio::select! {
            // The server has let go of it.
            () = hearing => {}
            () = saying => {}
            _ = async { let _held = client.await; pending::<()>().await } => {}
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_newcomer_that_stops_anywhere_in_its_handshake_is_let_go_of_in_time() {
        let identity = ServerIdentity::generate(&["there"]).unwrap();
        let acceptor = Acceptor::new(&identity).unwrap();
        let from = SocketAddr::new([10, 0, 0, 1].into(), 9);
        for seed in 0..60 {
            let (near, far) = duplex(1 << 16);
            let newcomer = Taken::new(Some(near));
            let lobby = Lobby::new().admitting(|met: TlsStream<DuplexStream>| async move {
                pending::<()>().await;
                Ok(met)
            });
            let arrive = || {
                let next = newcomer.lock().unwrap().take();
                async move {
                    match next {
                        Some(near) => Ok((near, from)),
                        None => pending().await,
                    }
                }
            };
            let shake = |near| {
                let acceptor = acceptor.clone();
                async move { acceptor.accept(near).await }
            };
            let begun = Instant::now();
            tokio::select! {
                _ = lobby.next(arrive, shake, drop) => panic!("seed {seed}: nobody came in"),
                () = half_way(seed, identity.fingerprint(), far) => {}
            }
            let took = begun.elapsed().as_secs_f64();
            assert!(took < 10.01, "seed {seed}: {took} s");
            let all = lobby.limits.of_one_peer;
            assert!(lobby.places.take(Peer::of(Some(from)), all).is_ok(), "seed {seed}");
        }
    }
}

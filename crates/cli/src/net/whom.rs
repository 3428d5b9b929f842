//! A host, and the addresses that it had.
//!
//! Who changes networks loses whoever looks names up as well: the old network's server is out of reach, and
//! the new one's is not known yet, or there is none. The host is where it was, and who it is its key proves.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tack_net::HostPort;
use tokio::time::timeout;

use crate::task::task;

/// How long a name that was looked up before is looked up again: a server that is near, and remembers it, answers in
/// milliseconds. Who comes later will be heard at the next attempt.
const LATE: Duration = Duration::from_millis(250);

/// A host to connect to, again and again. Clones share what was found.
#[derive(Clone, Debug)]
pub struct Whom {
    host: HostPort,
    found: Arc<Mutex<Vec<SocketAddr>>>,
}

impl From<&HostPort> for Whom {
    fn from(host: &HostPort) -> Whom {
        Whom { host: host.clone(), found: Arc::default() }
    }
}

impl From<&Whom> for Whom {
    fn from(whom: &Whom) -> Whom {
        whom.clone()
    }
}

impl Whom {
    /// What the user calls it.
    pub fn host(&self) -> &HostPort {
        &self.host
    }

    /// Its addresses, or, where nobody says them in time, those that it had.
    ///
    /// # Errors
    /// Nobody knows the name, nor did.
    pub async fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        let host = self.host.clone();
        self.found_by(async move {
            let found = tokio::net::lookup_host((host.name.as_str(), host.port)).await?;
            Ok(found.collect())
        })
        .await
    }

    /// The same, by whoever looks names up. What comes too late is remembered none the less.
    async fn found_by(
        &self,
        asking: impl Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'static,
    ) -> io::Result<Vec<SocketAddr>> {
        let former = self.lock().clone();
        let whom = self.clone();
        let mut asking = tokio::spawn(task(async move {
            let found = asking.await?;
            if !found.is_empty() {
                whom.lock().clone_from(&found);
            }
            Ok(found)
        }));
        if former.is_empty() {
            return asking.await.unwrap_or_else(|e| Err(io::Error::other(e)));
        }
        match timeout(LATE, &mut asking).await {
            Ok(Ok(Ok(found))) if !found.is_empty() => Ok(found),
            late => {
                tracing::info!(host = %self.host, ?late, "its former addresses have to do");
                Ok(former)
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<SocketAddr>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::time::{Instant, sleep};

    use super::*;

    fn whom() -> Whom {
        Whom::from(&HostPort { name: "there.example".to_owned(), port: 7 })
    }

    fn at(ip: u8) -> Vec<SocketAddr> {
        vec![([10, 0, 0, ip], 7).into()]
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_is_still_found_where_names_are_not_any_more() {
        let whom = whom();
        assert_eq!(whom.found_by(async { Ok(at(1)) }).await.unwrap(), at(1));
        let begun = Instant::now();
        let again = whom.clone();
        assert_eq!(again.found_by(pending()).await.unwrap(), at(1));
        assert!(begun.elapsed() <= Duration::from_millis(300), "{:?}", begun.elapsed());
        for nobody in [Err(io::ErrorKind::NotFound.into()), Ok(Vec::new())] {
            assert_eq!(whom.found_by(async { nobody }).await.unwrap(), at(1));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_that_moved_is_found_where_it_is_now_though_it_is_said_late() {
        let whom = whom();
        whom.found_by(async { Ok(at(1)) }).await.unwrap();
        assert_eq!(whom.found_by(async { Ok(at(2)) }).await.unwrap(), at(2));
        let slowly = async {
            sleep(Duration::from_secs(4)).await;
            Ok(at(3))
        };
        assert_eq!(whom.found_by(slowly).await.unwrap(), at(2));
        sleep(Duration::from_secs(5)).await;
        assert_eq!(whom.found_by(pending()).await.unwrap(), at(3));
    }

    #[tokio::test(start_paused = true)]
    async fn who_was_never_found_is_waited_for_and_is_nowhere_if_nobody_knows() {
        let whom = whom();
        let slowly = async {
            sleep(Duration::from_secs(9)).await;
            Err(io::ErrorKind::NotFound.into())
        };
        assert_eq!(whom.found_by(slowly).await.unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}

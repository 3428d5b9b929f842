//! Who sends files into a receiving directory just now, and who has to make way for whom.
//!
//! A sender that comes back after a crash or a change of networks must not wait until its former
//! session is given up for dead: the newer one takes over. Different senders never wait for each
//! other, since what is under way is [kept apart](crate::transfer::partial) by sender.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use crate::transfer::error::TransferError;
use crate::transfer::frame::SenderId;
use crate::transfer::known::Known;
use crate::transfer::list::FileList;

/// How long a session may take to make way: what it last wrote has to reach the disk.
const MAKE_WAY_LIMIT: Duration = Duration::from_secs(20);

/// The sessions of one receiving command. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Sessions {
    live: Arc<Mutex<Live>>,
    /// What they have hashed.
    known: Arc<Known>,
}

#[derive(Debug, Default)]
struct Live {
    sessions: Vec<Session>,
    entered: u64,
    /// The only one who may enter, if not anybody.
    reserved: Option<SenderId>,
}

#[derive(Debug)]
struct Session {
    number: u64,
    sender: SenderId,
    list: Arc<FileList>,
    supersede: watch::Sender<bool>,
    /// Closed once nothing of it works any more.
    over: watch::Receiver<()>,
}

impl Sessions {
    /// From here on nobody else may enter.
    pub fn reserve_for(&self, sender: SenderId) {
        self.lock().reserved = Some(sender);
    }

    /// Enters a session. Others of the same sender that have an entry in common with it are told to
    /// make way, and have done so when this returns.
    ///
    /// # Errors
    /// [`TransferError::Busy`] if one does not, or another sender is waited for.
    pub async fn enter(
        &self,
        sender: SenderId,
        list: &Arc<FileList>,
    ) -> Result<Arc<Place>, TransferError> {
        if self.lock().reserved.is_some_and(|only| only != sender) {
            let why = "the transfer that was waited for is here, and no other is";
            return Err(TransferError::Busy(why.to_owned()));
        }
        let deadline = Instant::now() + MAKE_WAY_LIMIT;
        loop {
            let in_the_way = match self.try_enter(sender, list) {
                Ok(place) => return Ok(Arc::new(place)),
                Err(in_the_way) => in_the_way,
            };
            for mut over in in_the_way {
                // Nothing is ever sent: it changes by being closed.
                timeout_at(deadline, over.changed()).await.map(drop).map_err(|_| {
                    TransferError::Busy("your former transfer still writes here".to_owned())
                })?;
            }
        }
    }

    fn try_enter(
        &self,
        sender: SenderId,
        list: &Arc<FileList>,
    ) -> Result<Place, Vec<watch::Receiver<()>>> {
        let mut live = self.lock();
        let conflicts = |s: &&Session| s.sender == sender && s.list.shares_entry_with(list);
        let in_the_way: Vec<_> = live.sessions.iter().filter(conflicts).collect();
        if !in_the_way.is_empty() {
            for session in &in_the_way {
                session.supersede.send_replace(true);
            }
            return Err(in_the_way.into_iter().map(|s| s.over.clone()).collect());
        }
        live.entered += 1;
        let number = live.entered;
        let (supersede, superseded) = watch::channel(false);
        let (closes_when_over, over) = watch::channel(());
        live.sessions.push(Session { number, sender, list: Arc::clone(list), supersede, over });
        Ok(Place { number, sender, all: self.clone(), superseded, _over: closes_when_over })
    }

    fn lock(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session's place. Everything that works for it holds on to this, disk threads too: it is over
/// when the last one lets go.
#[derive(Debug)]
pub struct Place {
    number: u64,
    sender: SenderId,
    all: Sessions,
    superseded: watch::Receiver<bool>,
    _over: watch::Sender<()>,
}

impl Place {
    /// Whose it is.
    pub fn sender(&self) -> &SenderId {
        &self.sender
    }

    /// What was hashed here before.
    pub fn known(&self) -> &Known {
        &self.all.known
    }

    /// Whether a newer session has come.
    pub fn is_superseded(&self) -> bool {
        *self.superseded.borrow()
    }

    /// Waits until a newer session comes.
    ///
    /// Cancel safe.
    pub async fn superseded(&self) {
        let mut superseded = self.superseded.clone();
        let told = superseded.wait_for(|&told| told).await.is_ok();
        if !told {
            // Cannot be: the other end is in the list as long as we are.
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.all.lock().sessions.retain(|s| s.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::list::{Entry, Kind, Mtime};
    use crate::transfer::name::RelPath;

    fn list(files: &[&str]) -> Arc<FileList> {
        let mut list = FileList::new();
        for file in files {
            let path = RelPath::from_bytes(file.as_bytes()).unwrap();
            let mtime = Mtime { seconds: 0, nanos: 0 };
            list.push(Entry { path, mode: 0o644, mtime, kind: Kind::File { size: 1 } }).unwrap();
        }
        Arc::new(list)
    }

    fn run<T>(work: impl Future<Output = T>) -> T {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time().start_paused(true).build().unwrap().block_on(work)
    }

    #[test]
    fn the_newer_session_of_a_sender_waits_for_the_older_to_make_way() {
        run(async {
            let sessions = Sessions::default();
            let old = sessions.enter([1; 32], &list(&["a", "b"])).await.unwrap();
            let making_way = async {
                old.superseded().await;
                assert!(old.is_superseded());
                // Whoever works for it still writes.
                let working = Arc::clone(&old);
                drop(old);
                tokio::time::sleep(Duration::from_secs(5)).await;
                drop(working);
            };
            let since = Instant::now();
            let newer = list(&["b", "c"]);
            let (new, ()) = tokio::join!(sessions.enter([1; 32], &newer), making_way);
            assert_eq!(since.elapsed(), Duration::from_secs(5));
            assert!(!new.unwrap().is_superseded());
        });
    }

    #[test]
    fn other_senders_and_other_files_are_left_alone() {
        run(async {
            let sessions = Sessions::default();
            let mine = sessions.enter([1; 32], &list(&["a"])).await.unwrap();
            let other = sessions.enter([2; 32], &list(&["a"])).await.unwrap();
            let more = sessions.enter([1; 32], &list(&["b"])).await.unwrap();
            assert!([mine, other, more].iter().all(|place| !place.is_superseded()));
        });
    }

    #[test]
    fn a_session_that_does_not_make_way_is_named_as_the_reason() {
        run(async {
            let sessions = Sessions::default();
            let _stuck = sessions.enter([1; 32], &list(&["a"])).await.unwrap();
            let refused = sessions.enter([1; 32], &list(&["a"])).await;
            assert!(matches!(refused, Err(TransferError::Busy(_))), "{refused:?}");
        });
    }
}

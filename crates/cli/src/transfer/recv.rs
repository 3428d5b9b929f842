//! The receiver's side of a transfer: check the list, say what is here, store what comes.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::conn::Connection;
use crate::progress::Progress;
use crate::stop::Stop;
use crate::transfer::VERSION;
use crate::transfer::disk::{CHUNKS_AHEAD, blocking};
use crate::transfer::error::{Standing, TransferError};
use crate::transfer::frame::SenderId;
use crate::transfer::frame::{Frame, What};
use crate::transfer::ledger::{Ledger, Resumed};
use crate::transfer::list::FileList;
use crate::transfer::plan::Held;
use crate::transfer::received::Received;
use crate::transfer::send::Framed;
use crate::transfer::sessions::Sessions;
use crate::transfer::sink::{Job, Reply, Sink};
use crate::transfer::store::Store;
use crate::transfer::wire::{OPENING_LIMIT, unexpected};
use tack_net::budget::{Budget, Exhausted, Peer};

impl<C: AsyncRead + AsyncWrite> Framed<C> {
    /// The receiver's opening; the sender must speak our version and send a tree.
    /// Returns who sends.
    pub(crate) async fn welcome(&mut self) -> Result<SenderId, TransferError> {
        let (what, sender) = self.heard_hello().await?;
        what.instead_of(What::Tree)?;
        self.writer.send(&Frame::Welcome { version: VERSION }).await.map(|()| sender)
    }

    /// What the other side wants, and who it is.
    pub(crate) async fn heard_hello(&mut self) -> Result<(What, SenderId), TransferError> {
        self.reader.preface().await?;
        self.reader.begin_phase(OPENING_LIMIT);
        let hello = self.reader.next_within(OPENING_LIMIT, "opening").await?;
        match hello {
            Frame::Hello { version: VERSION, what, sender } => Ok((what, sender)),
            Frame::Hello { version, .. } => {
                Err(TransferError::Version { theirs: version, ours: VERSION })
            }
            _ => Err(unexpected(&hello, "HELLO")),
        }
    }
}

impl What {
    /// Says what to do where this comes and `wanted` is waited for, unless it is that, or more of it.
    pub(crate) fn instead_of(self, wanted: What) -> Result<(), TransferError> {
        let why = match (wanted, self) {
            (What::Tree, What::Stream | What::Rest) => {
                "a stream is sent but a directory receives; use `tack recv - > FILE`"
            }
            (What::Stream, What::Tree) => {
                "files are sent but standard output receives; use `tack recv DIR`"
            }
            (What::Tree | What::Stream, What::Talk) => {
                "`tack nc` connects to `tack recv`; use `tack send`"
            }
            (What::Talk, What::Tree | What::Stream) => {
                "`tack send` connects to `tack nc`; use `tack recv`"
            }
            _ => return Ok(()),
        };
        Err(TransferError::WrongMode(why))
    }
}

/// Where trees are received, and what holds for all of them.
#[derive(Clone, Debug)]
pub struct Intake {
    /// The directory.
    pub store: Arc<Store>,
    /// Whether files may be replaced.
    pub overwrite: bool,
    /// Who else sends here.
    pub sessions: Sessions,
    /// What strangers may take.
    pub limits: Limits,
}

/// What strangers may take of a receiving command: of each so much in all and, of that, so much for
/// one peer's address.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections that have not said yet what they send: 64, and 32.
    pub opening: Budget,
    /// Transfers: 16, and 8.
    pub places: Budget,
    /// Bytes of memory for lists of files: 512 MiB, and 256 MiB, in which a million files fit.
    pub lists: Budget,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            opening: Budget::new(64, 32),
            places: Budget::new(16, 8),
            lists: Budget::new(512 << 20, 256 << 20),
        }
    }
}

/// Time for a list to begin with, and the longest pause in it.
const LIST_GRACE: Duration = Duration::from_secs(60);

/// Time for proofs, beside what hashing takes.
const PROOF_GRACE: Duration = Duration::from_secs(60);

/// Bytes per second that a sender's disk can read and hash, at least.
const HASH_PACE: u64 = 5_000_000;

/// Time for the sender to close, once it has our last word.
const LAST_WORD: Duration = Duration::from_secs(5);

/// The longest pause of a sender whose disk has to wake up, say.
const DATA_GRACE: Duration = Duration::from_secs(120);

impl Intake {
    /// For a single session that replaces nothing.
    pub fn alone(store: Store) -> Intake {
        let (sessions, limits) = (Sessions::default(), Limits::default());
        Intake { store: Arc::new(store), overwrite: false, sessions, limits }
    }
}

/// Receives one tree.
///
/// # Errors
/// Whatever cut the transfer short, `stop` too. What had arrived by then stays for resuming.
pub async fn receive_tree<C: Connection>(
    conn: C,
    intake: &Intake,
    progress: &Progress,
    stop: &Stop,
) -> Result<Received, TransferError> {
    let peer = Peer::of(conn.addresses().map(|(_, peer)| peer));
    let mut framed = Framed::new(conn);
    let course = Course::default();
    let mut receiver =
        TreeReceiver { framed: &mut framed, intake, peer, progress, course, disk: None };
    let result = stop.or(receiver.run()).await;
    progress.finish();
    let TreeReceiver { course, disk, .. } = receiver;
    let result = result.unwrap_or_else(|| Err(TransferError::Stopped(course.standing())));
    let result = match result {
        Ok(received) => {
            let is_known_there = framed.part(LAST_WORD, stop).await;
            Ok(Received { is_known_there, ..received })
        }
        Err(error) => framed.close(Err(error), stop).await,
    };
    if let Some(disk) = disk {
        // It writes what it was handed. Then nobody has the partial file open any more.
        let _ = disk.await;
    }
    result
}

/// Tells a sender why it cannot send, once it has said who it is.
///
/// # Errors
/// Always: `why`, unless the sender is gone before it hears it.
pub async fn decline<C: Connection>(
    conn: C,
    why: TransferError,
    stop: &Stop,
) -> Result<Received, TransferError> {
    let mut framed = Framed::new(conn);
    let opened = stop.or(framed.welcome()).await;
    let result = opened.unwrap_or(Err(TransferError::Stopped(Standing::Unknown)));
    framed.close(result.and(Err(why)), stop).await
}

struct TreeReceiver<'a, C> {
    framed: &'a mut Framed<C>,
    intake: &'a Intake,
    peer: Peer,
    progress: &'a Progress,
    course: Course,
    /// The disk thread, which goes on for a moment when we are dropped.
    disk: Option<JoinHandle<Result<(), TransferError>>>,
}

/// How far a transfer is.
#[derive(Debug, Default)]
struct Course {
    done: Received,
    /// Files that are to come, and their bytes.
    listed: (usize, u64),
    /// Bytes that are here, in files that are not yet complete as well.
    here: u64,
    /// The files that are here and have no name.
    unplaced: Option<TransferError>,
}

impl Course {
    fn is_unplaced(&mut self, why: &TransferError) {
        tracing::info!(%why, "going on with the others");
        self.unplaced = Some(TransferError::unplaced(self.unplaced.take(), why));
    }

    fn standing(&self) -> Standing {
        let (files, bytes) = self.listed;
        if files == 0 {
            return Standing::Unknown;
        }
        let stored = (self.done.files as usize, files);
        Standing::Receiving { stored, bytes: (self.here, bytes) }
    }
}

impl<C: Connection> TreeReceiver<'_, C> {
    async fn run(&mut self) -> Result<Received, TransferError> {
        let limits = &self.intake.limits;
        let opening = limits.opening.take_or_displace(self.peer, 1).map_err(busy)?;
        let sink = tokio::select! {
            biased;
            () = opening.revoked() => return Err(busy(Exhausted::All)),
            entered = self.enter() => entered?,
        };
        drop(opening);
        // Only now: a sender that comes back has its former place here, until it has entered.
        let place = limits.places.take_or_displace(self.peer, 1).map_err(busy)?;
        tokio::select! {
            biased;
            () = place.revoked() => Err(busy(Exhausted::All)),
            () = sink.place.superseded() => Err(TransferError::Superseded),
            received = self.receive(&sink) => received,
        }
        // The place is given back first, and then the session is over.
    }

    /// Hears who sends what. Former sessions of the same sender have made way when this returns.
    async fn enter(&mut self) -> Result<Arc<Sink>, TransferError> {
        let sender = self.framed.welcome().await?;
        self.course.done.sender = sender;
        let list = Arc::new(self.read_list().await?);
        self.course.listed = (list.files().count(), list.total_bytes());
        let entering = self.intake.sessions.enter(sender, &list);
        let place = self.framed.writer.while_busy(entering).await?;
        let (store, overwrite) = (Arc::clone(&self.intake.store), self.intake.overwrite);
        Ok(Arc::new(Sink { store, list, overwrite, place }))
    }

    async fn receive(&mut self, sink: &Arc<Sink>) -> Result<Received, TransferError> {
        let list = &sink.list;
        let held = self.busy(sink, |sink| sink.plan()).await?;
        for h in &held {
            let have = Frame::Have { index: h.index, bytes: h.bytes };
            self.framed.writer.queue(&have).await?;
        }
        self.framed.writer.send(&Frame::Planned).await?;

        // A file that is here whole gets its name as soon as that is proved.
        self.busy(sink, |sink| sink.make_dirs()).await?;
        let resumed = self.check_proofs(sink, held).await?;
        self.course.here = self.course.done.kept;
        self.progress.start(list.total_bytes(), self.course.done.kept);
        self.framed.writer.send(&Frame::Go).await?;

        self.store_files(sink, resumed).await?;
        self.busy(sink, |sink| sink.finish_tree()).await?;
        // Now that all the others are here. The same command tries these again, and sends nothing twice.
        if let Some(unplaced) = self.course.unplaced.take() {
            return Err(unplaced);
        }
        let Received { files, bytes, .. } = self.course.done;
        self.framed.writer.send(&Frame::Done { files, bytes }).await?;
        Ok(std::mem::take(&mut self.course.done))
    }

    /// Blocking work, while the sender is kept informed that we live. It holds on to the session's
    /// place until it is done, whatever becomes of us.
    async fn busy<T: Send + 'static>(
        &mut self,
        sink: &Arc<Sink>,
        work: impl FnOnce(&Sink) -> Result<T, TransferError> + Send + 'static,
    ) -> Result<T, TransferError> {
        let sink = Arc::clone(sink);
        self.framed.writer.while_busy(blocking(move || work(&sink))).await
    }

    async fn read_list(&mut self) -> Result<FileList, TransferError> {
        let memory = self.intake.limits.lists.take(self.peer, 0).map_err(busy)?;
        let mut list = FileList::within(memory);
        self.framed.reader.begin_phase(LIST_GRACE);
        loop {
            match self.framed.reader.next("reading the list of files").await? {
                Frame::Entry(entry) => list.push(entry)?,
                Frame::Listed { entries, bytes } => {
                    list.check_totals(entries, bytes)?;
                    return Ok(list);
                }
                other => return Err(unexpected(&other, "ENTRY or LISTED")),
            }
        }
    }

    /// Compares each proof with what is on disk, and answers with KEEP where it holds.
    async fn check_proofs(
        &mut self,
        sink: &Arc<Sink>,
        held: Vec<Held>,
    ) -> Result<Resumed, TransferError> {
        let mut resumed = Resumed::new();
        let mut differing = Vec::new();
        // Answered only after the last proof: until then the sender writes and does not read.
        let mut keep = Vec::new();
        let to_hash = held.iter().map(|h| h.bytes).sum::<u64>() / HASH_PACE;
        self.framed.reader.begin_phase(PROOF_GRACE + Duration::from_secs(to_hash));
        for h in held {
            let (index, bytes, in_place) = (h.index, h.bytes, h.partial.is_none());
            let (entry, size) = sink.list.file(index).expect("only files are held");
            self.progress.say(format!("checking {}", entry.path));
            let hashed = self.busy(sink, move |sink| sink.hash_held(h)).await?;
            let proof = match self.framed.reader.next("waiting for the sender's proof").await? {
                Frame::Proof { index: i, hash } if i == index => hash,
                // What is here of it stays, for another attempt.
                Frame::Skip { index: i, reason } if i == index => {
                    self.course.done.note_skipped(&reason);
                    continue;
                }
                other => return Err(unexpected(&other, "the PROOF of what is held")),
            };
            // It is gone, and not in the way.
            let Some(hashed) = hashed else { continue };
            let mut kept = (None, false);
            if hashed.agrees_with(&proof) {
                let keeping = self.busy(sink, move |sink| sink.keep(index, bytes, hashed)).await;
                if let Err(error) = &keeping
                    && error.is_of_one_place()
                {
                    self.course.is_unplaced(error);
                    keep.push(index);
                    self.course.done.kept += bytes;
                    continue;
                }
                kept = keeping?;
            }
            match kept {
                (_, false) => {
                    tracing::info!(path = %entry.path, bytes, "what is here differs");
                    if in_place && !sink.overwrite {
                        differing.push(entry.path.to_string());
                    }
                    continue;
                }
                (Some(proved), true) => drop(resumed.insert(index, Box::new(proved))),
                (None, true) => {
                    self.course.done.files += 1;
                    self.course.done.bytes += size;
                }
            }
            keep.push(index);
            self.course.done.kept += bytes;
        }
        if !differing.is_empty() {
            return Err(TransferError::exists(&differing));
        }
        for index in keep {
            self.framed.writer.queue(&Frame::Keep { index }).await?;
        }
        Ok(resumed)
    }

    /// Hands what comes to the disk thread until FINISHED, and tells what has been stored.
    async fn store_files(
        &mut self,
        sink: &Arc<Sink>,
        resumed: Resumed,
    ) -> Result<(), TransferError> {
        let (jobs, jobs_out) = mpsc::channel(CHUNKS_AHEAD);
        let (replies_in, mut replies) = mpsc::unbounded_channel();
        let disk = Arc::clone(sink);
        self.disk = Some(tokio::task::spawn_blocking(move || disk.run(jobs_out, &replies_in)));
        let list = &sink.list;
        self.framed.reader.begin_phase(DATA_GRACE);
        let mut ledger = Ledger { list, resumed, next: 0 };

        let relayed = self.relay(jobs, &mut replies, &mut ledger).await;
        // The disk thread ends once its jobs are gone. Its error is the cause of ours, if any.
        if let Some(disk) = &mut self.disk {
            let written = self.framed.writer.while_busy(disk).await;
            self.disk = None;
            written.unwrap_or(Err(TransferError::Stopped(Standing::Unknown)))?;
        }
        relayed?;
        while let Ok(reply) = replies.try_recv() {
            self.reply(reply, list).await?;
        }
        self.framed.writer.flush().await
    }

    /// Until FINISHED: frames to the disk, replies to the sender. Taking `jobs` with it ends the
    /// disk thread's work.
    async fn relay(
        &mut self,
        jobs: mpsc::Sender<Job>,
        replies: &mut mpsc::UnboundedReceiver<Reply>,
        ledger: &mut Ledger<'_>,
    ) -> Result<(), TransferError> {
        loop {
            let during = "receiving files";
            tokio::select! {
                frame = self.framed.reader.next(during) => {
                    let job = match frame? {
                        Frame::Finished => return Ok(()),
                        frame => match ledger.job(frame, &mut self.course.done)? {
                            Some(job) => job,
                            None => continue,
                        },
                    };
                    if let Job::Data(bytes) = &job {
                        self.progress.advance(bytes.len() as u64);
                        self.course.here += bytes.len() as u64;
                    }
                    if let Job::File { index, .. } = &job {
                        self.progress.say(list_name(ledger.list, *index));
                    }
                    let handed = self.framed.writer.while_busy(jobs.send(job)).await;
                    if handed.is_err() {
                        return Ok(());
                    }
                }
                reply = replies.recv() => match reply {
                    Some(reply) => {
                        self.reply(reply, ledger.list).await?;
                        self.framed.writer.flush().await?;
                    }
                    // The disk thread gave up: its error is waiting.
                    None => return Ok(()),
                },
                () = tokio::time::sleep_until(self.framed.writer.noop_due()) => {
                    self.framed.writer.noop().await;
                }
            }
        }
    }

    async fn reply(&mut self, reply: Reply, list: &FileList) -> Result<(), TransferError> {
        match reply {
            Reply::Unplaced(error) => self.course.is_unplaced(&error),
            Reply::Buffer(buffer) => self.framed.reader.recycle(buffer),
            Reply::Stored(index) => {
                let (_, size) = list.file(index).expect("the disk stores listed files");
                self.course.done.files += 1;
                self.course.done.bytes += size;
                self.framed.writer.queue(&Frame::Stored { index }).await?;
            }
        }
        Ok(())
    }
}

/// What a sender is told for whom there is no place.
pub(crate) fn busy(exhausted: Exhausted) -> TransferError {
    TransferError::Busy(
        match exhausted {
            Exhausted::Peer => "too many transfers come from your address",
            Exhausted::All => "too many transfers are under way",
        }
        .to_owned(),
    )
}

fn list_name(list: &FileList, index: u32) -> String {
    list.file(index).map(|(entry, _)| entry.path.to_string()).unwrap_or_default()
}

#[cfg(test)]
#[path = "recv_tests.rs"]
mod tests;

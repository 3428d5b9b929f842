//! The sender's side of a transfer: list, proofs, then files, until the receiver confirms.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadHalf, WriteHalf};
use tokio::sync::mpsc;

use crate::conn::Connection;
use crate::progress::Progress;
use crate::stop::Stop;
use crate::transfer::VERSION;
use crate::transfer::disk::blocking;
use crate::transfer::error::{Standing, TransferError};
use crate::transfer::frame::SenderId;
use crate::transfer::frame::{Frame, HEADER, What};
use crate::transfer::known::Known;
use crate::transfer::list::FileList;
use crate::transfer::plan::MAX_RESUMED;
use crate::transfer::scan::Scan;
use crate::transfer::source::{Event, Prefix, Source, Start, channels, hash_origin};
use crate::transfer::wire::{FrameReader, FrameWriter, OPENING_LIMIT, unexpected};

/// What was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Files that the receiver now has, those it had before included.
    pub files: u32,
    /// Their bytes.
    pub bytes: u64,
    /// Of these, bytes that the receiver had already.
    pub kept: u64,
}

/// Both halves of a connection, framed.
pub(crate) struct Framed<C> {
    pub(crate) reader: FrameReader<ReadHalf<C>>,
    pub(crate) writer: FrameWriter<WriteHalf<C>>,
}

impl<C: AsyncRead + AsyncWrite> Framed<C> {
    /// Of a connection on which nothing was said yet.
    pub(crate) fn new(conn: C) -> Self {
        let mut framed = Self::inside(conn);
        framed.writer.preface();
        framed
    }

    /// Of a stream inside one, that each side knows to begin.
    pub(crate) fn inside(conn: C) -> Self {
        let (reader, writer) = tokio::io::split(conn);
        Self { reader: FrameReader::new(reader), writer: FrameWriter::new(writer) }
    }

    /// The sender's opening. What else the receiver has to know goes out along with it, before its [`Self::welcomed`].
    pub(crate) async fn hello(
        &mut self,
        what: What,
        sender: SenderId,
    ) -> Result<(), TransferError> {
        self.writer.queue(&Frame::Hello { version: VERSION, what, sender }).await
    }

    /// The receiver's answer; it must speak our version.
    pub(crate) async fn welcomed(&mut self) -> Result<(), TransferError> {
        self.reader.preface().await?;
        match self.reader.next_within(OPENING_LIMIT, "opening").await? {
            Frame::Welcome { version: VERSION } => Ok(()),
            Frame::Welcome { version } => {
                Err(TransferError::Version { theirs: version, ours: VERSION })
            }
            other => Err(unexpected(&other, "WELCOME")),
        }
    }

    /// What is framed. What was read of it was read to the end of a frame; what was queued is lost.
    pub(crate) fn into_inner(self) -> C
    where
        C: Unpin,
    {
        self.reader.into_inner().unsplit(self.writer.into_inner())
    }
}

impl<C: Connection> Framed<C> {
    /// Ends the conversation well or badly, so that both sides know why.
    pub(crate) async fn close<T>(
        mut self,
        result: Result<T, TransferError>,
        stop: &Stop,
    ) -> Result<T, TransferError> {
        match result {
            Ok(done) => {
                self.part(Duration::from_secs(2), stop).await;
                Ok(done)
            }
            Err(error @ TransferError::Stopped(_)) => {
                self.take_leave(&error, stop).await;
                Err(error)
            }
            Err(error) => {
                let error = self.peers_reason(error).await;
                self.writer.fail(&error).await;
                // Unread bytes would turn the close into a reset, and our reason be lost.
                self.reader.closed(Duration::from_secs(1)).await;
                Err(error)
            }
        }
    }

    /// Ends a conversation in which all was said. Whether the peer has, too, within `limit`, and so knows our last word.
    pub(crate) async fn part(&mut self, limit: Duration, stop: &Stop) -> bool {
        self.writer.shutdown().await;
        stop.or_soon(limit, self.reader.closed(limit)).await.unwrap_or(false)
    }

    /// Says that our user wants no more, and goes as soon as the peer knows.
    async fn take_leave(mut self, error: &TransferError, stop: &Stop) {
        let telling = async {
            self.writer.fail(error).await;
            self.reader.closed(Duration::MAX).await;
        };
        if stop.or_soon(Duration::MAX, telling).await.is_none() {
            // The word is stuck behind what we wrote before. A reset is not.
            self.into_inner().abort();
        }
    }

    /// When writing fails, the peer has usually said why before it went.
    async fn peers_reason(&mut self, error: TransferError) -> TransferError {
        let writing_failed = matches!(
            error,
            TransferError::Connection { during: "sending" | "writing", .. }
                | TransferError::Closed { during: "sending" | "writing" }
        );
        if !writing_failed {
            return error;
        }
        let limit = Duration::from_secs(1);
        loop {
            match self.reader.next_within(limit, "ending").await {
                Ok(_) => {}
                Err(reason @ TransferError::Peer { .. }) => return reason,
                Err(_) => return error,
            }
        }
    }
}

/// Sends everything in `scan` and waits until the receiver has verified and stored it. `sender`
/// is who we are to this receiver, which keeps what is under way of each apart.
///
/// # Errors
/// [`TransferError::Incomplete`] if all but some unreadable files arrived; anything else if the
/// transfer was cut short, by `stop` too, in which case the same call on a new connection resumes
/// it.
pub async fn send_tree<C: Connection>(
    conn: C,
    sender: SenderId,
    scan: Scan,
    progress: &Progress,
    stop: &Stop,
) -> Result<Sent, TransferError> {
    let mut framed = Framed::new(conn);
    let mut tree = TreeSender {
        sender,
        list: Arc::new(scan.list),
        origins: Arc::new(scan.origins),
        known: scan.known,
        progress,
        left_out: scan.unreadable,
    };
    let mut stored = 0;
    let result = stop.or(tree.run(&mut framed, &mut stored)).await;
    progress.finish();
    let stored = (stored, tree.list.files().count());
    let stopped = Err(TransferError::Stopped(Standing::Sending { stored }));
    let sent = framed.close(result.unwrap_or(stopped), stop).await?;
    if tree.left_out.is_empty() { Ok(sent) } else { Err(TransferError::incomplete(&tree.left_out)) }
}

struct TreeSender<'a> {
    sender: SenderId,
    list: Arc<FileList>,
    origins: Arc<Vec<PathBuf>>,
    known: Arc<Known>,
    progress: &'a Progress,
    left_out: Vec<String>,
}

/// The prefixes that the receiver kept: bytes and the state of their hash.
type Kept = BTreeMap<u32, (u64, Option<Prefix>)>;

impl TreeSender<'_> {
    /// Counts what the receiver has `stored`.
    async fn run<C: Connection>(
        &mut self,
        framed: &mut Framed<C>,
        stored: &mut usize,
    ) -> Result<Sent, TransferError> {
        framed.hello(What::Tree, self.sender).await?;
        self.send_list(framed).await?;
        framed.welcomed().await?;
        let held = self.read_plan(framed).await?;
        let (hashed, unproved) = self.prove(framed, held).await?;
        let kept = read_kept(framed, hashed).await?;
        let kept_bytes = kept.values().map(|(bytes, _)| bytes).sum();
        self.progress.start(self.list.total_bytes(), kept_bytes);
        let starts = self.starts(kept, &unproved);
        let sending = starts.len();
        let provable = self.list.files().count() - unproved.len();
        *stored = provable - sending;
        let (files, bytes, skipped) = self.send_files(framed, starts, stored).await?;
        let expected = provable - skipped.len();
        if files as usize != expected {
            let got = format!("DONE with {files} of {expected} files");
            return Err(TransferError::Unexpected { got, expected: "all of them" });
        }
        tracing::info!(files, bytes, sending, kept_bytes, "the receiver has confirmed");
        self.left_out.extend(unproved.into_values().chain(skipped));
        Ok(Sent { files, bytes, kept: kept_bytes })
    }

    async fn send_list<C: Connection>(&self, framed: &mut Framed<C>) -> Result<(), TransferError> {
        for entry in self.list.entries() {
            framed.writer.queue(&Frame::Entry(entry.clone())).await?;
        }
        let entries = u32::try_from(self.list.entries().len()).expect("a list is bounded");
        let bytes = self.list.total_bytes();
        framed.writer.send(&Frame::Listed { entries, bytes }).await
    }

    /// What the receiver says it holds: in order, of files in the list, no longer than they are.
    async fn read_plan<C: Connection>(
        &self,
        framed: &mut Framed<C>,
    ) -> Result<Vec<(u32, u64)>, TransferError> {
        let mut held: Vec<(u32, u64)> = Vec::new();
        let mut partial = 0;
        loop {
            match framed.reader.next("waiting for the receiver's plan").await? {
                Frame::Planned => return Ok(held),
                frame @ Frame::Have { index, bytes } => {
                    let size = self.list.file(index).map(|(_, size)| size);
                    let in_order = held.last().is_none_or(|&(last, _)| last < index);
                    partial += usize::from(size.is_some_and(|size| bytes < size));
                    if !in_order || size.is_none_or(|s| bytes > s) || partial > MAX_RESUMED {
                        return Err(unexpected(&frame, "HAVE of a listed file, in order"));
                    }
                    held.push((index, bytes));
                }
                other => return Err(unexpected(&other, "HAVE or PLANNED")),
            }
        }
    }

    /// Proves what can be read. What cannot, or is not as listed any more, is left out with its reason, as where the
    /// receiver had nothing of it.
    async fn prove<C: Connection>(
        &self,
        framed: &mut Framed<C>,
        held: Vec<(u32, u64)>,
    ) -> Result<(Kept, BTreeMap<u32, String>), TransferError> {
        let (mut hashed, mut unproved) = (Kept::new(), BTreeMap::new());
        for (index, bytes) in held {
            let (list, origins) = (Arc::clone(&self.list), Arc::clone(&self.origins));
            let (entry, _) = self.list.file(index).expect("checked when it was read");
            self.progress.say(format!("checking {}", entry.path));
            let known = Arc::clone(&self.known);
            let work = blocking(move || hash_origin(&list, &origins, &known, index, bytes));
            match framed.writer.while_busy(work).await {
                Ok((hash, state)) => {
                    framed.writer.queue(&Frame::Proof { index, hash: *hash.as_bytes() }).await?;
                    hashed.insert(index, (bytes, state));
                }
                Err(error @ TransferError::Disk { .. }) => {
                    let reason = error.to_string();
                    framed.writer.queue(&Frame::Skip { index, reason: reason.clone() }).await?;
                    unproved.insert(index, reason);
                }
                Err(other) => return Err(other),
            }
        }
        framed.writer.flush().await?;
        Ok((hashed, unproved))
    }

    fn starts(&self, mut kept: Kept, unproved: &BTreeMap<u32, String>) -> Vec<Start> {
        let start = |(index, _, size): (u32, _, u64)| match kept.remove(&index) {
            Some((bytes, _)) if bytes == size => None,
            kept => Some(Start { index, resume: kept.and_then(|(_, proved)| proved) }),
        };
        self.list
            .files()
            .filter(|(index, ..)| !unproved.contains_key(index))
            .filter_map(start)
            .collect()
    }

    /// Sends while listening. Returns the receiver's count of files and bytes, and what was
    /// skipped.
    async fn send_files<C: Connection>(
        &self,
        framed: &mut Framed<C>,
        starts: Vec<Start>,
        stored: &mut usize,
    ) -> Result<(u32, u64, Vec<String>), TransferError> {
        let stored_before = *stored;
        let (events_in, mut events, spare_in, spare) = channels();
        let expected: Vec<u32> = starts.iter().map(|s| s.index).collect();
        let (list, origins) = (Arc::clone(&self.list), Arc::clone(&self.origins));
        let known = Arc::clone(&self.known);
        let source = Source { list, origins, known, events: events_in, spare, given: 0 };
        let reading = blocking(move || {
            source.run(starts);
            Ok(())
        });
        let mut skipped = Vec::new();
        let Framed { reader, writer } = framed;
        let all_sent = AtomicBool::new(false);
        let channels = (&mut events, &spare_in);
        let pump = self.pump(writer, channels, &mut skipped, &all_sent);
        let replies = confirmations(reader, &expected, stored);
        let (files, bytes) = race(&all_sent, pump, replies).await?;
        reading.await?;
        let stored = *stored - stored_before;
        if stored + skipped.len() != expected.len() {
            let got = format!("DONE after {stored} of {} files", expected.len());
            return Err(TransferError::Unexpected { got, expected: "STORED" });
        }
        Ok((files, bytes, skipped))
    }

    async fn pump(
        &self,
        writer: &mut FrameWriter<impl AsyncWrite + Unpin>,
        (events, spare): (&mut mpsc::Receiver<Event>, &mpsc::Sender<Vec<u8>>),
        skipped: &mut Vec<String>,
        all_sent: &AtomicBool,
    ) -> Result<(), TransferError> {
        loop {
            let event = match events.try_recv() {
                Ok(event) => event,
                Err(_) => {
                    // The disk is slower than the network: nothing may linger in a buffer.
                    writer.flush().await?;
                    match writer.while_busy(events.recv()).await {
                        Some(event) => event,
                        None => {
                            all_sent.store(true, Relaxed);
                            return writer.send(&Frame::Finished).await;
                        }
                    }
                }
            };
            match event {
                Event::File { index, offset } => {
                    self.progress.say(self.list.entries()[index as usize].path.to_string());
                    writer.queue(&Frame::File { index, offset }).await?;
                }
                Event::Data(buffer) => {
                    let buffer = writer.send_data(buffer).await?;
                    self.progress.advance((buffer.len() - HEADER) as u64);
                    // If there are enough spare ones, this one is freed.
                    let _ = spare.try_send(buffer);
                }
                Event::End(hash) => writer.queue(&Frame::End { hash }).await?,
                Event::Skip { index, reason } => {
                    writer.queue(&Frame::Skip { index, reason: reason.clone() }).await?;
                    skipped.push(reason);
                }
            }
        }
    }
}

/// Which proofs were right. What was proved and not kept starts at zero.
async fn read_kept<C: Connection>(
    framed: &mut Framed<C>,
    mut hashed: Kept,
) -> Result<Kept, TransferError> {
    let mut kept = Kept::new();
    loop {
        match framed.reader.next("waiting for the receiver to check what it has").await? {
            Frame::Go => return Ok(kept),
            Frame::Keep { index } => match hashed.remove(&index) {
                Some(prefix) => drop(kept.insert(index, prefix)),
                None => return Err(unexpected(&Frame::Keep { index }, "KEEP of a proved file")),
            },
            other => return Err(unexpected(&other, "KEEP or GO")),
        }
    }
}

/// Counts STORED until DONE, which has the receiver's totals.
async fn confirmations(
    reader: &mut FrameReader<impl AsyncRead + Unpin>,
    expected: &[u32],
    stored: &mut usize,
) -> Result<(u32, u64), TransferError> {
    let mut last = None;
    loop {
        match reader.next("waiting for the receiver to confirm").await? {
            Frame::Done { files, bytes } => return Ok((files, bytes)),
            frame @ Frame::Stored { index } => {
                if expected.binary_search(&index).is_err() || last >= Some(index) {
                    return Err(unexpected(&frame, "STORED of a file that was sent"));
                }
                last = Some(index);
                *stored += 1;
            }
            other => return Err(unexpected(&other, "STORED or DONE")),
        }
    }
}

/// Runs both until the peer's last word, which may come only after `pump` has set `all_sent`: as
/// soon as it begins to write its own last word. The peer's reason beats our broken pipe.
pub(crate) async fn race<T>(
    all_sent: &AtomicBool,
    pump: impl Future<Output = Result<(), TransferError>>,
    replies: impl Future<Output = Result<T, TransferError>>,
) -> Result<T, TransferError> {
    let mut pump = std::pin::pin!(pump);
    let mut replies = std::pin::pin!(replies);
    tokio::select! {
        reply = &mut replies => match reply {
            Err(reason) => Err(reason),
            Ok(last_word) if all_sent.load(Relaxed) => Ok(last_word),
            Ok(_) => Err(TransferError::Unexpected {
                got: "DONE before everything was sent".to_owned(),
                expected: "STORED",
            }),
        },
        sent = &mut pump => match sent {
            Ok(()) => replies.await,
            Err(error) => match tokio::time::timeout(Duration::from_secs(1), replies).await {
                Ok(Err(reason @ TransferError::Peer { .. })) => Err(reason),
                _ => Err(error),
            },
        },
    }
}

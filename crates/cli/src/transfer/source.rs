//! The sender's disk thread: reads and hashes ahead of the connection.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::mpsc;

use crate::transfer::disk::{CHUNK, CHUNKS_AHEAD, hash_prefix};
use crate::transfer::error::TransferError;
use crate::transfer::frame::{self, HEADER, Hash};
use crate::transfer::known::{Known, STEP, Stamp};
use crate::transfer::list::{Entry, FileList};

/// What the connection sends next.
#[derive(Debug)]
pub enum Event {
    /// Bytes of this file follow from `offset` on.
    File {
        /// Position in the list.
        index: u32,
        /// First byte sent.
        offset: u64,
    },
    /// A DATA frame, header included.
    Data(Vec<u8>),
    /// All of the file was read; its hash.
    End(Hash),
    /// The file cannot be sent.
    Skip {
        /// Position in the list.
        index: u32,
        /// Why.
        reason: String,
    },
}

/// A file to send and where to start.
#[derive(Debug)]
pub struct Start {
    /// Position in the list.
    pub index: u32,
    /// What the receiver has of it.
    pub resume: Option<Prefix>,
}

/// The beginning of a file as it was when the receiver was told its hash.
#[derive(Debug)]
pub struct Prefix {
    /// Of that many bytes.
    pub hasher: Box<blake3::Hasher>,
    /// What follows is of this file and no other.
    stamp: Stamp,
}

/// Opens the file of `entry` at `origin` and checks that it is still what was listed.
fn open(entry: &Entry, origin: &Path) -> io::Result<File> {
    let mut options = File::options();
    // NONBLOCK: a pipe put there since would otherwise block this thread for ever.
    let file =
        options.read(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32).open(origin)?;
    check_unchanged(entry, &file)?;
    Ok(file)
}

fn check_unchanged(entry: &Entry, file: &File) -> io::Result<()> {
    let now = file.metadata()?;
    let same = now.is_file()
        && Some(now.len()) == entry.file_size()
        && now.mtime() == entry.mtime.seconds
        && now.mtime_nsec() == i64::from(entry.mtime.nanos);
    if same { Ok(()) } else { Err(changed()) }
}

/// Stricter: who wrote in it meanwhile may have put its time back.
fn check_untouched(since: Stamp, file: &File) -> io::Result<()> {
    let same = Stamp::of(&file.metadata()?) == since;
    if same { Ok(()) } else { Err(changed()) }
}

fn changed() -> io::Error {
    io::Error::other("it changed while it was being sent")
}

/// Some file systems, as `/proc`, say of files that they have no bytes, and make some up for who reads them.
fn is_at_its_end(file: &mut File) -> io::Result<()> {
    match file.read(&mut [0]) {
        Ok(0) => Ok(()),
        Ok(_) => Err(without_size()),
        Err(e) => Err(e),
    }
}

fn without_size() -> io::Error {
    io::Error::other(
        "it has another size than it says; what comes out of it is sent by `tack send -`",
    )
}

/// The hash of the first `bytes` of the file at `index`, and, unless these are all of it, its state.
pub fn hash_origin(
    list: &FileList,
    origins: &[PathBuf],
    known: &Known,
    index: u32,
    bytes: u64,
) -> Result<(blake3::Hash, Option<Prefix>), TransferError> {
    let (entry, size) = list.file(index).expect("the caller checked that it is a file");
    let origin = &origins[index as usize];
    let hashed = open(entry, origin).and_then(|mut file| {
        let stamp = Stamp::of(&file.metadata()?);
        if let Some(hash) = known.whole(stamp).filter(|_| bytes == size) {
            return Ok((hash, None));
        }
        let hasher = hash_prefix(&mut file, known.beginning(stamp, bytes), bytes, || true)?;
        let hash = hasher.finalize();
        if bytes == size {
            known.learn_whole(stamp, hash);
        }
        // Only of a part need the state be kept: there are few of those.
        Ok((hash, (bytes < size).then(|| Prefix { hasher: Box::new(hasher), stamp })))
    });
    hashed.map_err(TransferError::disk("read", origin))
}

/// Reads files in order on its own thread.
pub struct Source {
    /// What.
    pub list: Arc<FileList>,
    /// Where each entry comes from.
    pub origins: Arc<Vec<PathBuf>>,
    /// What was hashed before, and what is.
    pub known: Arc<Known>,
    /// Chunks for the connection.
    pub events: mpsc::Sender<Event>,
    /// Buffers that have been sent.
    pub spare: mpsc::Receiver<Vec<u8>>,
    /// Bytes that this connection was given.
    pub given: u64,
}

/// Bytes of the first frames of a connection. A frame that its end cuts in two is lost: so each is at most a
/// [`PART`]th of what came before, on a path that takes minutes for a large one as well.
const FIRST: usize = 8 << 10;
const PART: u64 = 8;

/// The connection is gone; whoever owns it knows why.
struct Gone;

impl Source {
    /// Reads each of `starts`; ends early when nobody listens.
    pub fn run(mut self, starts: Vec<Start>) {
        for start in starts {
            let index = start.index;
            let sent = match self.send(start) {
                Ok(Ok(())) => Ok(()),
                Ok(Err(error)) => {
                    let origin = &self.origins[index as usize];
                    let reason = TransferError::disk("read", origin)(error).to_string();
                    self.event(Event::Skip { index, reason })
                }
                Err(gone) => Err(gone),
            };
            if sent.is_err() {
                return;
            }
        }
    }

    fn send(&mut self, start: Start) -> Result<io::Result<()>, Gone> {
        let list = Arc::clone(&self.list);
        let (entry, size) = list.file(start.index).expect("starts name files");
        let mut file = match open(entry, &self.origins[start.index as usize]) {
            Ok(file) => file,
            Err(e) => return Ok(Err(e)),
        };
        let stamp = match file.metadata() {
            Ok(meta) => Stamp::of(&meta),
            Err(e) => return Ok(Err(e)),
        };
        // Size and time may be as listed, and the rest of another file.
        if start.resume.as_ref().is_some_and(|proved| proved.stamp != stamp) {
            return Ok(Err(changed()));
        }
        let mut hasher = start.resume.map_or_else(blake3::Hasher::new, |proved| *proved.hasher);
        let offset = hasher.count();
        if let Err(e) = file.seek(io::SeekFrom::Start(offset)) {
            return Ok(Err(e));
        }
        self.event(Event::File { index: start.index, offset })?;
        let mut left = size - offset;
        let mut next_step = offset + STEP;
        while left > 0 {
            let mut buffer = self.spare.try_recv().unwrap_or_default();
            let part = (self.given / PART).max(FIRST as u64).min(left);
            let want = CHUNK.min(usize::try_from(part).unwrap_or(CHUNK));
            buffer.resize(HEADER + want, 0);
            if let Err(e) = file.read_exact(&mut buffer[HEADER..]) {
                // It may have become shorter.
                let short = e.kind() == io::ErrorKind::UnexpectedEof;
                let why = if short { without_size() } else { e };
                return Ok(check_unchanged(entry, &file).and(Err(why)));
            }
            hasher.update(&buffer[HEADER..]);
            buffer[..HEADER].copy_from_slice(&frame::data_header(want));
            self.event(Event::Data(buffer))?;
            left -= want as u64;
            self.given += want as u64;
            if hasher.count() >= next_step {
                self.known.learn_beginning(stamp, hasher.clone());
                next_step = hasher.count() + STEP;
            }
        }
        if let Err(e) = check_untouched(stamp, &file).and_then(|()| is_at_its_end(&mut file)) {
            return Ok(Err(e));
        }
        let hash = hasher.finalize();
        self.known.learn_whole(stamp, hash);
        self.event(Event::End(*hash.as_bytes())).map(Ok)
    }

    fn event(&self, event: Event) -> Result<(), Gone> {
        self.events.blocking_send(event).map_err(|_| Gone)
    }
}

/// The channels between a [`Source`] and its connection.
pub type Channels =
    (mpsc::Sender<Event>, mpsc::Receiver<Event>, mpsc::Sender<Vec<u8>>, mpsc::Receiver<Vec<u8>>);

/// Bounded channels: events one way, spent buffers the other.
pub fn channels() -> Channels {
    let (events_in, events_out) = mpsc::channel(CHUNKS_AHEAD);
    let (spare_in, spare_out) = mpsc::channel(CHUNKS_AHEAD + 2);
    (events_in, events_out, spare_in, spare_out)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::os::unix::fs::FileExt;

    use super::*;
    use crate::transfer::scan::scan;

    /// The last that is heard of a file, where each event is followed by `meanwhile`.
    fn last_event(at: &Path, meanwhile: impl Fn()) -> Option<Event> {
        each_event(at, |_| meanwhile())
    }

    /// Shows `look` what is heard of a file; the last of it.
    fn each_event(at: &Path, look: impl FnMut(&Event)) -> Option<Event> {
        each_event_from(at, |_, _| None, look)
    }

    /// The same, of what follows upon that which was proved.
    fn each_event_from(
        at: &Path,
        prove: impl FnOnce(&FileList, &[PathBuf]) -> Option<Prefix>,
        mut look: impl FnMut(&Event),
    ) -> Option<Event> {
        let found = scan(&[at.to_owned()], false).unwrap();
        let resume = prove(&found.list, &found.origins);
        let (events, mut heard, _spent, spare) = channels();
        let (list, origins) = (Arc::new(found.list), Arc::new(found.origins));
        let source = Source { list, origins, known: Arc::default(), events, spare, given: 0 };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let start = Start { index: 0, resume };
            tokio::task::spawn_blocking(move || source.run(vec![start]));
            let mut last = None;
            while let Some(event) = heard.recv().await {
                look(&event);
                last = Some(event);
            }
            last
        })
    }

    #[test]
    fn what_was_sent_is_not_read_again_to_prove_it_unless_the_file_was_written_since() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("f");
        let film: Vec<u8> = (0..5 * STEP as usize / 2).map(|i| (i / 251) as u8).collect();
        std::fs::write(&at, &film).unwrap();
        let found = scan(std::slice::from_ref(&at), false).unwrap();
        let (list, origins) = (Arc::new(found.list), Arc::new(found.origins));
        let known = Arc::<Known>::default();
        let (events, mut heard, _spent, spare) = channels();
        let source = Source {
            list: Arc::clone(&list),
            origins: Arc::clone(&origins),
            known: Arc::clone(&known),
            events,
            spare,
            given: 0,
        };
        let sending = std::thread::Builder::new();
        let start = Start { index: 0, resume: None };
        let sending = sending.spawn(move || source.run(vec![start])).unwrap();
        while heard.blocking_recv().is_some() {}
        sending.join().unwrap();
        let stamp = || Stamp::of(&std::fs::metadata(&at).unwrap());
        let (sent, most) = (stamp(), film.len() as u64);
        let prove = |bytes| hash_origin(&list, &origins, &known, 0, bytes).unwrap();
        assert_eq!(known.whole(sent), Some(blake3::hash(&film)));
        assert!(known.beginning(sent, most - 1).count() >= 2 * STEP);
        let part = &film[..film.len() - 5];
        let (hash, state) = prove(part.len() as u64);
        assert_eq!(hash, blake3::hash(part));
        assert_eq!(state.unwrap().hasher.count(), part.len() as u64);
        // Of what is known to be another it is not noticed: nobody reads it.
        known.learn_whole(sent, blake3::hash(b"other"));
        assert_eq!(prove(most).0, blake3::hash(b"other"));
        // The same length and time, and another byte.
        let modified = std::fs::metadata(&at).unwrap().modified().unwrap();
        let mut other = film.clone();
        other[5] ^= 1;
        std::fs::write(&at, &other).unwrap();
        File::options().write(true).open(&at).unwrap().set_modified(modified).unwrap();
        assert_eq!(prove(most).0, blake3::hash(&other));
        assert_eq!(prove(most - 5).0, blake3::hash(&other[..film.len() - 5]));
    }

    #[test]
    fn nothing_of_another_file_follows_upon_what_was_proved_of_one_of_its_size_and_time() {
        let dir = tempfile::tempdir().unwrap();
        let (at, other) = (dir.path().join("f"), dir.path().join("g"));
        std::fs::write(&at, [1; 9_000]).unwrap();
        let modified = std::fs::metadata(&at).unwrap().modified().unwrap();
        let after = |meanwhile: &dyn Fn()| {
            let prove = |list: &FileList, origins: &[PathBuf]| {
                let (_, proved) = hash_origin(list, origins, &Known::default(), 0, 5_000).unwrap();
                meanwhile();
                proved
            };
            each_event_from(&at, prove, |_| {})
        };
        let Some(Event::End(whole)) = after(&|| {}) else { panic!("it is as it was") };
        assert_eq!(whole, *blake3::hash(&[1; 9_000]).as_bytes());
        let last = after(&|| {
            std::fs::write(&other, [2; 9_000]).unwrap();
            File::options().write(true).open(&other).unwrap().set_modified(modified).unwrap();
            std::fs::rename(&other, &at).unwrap();
        });
        let Some(Event::Skip { reason, .. }) = last else { panic!("{last:?}") };
        assert!(reason.contains("it changed while it was being sent"), "{reason}");
    }

    #[test]
    fn what_a_connection_that_ends_cuts_in_two_is_small_beside_what_it_carried() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("f");
        File::create(&at).unwrap().set_len(5_000_000).unwrap();
        let (mut given, mut largest) = (0, 0);
        each_event(&at, |event| {
            if let Event::Data(frame) = event {
                let bytes = frame.len() - HEADER;
                assert!(bytes <= FIRST.max(given / 8), "{bytes} after {given}");
                given += bytes;
                largest = largest.max(bytes);
            }
        });
        assert_eq!((given, largest), (5_000_000, CHUNK));
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a file's time is the kernel's")]
    fn a_file_that_is_written_in_under_way_has_changed_though_its_time_is_put_back() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("f");
        let file = File::create(&at).unwrap();
        file.set_len(100 * CHUNK as u64).unwrap();
        let modified = file.metadata().unwrap().modified().unwrap();
        let written = Cell::new(false);
        let last = last_event(&at, || {
            if written.replace(true) {
                return;
            }
            // Two times within one tick of the kernel's clock are the same.
            std::thread::sleep(std::time::Duration::from_millis(20));
            // Its tail has not been read.
            file.write_all_at(&[1], 0).unwrap();
            file.write_all_at(&[1], 100 * CHUNK as u64 - 1).unwrap();
            file.set_modified(modified).unwrap();
        });
        let Some(Event::Skip { reason, .. }) = last else { panic!("{last:?}") };
        assert!(reason.contains("it changed while it was being sent"), "{reason}");
    }

    #[test]
    fn a_file_that_becomes_shorter_under_way_is_said_to_have_changed() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("f");
        let file = File::create(&at).unwrap();
        file.set_len(100 * CHUNK as u64).unwrap();
        let last = last_event(&at, || file.set_len(1).unwrap());
        let Some(Event::Skip { reason, .. }) = last else { panic!("{last:?}") };
        assert!(reason.contains("it changed while it was being sent"), "{reason}");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_file_that_has_more_or_less_than_its_size_is_left_out_and_not_called_sent() {
        // The first says that it has no bytes, the second that it has a page.
        for at in ["/proc/self/status", "/sys/kernel/mm/transparent_hugepage/enabled"] {
            if !Path::new(at).exists() {
                continue;
            }
            let last = last_event(Path::new(at), || {});
            let Some(Event::Skip { reason, .. }) = last else { panic!("{at}: {last:?}") };
            assert!(reason.contains("another size than it says"), "{reason}");
        }
    }
}

//! Several senders of one name, connections that die, and what may be called verified then.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::RngExt;
use rand_pcg::Pcg64;
use tack_cli::exit::ExitCode;
use tack_cli::progress::Progress;
use tack_cli::stop::Stop;
use tack_cli::transfer::calls::{Call, FileSystem};
use tack_cli::transfer::frame::SenderId;
use tack_cli::transfer::frame::{Code, Frame, MAX_DATA};
use tack_cli::transfer::name::RelPath;
use tack_cli::transfer::recv::{Intake, Limits, receive_tree};
use tack_cli::transfer::scan::scan;
use tack_cli::transfer::send::send_tree;
use tack_cli::transfer::sessions::Sessions;
use tack_cli::transfer::store::{Durability, Store};
use tack_cli::transfer::wire::{FrameReader, FrameWriter};
use tack_cli::transfer::{TransferError, VERSION};
use tempfile::tempdir;
use tokio::io::{AsyncWriteExt, DuplexStream, duplex};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::hostile::{frames, opening_of, raw_entry};
use crate::support::{Death, ME, Mortal, random_bytes, rng, run};

const OTHER: SenderId = [8; 32];

/// Far more than anything takes that does not wait for a timeout of the protocol's.
const SOON: Duration = Duration::from_secs(30);

/// A receiving command's sessions in `dir`.
fn intake(dir: &Path) -> Intake {
    Intake::alone(Store::open(dir, Durability::Lazy).unwrap())
}

/// A sender whose every word the test chooses, and the session that serves it.
struct Puppet {
    reader: FrameReader<tokio::io::ReadHalf<DuplexStream>>,
    writer: FrameWriter<tokio::io::WriteHalf<DuplexStream>>,
    session: JoinHandle<Result<(), TransferError>>,
}

impl Puppet {
    /// One that has sent its list.
    async fn lists(intake: &Intake, sender: SenderId, files: &[(&str, &[u8])]) -> Puppet {
        let (here, there) = duplex(1 << 16);
        let intake = intake.clone();
        let session = tokio::spawn(async move {
            let (quiet, never) = (Progress::hidden(), Stop::never());
            receive_tree(there, &intake, &quiet, &never).await.map(drop)
        });
        let (reader, mut writer) = tokio::io::split(here);
        let bytes = files.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        let listed = Frame::Listed { entries: files.len() as u32, bytes };
        let entries = files
            .iter()
            .flat_map(|(name, bytes)| raw_entry(1, bytes.len() as u64, name.as_bytes(), b""));
        let said = [opening_of(sender), entries.collect(), frames(&[listed])].concat();
        writer.write_all(&said).await.unwrap();
        let mut reader = FrameReader::new(reader);
        reader.preface().await.unwrap();
        let mut puppet = Puppet { reader, writer: FrameWriter::new(writer), session };
        puppet.hears(&Frame::Welcome { version: VERSION }).await;
        puppet
    }

    async fn hear(&mut self) -> Frame {
        timeout(SOON, self.reader.next("testing")).await.expect("an answer").unwrap()
    }

    /// Waits for `wanted`.
    async fn hears(&mut self, wanted: &Frame) {
        while self.hear().await != *wanted {}
    }

    async fn says(&mut self, frames: &[Frame]) {
        for frame in frames {
            self.writer.send(frame).await.unwrap();
        }
    }

    /// Sends the file at `index` from `offset` on, up to `end`.
    async fn sends(&mut self, index: u32, offset: usize, part: &[u8]) {
        self.says(&[Frame::File { index, offset: offset as u64 }]).await;
        for chunk in part.chunks(MAX_DATA) {
            self.says(&[Frame::Data(chunk.to_vec())]).await;
        }
    }

    /// Goes without a word; what it sent is on the disk when this returns.
    async fn goes(self) {
        drop((self.reader, self.writer));
        self.session.await.unwrap().unwrap_err();
    }
}

fn hash(bytes: &[u8]) -> [u8; 32] {
    *blake3::hash(bytes).as_bytes()
}

/// The three sends of one name by which a corrupted file was called verified.
#[test]
fn what_was_proved_is_not_written_by_another_session_before_it_is_continued() {
    for other in [OTHER, ME] {
        let dir = tempdir().unwrap();
        let (mine, theirs) =
            (random_bytes(&mut rng(1), 1_000_000), random_bytes(&mut rng(2), 1_000_000));
        let early = random_bytes(&mut rng(3), 100);
        run(async {
            let intake = intake(dir.path());
            let mut first = Puppet::lists(&intake, ME, &[("z", &mine)]).await;
            first.hears(&Frame::Go).await;
            first.sends(0, 0, &mine[..600_000]).await;
            first.goes().await;

            let mut again = Puppet::lists(&intake, ME, &[("early", &early), ("z", &mine)]).await;
            again.hears(&Frame::Have { index: 1, bytes: 600_000 }).await;
            again.hears(&Frame::Planned).await;
            again.says(&[Frame::Proof { index: 1, hash: hash(&mine[..600_000]) }]).await;
            again.hears(&Frame::Keep { index: 1 }).await;
            again.hears(&Frame::Go).await;

            let mut meanwhile = Puppet::lists(&intake, other, &[("z", &theirs)]).await;
            let mut held = None;
            loop {
                match meanwhile.hear().await {
                    Frame::Have { bytes, .. } => held = Some(bytes),
                    Frame::Planned => break,
                    other => panic!("{other:?}"),
                }
            }
            if let Some(bytes) = held {
                let proof = hash(&theirs[..bytes as usize]);
                meanwhile.says(&[Frame::Proof { index: 0, hash: proof }]).await;
            }
            meanwhile.hears(&Frame::Go).await;
            meanwhile.sends(0, 0, &theirs[..700_000]).await;
            meanwhile.goes().await;

            if other == ME {
                // The newer one has taken over, and the older is told so.
                let told = timeout(SOON, again.reader.next("testing")).await.unwrap();
                let superseded = |e: &TransferError| {
                    matches!(e, TransferError::Peer { code: Code::Superseded, .. })
                };
                assert!(told.as_ref().is_err_and(superseded), "{told:?}");
                return;
            }
            again.sends(0, 0, &early).await;
            again.says(&[Frame::End { hash: hash(&early) }]).await;
            again.sends(1, 600_000, &mine[600_000..]).await;
            again.says(&[Frame::End { hash: hash(&mine) }, Frame::Finished]).await;
            again.hears(&Frame::Done { files: 2, bytes: 1_000_100 }).await;
            assert!(fs::read(dir.path().join("z")).unwrap() == mine);
        });
    }
}

#[test]
fn a_sender_that_comes_back_takes_over_from_its_dead_session_at_once() {
    let dir = tempdir().unwrap();
    let film = random_bytes(&mut rng(4), 1_000_000);
    run(async {
        let intake = intake(dir.path());
        let mut dead = Puppet::lists(&intake, ME, &[("film", &film)]).await;
        dead.hears(&Frame::Go).await;
        dead.sends(0, 0, &film[..500_000]).await;
        let path = RelPath::from_bytes(b"film").unwrap();
        while intake.store.partial_bytes(&ME, &path).unwrap_or(0) == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // Nobody tells the receiver: the connection just stays as it is.
        let mut back = Puppet::lists(&intake, ME, &[("film", &film)]).await;
        let Frame::Have { index: 0, bytes } = back.hear().await else { panic!("nothing kept") };
        let bytes = bytes as usize;
        back.says(&[Frame::Proof { index: 0, hash: hash(&film[..bytes]) }]).await;
        back.hears(&Frame::Go).await;
        back.sends(0, bytes, &film[bytes..]).await;
        back.says(&[Frame::End { hash: hash(&film) }, Frame::Finished]).await;
        back.hears(&Frame::Done { files: 1, bytes: 1_000_000 }).await;
        let ended = timeout(SOON, dead.session).await.unwrap().unwrap();
        assert!(matches!(ended, Err(TransferError::Superseded)), "{ended:?}");
    });
    assert!(fs::read(dir.path().join("film")).unwrap() == film);
}

#[test]
fn one_file_from_two_senders_at_once_is_verified_for_both_and_another_for_one_only() {
    for same in [true, false] {
        let dir = tempdir().unwrap();
        let one = random_bytes(&mut rng(5), 10_000);
        let two = if same { one.clone() } else { random_bytes(&mut rng(6), 10_000) };
        run(async {
            let intake = intake(dir.path());
            let mut first = Puppet::lists(&intake, ME, &[("f", &one)]).await;
            let mut second = Puppet::lists(&intake, OTHER, &[("f", &two)]).await;
            first.hears(&Frame::Go).await;
            second.hears(&Frame::Go).await;
            for (puppet, bytes) in [(&mut first, &one), (&mut second, &two)] {
                puppet.sends(0, 0, bytes).await;
                puppet.says(&[Frame::End { hash: hash(bytes) }, Frame::Finished]).await;
                if same || *bytes == one {
                    puppet.hears(&Frame::Done { files: 1, bytes: 10_000 }).await;
                }
            }
            if !same {
                let refused = second.session.await.unwrap().unwrap_err();
                assert!(matches!(refused, TransferError::Exists { .. }), "{refused}");
            }
        });
        assert!(fs::read(dir.path().join("f")).unwrap() == one);
        let left = fs::read_dir(dir.path().join(".tack-partial")).unwrap().count();
        assert_eq!(left, usize::from(!same), "only what was refused is left");
    }
}

#[test]
fn a_file_replaced_between_its_check_and_its_confirmation_is_not_called_kept() {
    let dir = tempdir().unwrap();
    let f = random_bytes(&mut rng(7), 10_000);
    fs::write(dir.path().join("f"), &f).unwrap();
    run(async {
        let intake = intake(dir.path());
        let mut puppet = Puppet::lists(&intake, ME, &[("f", &f)]).await;
        puppet.hears(&Frame::Have { index: 0, bytes: 10_000 }).await;
        puppet.hears(&Frame::Planned).await;
        // It hashes what is there before it reads our proof; give it the time to.
        tokio::time::sleep(Duration::from_millis(300)).await;
        fs::write(dir.path().join("new"), vec![0; 10_000]).unwrap();
        fs::rename(dir.path().join("new"), dir.path().join("f")).unwrap();
        puppet.says(&[Frame::Proof { index: 0, hash: hash(&f) }]).await;
        let refused = puppet.session.await.unwrap().unwrap_err();
        assert!(matches!(refused, TransferError::Exists { .. }), "{refused}");
    });
}

/// Notes what is synced, and takes `gone` away when that is, once.
#[derive(Debug)]
struct Watched {
    synced: Mutex<Vec<u64>>,
    gone: Mutex<Option<PathBuf>>,
}

impl FileSystem for Watched {
    fn before(&self, call: Call<'_>) -> io::Result<usize> {
        if let Call::Sync(file) = call {
            let inode = file.metadata()?.ino();
            self.synced.lock().unwrap().push(inode);
            let mut gone = self.gone.lock().unwrap();
            if gone.as_ref().is_some_and(|path| fs::metadata(path).is_ok_and(|m| m.ino() == inode))
            {
                fs::remove_file(gone.take().unwrap())?;
            }
        }
        Ok(usize::MAX)
    }
}

#[test]
fn an_equal_file_that_has_the_name_already_is_said_to_be_stored_once_it_is_synced_and_still_there()
{
    for goes in [false, true] {
        let dir = tempdir().unwrap();
        let (f, at) = (random_bytes(&mut rng(8), 10_000), dir.path().join("f"));
        let (synced, gone) = (Mutex::default(), Mutex::new(goes.then(|| at.clone())));
        let watched = Arc::new(Watched { synced, gone });
        run(async {
            let system = Arc::<Watched>::clone(&watched);
            let store = Store::open_through(system, dir.path(), Durability::Synced).unwrap();
            let mut puppet = Puppet::lists(&Intake::alone(store), ME, &[("f", &f)]).await;
            puppet.hears(&Frame::Go).await;
            puppet.sends(0, 0, &f).await;
            // Somebody else is faster, and says nothing of it to the disk.
            fs::write(&at, &f).unwrap();
            puppet.says(&[Frame::End { hash: hash(&f) }, Frame::Finished]).await;
            puppet.hears(&Frame::Done { files: 1, bytes: 10_000 }).await;
        });
        let there = fs::metadata(&at).expect("it is there").ino();
        assert!(fs::read(&at).unwrap() == f);
        assert!(watched.synced.lock().unwrap().contains(&there), "what is there was not synced");
    }
}

/// Two to four senders that send a folder of one name into one directory.
struct Crowd {
    inbox: PathBuf,
    senders: Vec<(SenderId, PathBuf)>,
    /// The sessions of the receiving command that runs now, and what serves them.
    sessions: Sessions,
    serving: Vec<JoinHandle<()>>,
    overwrite: bool,
}

type Sending = JoinHandle<Result<(), TransferError>>;

impl Crowd {
    fn new(dir: &Path, rng: &mut Pcg64) -> Crowd {
        let count = rng.random_range(2..=4);
        let shared = random_bytes(rng, 300_000);
        let senders = (0..count).map(|number: u8| {
            let from = dir.join(format!("{number}/z"));
            fs::create_dir_all(&from).unwrap();
            let (early, late) = (rng.random_range(0..400_000), rng.random_range(1..900_000));
            fs::write(from.join("early"), random_bytes(rng, early)).unwrap();
            fs::write(from.join("late"), random_bytes(rng, late)).unwrap();
            fs::write(from.join("shared"), &shared).unwrap();
            // Two of them may be one sender with two folders.
            ([number / rng.random_range(1..=2); 32], from)
        });
        let senders = senders.collect();
        let overwrite = rng.random_bool(0.3);
        let (inbox, sessions) = (dir.join("in"), Sessions::default());
        Crowd { inbox, senders, sessions, serving: Vec::new(), overwrite }
    }

    /// The receiving command is killed, and started anew. What its disk threads were doing goes on
    /// for a moment, as a kernel's writes do.
    fn restart_receiver(&mut self) {
        self.serving.drain(..).for_each(|session| session.abort());
        self.sessions = Sessions::default();
    }

    /// Begins a send over a connection that dies, perhaps.
    fn begin(&mut self, who: usize, death: Option<(Death, usize, bool)>) -> Sending {
        let (here, there) = duplex(16 << 10);
        let (death, bytes_left, sender_sees) = death.unwrap_or((Death::Cut, usize::MAX, true));
        let mortal = |inner, dies: bool| {
            let bytes_left = if dies { bytes_left } else { usize::MAX };
            Mortal { inner, bytes_left, death, is_cut: None }
        };
        let (here, there) = (mortal(here, sender_sees), mortal(there, !sender_sees));
        let intake = Intake {
            store: Arc::new(Store::open(&self.inbox, Durability::Lazy).unwrap()),
            overwrite: self.overwrite,
            sessions: self.sessions.clone(),
            limits: Limits::default(),
        };
        self.serving.push(tokio::spawn(async move {
            let _ = receive_tree(there, &intake, &Progress::hidden(), &Stop::never()).await;
        }));
        let (sender, from) = self.senders[who].clone();
        let found = scan(&[from], false).unwrap();
        tokio::spawn(async move {
            let (quiet, never) = (Progress::hidden(), Stop::never());
            send_tree(here, sender, found, &quiet, &never).await.map(drop)
        })
    }

    /// Which senders' files lie in the inbox, each of them whole.
    fn files(&self) -> BTreeMap<&'static str, Vec<u8>> {
        let read = |name| Some((name, fs::read(self.inbox.join("z").join(name)).ok()?));
        ["early", "late", "shared"].into_iter().filter_map(read).collect()
    }

    fn files_of(&self, who: usize) -> BTreeMap<&'static str, Vec<u8>> {
        let read = |name| (name, fs::read(self.senders[who].1.join(name)).unwrap());
        ["early", "late", "shared"].map(read).into()
    }

    /// What was verified for `who` is there, unless another may have replaced it since.
    fn check_verified(&self, who: usize, context: &str) {
        if !self.overwrite {
            assert_eq!(self.files(), self.files_of(who), "{context}");
        }
    }

    /// Every file in the inbox is one that somebody sent, and all of it.
    fn check(&self, context: &str) {
        for (name, bytes) in self.files() {
            let whole = (0..self.senders.len()).any(|who| self.files_of(who)[name] == bytes);
            assert!(whole, "{context}: `{name}` is nobody's");
        }
    }
}

/// After whatever happened, what anybody called verified is right, and the next attempt gets
/// through: without a word of a former one, and unless another's files have the names.
#[test]
fn after_random_deaths_of_both_ends_nothing_false_was_verified_and_the_next_attempt_gets_through() {
    let first = 0x7ac_0000_u64;
    for seed in first..first + 60 {
        let mut rng = rng(seed);
        let dir = tempdir().unwrap();
        run(async {
            let mut crowd = Crowd::new(dir.path(), &mut rng);
            let (mut verified, mut going_on) = (None, Vec::new());
            for attempt in 0..10 {
                let context = format!("seed {seed:#x} attempt {attempt}");
                if rng.random_bool(0.2) {
                    crowd.restart_receiver();
                }
                let who = rng.random_range(0..crowd.senders.len());
                let death = if rng.random_bool(0.3) { Death::Silence } else { Death::Cut };
                let death = (death, rng.random_range(1..1_500_000), rng.random_bool(0.5));
                let mut sending = crowd.begin(who, Some(death));
                // Some go on beside the next; their ends are killed at random moments.
                let patience = Duration::from_millis(rng.random_range(0..40));
                match timeout(patience, &mut sending).await {
                    Ok(Ok(Ok(()))) => {
                        crowd.check_verified(who, &context);
                        verified = Some(who);
                    }
                    Ok(_) => {}
                    Err(_) if rng.random_bool(0.5) => sending.abort(),
                    Err(_) => going_on.push(sending),
                }
                crowd.check(&context);
            }
            // All others are gone by now, and what they said is heard: nobody is newer.
            going_on.iter().for_each(JoinHandle::abort);
            tokio::time::sleep(Duration::from_millis(50)).await;
            let who = rng.random_range(0..crowd.senders.len());
            let context = format!("seed {seed:#x}, the last");
            let last = timeout(SOON, crowd.begin(who, None)).await.expect(&context).unwrap();
            crowd.check(&context);
            match last {
                Ok(()) => crowd.check_verified(who, &context),
                Err(error) => {
                    // Another's files are in the way, and nothing else is.
                    assert_eq!(error.exit_code(), ExitCode::Refused, "{context}: {error}");
                    assert!(!crowd.overwrite, "{context}: {error}");
                    assert!(error.to_string().contains("already there"), "{context}: {error}");
                    assert_ne!(verified, Some(who), "{context}: {error}");
                }
            }
        });
    }
}

use super::*;
use crate::transfer::list::Mtime;
use crate::transfer::sessions::Sessions;
use crate::transfer::store::Durability;

const ME: [u8; 32] = [3; 32];
const SIZE: usize = 300_000;

/// A session of one file in `store`.
async fn sink(store: &Arc<Store>, sessions: &Sessions) -> Sink {
    let mut list = FileList::new();
    let path = RelPath::from_bytes(b"film").unwrap();
    let (mtime, kind) = (Mtime { seconds: 1_000, nanos: 7 }, Kind::File { size: SIZE as u64 });
    list.push(Entry { path, mode: 0o644, mtime, kind }).unwrap();
    let list = Arc::new(list);
    let place = sessions.enter(ME, &list).await.unwrap();
    Sink { store: Arc::clone(store), list, overwrite: false, place }
}

/// Has `jobs` done by a session, which is over then.
fn works(sink: &Sink, jobs: Vec<Job>) -> Result<(), TransferError> {
    let (give, take) = mpsc::channel(jobs.len() + 1);
    jobs.into_iter().for_each(|job| give.try_send(job).unwrap());
    drop(give);
    sink.run(take, &mpsc::unbounded_channel().0)
}

fn begins(film: &[u8]) -> Vec<Job> {
    vec![Job::File { index: 0, resume: None }, Job::Data(film.to_vec())]
}

/// What is here of the file, and its hash.
fn held(sink: &Sink) -> (u64, blake3::Hash) {
    let held = sink.plan().unwrap().pop().expect("something is held");
    (held.bytes, sink.hash_held(held).unwrap().expect("it is there").hash)
}

/// Does `work` in a new inbox, outside of the runtime, whose disk threads it stands for.
fn in_inbox(work: impl FnOnce(&std::path::Path, &dyn Fn() -> Sink)) {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(dir.path(), Durability::Lazy).unwrap());
    let sessions = Sessions::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    work(dir.path(), &|| runtime.block_on(sink(&store, &sessions)));
}

/// Waits until the clock of files goes on: who says an old time within one tick leaves no trace.
#[expect(clippy::disallowed_methods, reason = "a file's time is the kernel's")]
fn tick() {
    std::thread::sleep(std::time::Duration::from_millis(20));
}

fn bogus(bytes: usize) -> blake3::Hasher {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&vec![9; bytes]);
    hasher
}

#[test]
fn what_a_former_session_left_is_not_read_again_unless_it_was_written_since() {
    let film: Vec<u8> = (0..SIZE).map(|i| (i / 7) as u8).collect();
    let half = &film[..SIZE / 2];
    in_inbox(|dir, session| {
        works(&session(), begins(half)).unwrap();
        let next = session();
        assert_eq!(held(&next), (half.len() as u64, blake3::hash(half)));
        // Known to be what it is not, it would not be believed by who reads it.
        let partial = std::fs::read_dir(dir.join(".tack-partial")).unwrap().next().unwrap();
        let partial = partial.unwrap().path();
        let stamp = Stamp::of(&std::fs::metadata(&partial).unwrap());
        next.place.known().learn_beginning(stamp, bogus(half.len()));
        assert_eq!(held(&next).1, bogus(half.len()).finalize(), "it was read");
        // A byte of it is another, and its time is said to be as before.
        let modified = std::fs::metadata(&partial).unwrap().modified().unwrap();
        tick();
        let mut other = half.to_vec();
        other[5] ^= 1;
        std::fs::write(&partial, &other).unwrap();
        File::options().write(true).open(&partial).unwrap().set_modified(modified).unwrap();
        assert_eq!(held(&next).1, blake3::hash(&other));
    });
}

#[test]
fn what_was_stored_is_not_read_again_unless_it_was_written_since() {
    let film: Vec<u8> = (0..SIZE).map(|i| (i / 5) as u8).collect();
    in_inbox(|dir, session| {
        let end = Job::End(*blake3::hash(&film).as_bytes());
        works(&session(), begins(&film).into_iter().chain([end]).collect()).unwrap();
        let (next, at) = (session(), dir.join("film"));
        assert_eq!(held(&next), (SIZE as u64, blake3::hash(&film)));
        let known = |hash| {
            next.place.known().learn_whole(Stamp::of(&std::fs::metadata(&at).unwrap()), hash);
        };
        let bogus = blake3::hash(b"something else");
        known(bogus);
        assert_eq!(held(&next).1, bogus, "it was read");
        // Where a write might leave no trace, it is.
        let modified = std::fs::metadata(&at).unwrap().modified().unwrap();
        tick();
        let mut other = film.clone();
        other[5] ^= 1;
        std::fs::write(&at, &other).unwrap();
        assert_eq!(held(&next).1, blake3::hash(&other));
        let now = Stamp::of(&std::fs::metadata(&at).unwrap());
        assert_eq!((now.is_dated(), next.place.known().whole(now)), (false, None));
        // Nor does it help to say the time that it had.
        File::options().write(true).open(&at).unwrap().set_modified(modified).unwrap();
        assert_eq!(held(&next).1, blake3::hash(&other));
    });
}

#[test]
fn what_could_not_be_written_is_not_known() {
    in_inbox(|_, session| {
        let sink = session();
        let too_much = vec![0; SIZE + 1];
        works(&sink, begins(&too_much)).unwrap_err();
        let partial = sink.plan().unwrap();
        assert!(partial.is_empty(), "{partial:?}");
    });
}

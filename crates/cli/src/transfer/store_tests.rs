use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

const ME: SenderId = [7; 32];
const MTIME: Mtime = Mtime { seconds: 1_000_000_000, nanos: 5 };

fn path(p: &str) -> RelPath {
    RelPath::from_bytes(p.as_bytes()).unwrap()
}

fn temporary() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("in"), Durability::Synced).unwrap();
    (dir, store)
}

fn write(store: &Store, p: &str, bytes: &[u8], overwrite: bool) -> Result<(), TransferError> {
    let mut partial = store.open_partial(&ME, &path(p), 0)?;
    partial.write(bytes).unwrap();
    match store.place(&partial, &path(p), 0o640, MTIME, overwrite)? {
        true => Ok(()),
        false => Err(TransferError::exists(&[p.to_owned()])),
    }
}

#[test]
fn a_placed_file_has_its_bytes_mode_and_time_and_no_partial_is_left() {
    let (dir, store) = temporary();
    store.make_dir(&path("d"), 0o755).unwrap();
    write(&store, "d/f", b"hello", false).unwrap();
    let at = dir.path().join("in/d/f");
    assert_eq!(std::fs::read(&at).unwrap(), b"hello");
    let meta = std::fs::metadata(&at).unwrap();
    assert_eq!(meta.permissions().mode() & 0o7777, 0o640);
    let mtime = meta.modified().unwrap().duration_since(std::time::UNIX_EPOCH).unwrap();
    assert_eq!(mtime, std::time::Duration::new(1_000_000_000, 5));
    store.finish_dir(&path("d"), 0o755, MTIME, false).unwrap();
    store.tidy();
    assert!(!dir.path().join("in").join(PARTIAL_DIR).exists());
}

#[test]
fn nothing_is_replaced_unless_told() {
    let (dir, store) = temporary();
    write(&store, "f", b"old", false).unwrap();
    let refused = write(&store, "f", b"new", false).unwrap_err();
    assert!(refused.to_string().contains("already there"), "{refused}");
    assert_eq!(std::fs::read(dir.path().join("in/f")).unwrap(), b"old");
    write(&store, "f", b"new", true).unwrap();
    assert_eq!(std::fs::read(dir.path().join("in/f")).unwrap(), b"new");
}

#[test]
fn a_link_that_lies_in_the_way_is_never_followed() {
    let (dir, store) = temporary();
    let outside = dir.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    symlink(&outside, dir.path().join("in/d")).unwrap();
    assert!(store.make_dir(&path("d"), 0o755).is_err());
    assert!(write(&store, "d/f", b"x", true).is_err());
    assert!(store.make_link(&ME, &path("d/l"), b"x", MTIME, true).is_err());
    assert!(store.present(&path("d/f")).is_err());
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
}

#[test]
fn overwriting_a_link_replaces_the_link_not_its_target() {
    let (dir, store) = temporary();
    let target = dir.path().join("precious");
    std::fs::write(&target, b"precious").unwrap();
    symlink(&target, dir.path().join("in/f")).unwrap();
    write(&store, "f", b"new", true).unwrap();
    assert_eq!(std::fs::read(&target).unwrap(), b"precious");
    assert_eq!(std::fs::read(dir.path().join("in/f")).unwrap(), b"new");
}

#[test]
fn a_planted_link_in_the_place_for_partial_files_is_refused() {
    let (dir, store) = temporary();
    let victim = dir.path().join("victim");
    std::fs::write(&victim, b"victim").unwrap();
    let planted =
        dir.path().join("in").join(PARTIAL_DIR).join(partial_name(&ME, &path("f"), "part"));
    symlink(&victim, planted).unwrap();
    assert!(store.open_partial(&ME, &path("f"), 0).is_err());
    assert_eq!(std::fs::read(&victim).unwrap(), b"victim");
}

#[test]
fn two_transfers_cannot_write_one_file_at_once() {
    let (_dir, store) = temporary();
    let first = store.open_partial(&ME, &path("f"), 0).unwrap();
    assert!(store.open_partial(&ME, &path("f"), 0).is_err());
    drop(first);
    assert!(store.open_partial(&ME, &path("f"), 0).is_ok());
}

#[test]
fn a_process_started_meanwhile_does_not_keep_a_file_locked() {
    let (_dir, store) = temporary();
    let first = store.open_partial(&ME, &path("f"), 0).unwrap();
    // What a child has between its fork and its exec: the same open file by another descriptor.
    let inherited = first.file.try_clone().unwrap();
    drop(first);
    assert!(store.open_partial(&ME, &path("f"), 0).is_ok());
    drop(inherited);
}

#[test]
fn a_file_that_got_its_name_while_another_waited_for_its_lock_is_left_alone() {
    let (dir, store) = temporary();
    for round in 0..200 {
        let name = format!("f{round}");
        let (before, after) = std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                // Whatever it gets, it may not be the file that has its name by now.
                store.open_partial(&ME, &path(&name), 0).map(|mut p| p.write(b"other"))
            });
            let ours = write(&store, &name, b"ours", false);
            (ours, other.join().unwrap())
        });
        drop(after);
        if before.is_ok() {
            assert_eq!(std::fs::read(dir.path().join("in").join(&name)).unwrap(), b"ours");
        }
    }
}

#[test]
fn the_place_for_partial_files_stays_while_anybody_needs_it() {
    let (dir, store) = temporary();
    let place = dir.path().join("in").join(PARTIAL_DIR);
    let other = Store::open(&dir.path().join("in"), Durability::Synced).unwrap();
    other.tidy();
    assert!(place.exists());
    assert!(store.open_partial(&ME, &path("f"), 0).is_ok());
    std::fs::remove_file(place.join(partial_name(&ME, &path("f"), "part"))).unwrap();
    store.tidy();
    assert!(!place.exists());
}

#[test]
fn senders_do_not_share_what_is_under_way() {
    let (_dir, store) = temporary();
    let mine = store.open_partial(&ME, &path("f"), 0).unwrap();
    assert!(store.open_partial(&[8; 32], &path("f"), 0).is_ok());
    drop(mine);
}

#[test]
fn a_folder_that_was_there_keeps_its_mode() {
    let (dir, store) = temporary();
    let theirs = dir.path().join("in/theirs");
    std::fs::create_dir(&theirs).unwrap();
    std::fs::set_permissions(&theirs, std::fs::Permissions::from_mode(0o700)).unwrap();
    for name in ["theirs", "ours"] {
        store.make_dir(&path(name), 0o755).unwrap();
        store.finish_dir(&path(name), 0o755, MTIME, false).unwrap();
    }
    let mode = |name: &str| {
        std::fs::metadata(dir.path().join("in").join(name)).unwrap().permissions().mode() & 0o777
    };
    assert_eq!((mode("theirs"), mode("ours")), (0o700, 0o755));
}

#[test]
fn what_was_left_out_of_a_folder_that_nobody_may_write_in_comes_later() {
    let (dir, store) = temporary();
    let mode_of = |name: &str| {
        std::fs::metadata(dir.path().join("in").join(name)).unwrap().permissions().mode() & 0o777
    };
    for name in ["locked", "theirs"] {
        store.make_dir(&path(name), 0o555).unwrap();
        store.finish_dir(&path(name), 0o555, MTIME, false).unwrap();
    }
    let theirs = dir.path().join("in/theirs");
    std::fs::set_permissions(theirs, std::fs::Permissions::from_mode(0o500)).unwrap();
    let locked = 0o555 & !umask().as_raw_mode();
    assert_eq!((mode_of("locked"), mode_of("theirs")), (locked, 0o500));
    for name in ["locked", "theirs"] {
        store.make_dir(&path(name), 0o555).unwrap();
    }
    assert_eq!((mode_of("locked"), mode_of("theirs")), (locked | 0o200, 0o500));
    write(&store, "locked/late", b"late", false).unwrap();
    // Cut off here, another transfer gives it its mode.
    store.make_dir(&path("locked"), 0o555).unwrap();
    for name in ["locked", "theirs"] {
        store.finish_dir(&path(name), 0o555, MTIME, false).unwrap();
    }
    assert_eq!((mode_of("locked"), mode_of("theirs")), (locked, 0o500));
}

#[test]
fn what_arrives_can_be_read_by_whoever_owns_it_whatever_its_sender_says() {
    // Else it could not be compared with what is sent once more, and each later transfer would fail.
    let (dir, store) = temporary();
    store.make_dir(&path("d"), 0o755).unwrap();
    let partial = store.open_partial(&ME, &path("d/f"), 0).unwrap();
    assert!(store.place(&partial, &path("d/f"), 0o020, MTIME, false).unwrap());
    store.finish_dir(&path("d"), 0o030, MTIME, false).unwrap();
    let mode = |name: &str| {
        std::fs::metadata(dir.path().join("in").join(name)).unwrap().permissions().mode() & 0o777
    };
    assert_eq!(
        (mode("d"), mode("d/f")),
        (0o530 & !umask().as_raw_mode(), 0o420 & !umask().as_raw_mode())
    );
}

#[test]
fn a_partial_file_is_cut_to_what_is_kept() {
    let (_dir, store) = temporary();
    store.open_partial(&ME, &path("f"), 0).unwrap().write(b"0123456789").unwrap();
    assert_eq!(store.partial_bytes(&ME, &path("f")), Some(10));
    drop(store.open_partial(&ME, &path("f"), 4).unwrap());
    assert_eq!(store.partial_bytes(&ME, &path("f")), Some(4));
    assert_eq!(store.partial_bytes(&ME, &path("other")), None);
}

#[test]
fn another_session_that_tries_whether_case_matters_is_in_nobody_s_way() {
    let (dir, store) = temporary();
    let partial = dir.path().join("in").join(PARTIAL_DIR);
    let before = store.is_case_sensitive().unwrap();
    for name in ["CASE", "case"] {
        std::fs::write(partial.join(name), "another's").unwrap();
        assert_eq!(store.is_case_sensitive().unwrap(), before, "{name} is there");
        std::fs::remove_file(partial.join(name)).unwrap();
    }
    std::fs::create_dir(partial.join("case")).unwrap();
    assert_eq!(store.is_case_sensitive().unwrap(), before, "a folder is there");
    assert_eq!(std::fs::read_dir(&partial).unwrap().count(), 1, "nothing is left over");
}

/// Counts calls, fails those that are to fail.
#[derive(Debug, Default)]
struct Counting {
    calls: std::sync::Mutex<std::collections::BTreeMap<&'static str, usize>>,
    fails: std::sync::Mutex<Option<(&'static str, Errno)>>,
}

impl FileSystem for Counting {
    fn before(&self, call: Call<'_>) -> std::io::Result<usize> {
        let name = match call {
            Call::Make => "make",
            Call::Write(..) => "write",
            Call::Resize(..) => "resize",
            Call::Sync(_) => "sync",
            Call::SyncNames(_) => "sync names",
            Call::Rename { .. } => "rename",
            Call::Attributes => "attributes",
            Call::Remove => "remove",
        };
        *self.calls.lock().unwrap().entry(name).or_default() += 1;
        match *self.fails.lock().unwrap() {
            Some((fails, how)) if fails == name => Err(how.into()),
            _ => Ok(usize::MAX),
        }
    }
}

#[test]
fn every_change_asks_first_those_of_opening_trying_and_removing_too() {
    let dir = tempfile::tempdir().unwrap();
    let counting = std::sync::Arc::new(Counting::default());
    let counted = |name| counting.calls.lock().unwrap().get(name).copied().unwrap_or(0);
    let inbox = dir.path().join("a/b");
    let store = Store::open_through(counting.clone(), &inbox, Durability::Synced).unwrap();
    // Two folders, and that of the partial files.
    assert_eq!((counted("make"), counted("sync names")), (3, 2));
    store.is_case_sensitive().unwrap();
    assert_eq!((counted("make"), counted("remove")), (4, 1));
    store.discard(store.open_partial(&ME, &path("f"), 0).unwrap());
    assert_eq!((counted("make"), counted("remove")), (5, 2));
    store.make_link(&ME, &path("l"), b"f", MTIME, false).unwrap();
    assert_eq!((counted("attributes"), counted("remove"), counted("rename")), (1, 3, 1));
    store.make_dir(&path("d"), 0o755).unwrap();
    store.finish_dir(&path("d"), 0o755, MTIME, false).unwrap();
    assert_eq!((counted("attributes"), counted("remove")), (2, 4));
    store.tidy();
    assert_eq!(counted("remove"), 5);
    *counting.fails.lock().unwrap() = Some(("make", Errno::NOSPC));
    let refused = Store::open_through(counting.clone(), &dir.path().join("c"), Durability::Lazy);
    assert!(refused.is_err() && !dir.path().join("c").exists());
}

/// As on a file system that cannot rename without replacing, cut off between its two calls.
#[test]
fn what_has_its_name_already_is_not_written_on_under_its_old_one() {
    let dir = tempfile::tempdir().unwrap();
    let counting = std::sync::Arc::new(Counting::default());
    let inbox = dir.path().join("in");
    let store = Store::open_through(counting.clone(), &inbox, Durability::Synced).unwrap();
    let mut partial = store.open_partial(&ME, &path("f"), 0).unwrap();
    partial.write(b"verified").unwrap();
    *counting.fails.lock().unwrap() = Some(("rename", Errno::INVAL));
    assert!(store.place(&partial, &path("f"), 0o644, MTIME, false).unwrap());
    drop(partial);
    assert_eq!(std::fs::read(inbox.join("f")).unwrap(), b"verified");
    let left = || std::fs::read_dir(inbox.join(PARTIAL_DIR)).unwrap().count();
    assert_eq!(left(), 0, "the old name is gone");

    let old = inbox.join(PARTIAL_DIR).join(partial_name(&ME, &path("f"), "part"));
    std::fs::hard_link(inbox.join("f"), &old).unwrap();
    *counting.fails.lock().unwrap() = None;
    assert!(store.partial(&ME, &path("f")).unwrap().is_none(), "nothing is under way");
    std::fs::hard_link(inbox.join("f"), &old).unwrap();
    let mut newer = store.open_partial(&ME, &path("f"), 0).unwrap();
    newer.write(b"not yet").unwrap();
    assert_eq!(std::fs::read(inbox.join("f")).unwrap(), b"verified");
}

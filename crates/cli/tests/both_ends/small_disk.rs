//! A disk that is full, by bytes or by inodes, at a moment drawn at random: both users are told, nothing that is
//! not whole has its name, and once there is room the next attempt completes.
//!
//! Takes root, or `unshare -Ur`, for a file system of its own.

use std::fs;
use std::io::{BufRead, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rand::RngExt;
use rand_pcg::Pcg64;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use tempfile::tempdir;

use crate::network::{TRANSPORTS, listen, started};
use crate::stop::ended;
use crate::support::{Listening, random_bytes, rng, snapshot, succeeded, tack};

/// Bytes of the file system, and inodes.
const SIZE: usize = 8 << 20;
const INODES: usize = 200;

/// A receiver that has a small file system for its folder, which others reach through its process.
struct Receiver {
    child: Listening,
    inbox: PathBuf,
    host: String,
}

/// `None`: there can be no such file system here.
fn receiver(home: &Path, over: &str) -> Option<Receiver> {
    let disk = home.join("disk");
    fs::create_dir(&disk).unwrap();
    let script = format!(
        "mount -t tmpfs -o size={SIZE},nr_inodes={INODES} none \"$0\" && exec \"$@\" || exit 99"
    );
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script]).arg(&disk);
    command.arg(env!("CARGO_BIN_EXE_tack")).args(["recv", "--keep", "--open", "-p", "0"]);
    command.args(["-B", "127.0.0.1"]).args(over.split_whitespace()).arg(disk.join("in"));
    command.env("XDG_CONFIG_HOME", home).current_dir(home);
    let child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().ok()?;
    let mut child = Listening(child);
    let mut lines = BufReader::new(child.0.stderr.take()?).lines().map_while(Result::ok);
    let line = lines.find_map(|line| Some(line.split_once("tack send PATH… ")?.1.to_owned()))?;
    // What it says from now on is not kept waiting.
    std::thread::Builder::new().spawn(move || lines.for_each(drop)).unwrap();
    let inside = PathBuf::from(format!("/proc/{}/root", child.0.id()));
    let inbox = inside.join(disk.join("in").strip_prefix("/").unwrap());
    Some(Receiver { child, inbox, host: line })
}

/// Takes up what a disk has but for a little, bytes or inodes; what it is taken up with.
fn fill(disk: &Path, rng: &mut Pcg64) -> Vec<PathBuf> {
    if rng.random_bool(0.5) {
        let left = rng.random_range(0..5 << 20);
        let ballast = disk.join("ballast");
        fs::write(&ballast, vec![1; SIZE - left - (1 << 16)]).unwrap();
        return vec![ballast];
    }
    let most = INODES - rng.random_range(2..50);
    (0..most)
        .map(|n| disk.join(format!("ballast{n}")))
        .take_while(|at| fs::write(at, []).is_ok())
        .collect()
}

fn full(seed: u64, over: &str) -> Option<()> {
    let mut rng = rng(seed);
    let home = tempdir().unwrap();
    let home = home.path();
    let mut receiver = receiver(home, over)?;
    let tree = home.join("tree");
    fs::create_dir(&tree).unwrap();
    for n in 0..40 {
        let len = rng.random_range(0..200_000);
        fs::write(tree.join(n.to_string()), random_bytes(&mut rng, len)).unwrap();
    }
    let ballast = fill(receiver.inbox.parent().unwrap(), &mut rng);
    let send = || tack(home, &format!("send tree {}", receiver.host)).output().unwrap();
    let failed = send();
    let said = String::from_utf8_lossy(&failed.stderr);
    let what = format!("seed {seed}{over}, {} in the way: {said}", ballast.len());
    if !failed.status.success() {
        assert_eq!(failed.status.code(), Some(5), "{what}");
        assert!(said.contains("space"), "{what}");
    }
    assert_eq!(receiver.child.0.try_wait().unwrap(), None, "{what}: it goes on listening");
    let sent = snapshot(&tree);
    if receiver.inbox.join("tree").exists() {
        for (name, (.., bytes)) in snapshot(&receiver.inbox.join("tree")) {
            assert!(sent[&name].3 == bytes, "{what}: {name} is there in part");
        }
    }
    ballast.iter().for_each(|at| fs::remove_file(at).unwrap());
    if !failed.status.success() {
        succeeded(&send());
    }
    assert_eq!(snapshot(&receiver.inbox.join("tree")), sent, "{what}");
    Some(())
}

#[test]
fn a_disk_that_is_full_is_said_at_both_ends_and_with_room_the_next_attempt_completes() {
    for over in TRANSPORTS {
        for seed in 0..5 {
            if full(seed, over).is_none() {
                let must = std::env::var_os("TACK_INTEROP_REQUIRED").is_some();
                assert!(!must, "no file system of our own to fill");
                eprintln!("skipped: no file system of our own to fill");
                return;
            }
        }
    }
}

/// From now on no file of its may grow beyond so many bytes.
fn limit_files(child: &Listening, bytes: Option<u64>) {
    let limit = Rlimit { current: bytes, maximum: None };
    prlimit(Some(Pid::from_child(&child.0)), Resource::Fsize, limit).unwrap();
}

#[test]
fn a_file_that_is_larger_than_files_may_be_is_named_at_both_ends_and_holds_up_no_other() {
    for over in TRANSPORTS {
        let home = tempdir().unwrap();
        let home = home.path();
        let tree = home.join("tree");
        fs::create_dir(&tree).unwrap();
        for (name, bytes) in [("a", 1_000), ("m", 3_000_000), ("z", 200_000)] {
            fs::write(tree.join(name), random_bytes(&mut rng(bytes), bytes as usize)).unwrap();
        }
        let line = format!("recv in --keep --open -p 0 -B 127.0.0.1{over}");
        let (mut receiver, send) = listen(home, &line, "tree");
        limit_files(&receiver, Some(1_000_000));
        // The second time a part is there, and the others are whole.
        for attempt in 1..=2 {
            let output = tack(home, &send).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{attempt}{over}: {said}");
            assert!(said.contains("1 file was not stored: cannot write"), "{said}");
            assert!(said.contains("tree/m") && said.contains("too large"), "{said}");
            assert_eq!(receiver.0.try_wait().unwrap(), None, "{said}: it goes on listening");
            let (sent, there) = (snapshot(&tree), snapshot(&home.join("in/tree")));
            assert_eq!(there.keys().collect::<Vec<_>>(), ["a", "z"]);
            assert!(there.iter().all(|(name, file)| file.3 == sent[name].3));
        }
        limit_files(&receiver, None);
        succeeded(&tack(home, &send).output().unwrap());
        assert_eq!(snapshot(&home.join("in/tree")), snapshot(&tree));
    }
}

#[test]
fn a_stream_into_a_file_that_may_grow_no_further_is_said_at_both_ends() {
    for over in TRANSPORTS {
        let home = tempdir().unwrap();
        let home = home.path();
        fs::write(home.join("whole"), random_bytes(&mut rng(1), 3_000_000)).unwrap();
        let mut receiver = tack(home, &format!("recv - --open -p 0 -B 127.0.0.1{over}"));
        receiver.stdout(fs::File::create(home.join("out")).unwrap());
        let (mut receiver, send) = started(&mut receiver, "-");
        limit_files(&receiver, Some(1_000_000));
        let mut sender = tack(home, &send);
        sender.stdin(fs::File::open(home.join("whole")).unwrap());
        let sent = sender.output().unwrap();
        let mut sides = vec![(sent.status.code(), String::from_utf8(sent.stderr).unwrap())];
        let mut said = String::new();
        let status = ended(&mut receiver.0);
        receiver.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        sides.push((Some(status), said));
        for (status, said) in sides {
            assert_eq!(status, Some(1), "{said}");
            assert!(said.contains("cannot write `standard output`: File too large"), "{said}");
        }
    }
}

//! Transfers that go on between the same two processes, which remember what they have hashed: whatever becomes of
//! the files meanwhile, what is called verified is right.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rand::RngExt;
use rand_pcg::Pcg64;
use tack_cli::progress::Progress;
use tack_cli::stop::Stop;
use tack_cli::transfer::known::Known;
use tack_cli::transfer::recv::{Intake, Limits, receive_tree};
use tack_cli::transfer::scan::scan;
use tack_cli::transfer::send::send_tree;
use tack_cli::transfer::sessions::Sessions;
use tack_cli::transfer::store::{Durability, Store};
use tempfile::tempdir;
use tokio::io::duplex;

use crate::support::{Death, ME, Mortal, random_bytes, rng, run, snapshot};

/// A sending and a receiving command.
struct Ends {
    tree: PathBuf,
    inbox: PathBuf,
    known: Arc<Known>,
    sessions: Sessions,
}

impl Ends {
    /// One connection of theirs, which breaks after so many bytes.
    async fn attempt(&self, bytes_left: usize) -> Result<(), String> {
        let (quiet, never) = (Progress::hidden(), Stop::never());
        let intake = Intake {
            store: Arc::new(Store::open(&self.inbox, Durability::Lazy).unwrap()),
            overwrite: false,
            sessions: self.sessions.clone(),
            limits: Limits::default(),
        };
        let (here, there) = duplex(64 << 10);
        let here = Mortal { inner: here, bytes_left, death: Death::Cut, is_cut: None };
        let mut found = scan(std::slice::from_ref(&self.tree), false).unwrap();
        found.known = Arc::clone(&self.known);
        let sending = send_tree(here, ME, found, &quiet, &never);
        let receiving = receive_tree(there, &intake, &quiet, &never);
        let (sent, received) = tokio::join!(sending, receiving);
        assert!(sent.is_err() || received.is_ok(), "{received:?}");
        sent.map(drop).map_err(|e| e.to_string())
    }
}

/// Turns a bit of a file, or changes its length; half the time its time of modification is said to be as before.
fn spoil(at: &Path, rng: &mut Pcg64) {
    let modified = fs::metadata(at).unwrap().modified().unwrap();
    let mut bytes = fs::read(at).unwrap();
    if bytes.is_empty() {
        return;
    }
    let place = rng.random_range(0..bytes.len());
    match rng.random_range(0..4) {
        0 => bytes.truncate(place),
        1 => bytes.extend([7; 1_000]),
        _ => bytes[place] ^= 1 << rng.random_range(0..8),
    }
    fs::write(at, bytes).unwrap();
    if rng.random_bool(0.5) {
        File::options().write(true).open(at).unwrap().set_modified(modified).unwrap();
    }
}

/// What lies in a folder, its files only.
fn files_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries.map(|e| e.path()).filter(|at| at.is_file()).collect();
    files.sort();
    files
}

#[test]
fn whatever_is_written_at_either_end_while_a_transfer_waits_nothing_wrong_is_verified() {
    let (mut verified, mut spoiled) = (0, 0);
    for seed in 0..40 {
        let mut rng = rng(0x5e11 + seed);
        let dir = tempdir().unwrap();
        let ends = Ends {
            tree: dir.path().join("tree"),
            inbox: dir.path().join("in"),
            known: Arc::default(),
            sessions: Sessions::default(),
        };
        fs::create_dir(&ends.tree).unwrap();
        for name in 0..4 {
            let bytes = random_bytes(&mut rng, [0, 70_000, 300_000, 6_000_000][name]);
            fs::write(ends.tree.join(format!("f{name}")), bytes).unwrap();
        }
        run(async {
            for _ in 0..4 {
                let cut = rng.random_range(1_000..7_000_000);
                let complete = ends.attempt(cut).await.is_ok();
                if complete {
                    assert_eq!(snapshot(&ends.tree), snapshot(&ends.inbox.join("tree")), "{seed}");
                    verified += 1;
                }
                let theirs = ends.inbox.join("tree");
                let partial = ends.inbox.join(".tack-partial");
                let folder = [&ends.tree, &theirs, &partial][rng.random_range(0..3)];
                // Whose clock ticks a hundred times a second notices no earlier.
                tokio::time::sleep(std::time::Duration::from_millis(12)).await;
                for at in files_in(folder) {
                    if rng.random_bool(0.3) {
                        spoil(&at, &mut rng);
                        spoiled += 1;
                    }
                }
            }
            // What differs there is in the way, and nobody calls it sent.
            let last = ends.attempt(usize::MAX).await;
            let (sent, came) = (snapshot(&ends.tree), snapshot(&ends.inbox.join("tree")));
            match last {
                Ok(()) => {
                    let bytes =
                        |all: std::collections::BTreeMap<String, (u32, i64, i64, Vec<u8>)>| {
                            all.into_iter().map(|(name, file)| (name, file.3)).collect::<Vec<_>>()
                        };
                    assert!(bytes(sent) == bytes(came), "seed {seed}");
                    verified += 1;
                }
                Err(why) => assert!(why.contains("already there"), "seed {seed}: {why}"),
            }
        });
    }
    assert!(verified >= 10 && spoiled >= 50, "{verified} verified, {spoiled} spoiled");
}

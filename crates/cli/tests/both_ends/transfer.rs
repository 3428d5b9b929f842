//! Round trips, resuming, and what is in the way.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::time::Duration;

use rand::RngExt;
use tack_cli::conn::Accept;
use tack_cli::exit::ExitCode;
use tack_cli::progress::Progress;
use tack_cli::stop::Stop;
use tack_cli::transfer::TransferError;
use tack_cli::transfer::frame::{Code, What};
use tack_cli::transfer::passage::hear;
use tack_cli::transfer::pipe::{receive_stream, send_stream};
use tack_cli::transfer::recv::{Intake, receive_tree};
use tack_cli::transfer::scan::scan;
use tack_cli::transfer::send::send_tree;
use tack_cli::transfer::store::{Durability, Store};
use tempfile::tempdir;
use tokio::io::duplex;

use crate::lasting::over_breaking;
use crate::strangers::Net;
use crate::support::{
    Death, ME, Mortal, random_bytes, random_tree, rng, run, snapshot, transfer, transfer_over,
};

#[test]
fn random_trees_arrive_with_contents_modes_times_and_links() {
    for seed in 0..12 {
        let dir = tempdir().unwrap();
        let (from, into) = (dir.path().join("tree"), dir.path().join("in"));
        random_tree(&from, &mut rng(seed));
        let (sent, received) = run(transfer(&from, &into, false));
        let (sent, received) = (sent.unwrap(), received.unwrap());
        assert_eq!(snapshot(&from), snapshot(&into.join("tree")), "seed {seed}");
        assert_eq!((sent.files, sent.bytes), (received.files, received.bytes), "seed {seed}");
        assert!(!into.join(".tack-partial").exists(), "seed {seed}");
    }
}

#[test]
fn a_second_run_sends_nothing() {
    let dir = tempdir().unwrap();
    let (from, into) = (dir.path().join("tree"), dir.path().join("in"));
    random_tree(&from, &mut rng(7));
    run(transfer(&from, &into, false)).0.unwrap();
    let again = run(transfer(&from, &into, false)).0.unwrap();
    assert_eq!(again.kept, again.bytes);
    assert_eq!(snapshot(&from), snapshot(&into.join("tree")));
}

#[test]
fn a_transfer_cut_at_a_random_byte_resumes_without_resending_what_arrived() {
    let seed = 0x5eed;
    let mut rng = rng(seed);
    for round in 0..25 {
        let dir = tempdir().unwrap();
        let (from, into) = (dir.path().join("tree"), dir.path().join("in"));
        random_tree(&from, &mut rng);
        fs::write(from.join("big"), random_bytes(&mut rng, 3_000_000)).unwrap();
        let total: usize = snapshot(&from).values().map(|v| v.3.len()).sum();
        let mut kept_before = 0;
        for attempt in 0.. {
            let (to_receiver, to_sender) = duplex(16 * 1024);
            let bytes_left = match attempt {
                0..3 => rng.random_range(1..total),
                _ => usize::MAX,
            };
            let breaking =
                Mortal { inner: to_receiver, bytes_left, death: Death::Cut, is_cut: None };
            let ends = (breaking, to_sender);
            let (sent, received) = run(transfer_over(ends, &from, &into, false));
            if let Ok(sent) = sent {
                // What one attempt had stored, the next doesn't send.
                assert!(sent.kept >= kept_before, "seed {seed} round {round}");
                assert!(received.is_ok(), "seed {seed} round {round}");
                break;
            }
            let arrived = on_disk(&into);
            assert!(arrived >= kept_before, "seed {seed} round {round}: bytes were lost");
            kept_before = arrived;
        }
        assert_eq!(snapshot(&from), snapshot(&into.join("tree")), "seed {seed} round {round}");
    }
}

/// Bytes of files in place and of partial files.
fn on_disk(into: &std::path::Path) -> u64 {
    if !into.exists() {
        return 0;
    }
    let all = snapshot(into);
    let regular = all.values().filter(|v| v.0 & 0o170_000 == 0o100_000);
    regular.map(|v| v.3.len() as u64).sum()
}

#[test]
fn a_partial_file_that_is_no_prefix_is_not_trusted() {
    let dir = tempdir().unwrap();
    let (from, into) = (dir.path().join("f"), dir.path().join("in"));
    let mut rng = rng(3);
    fs::write(&from, random_bytes(&mut rng, 1_000_000)).unwrap();
    let (to_receiver, to_sender) = duplex(16 * 1024);
    let breaking =
        Mortal { inner: to_receiver, bytes_left: 600_000, death: Death::Cut, is_cut: None };
    run(transfer_over((breaking, to_sender), &from, &into, false)).0.unwrap_err();
    // The source changes; the partial file is now a prefix of nothing.
    fs::write(&from, random_bytes(&mut rng, 1_000_000)).unwrap();
    let sent = run(transfer(&from, &into, false)).0.unwrap();
    assert_eq!(sent.kept, 0);
    assert_eq!(fs::read(&from).unwrap(), fs::read(into.join("f")).unwrap());
}

#[test]
fn what_is_in_the_way_stays_unless_told_to_overwrite() {
    let dir = tempdir().unwrap();
    let (from, into) = (dir.path().join("f"), dir.path().join("in"));
    fs::write(&from, b"new contents").unwrap();
    fs::create_dir(&into).unwrap();
    for old in ["other size", "old contents"] {
        fs::write(into.join("f"), old).unwrap();
        let (sent, received) = run(transfer(&from, &into, false));
        let (sent, received) = (sent.unwrap_err(), received.unwrap_err());
        assert!(sent.to_string().contains("--overwrite"), "{sent}");
        assert!(matches!(received, TransferError::Exists { count: 1, .. }), "{received}");
        assert_eq!(received.exit_code(), ExitCode::Refused);
        assert_eq!(fs::read(into.join("f")).unwrap(), old.as_bytes());
    }
    run(transfer(&from, &into, true)).0.unwrap();
    assert_eq!(fs::read(into.join("f")).unwrap(), b"new contents");
}

#[test]
fn a_folder_in_the_way_of_a_file_stays_even_when_told_to_overwrite() {
    let dir = tempdir().unwrap();
    let (from, into) = (dir.path().join("f"), dir.path().join("in"));
    fs::write(&from, b"file").unwrap();
    fs::create_dir_all(into.join("f/kept")).unwrap();
    let refused = run(transfer(&from, &into, true)).1.unwrap_err();
    assert!(matches!(&refused, TransferError::OtherKind(names) if names == &["f"]), "{refused}");
    assert!(!refused.to_string().contains("--overwrite"), "it would not help: {refused}");
    assert!(into.join("f/kept").is_dir());
}

#[test]
fn a_file_or_a_link_in_the_way_of_a_folder_is_named_and_stays_and_not_what_was_to_be_in_the_folder()
{
    let dir = tempdir().unwrap();
    let (from, into) = (dir.path().join("d"), dir.path().join("in"));
    fs::create_dir_all(from.join("deep")).unwrap();
    fs::write(from.join("deep/f"), b"file").unwrap();
    fs::create_dir(&into).unwrap();
    let put: [fn(&Path); 2] =
        [|at| fs::write(at, b"kept").unwrap(), |at| symlink("elsewhere", at).unwrap()];
    for put in put {
        put(&into.join("d"));
        for overwrite in [false, true] {
            let (sent, refused) = run(transfer(&from, &into, overwrite));
            let (sent, refused) = (sent.unwrap_err(), refused.unwrap_err());
            assert!(matches!(&refused, TransferError::OtherKind(it) if it == &["d"]), "{refused}");
            let codes = (sent.exit_code(), refused.exit_code());
            assert_eq!(codes, (ExitCode::Refused, ExitCode::Refused), "{sent}");
        }
        assert!(!into.join("d").is_dir());
        fs::remove_file(into.join("d")).unwrap();
    }
}

#[test]
fn a_hard_link_arrives_as_a_file_of_its_own_and_that_is_said() {
    let dir = tempdir().unwrap();
    let (from, into) = (dir.path().join("tree"), dir.path().join("in"));
    fs::create_dir(&from).unwrap();
    fs::write(from.join("one"), b"contents").unwrap();
    fs::hard_link(from.join("one"), from.join("two")).unwrap();
    let notes = scan(std::slice::from_ref(&from), false).unwrap().notes;
    assert!(notes.len() == 1 && notes[0].starts_with("1 file is a hard link"), "{notes:?}");
    run(transfer(&from, &into, false)).0.unwrap();
    assert_eq!(fs::read(into.join("tree/two")).unwrap(), b"contents");
    assert_ne!(
        fs::metadata(into.join("tree/one")).unwrap().ino(),
        fs::metadata(into.join("tree/two")).unwrap().ino()
    );
}

#[test]
fn what_is_zero_in_a_file_takes_no_room_where_it_arrives() {
    let dir = tempdir().unwrap();
    let (from, into) = (dir.path().join("disk"), dir.path().join("in"));
    let mut sparse = fs::File::create(&from).unwrap();
    sparse.write_all(&random_bytes(&mut rng(9), 10_000)).unwrap();
    sparse.set_len(30_000_000).unwrap();
    let room = |path: &std::path::Path| fs::metadata(path).unwrap().blocks() * 512;
    assert!(room(&from) < 1_000_000, "the file system has holes");
    run(transfer(&from, &into, false)).0.unwrap();
    let arrived = into.join("disk");
    assert!(fs::read(&arrived).unwrap() == fs::read(&from).unwrap());
    assert!(room(&arrived) < 1_000_000, "{} bytes", room(&arrived));
}

#[test]
fn a_name_that_drives_a_terminal_arrives_and_is_never_shown_as_it_is() {
    let dir = tempdir().unwrap();
    let (from, into) = (dir.path().join("all\r\x1b[2Jclear"), dir.path().join("in"));
    fs::write(&from, b"new").unwrap();
    run(transfer(&from, &into, false)).0.unwrap();
    let arrived = into.join(from.file_name().unwrap());
    assert_eq!(fs::read(&arrived).unwrap(), b"new");
    fs::write(&arrived, b"old").unwrap();
    let (sent, received) = run(transfer(&from, &into, false));
    for said in [sent.unwrap_err().to_string(), received.unwrap_err().to_string()] {
        assert!(said.contains("clear") && !said.chars().any(char::is_control), "{said:?}");
    }
}

#[test]
fn every_name_that_the_file_system_takes_arrives_as_it_is() {
    let dir = tempdir().unwrap();
    let (from, into) = (dir.path().join("tree"), dir.path().join("in"));
    fs::create_dir(&from).unwrap();
    let bytes = (1..=255).filter(|&byte| byte != b'/');
    let mut names: Vec<Vec<u8>> = bytes.clone().map(|byte| vec![b'n', byte]).collect();
    // Alone, and beneath a folder of that name.
    names.extend(bytes.filter(|&byte| byte != b'.').map(|byte| vec![byte]));
    let odd = [
        "-rf",
        "--",
        "...",
        " .",
        "a\n\nb",
        "$(x)",
        "~",
        "CON",
        "tack-partial",
        "o\u{308}",
        "\u{f6}",
    ];
    names.extend(odd.map(Vec::from));
    names.push(vec![0xff; 255]);
    let names: BTreeSet<OsString> = names.into_iter().map(OsString::from_vec).collect();
    for name in &names {
        fs::create_dir(from.join(name)).unwrap();
        fs::write(from.join(name).join(name), name.as_encoded_bytes()).unwrap();
    }
    let (sent, received) = run(transfer(&from, &into, false));
    assert_eq!(sent.unwrap().files as usize, names.len());
    assert_eq!(received.unwrap().files as usize, names.len());
    let there = fs::read_dir(into.join("tree")).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(there.collect::<BTreeSet<_>>(), names);
    for name in &names {
        let arrived = fs::read(into.join("tree").join(name).join(name)).unwrap();
        assert_eq!(arrived, name.as_encoded_bytes(), "{name:?}");
    }
}

#[test]
fn links_that_lead_outside_are_left_out_and_inner_ones_kept() {
    let dir = tempdir().unwrap();
    let (from, into) = (dir.path().join("tree"), dir.path().join("in"));
    fs::create_dir_all(from.join("d")).unwrap();
    symlink("../d", from.join("d/inner")).unwrap();
    symlink("/etc/passwd", from.join("d/absolute")).unwrap();
    symlink("../../../x", from.join("d/above")).unwrap();
    let found = scan(std::slice::from_ref(&from), false).unwrap();
    assert_eq!(found.skipped.len(), 2, "{:?}", found.skipped);
    run(transfer(&from, &into, false)).0.unwrap();
    assert_eq!(fs::read_link(into.join("tree/d/inner")).unwrap().to_str(), Some("../d"));
    assert!(!into.join("tree/d/absolute").is_symlink());
    assert!(!into.join("tree/d/above").is_symlink());
}

#[test]
fn following_links_sends_what_they_point_to_and_ends_on_a_loop() {
    let dir = tempdir().unwrap();
    let from = dir.path().join("tree");
    fs::create_dir_all(&from).unwrap();
    fs::write(dir.path().join("target"), b"bytes").unwrap();
    symlink("../target", from.join("link")).unwrap();
    symlink(".", from.join("loop")).unwrap();
    let found = scan(&[from], true).unwrap();
    let names: Vec<_> = found.list.entries().iter().map(|e| e.path.to_string()).collect();
    assert_eq!(names, ["tree", "tree/link"]);
    assert_eq!(found.list.total_bytes(), 5);
    assert_eq!(found.skipped.len(), 1);
}

#[test]
fn what_is_asked_for_and_cannot_be_sent_is_an_error_that_says_what_to_do() {
    let dir = tempdir().unwrap();
    let refused = |path: &Path| scan(&[path.to_owned()], false).unwrap_err().to_string();
    // Not `sent 0 files, verified`.
    let device = refused(Path::new("/dev/null"));
    assert!(device.contains("tack send -"), "{device}");
    let swapped = refused(Path::new("nas.invalid:9000"));
    assert!(swapped.contains("the host last"), "{swapped}");
    let missing = refused(&dir.path().join("missing"));
    assert!(missing.contains("No such file"), "{missing}");
}

#[test]
fn a_file_that_changes_under_way_is_reported_and_the_others_arrive() {
    let dir = tempdir().unwrap();
    let (from, into) = (dir.path().join("tree"), dir.path().join("in"));
    fs::create_dir(&from).unwrap();
    for name in ["a", "b", "c"] {
        fs::write(from.join(name), name).unwrap();
    }
    let found = scan(std::slice::from_ref(&from), false).unwrap();
    fs::write(from.join("b"), "now longer").unwrap();
    let into_store = Intake::alone(Store::open(&into, Durability::Synced).unwrap());
    let (quiet, never) = (Progress::hidden(), Stop::never());
    let (here, there) = duplex(1000);
    let (sent, received) = run(async {
        let receiving = receive_tree(there, &into_store, &quiet, &never);
        tokio::join!(send_tree(here, ME, found, &quiet, &never), receiving)
    });
    let error = sent.unwrap_err();
    assert!(matches!(error, TransferError::Incomplete { count: 1, .. }), "{error}");
    assert!(error.to_string().contains("tree/b"), "{error}");
    let received = received.unwrap();
    assert_eq!((received.files, received.skipped.len()), (2, 1));
    assert_eq!(fs::read(into.join("tree/c")).unwrap(), b"c");
    assert!(!into.join("tree/b").exists());
}

#[test]
fn two_paths_with_one_name_are_refused_before_anything_is_sent() {
    let dir = tempdir().unwrap();
    for d in ["x", "y"] {
        fs::create_dir(dir.path().join(d)).unwrap();
        fs::write(dir.path().join(d).join("f"), d).unwrap();
    }
    let both = [dir.path().join("x/f"), dir.path().join("y/f")];
    let error = scan(&both, false).unwrap_err();
    assert!(error.to_string().contains("y/f`: `f` is listed twice"), "{error}");
    assert_eq!(error.exit_code(), ExitCode::Failed, "no peer has sent anything yet");
}

#[test]
fn a_stream_arrives_whole_whatever_its_length() {
    for n in [0, 1, 262_144, 1_000_003] {
        let bytes = random_bytes(&mut rng(n as u64), n);
        let (here, there) = duplex(10_000);
        let (quiet, never) = (Progress::hidden(), Stop::never());
        let mut out = Vec::new();
        let (sent, received) = run(async {
            tokio::join!(
                send_stream(here, bytes.as_slice(), &quiet, &never),
                receive_stream(there, &mut out, &quiet, &never)
            )
        });
        assert_eq!((sent.unwrap(), received.unwrap()), (n as u64, n as u64));
        assert!(out == bytes, "{n} bytes");
    }
}

#[test]
fn a_stream_that_is_cut_is_a_failure_on_both_sides() {
    let bytes = random_bytes(&mut rng(1), 500_000);
    let (here, there) = duplex(10_000);
    let here = Mortal { inner: here, bytes_left: 300_000, death: Death::Cut, is_cut: None };
    let (quiet, never) = (Progress::hidden(), Stop::never());
    let mut out = Vec::new();
    let (sent, received) = run(async {
        tokio::join!(
            send_stream(here, bytes.as_slice(), &quiet, &never),
            receive_stream(there, &mut out, &quiet, &never)
        )
    });
    assert!(sent.is_err() && received.is_err());
}

#[test]
fn a_stream_to_a_directory_and_a_tree_to_standard_output_say_what_to_do() {
    let dir = tempdir().unwrap();
    let (quiet, never) = (Progress::hidden(), Stop::never());
    let into_store = Intake::alone(Store::open(dir.path(), Durability::Synced).unwrap());
    let (sent, talked) = run(async {
        let refused = async |what| {
            let (net, mut port) = Net::new();
            let work = async |_conn| Ok(());
            let receiving = async {
                let there = port.accept().await.unwrap();
                let _ = receive_tree(there, &into_store, &quiet, &never).await;
                std::future::pending().await
            };
            tokio::select! {
                refused = over_breaking(&net, what, (1, 0), work) => refused.unwrap_err(),
                () = receiving => unreachable!("it waits"),
            }
        };
        (refused(What::Stream).await, refused(What::Talk).await)
    });
    assert!(sent.message.contains("tack recv -"), "{sent}");
    assert!(talked.message.contains("tack nc"), "{talked}");
    assert_eq!((sent.code, talked.code), (ExitCode::Refused, ExitCode::Refused));
    let (here, there) = duplex(1000);
    fs::write(dir.path().join("f"), b"x").unwrap();
    let found = scan(&[dir.path().join("f")], false).unwrap();
    let (sent, _) = run(async {
        let receiving = hear(there, What::Stream, &never);
        tokio::join!(send_tree(here, ME, found, &quiet, &never), receiving)
    });
    assert!(sent.unwrap_err().to_string().contains("tack recv DIR"));
}

/// Wherever in a frame the word comes, the peer reads it, and what it has is a prefix.
#[test]
fn a_transfer_stopped_at_a_random_moment_on_either_side_is_understood_and_resumes() {
    let seed = 0x57_0b;
    let mut rng = rng(seed);
    for round in 0..8 {
        let dir = tempdir().unwrap();
        let (from, into) = (dir.path().join("tree"), dir.path().join("in"));
        random_tree(&from, &mut rng);
        fs::write(from.join("big"), random_bytes(&mut rng, 5_000_000)).unwrap();
        let mut kept_before = 0;
        for attempt in 0.. {
            let delay = Duration::from_micros(rng.random_range(0..30_000));
            let whose = match attempt {
                0..4 => Some(rng.random_bool(0.5)),
                _ => None,
            };
            let (sent, received) = run(async {
                let stop = |mine| match whose {
                    Some(side) if side == mine => Stop::after(delay),
                    _ => Stop::never(),
                };
                let (quiet, here, there) = (Progress::hidden(), stop(true), stop(false));
                let (to_receiver, to_sender) = duplex(10_000);
                let found = scan(std::slice::from_ref(&from), false).unwrap();
                let intake = Intake::alone(Store::open(&into, Durability::Lazy).unwrap());
                let receiving = receive_tree(to_sender, &intake, &quiet, &there);
                let done =
                    tokio::join!(send_tree(to_receiver, ME, found, &quiet, &here), receiving);
                crate::support::tidied(&into);
                done
            });
            let context = format!("seed {seed} round {round} attempt {attempt} {whose:?}");
            match (sent, received) {
                (Ok(sent), Ok(_)) => {
                    assert!(sent.kept >= kept_before, "{context}");
                    kept_before = sent.kept;
                    if whose.is_none() {
                        break;
                    }
                }
                (Err(TransferError::Stopped(_)), Err(told)) if whose == Some(true) => {
                    assert!(is_told(&told), "{context}: {told}");
                }
                (Err(told), Err(TransferError::Stopped(_))) if whose == Some(false) => {
                    assert!(is_told(&told), "{context}: {told}");
                }
                // The last word was on its way.
                (Err(TransferError::Stopped(_)), Ok(_)) if whose == Some(true) => {}
                other => panic!("{context}: {other:?}"),
            }
        }
        assert_eq!(snapshot(&from), snapshot(&into.join("tree")), "seed {seed} round {round}");
    }
}

fn is_told(error: &TransferError) -> bool {
    matches!(error, TransferError::Peer { code: Code::Cancelled, .. })
}

#[test]
fn a_stream_stopped_at_a_random_moment_is_understood() {
    let seed = 0x57_0c;
    let mut rng = rng(seed);
    let bytes = random_bytes(&mut rng, 20_000_000);
    for _ in 0..10 {
        let delay = Duration::from_micros(rng.random_range(0..10_000));
        let mut out = Vec::new();
        let (sent, received) = run(async {
            let (here, there) = duplex(10_000);
            let (quiet, never, stop) = (Progress::hidden(), Stop::never(), Stop::after(delay));
            tokio::join!(
                send_stream(here, bytes.as_slice(), &quiet, &stop),
                receive_stream(there, &mut out, &quiet, &never)
            )
        });
        assert!(matches!(sent, Err(TransferError::Stopped(_))), "seed {seed}: {sent:?}");
        let told = received.unwrap_err();
        assert!(is_told(&told), "seed {seed}: {told}");
        assert!(bytes.starts_with(&out), "seed {seed}");
    }
}

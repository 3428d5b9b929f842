//! What cannot be read any more is left out and named, whatever the receiver has of it: the rest arrives.

use std::fs;
use std::path::Path;

use rand::RngExt;
use tack_cli::progress::Progress;
use tack_cli::stop::Stop;
use tack_cli::transfer::TransferError;
use tack_cli::transfer::received::Received;
use tack_cli::transfer::recv::{Intake, receive_tree};
use tack_cli::transfer::scan::scan;
use tack_cli::transfer::send::{Sent, send_tree};
use tack_cli::transfer::store::{Durability, Store};
use tempfile::tempdir;
use tokio::io::duplex;

use crate::support::{
    Death, ME, Mortal, random_bytes, rng, run, snapshot, tidied, transfer, transfer_over,
};

/// A transfer of what is listed, and then becomes something else before anything is said of it.
fn transfer_after(
    from: &Path,
    into: &Path,
    meanwhile: impl FnOnce(),
) -> (Result<Sent, TransferError>, Result<Received, TransferError>) {
    let (quiet, never) = (Progress::hidden(), Stop::never());
    let found = scan(&[from.to_owned()], false).unwrap();
    meanwhile();
    let intake = Intake::alone(Store::open(into, Durability::Lazy).unwrap());
    let (here, there) = duplex(64 << 10);
    let sending = send_tree(here, ME, found, &quiet, &never);
    let receiving = receive_tree(there, &intake, &quiet, &never);
    let done = run(async { tokio::join!(sending, receiving) });
    drop(intake);
    tidied(into);
    done
}

fn assert_left_out(sent: &Result<Sent, TransferError>, name: &str, why: &str) {
    let Err(TransferError::Incomplete { count: 1, reasons }) = sent else { panic!("{sent:?}") };
    assert!(reasons[0].contains(name) && reasons[0].contains(why), "{reasons:?}");
}

#[test]
fn a_file_that_is_there_and_cannot_be_read_here_any_more_keeps_no_other_from_arriving() {
    let dir = tempdir().unwrap();
    let (from, into) = (dir.path().join("tree"), dir.path().join("in"));
    fs::create_dir(&from).unwrap();
    fs::write(from.join("a"), "first").unwrap();
    fs::write(from.join("z"), "last").unwrap();
    run(transfer(&from, &into, false)).0.unwrap();
    fs::write(from.join("m"), "new").unwrap();
    let gone = || fs::remove_file(from.join("a")).unwrap();
    let (sent, received) = transfer_after(&from, &into, gone);
    assert_left_out(&sent, "tree/a", "No such file");
    let received = received.unwrap();
    assert_eq!((received.files, received.skipped.len()), (2, 1), "{received:?}");
    assert_eq!(fs::read(into.join("tree/a")).unwrap(), b"first", "what was there stays");
    assert_eq!(fs::read(into.join("tree/m")).unwrap(), b"new");
}

#[test]
fn a_file_that_grows_while_its_beginning_is_proved_is_left_out_and_arrives_another_time() {
    let dir = tempdir().unwrap();
    let (from, into) = (dir.path().join("tree"), dir.path().join("in"));
    fs::create_dir(&from).unwrap();
    let mut rng = rng(0x109);
    let log = from.join("log");
    fs::write(&log, random_bytes(&mut rng, 3_000_000)).unwrap();
    let (here, there) = duplex(16 << 10);
    let bytes_left = rng.random_range(1_000_000..2_000_000);
    let here = Mortal { inner: here, bytes_left, death: Death::Cut, is_cut: None };
    run(transfer_over((here, there), &from, &into, false)).0.unwrap_err();
    fs::write(from.join("other"), "other").unwrap();

    let grow = || {
        use std::io::Write;
        fs::File::options().append(true).open(&log).unwrap().write_all(b"one more line").unwrap();
    };
    let (sent, received) = transfer_after(&from, &into, grow);
    assert_left_out(&sent, "tree/log", "it changed while it was being sent");
    received.unwrap();
    assert_eq!(fs::read(into.join("tree/other")).unwrap(), b"other");

    let sent = run(transfer(&from, &into, false)).0.unwrap();
    assert!(sent.kept >= 500_000, "what had come of it is used: {sent:?}");
    assert_eq!(snapshot(&from), snapshot(&into.join("tree")));
}

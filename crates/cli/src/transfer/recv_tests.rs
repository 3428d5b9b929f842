use std::fs;
use std::io;
use std::path::Path;

use rustix::io::Errno;
use tokio::io::duplex;

use super::*;
use crate::transfer::calls::{Call, FileSystem};
use crate::transfer::frame::Code;
use crate::transfer::scan::scan;
use crate::transfer::send::{Sent, send_tree};
use crate::transfer::store::Durability;

/// Nothing can have the name `b`, for this reason.
#[derive(Debug)]
struct Refusing(Option<Errno>);

impl FileSystem for Refusing {
    fn before(&self, call: Call<'_>) -> io::Result<usize> {
        match (call, self.0) {
            (Call::Rename { new, .. }, Some(why)) if new == "b" => Err(why.into()),
            _ => Ok(usize::MAX),
        }
    }
}

async fn attempt(
    tree: &Path,
    inbox: &Path,
    refusing: Option<Errno>,
) -> (Result<Sent, TransferError>, Result<Received, TransferError>) {
    let file_system = Arc::new(Refusing(refusing));
    let store = Store::open_through(file_system, inbox, Durability::Lazy).unwrap();
    let intake = Intake::alone(store);
    let (ours, theirs) = duplex(1 << 16);
    let found = scan(&[tree.to_owned()], false).unwrap();
    let (quiet, stop) = (Progress::hidden(), Stop::never());
    let sending = send_tree(ours, [7; 32], found, &quiet, &stop);
    tokio::join!(sending, receive_tree(theirs, &intake, &quiet, &stop))
}

#[tokio::test]
async fn what_can_have_no_name_here_is_named_and_holds_up_nothing_else() {
    for why in [Errno::ACCESS, Errno::NAMETOOLONG, Errno::PERM, Errno::ILSEQ, Errno::XDEV] {
        let dir = tempfile::tempdir().unwrap();
        let (tree, inbox) = (dir.path().join("tree"), dir.path().join("in"));
        fs::create_dir_all(tree.join("d")).unwrap();
        for name in ["a", "b", "c", "d/b", "d/e"] {
            fs::write(tree.join(name), name.repeat(9_000)).unwrap();
        }
        // The second time all of it is here already.
        for attempted in 1..=2 {
            let (sent, received) = attempt(&tree, &inbox, Some(why)).await;
            let Err(TransferError::Unplaced { count: 2, reasons }) = received else {
                panic!("{why}, {attempted}: {received:?}")
            };
            assert!(
                reasons[0].contains("tree/b") && reasons[1].contains("tree/d/b"),
                "{reasons:?}"
            );
            let Err(TransferError::Peer { code: Code::Io, text }) = sent else {
                panic!("{why}, {attempted}: {sent:?}")
            };
            assert!(text.starts_with("2 files were not stored: cannot put in place"), "{text}");
            for name in ["a", "c", "d/e"] {
                let there = fs::read_to_string(inbox.join("tree").join(name)).unwrap();
                assert_eq!(there, name.repeat(9_000));
            }
            assert!(!inbox.join("tree/b").exists() && !inbox.join("tree/d/b").exists());
        }
        let (sent, received) = attempt(&tree, &inbox, None).await;
        let (sent, received) = (sent.unwrap(), received.unwrap());
        assert_eq!((sent.files, received.files), (5, 5));
        assert_eq!(sent.kept, sent.bytes, "nothing was sent twice");
        assert_eq!(fs::read_to_string(inbox.join("tree/d/b")).unwrap(), "d/b".repeat(9_000));
    }
}

#[tokio::test]
async fn what_cannot_be_stored_for_want_of_room_ends_a_transfer() {
    let dir = tempfile::tempdir().unwrap();
    let (tree, inbox) = (dir.path().join("tree"), dir.path().join("in"));
    fs::create_dir(&tree).unwrap();
    for name in ["a", "b", "c"] {
        fs::write(tree.join(name), name).unwrap();
    }
    let (_, received) = attempt(&tree, &inbox, Some(Errno::NOSPC)).await;
    assert!(matches!(received, Err(TransferError::Disk { .. })), "{received:?}");
    assert!(inbox.join("tree/a").exists() && !inbox.join("tree/c").exists());
}

//! Peers that lie: each costs them a clear refusal and us nothing.

use std::fs;

use rand::RngExt;
use tack_cli::exit::ExitCode;
use tack_cli::progress::Progress;
use tack_cli::stop::Stop;
use tack_cli::transfer::frame::SenderId;
use tack_cli::transfer::frame::{self, Frame, PREFACE, What};
use tack_cli::transfer::list::{Entry, Kind, Mtime};
use tack_cli::transfer::name::RelPath;
use tack_cli::transfer::pipe::receive_stream;
use tack_cli::transfer::recv::{Intake, receive_tree};
use tack_cli::transfer::scan::scan;
use tack_cli::transfer::send::send_tree;
use tack_cli::transfer::store::{Durability, Store};
use tack_cli::transfer::{TransferError, VERSION};
use tempfile::{TempDir, tempdir};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

use crate::support::{ME, random_bytes, rng, run};

/// An ENTRY as its bytes, with any name.
pub(crate) fn raw_entry(kind: u8, size: u64, path: &[u8], target: &[u8]) -> Vec<u8> {
    let mut body = vec![kind];
    body.extend_from_slice(&0o644_u32.to_be_bytes());
    body.extend_from_slice(&0_i64.to_be_bytes());
    body.extend_from_slice(&0_u32.to_be_bytes());
    body.extend_from_slice(&size.to_be_bytes());
    for bytes in [path, target] {
        body.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
        body.extend_from_slice(bytes);
    }
    raw_frame(0x10, &body)
}

fn raw_frame(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend_from_slice(&(body.len() as u32).to_be_bytes());
    bytes.extend_from_slice(body);
    bytes
}

pub(crate) fn frames(frames: &[Frame]) -> Vec<u8> {
    let mut bytes = Vec::new();
    frames.iter().for_each(|f| frame::encode(f, &mut bytes));
    bytes
}

fn opening() -> Vec<u8> {
    opening_of(ME)
}

pub(crate) fn opening_of(sender: SenderId) -> Vec<u8> {
    let hello = Frame::Hello { version: VERSION, what: What::Tree, sender };
    [PREFACE.to_vec(), frames(&[hello])].concat()
}

/// What a receiver makes of a sender that says `script` and closes; the directory it wrote to.
fn receive(script: &[u8]) -> (TransferError, TempDir) {
    let dir = tempdir().unwrap();
    let error = receive_in(&dir, script);
    (error, dir)
}

fn receive_in(dir: &TempDir, script: &[u8]) -> TransferError {
    let into = Intake::alone(Store::open(&dir.path().join("in"), Durability::Synced).unwrap());
    run(async {
        let (mut hostile, honest) = duplex(1 << 20);
        let (quiet, never) = (Progress::hidden(), Stop::never());
        let attack = async {
            let _ = hostile.write_all(script).await;
            let _ = hostile.shutdown().await;
            let mut heard = Vec::new();
            let _ = hostile.read_to_end(&mut heard).await;
        };
        let (result, ()) = tokio::join!(receive_tree(honest, &into, &quiet, &never), attack);
        result.expect_err("a hostile sender must not succeed")
    })
}

/// Only the receiving directory itself may exist, with nothing in it but the partial place.
fn assert_untouched(dir: &TempDir) {
    let names = |p| -> Vec<_> {
        fs::read_dir(p).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
    };
    assert_eq!(names(dir.path()), ["in"]);
    assert_eq!(names(&dir.path().join("in")), [".tack-partial"]);
}

fn refuses_entry(kind: u8, path: &[u8], target: &[u8], word: &str) {
    let (error, dir) = receive(&[opening(), raw_entry(kind, 0, path, target)].concat());
    assert!(error.to_string().contains(word), "{error}");
    assert_eq!(error.exit_code(), ExitCode::Integrity);
    assert_untouched(&dir);
}

#[test]
fn an_absolute_path_is_refused() {
    refuses_entry(1, b"/etc/cron.d/x", b"", "absolute");
}

#[test]
fn a_path_through_the_parent_is_refused() {
    refuses_entry(1, b"a/../../x", b"", "`..`");
}

#[test]
fn a_name_with_a_zero_byte_is_refused() {
    refuses_entry(1, b"a\0b", b"", "NUL");
}

#[test]
fn our_own_partial_directory_as_a_name_is_refused() {
    refuses_entry(0, b".tack-partial", b"", "reserved");
}

#[test]
fn an_over_long_component_is_refused() {
    refuses_entry(1, &[b'x'; 300], b"", "300 bytes");
}

#[test]
fn an_over_long_path_is_refused() {
    refuses_entry(1, &[b"d/".repeat(3000), b"f".to_vec()].concat(), b"", "path length");
}

#[test]
fn a_link_that_leads_outside_is_refused() {
    refuses_entry(2, b"l", b"../outside", "out of the receiving directory");
    refuses_entry(2, b"l", b"/etc", "out of the receiving directory");
    refuses_entry(2, b"l", b"d/../..", "out of the receiving directory");
}

#[test]
fn a_file_beneath_a_link_of_the_same_list_is_refused() {
    let script = [opening(), raw_entry(2, 0, b"d", b"e"), raw_entry(1, 3, b"d/f", b"")].concat();
    let (error, dir) = receive(&script);
    assert!(error.to_string().contains("parent"), "{error}");
    assert_untouched(&dir);
}

#[test]
fn a_name_listed_twice_is_refused() {
    let script = [opening(), raw_entry(1, 3, b"f", b""), raw_entry(0, 0, b"f", b"")].concat();
    let (error, dir) = receive(&script);
    assert!(error.to_string().contains("twice"), "{error}");
    assert_untouched(&dir);
}

#[test]
fn sizes_beyond_the_disk_are_refused_before_anything_is_written() {
    let listed = Frame::Listed { entries: 1, bytes: 1 << 62 };
    let script = [opening(), raw_entry(1, 1 << 62, b"f", b""), frames(&[listed])].concat();
    let (error, dir) = receive(&script);
    assert!(matches!(error, TransferError::NoSpace { .. }), "{error}");
    assert_untouched(&dir);
}

#[test]
fn an_over_long_frame_is_refused_by_its_header() {
    for (kind, claimed) in [(0x10, 100_000_u32), (0x21, 300_000), (0x41, u32::MAX)] {
        let header = [&[kind][..], &claimed.to_be_bytes()].concat();
        let (error, _) = receive(&[opening(), header].concat());
        assert!(error.to_string().contains("at most"), "{error}");
    }
}

#[test]
fn another_protocol_is_recognised_as_such() {
    let (error, _) = receive(b"GET / HTTP/1.1\r\n\r\n");
    assert!(matches!(error, TransferError::NotOurs), "{error}");
}

#[test]
fn another_version_is_named() {
    let hello = Frame::Hello { version: 9, what: What::Tree, sender: ME };
    let (error, _) = receive(&[PREFACE.to_vec(), frames(&[hello])].concat());
    assert!(matches!(error, TransferError::Version { theirs: 9, ours: VERSION }), "{error}");
}

pub(crate) fn one_file(size: u64) -> Vec<u8> {
    one_file_of(ME, size)
}

pub(crate) fn one_file_of(sender: SenderId, size: u64) -> Vec<u8> {
    let listed = Frame::Listed { entries: 1, bytes: size };
    [opening_of(sender), raw_entry(1, size, b"f", b""), frames(&[listed])].concat()
}

#[test]
fn more_data_than_listed_is_refused() {
    let data = [Frame::File { index: 0, offset: 0 }, Frame::Data(vec![7; 11])];
    let (error, dir) = receive(&[one_file(10), frames(&data)].concat());
    assert!(error.to_string().contains("more data than listed"), "{error}");
    assert!(!dir.path().join("in/f").exists());
}

#[test]
fn less_data_than_listed_is_refused() {
    let hash = *blake3::hash(&[7; 9]).as_bytes();
    let data = [Frame::File { index: 0, offset: 0 }, Frame::Data(vec![7; 9]), Frame::End { hash }];
    let (error, dir) = receive(&[one_file(10), frames(&data)].concat());
    assert!(error.to_string().contains("1 bytes of `f` missing"), "{error}");
    assert!(!dir.path().join("in/f").exists());
}

#[test]
fn a_file_with_a_wrong_hash_gets_no_name_and_is_not_resumed() {
    let data = [
        Frame::File { index: 0, offset: 0 },
        Frame::Data(vec![7; 10]),
        Frame::End { hash: [0; 32] },
    ];
    let (error, dir) = receive(&[one_file(10), frames(&data)].concat());
    assert!(matches!(error, TransferError::Damaged(_)), "{error}");
    assert_eq!(error.exit_code(), ExitCode::Integrity);
    assert!(!dir.path().join("in/f").exists());
    let store = Store::open(&dir.path().join("in"), Durability::Synced).unwrap();
    assert_eq!(store.partial_bytes(&ME, &RelPath::from_bytes(b"f").unwrap()), Some(0));
}

#[test]
fn a_file_that_was_not_listed_is_refused() {
    for file in [Frame::File { index: 1, offset: 0 }, Frame::File { index: 0, offset: 5 }] {
        let (error, _) = receive(&[one_file(10), frames(&[file])].concat());
        assert!(matches!(error, TransferError::Unexpected { .. }), "{error}");
    }
}

#[test]
fn data_before_any_file_is_refused() {
    for lost in [Frame::Data(vec![1]), Frame::End { hash: [0; 32] }, Frame::Go] {
        let (error, _) = receive(&[one_file(10), frames(&[lost])].concat());
        assert!(matches!(error, TransferError::Unexpected { .. }), "{error}");
    }
}

#[test]
fn a_sender_cannot_read_what_is_there_by_a_wrong_proof() {
    let dir = tempdir().unwrap();
    fs::create_dir_all(dir.path().join("in")).unwrap();
    fs::write(dir.path().join("in/f"), b"0123456789").unwrap();
    let proof = Frame::Proof { index: 0, hash: [1; 32] };
    let error = receive_in(&dir, &[one_file(10), frames(&[proof])].concat());
    assert!(matches!(error, TransferError::Exists { .. }), "{error}");
    assert_eq!(fs::read(dir.path().join("in/f")).unwrap(), b"0123456789");
}

#[test]
fn a_conversation_cut_anywhere_fails_without_a_panic() {
    let hash = *blake3::hash(&[7; 10]).as_bytes();
    let data = [
        Frame::File { index: 0, offset: 0 },
        Frame::Data(vec![7; 10]),
        Frame::End { hash },
        Frame::Finished,
    ];
    let whole = [one_file(10), frames(&data)].concat();
    for cut in 0..whole.len() {
        let (error, _) = receive(&whole[..cut]);
        assert_eq!(error.exit_code(), ExitCode::Failed, "cut at {cut}: {error}");
    }
}

#[test]
fn random_bytes_after_any_opening_never_panic() {
    let seed = 0xf022;
    let mut rng = rng(seed);
    for round in 0..300 {
        let start = match round % 3 {
            0 => opening(),
            1 => one_file(10),
            _ => [one_file(10), frames(&[Frame::File { index: 0, offset: 0 }])].concat(),
        };
        let mut noise = Vec::new();
        for _ in 0..rng.random_range(1..5) {
            let n = rng.random_range(0..60);
            let kinds = [0x01, 0x10, 0x11, 0x14, 0x20, 0x21, 0x22, 0x23, 0x30, 0x40, 0x41, 0x77];
            let kind = kinds[rng.random_range(0..kinds.len())];
            noise.extend(raw_frame(kind, &random_bytes(&mut rng, n)));
        }
        let (_error, dir) = receive(&[start, noise].concat());
        assert!(!dir.path().join("in/f").exists(), "seed {seed} round {round}");
    }
}

#[test]
fn a_stream_with_a_wrong_hash_is_a_failure() {
    let script = frames(&[Frame::Data(b"abc".to_vec()), Frame::End { hash: [3; 32] }]);
    let error = run(async {
        let (mut hostile, honest) = duplex(1 << 16);
        hostile.write_all(&script).await.unwrap();
        hostile.shutdown().await.unwrap();
        receive_stream(honest, Vec::new(), &Progress::hidden(), &Stop::never()).await.unwrap_err()
    });
    assert!(matches!(error, TransferError::Damaged(_)), "{error}");
}

/// What a sender of one ten-byte file makes of a receiver that says `script`.
fn send(script: &[Frame]) -> TransferError {
    let dir = tempdir().unwrap();
    fs::write(dir.path().join("f"), b"0123456789").unwrap();
    let found = scan(&[dir.path().join("f")], false).unwrap();
    let script = [PREFACE.to_vec(), frames(script)].concat();
    run(async {
        let (mut hostile, honest) = duplex(1 << 16);
        let (quiet, never) = (Progress::hidden(), Stop::never());
        let attack = async {
            let _ = hostile.write_all(&script).await;
            let mut heard = Vec::new();
            let _ = hostile.shutdown().await;
            let _ = hostile.read_to_end(&mut heard).await;
        };
        let (result, ()) = tokio::join!(send_tree(honest, ME, found, &quiet, &never), attack);
        result.expect_err("a hostile receiver must not make the sender believe it")
    })
}

const WELCOME: Frame = Frame::Welcome { version: VERSION };
const ALL_DONE: Frame = Frame::Done { files: 1, bytes: 10 };

#[test]
fn a_receiver_that_claims_to_be_done_at_once_is_not_believed() {
    for script in [
        vec![ALL_DONE],
        vec![WELCOME, ALL_DONE],
        vec![WELCOME, Frame::Planned, ALL_DONE],
        vec![WELCOME, Frame::Planned, Frame::Go, ALL_DONE],
    ] {
        let error = send(&script);
        assert!(matches!(error, TransferError::Unexpected { .. }), "{script:?}: {error}");
    }
}

#[test]
fn a_receiver_that_holds_what_was_never_listed_is_refused() {
    for lie in [
        Frame::Have { index: 1, bytes: 0 },
        Frame::Have { index: 0, bytes: 11 },
        Frame::Have { index: u32::MAX, bytes: u64::MAX },
    ] {
        let error = send(&[WELCOME, lie]);
        assert!(matches!(error, TransferError::Unexpected { .. }), "{error}");
    }
    let have = Frame::Have { index: 0, bytes: 3 };
    assert!(matches!(send(&[WELCOME, have.clone(), have]), TransferError::Unexpected { .. }));
}

#[test]
fn a_receiver_that_keeps_what_was_not_proved_is_refused() {
    let error = send(&[WELCOME, Frame::Planned, Frame::Keep { index: 0 }]);
    assert!(matches!(error, TransferError::Unexpected { .. }), "{error}");
}

#[test]
fn a_receiver_that_stores_what_was_not_sent_is_refused() {
    let start = [WELCOME, Frame::Planned, Frame::Go];
    for lie in [vec![Frame::Stored { index: 3 }], vec![Frame::Stored { index: 0 }; 2]] {
        let error = send(&[&start[..], &lie].concat());
        assert!(matches!(error, TransferError::Unexpected { .. }), "{error}");
    }
}

#[test]
fn a_receivers_reason_is_shown_without_control_characters() {
    let text = "no\x1b[2J thanks".to_owned();
    let error = send(&[WELCOME, Frame::Error { code: frame::Code::Refused, text }]);
    assert_eq!(error.exit_code(), ExitCode::Refused);
    assert!(!error.to_string().contains('\x1b'), "{error:?}");
}

#[test]
fn entries_made_by_hand_equal_those_of_the_codec() {
    let path = RelPath::from_bytes(b"f").unwrap();
    let mtime = Mtime { seconds: 0, nanos: 0 };
    let entry = Entry { path, mode: 0o644, mtime, kind: Kind::File { size: 10 } };
    assert_eq!(frames(&[Frame::Entry(entry)]), raw_entry(1, 10, b"f", b""));
}

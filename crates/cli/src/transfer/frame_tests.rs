use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::*;
use crate::transfer::list::Mtime;

fn samples() -> Vec<Frame> {
    let entry = |path: &str, kind| {
        let path = RelPath::from_bytes(path.as_bytes()).unwrap();
        Frame::Entry(Entry { path, mode: 0o754, mtime: Mtime { seconds: -5, nanos: 7 }, kind })
    };
    vec![
        Frame::Hello { version: VERSION, what: What::Tree, sender: [0; 32] },
        Frame::Hello { version: VERSION, what: What::Stream, sender: [8; 32] },
        Frame::Welcome { version: 1 },
        entry("d", Kind::Dir),
        entry("d/f", Kind::File { size: u64::MAX }),
        entry("l", Kind::Symlink { target: b"../x".to_vec() }),
        Frame::Listed { entries: 3, bytes: 9 },
        Frame::Have { index: 1, bytes: 2 },
        Frame::Planned,
        Frame::Proof { index: 1, hash: [7; 32] },
        Frame::Keep { index: 1 },
        Frame::Go,
        Frame::File { index: 1, offset: 2 },
        Frame::Data(vec![1, 2, 3]),
        Frame::Data(Vec::new()),
        Frame::End { hash: [9; 32] },
        Frame::Skip { index: 4, reason: "gone".into() },
        Frame::Stored { index: 1 },
        Frame::Finished,
        Frame::Done { files: 1, bytes: 3 },
        Frame::Noop,
        Frame::Error { code: Code::Exists, text: "in the way".into() },
        Frame::Error { code: Code::Superseded, text: String::new() },
    ]
}

fn decode(bytes: &[u8]) -> Result<Frame, FrameError> {
    let header = bytes[..HEADER].try_into().unwrap();
    let (kind, length) = parse_header(header)?;
    parse_body(kind, &bytes[HEADER..][..length])
}

#[test]
fn every_frame_survives_encoding_and_decoding() {
    for frame in samples() {
        let mut bytes = Vec::new();
        encode(&frame, &mut bytes);
        assert_eq!(decode(&bytes), Ok(frame));
    }
}

#[test]
fn bodies_that_are_too_short_or_too_long_are_refused() {
    for frame in samples() {
        let mut bytes = Vec::new();
        encode(&frame, &mut bytes);
        let (kind, body) = (bytes[0], &bytes[HEADER..]);
        let free_form = matches!(frame, Frame::Data(_) | Frame::Skip { .. } | Frame::Error { .. });
        if !free_form {
            for cut in 0..body.len() {
                assert!(parse_body(kind, &body[..cut]).is_err(), "{frame:?} cut to {cut}");
            }
            assert!(parse_body(kind, &[body, &[0]].concat()).is_err(), "{frame:?} and a byte");
        }
    }
}

#[test]
fn a_header_may_not_claim_more_than_its_type_carries() {
    let header = |kind: u8, length: usize| {
        let mut header = [kind; HEADER];
        header[1..].copy_from_slice(&(length as u32).to_be_bytes());
        header
    };
    assert_eq!(parse_header(header(0x21, MAX_DATA)), Ok((0x21, MAX_DATA)));
    assert!(parse_header(header(0x21, MAX_DATA + 1)).is_err());
    assert!(parse_header(header(0x10, MAX_CONTROL + 1)).is_err());
    assert!(parse_header(header(0x10, u32::MAX as usize)).is_err());
    assert_eq!(parse_header(header(0x99, 0)), Err(FrameError::UnknownType(0x99)));
}

#[test]
fn long_texts_are_cut_at_a_characters_edge() {
    let mut bytes = Vec::new();
    encode(&Frame::Error { code: Code::Io, text: "ü".repeat(2000) }, &mut bytes);
    let Ok(Frame::Error { text, .. }) = decode(&bytes) else { panic!("{bytes:?}") };
    assert!(text.len() <= MAX_TEXT && text.chars().all(|c| c == 'ü'));
}

#[test]
fn random_and_mutated_bodies_never_panic() {
    let mut rng = Pcg64::seed_from_u64(0x7ac4);
    for _ in 0..20_000 {
        let kind = rng.random_range(0..=0x42);
        let body: Vec<u8> = (0..rng.random_range(0..80)).map(|_| rng.random()).collect();
        let _ = parse_body(kind, &body);
    }
    for frame in samples() {
        let mut bytes = Vec::new();
        encode(&frame, &mut bytes);
        for _ in 0..200 {
            let mut mutated = bytes[HEADER..].to_vec();
            if mutated.is_empty() {
                break;
            }
            let at = rng.random_range(0..mutated.len());
            mutated[at] = rng.random();
            if let Ok(frame) = parse_body(bytes[0], &mutated) {
                if matches!(frame, Frame::Hello { version, .. } if version != VERSION) {
                    // Nothing more of it is read.
                    continue;
                }
                // Whatever is understood must mean the same when written again.
                let mut again = Vec::new();
                encode(&frame, &mut again);
                assert_eq!(&again[HEADER..], mutated);
            }
        }
    }
}

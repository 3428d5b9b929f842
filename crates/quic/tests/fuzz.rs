//! The fuzz target of QUIC's codecs on a stable compiler: noise, and mutations of valid input.

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use tack_quic::wire::{
    Ack, ConnectionId, Frame, Header, LongKind, Loss, PacketNumber, Parameters, Version,
};

#[allow(unreachable_pub, reason = "a file of the fuzz workspace, by its path")]
#[path = "../../../fuzz/src/quic.rs"]
mod quic;
#[allow(unreachable_pub, reason = "a file of the fuzz workspace, by its path")]
#[path = "../../../fuzz/src/quic_peer.rs"]
mod quic_peer;

const ROUNDS: u64 = 60_000;

/// Input of each kind that the target takes.
fn valid() -> Vec<Vec<u8>> {
    let mut frames = vec![0];
    let ack = Ack { delay: 9, ranges: vec![90..100, 70..71, 3..40], ecn: None };
    let stream = Frame::Stream { id: 4, offset: 100_000, fin: true, data: b"text" };
    for frame in [Frame::Ack(ack), Frame::Loss(Loss { unsettled: 70 }), stream, Frame::Stamp(9)] {
        frame.emit(&mut frames);
    }
    let mut parameters = vec![2];
    Parameters {
        max_data: 1 << 20,
        initial_scid: ConnectionId::new(b"initial"),
        min_ack_delay: Some(Duration::from_millis(1)),
        tack: Some(1),
        ..Parameters::default()
    }
    .emit(&mut parameters);
    let mut packet = vec![3];
    let (dcid, scid) = (ConnectionId::new(b"original").unwrap(), ConnectionId::default());
    let (version, kind) = (Version::V2, LongKind::Initial);
    let header = Header::Long { version, kind, dcid, scid, token: b"token" };
    header.emit(PacketNumber::in_bytes(1, 2), 40, &mut packet);
    packet.resize(packet.len() + 40, 7);
    vec![frames, parameters, packet]
}

#[test]
fn whatever_arrives_is_refused_or_survives() {
    let valid = valid();
    assert!(valid.iter().all(|input| quic::quic(input)));
    let mut accepted = 0;
    for seed in 0..ROUNDS {
        let mut rng = Pcg64::seed_from_u64(seed);
        let mut bytes = match rng.random_range(0..4) {
            0 => (0..rng.random_range(0..64)).map(|_| rng.random()).collect(),
            n => valid[n - 1].clone(),
        };
        for _ in 0..rng.random_range(0..4) {
            let len = bytes.len();
            match rng.random_range(0..3) {
                0 if len > 0 => bytes[rng.random_range(0..len)] = rng.random(),
                1 => bytes.truncate(rng.random_range(0..=len)),
                _ => bytes.insert(rng.random_range(0..=len), rng.random()),
            }
        }
        match std::panic::catch_unwind(|| quic::quic(&bytes)) {
            Ok(good) => accepted += u64::from(good),
            Err(_) => panic!("seed {seed} breaks a promise with {bytes:x?}"),
        }
    }
    assert!((ROUNDS / 10..ROUNDS).contains(&accepted), "{accepted} of {ROUNDS} were accepted");
}

/// Frames that a client may send, whole or damaged, in operations of the target.
#[allow(clippy::single_range_in_vec_init, reason = "a list of one range is meant")]
fn hostile(rng: &mut Pcg64) -> Vec<u8> {
    let mut input = vec![rng.random()];
    for _ in 0..rng.random_range(1..25) {
        let number = |rng: &mut Pcg64| match rng.random_range(0..4) {
            0 => rng.random_range(0..8),
            1 => rng.random_range(0..30_000),
            2 => rng.random_range(0..1 << 32),
            _ => rng.random_range(0..1 << 62),
        };
        let (a, b, c) = (number(rng), number(rng), number(rng));
        let id = rng.random_range(0..40);
        let data = [7; 60];
        let frame = match rng.random_range(0..22) {
            0 | 1 => Frame::Stream { id, offset: b.min(1 << 61), fin: rng.random(), data: &data },
            2 => Frame::Stream { id, offset: b % 9_000, fin: false, data: &data },
            3 => Frame::ResetStream { id, code: a, final_size: b },
            4 => Frame::StopSending { id, code: a },
            5 => Frame::MaxData(a),
            6 => Frame::MaxStreamData { id, most: a },
            7 => Frame::MaxStreams { bidi: rng.random(), most: a >> 2 },
            8 => Frame::NewConnectionId {
                sequence: a,
                retire_prior_to: b.min(a),
                id: &data[..8],
                token: [3; 16],
            },
            9 => Frame::RetireConnectionId(a),
            10 => Frame::PathChallenge([9; 8]),
            11 => Frame::PathResponse([9; 8]),
            12 => Frame::Datagram(&data),
            13 => Frame::Crypto { offset: a.min(1 << 61), data: &data },
            14..17 => {
                let top = a % 40;
                let ranges = if rng.random() { vec![0..top + 1] } else { vec![top..top + 1] };
                Frame::Ack(Ack { delay: c, ranges, ecn: None })
            }
            17 => Frame::Loss(Loss { unsettled: a }),
            18 => Frame::Stamp(a as u32),
            19 => Frame::ImmediateAck,
            20 => Frame::DataBlocked(a),
            _ => Frame::Ping,
        };
        let mut bytes = Vec::new();
        frame.emit(&mut bytes);
        if rng.random_range(0..8) == 0 {
            let at = rng.random_range(0..bytes.len());
            bytes[at] = rng.random();
        }
        let what = if rng.random_range(0..3) == 0 { rng.random() } else { rng.random_range(0..4) };
        input.extend([what, bytes.len() as u8]);
        input.extend(bytes);
    }
    input
}

#[test]
fn a_server_survives_a_client_that_says_what_it_likes() {
    let mut survived = 0;
    for seed in 0..300 {
        let input = hostile(&mut Pcg64::seed_from_u64(seed));
        match std::panic::catch_unwind(|| quic_peer::quic_peer(&input)) {
            Ok(established) => survived += u64::from(established),
            Err(_) => panic!("seed {seed} breaks a promise with {input:x?}"),
        }
    }
    assert!((1..300).contains(&survived), "{survived} connections lived on");
}

//! The fuzz targets of QUIC on a stable compiler: noise, and mutations of valid input.
//!
//! `TACK_SEEDS=10000` runs so many whole conversations, `TACK_SEEDS=16..17` one.

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use tack::{Regime, Timing};
use tack_quic::ack_frequency;
use tack_quic::wire::{
    Ack, ConnectionId, EcnCounts, Frame, Header, LongKind, Loss, PacketNumber, Parameters, Report,
    Version,
};
use tack_units::Rate;

#[allow(dead_code, reason = "a file of the fuzz workspace, by its path")]
#[path = "../../../fuzz/src/input.rs"]
mod input;
#[allow(unreachable_pub, reason = "a file of the fuzz workspace, by its path")]
#[path = "../../../fuzz/src/quic.rs"]
mod quic;
#[allow(unreachable_pub, dead_code, reason = "a file of the fuzz workspace, by its path")]
#[path = "../../../fuzz/src/quic_conversation.rs"]
mod quic_conversation;
#[allow(unreachable_pub, reason = "a file of the fuzz workspace, by its path")]
#[path = "../../../fuzz/src/quic_peer.rs"]
mod quic_peer;
#[path = "conversation/seeds.rs"]
mod seeds;

use seeds::seeds;

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

/// Of packets that were sent, or not, in as many ranges as fit below `top`.
fn hostile_ack(top: u64, delay: u64, rng: &mut Pcg64) -> Ack {
    let (mut ranges, mut end) = (Vec::new(), top + 1);
    while end > 0 && ranges.len() < 12 {
        let start = if rng.random() { end - 1 } else { rng.random_range(0..end) };
        ranges.push(start..end);
        end = start.saturating_sub(rng.random_range(1..8));
        if rng.random_range(0..3) == 0 {
            break;
        }
    }
    let counts = |rng: &mut Pcg64| EcnCounts {
        ect0: if rng.random() { rng.random_range(0..60) } else { rng.random_range(0..1 << 62) },
        ect1: u64::from(rng.random_range(0..8) == 0),
        ce: if rng.random() { rng.random_range(0..9) } else { rng.random_range(0..1 << 62) },
    };
    let ecn = rng.random::<bool>().then(|| counts(rng));
    Ack { delay, ranges, ecn }
}

/// Frames that a client may send, whole or damaged, in operations of the target.
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
        let frame = match rng.random_range(0..26) {
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
            14..17 => Frame::Ack(hostile_ack(a % 40, c, rng)),
            22 => Frame::Report(Report {
                counter: a as u32,
                duplicates: b as u32,
                unsettled: c,
                rho: rng.random(),
                interval: Duration::from_micros(a >> 1),
                regime: if rng.random() { Regime::Startup } else { Regime::Steady },
                timing: rng.random::<bool>().then(|| Timing {
                    departure_us: b as u32,
                    delay: Duration::from_micros(c >> 1),
                    queued: Duration::from_micros(a >> 1),
                }),
                delivery_rate: rng.random::<bool>().then(|| Rate::from_kbps(b >> 12)),
            }),
            23 => Frame::Frequency(tack::Frequency {
                regime: if rng.random() { Regime::Startup } else { Regime::Steady },
                interval: Duration::from_micros(a >> 1),
                rtt_min: Duration::from_micros(b >> 1),
                segments_per_ack: c as u32,
                rho_prime: rng.random(),
                bdp: a,
            }),
            24 => Frame::AckFrequency(ack_frequency::Frame {
                sequence: a,
                request: ack_frequency::Request {
                    ack_eliciting_threshold: b,
                    max_ack_delay: Duration::from_micros(c.max(1_000) >> 1),
                    reordering_threshold: a,
                },
            }),
            17 => Frame::Loss(Loss { unsettled: a }),
            18 => Frame::Stamp(a as u32),
            19 => Frame::ImmediateAck,
            20 => Frame::DataBlocked(a),
            _ => Frame::Ping,
        };
        let mut bytes = Vec::new();
        frame.emit(&mut bytes);
        if matches!(frame, Frame::Report(_) | Frame::Loss(_)) && rng.random_range(0..4) > 0 {
            // Without one it would be a breach.
            Frame::Ack(hostile_ack(b % 40, c, rng)).emit(&mut bytes);
        }
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

/// Who they are, and then a path where of a share of the datagrams, up to all, something becomes.
fn conversation(rng: &mut Pcg64) -> Vec<u8> {
    let mut input: Vec<u8> = (0..8).map(|_| rng.random()).collect();
    let share = rng.random_range(0.0..1.0);
    for _ in 0..rng.random_range(0..600) {
        input.push(if rng.random_bool(share) { rng.random() } else { 0 });
    }
    input
}

/// Conversations, unless the environment says otherwise.
const CONVERSATIONS: u64 = 200;

fn run(seeds: impl IntoIterator<Item = u64>) -> u64 {
    let (mut heard, mut failed) = (0, Vec::new());
    for seed in seeds {
        let input = conversation(&mut Pcg64::seed_from_u64(seed));
        match std::panic::catch_unwind(|| quic_conversation::quic_conversation(&input)) {
            Ok(all) => heard += u64::from(all),
            Err(_) => failed.push(seed),
        }
    }
    assert!(failed.is_empty(), "seeds {failed:?} break a promise");
    heard
}

#[test]
fn ours_and_quinn_hear_each_other_whatever_bytes_say_of_both_and_of_the_path() {
    let seeds = seeds(CONVERSATIONS);
    let most = seeds.end - seeds.start;
    let heard = run(seeds);
    assert!(heard * 20 >= most * 19, "{heard} of {most}: quinn gave up in the others");
}

#[test]
fn a_client_that_is_elsewhere_and_not_confirmed_gives_quinn_a_datagram_to_count() {
    // quinn counts nothing of one that begins with a packet of the handshake, and has nothing to ask with.
    run([343, 430, 527, 827]);
}

#[test]
fn an_acknowledgment_does_not_go_with_a_probe_of_a_length_that_does_not_pass() {
    // quinn's window is full. It asks after twice as long each time, and each answer was the next probe.
    run([78, 218, 995, 1_542]);
}

#[test]
fn a_timeout_asks_again_though_something_is_owed_that_proves_needless() {
    // A server went back to the address before. What its client owed beside data was no frame any more, and it said
    // nothing from where it was.
    run([2_064_680]);
}

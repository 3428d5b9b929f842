//! Our QUIC and quinn-proto, or two of ours, by bytes that choose what they are, what they say, give up and do
//! besides, and what the path does to each datagram.
//!
//! Whatever comes: no panic, every byte is the one that was sent, and once the path behaves both ends hear
//! everything, and the end.

use core::time::Duration;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Once;

use tack_quic::Config;
use tack_units::Instant;

use super::input::Input;

#[path = "../../crates/quic/tests/conversation/end.rs"]
mod end;
#[path = "../../crates/quic/tests/conversation/ours.rs"]
mod ours;
#[path = "../../crates/quic/tests/conversation/quinn.rs"]
mod quinn;
#[path = "../../crates/quic/tests/conversation/speech.rs"]
mod speech;
#[path = "../../crates/quic/tests/conversation/tls.rs"]
mod tls;
#[path = "../../crates/quic/tests/conversation/world.rs"]
mod world;

use end::End;
use ours::Ours;
use quinn::Quinn;
use speech::Script;
use tls::Sessions;
use world::{Act, Fate, World};

/// From then on the path behaves: timers that were backed off until then wait for as long again.
const MISCHIEF: Duration = Duration::from_secs(20);
/// Copies of a datagram come as late as that many times the path's delay.
const MAX_LATE: u32 = 8;
/// Addresses that the client has in all, less one.
const MAX_MOVES: u32 = 12;
/// A quinn client's window is never full of what nobody can read yet: it would not end its handshake.
const WINDOW: u64 = 4 << 20;
/// A direction of a stream, bytes.
const MAX_LEN: u16 = 60_000;

/// What the bytes say of both ends.
#[derive(Clone, Copy, Debug)]
struct Choice {
    with_quinn: bool,
    quinn_serves: bool,
    with_tack: bool,
    retry: bool,
    early: bool,
    /// Windows and stream limits of ours are tight.
    tight: bool,
}

/// The path: a byte for each datagram, until there are none.
#[derive(Debug)]
struct Bytes<'a> {
    input: Input<'a>,
    delay: Duration,
    /// UDP payload that passes, bytes.
    most: usize,
    moves: u32,
    /// The client's host after its next datagram.
    host: Option<u8>,
    act: Option<(usize, Act)>,
    /// Datagrams that are lost whatever the bytes say, by whom they are for.
    burst: [u8; 2],
}

/// A byte says what to do by its lower half, and how much by its upper.
impl Fate for Bytes<'_> {
    fn moves(&mut self) -> Option<u8> {
        self.host.take()
    }

    fn carry(
        &mut self,
        to: usize,
        mut datagram: Vec<u8>,
        now: Instant,
    ) -> Vec<(Duration, Vec<u8>)> {
        if datagram.len() > self.most {
            return Vec::new();
        }
        let delay = self.delay;
        if now >= Instant::ZERO + MISCHIEF {
            self.input = Input::new(&[]);
            self.burst = [0; 2];
        }
        let byte = self.input.byte();
        let (much, may_move) = (byte >> 4, self.moves < MAX_MOVES);
        if self.burst[to] > 0 {
            self.burst[to] -= 1;
            return Vec::new();
        }
        let who = usize::from(much & 1);
        match byte & 15 {
            7 => return Vec::new(),
            8 => {
                self.burst[to] = much;
                return Vec::new();
            }
            9 => {
                return vec![
                    (delay, datagram.clone()),
                    (delay + delay * u32::from(much), datagram),
                ];
            }
            10 => return vec![(delay + delay * (u32::from(much) % MAX_LATE), datagram)],
            11 => {
                let at = usize::from(self.input.half()) % datagram.len().max(1);
                datagram[at] ^= 1 << (much & 7);
            }
            12 if may_move => {
                self.moves += 1;
                self.host = Some(2 + much % 3);
            }
            13 => self.act = Some((who, Act::UpdateKeys)),
            14 if may_move => {
                self.moves += 1;
                self.act = Some((0, Act::Move(2 + much % 3)));
            }
            15 => self.act = Some((who, Act::Datagram(usize::from(much) * 90))),
            _ => {}
        }
        vec![(delay, datagram)]
    }

    fn acts(&mut self) -> Option<(usize, Act)> {
        self.act.take()
    }
}

fn ends(choice: Choice, seed: u64, sessions: &Sessions) -> [Box<dyn End>; 2] {
    let mut config = Config { idle_timeout: Some(Duration::from_secs(120)), ..Config::default() };
    if choice.tight {
        config.initial_window = 2_000;
        config.initial_connection_window = 5_000;
        config.max_streams_bidi = 2;
        config.max_streams_uni = 1;
    }
    if !choice.with_tack {
        (config.tack, config.ask_frequency) = (None, false);
    }
    if choice.early {
        config.max_early_data = 1 << 20;
    }
    let ours = |seed| Ours::with(config.clone(), seed, sessions.clone());
    let quinn = |serves| Quinn::with(serves, seed, sessions.clone());
    match (choice.with_quinn, choice.quinn_serves) {
        (false, _) => [Box::new(ours(seed)), Box::new(ours(!seed))],
        (true, true) if choice.retry => [Box::new(ours(seed)), Box::new(quinn(true).with_retry())],
        (true, true) => [Box::new(ours(seed)), Box::new(quinn(true))],
        (true, false) => [Box::new(quinn(false).with_window(WINDOW)), Box::new(ours(seed))],
    }
}

/// Eight bytes: who, what they say, and the path's delay and MTU; then one for each datagram.
pub fn quic_conversation(data: &[u8]) -> bool {
    spare_quinn();
    let mut input = Input::new(data);
    let bits = input.byte();
    let choice = Choice {
        with_quinn: bits & 3 != 3,
        quinn_serves: bits & 1 != 0,
        with_tack: bits & 4 == 0,
        retry: bits & 8 != 0,
        early: bits & 16 != 0,
        tight: bits & 32 != 0,
    };
    let quits = f64::from(bits >> 6) / 8.0;
    let script = Script {
        streams: 1 + u64::from(input.byte()) % 12,
        seed: input.half().into(),
        most: 1 + usize::from(input.half() % MAX_LEN),
        quits,
    };
    let delay = Duration::from_micros(200 + 250 * u64::from(input.byte()));
    let most = 1_200 + usize::from(input.byte());
    let path = |input| Bytes { input, delay, most, moves: 0, host: None, act: None, burst: [0; 2] };
    let sessions = if choice.early { Sessions::early() } else { Sessions::none() };
    if choice.early {
        let before = Script { streams: 1, most: 1_000, quits: 0.0, ..script };
        converse(before, path(Input::new(&[])), ends(choice, script.seed, &sessions));
    }
    converse(script, path(input), ends(choice, script.seed, &sessions))
}

/// False: quinn gave up.
fn converse(script: Script, path: Bytes<'_>, ends: [Box<dyn End>; 2]) -> bool {
    let all = AssertUnwindSafe(|| {
        let mut world = World::new(script, path, ends);
        let now = world.run();
        world.close(now);
    });
    match catch_unwind(all) {
        Ok(()) => true,
        Err(panic) if quinn::is_quinn_s(&*panic) => false,
        Err(panic) => resume_unwind(panic),
    }
}

/// libFuzzer takes any panic for a find, before anybody can catch it: those of quinn's that are known are not
/// told to it.
fn spare_quinn() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let tell = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !quinn::is_quinn_s(panic.payload()) {
                tell(panic);
            }
        }));
    });
}

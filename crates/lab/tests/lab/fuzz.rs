//! The fuzz target of scenario files on a stable compiler: mutations of the repository's own.

use std::path::Path;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

#[allow(unreachable_pub, reason = "a file of the fuzz workspace, by its path")]
#[path = "../../../../fuzz/src/scenario.rs"]
mod scenario;

const ROUNDS: u64 = 1_500;
/// Pieces that mean something in a scenario.
const TOKENS: &[&str] = &[
    "\n",
    "[",
    "]",
    "=",
    "\"",
    ".",
    "-",
    "0",
    "1e9",
    "inf",
    "nan",
    "-1",
    "[[flow]]\n",
    "[sweep]\n",
    "[wifi]\n",
    "true",
    "\"tack\"",
    "\"b\"",
    "stop_s = inf\n",
    "rate_steps = [[0, 1], [inf, 2]]\n",
    "wan.",
    "up.",
    "strategy",
    "{ kind = \"cbr\", mbps = 1 }",
    "outages = [[0.0, 0.001]]\n",
    "trace = \"1\\n2\\n\"\n",
    "queue = \"red\"\n",
    "ap_queue_packets = 0\n",
    "ack_filter = true\n",
    "{ kind = \"video\", trace = \"1080p60\" }",
    "{ kind = \"video\", trace = \"fps 60\\nI 5000\\nP 1\\n\" }",
    "rate_steps_every_s = 3.0\n",
];

fn mutate(text: &mut String, rng: &mut Pcg64) {
    let cut = |rng: &mut Pcg64| {
        let mut at = rng.random_range(0..=text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let (a, b) = (cut(rng), cut(rng));
    let (from, to) = (a.min(b), a.max(b).min(a.min(b) + 12));
    let to = (to..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
    match rng.random_range(0..4) {
        0 => text.replace_range(from..to, ""),
        1 => {
            let piece = text[from..to].to_owned();
            text.insert_str(from, &piece);
        }
        2 => text.insert_str(from, TOKENS[rng.random_range(0..TOKENS.len())]),
        _ => text.replace_range(from..to, TOKENS[rng.random_range(0..TOKENS.len())]),
    }
}

#[test]
fn damaged_scenarios_are_refused_or_run() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut files: Vec<_> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    files.retain(|path| path.is_file());
    files.sort();
    let texts: Vec<String> = files.iter().map(|f| std::fs::read_to_string(f).unwrap()).collect();
    let mut accepted = 0;
    for seed in 0..ROUNDS {
        let mut rng = Pcg64::seed_from_u64(seed);
        let mut text = texts[rng.random_range(0..texts.len())].clone();
        for _ in 0..rng.random_range(0..4) {
            mutate(&mut text, &mut rng);
        }
        let one = || scenario::scenario(text.as_bytes());
        match std::panic::catch_unwind(one) {
            Ok(good) => accepted += u64::from(good),
            Err(_) => panic!("seed {seed} breaks a promise with\n{text}"),
        }
    }
    assert!((ROUNDS / 10..ROUNDS).contains(&accepted), "{accepted} of {ROUNDS} were accepted");
}

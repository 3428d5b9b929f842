//! `tack lab` as a user runs it.

mod browser;
mod own;
mod page;
mod report;
#[cfg(target_os = "linux")]
mod rivals;

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

const SWEEP: &str = r#"
name = "short"
duration_s = 0.6
warmup_s = 0.2
runs = 6

[wifi]
phy = "g"

[wan]
delay_ms = 5.0

[[flow]]
strategy = "tack"

[sweep]
"flow.0.strategy" = ["tcp-l2", "tack"]
"#;

fn tack(dir: &Path, line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tack"));
    command.current_dir(dir).arg("lab").args(line.split_whitespace());
    command
}

fn run(dir: &Path, line: &str) -> Output {
    tack(dir, line).output().unwrap()
}

fn json(dir: &Path, line: &str) -> Value {
    let out = run(dir, line);
    assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap()
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("{key} is no number in {value}"))
}

/// wlan-model.md §7.6, from the command line: ACKs by count cost what TACK saves.
#[test]
fn airtime_answers_in_mbit_per_second_at_the_ip_level() {
    let dir = tempfile::tempdir().unwrap();
    let l3 = |flags: &str| {
        let line = format!("airtime --phy n --seconds 2 --seed 1 --json {flags}");
        number(&json(dir.path(), &line), "l3_mbps")
    };
    let (udp, l2, periodic) =
        (l3("--mode udp --l 2"), l3("--l 2 --period-ms 0"), l3("--l 0 --period-ms 20"));
    assert!(l2 < periodic * 0.95 && periodic < udp, "{l2} {periodic} {udp}");
    assert_eq!(l3("--mode udpack"), l2, "two packets per ACK are the default");
    assert_eq!(l3("--offered-mbps 0"), l2, "no rate offered is as much as goes");
    let relay = l3("--mode relay --stations 1 --offered-mbps 50 --ap-ampdu-bytes 20100");
    assert!((50.0..52.0).contains(&relay), "{relay}");
    let text = run(dir.path(), "airtime --phy b --mode up --stations 3 --seconds 5");
    assert!(String::from_utf8(text.stdout).unwrap().contains("Mbit/s at the IP level"));
}

#[test]
fn compare_prints_the_rows_that_scripts_rely_on() {
    let dir = tempfile::tempdir().unwrap();
    let flags = "compare --wifi n,g --rtt 20ms --seeds 2 --seconds 0.5 --warmup 0.5 \
                 --presets textbook --strategies udp,tcp-l2,tack";
    let table = json(dir.path(), &format!("{flags} --json --plot out.svg --jobs 2"));
    let rows = table["rows"].as_array().unwrap();
    let names: Vec<_> = rows
        .iter()
        .map(|r| (r["phy"].as_str().unwrap(), r["strategy"].as_str().unwrap()))
        .collect();
    let expected = [
        ("n", "udp"),
        ("n", "tcp-l2"),
        ("n", "tack"),
        ("g", "udp"),
        ("g", "tcp-l2"),
        ("g", "tack"),
    ];
    assert_eq!(names, expected);
    for row in rows {
        assert_eq!((row["preset"].as_str(), row["seeds"].as_u64()), (Some("textbook"), Some(2)));
        for key in ["goodput_bps", "ideal_goodput_bps", "data_packets_per_s"] {
            assert!(number(row, key) > 100.0, "{key} of {row}");
        }
        for key in ["goodput_ci95_bps", "ack_airtime", "collision_share", "retransmissions"] {
            assert!(number(row, key) >= 0.0, "{key} of {row}");
        }
        let udp = row["strategy"] == "udp";
        assert_eq!(row["rtt_p50_us"].is_null(), udp, "{row}");
        assert_eq!(number(row, "ack_packets_per_s") == 0.0, udp, "{row}");
    }
    assert!(std::fs::read_to_string(dir.path().join("out.svg")).unwrap().contains("tcp-l2"));
    let again = json(dir.path(), &format!("{flags} --json --jobs 1"));
    assert_eq!(again, table, "the number of jobs changes nothing");
}

#[test]
fn mistakes_are_explained_and_end_with_status_2() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("bad.toml"), SWEEP.replace("5.0", "-5.0")).unwrap();
    std::fs::write(dir.path().join("many.toml"), SWEEP).unwrap();
    let one = "duration_s = 1.0\nwan = { rate_mbps = 1.0, delay_ms = 5.0 }\n";
    let tack = "flow = [{ strategy = \"tack\" }]\n";
    let formula = format!("id = \"f\"\nbackend = \"formula\"\n[base]\n{one}{tack}");
    std::fs::write(dir.path().join("formula.toml"), formula).unwrap();
    std::fs::write(dir.path().join("one.toml"), format!("{one}{tack}")).unwrap();
    let own = tack.replace("tack\"", "tack\", controller = \"mine\"");
    std::fs::write(dir.path().join("own.toml"), format!("{one}{own}")).unwrap();
    for (line, words) in [
        ("compare --rtt 80", ["`80`", "80ms"]),
        ("compare --wifi n,z", ["--wifi z", "b, g, n, ac or ax"]),
        ("compare --presets lab", ["--presets lab", "textbook"]),
        ("compare --strategies tcp", ["`tcp`", "tcp-l1"]),
        ("compare --seconds -1", ["--seconds", "36000"]),
        ("compare --seeds 0", ["--seeds 0", "10000"]),
        ("airtime --phy z", ["--phy", "b, g, n, ac or ax"]),
        ("airtime --l 2 --period-ms 20", ["--l", "--period-ms"]),
        ("run bad.toml", ["bad.toml, line 11", "wan.delay_ms"]),
        ("run many.toml --pcap x.pcapng", ["--pcap", "asks for 12"]),
        ("run formula.toml --pcap x.pcapng", ["--pcap", "another `backend`"]),
        ("run one.toml --pcap -", ["./-", "files"]),
        ("run one.toml --report -", ["./-", "files"]),
        ("run one.toml --out -", ["./-", "files"]),
        ("acks --report -", ["./-", "files"]),
        ("run many.toml --set zz=1", ["--set zz=1: `zz` unknown field", "warmup_s"]),
        ("run many.toml --set extent.usual.draws=1", ["--set extent.usual.draws=1", "unknown"]),
        ("run many.toml --set wan.loss=2", ["--set wan.loss=2: `wan.loss`", "between 0 and 1"]),
        ("run many.toml --set wan.delay_ms=abc", ["--set wan.delay_ms=", "expected a number"]),
        ("run own.toml", ["own: `controller`", "docs/python.md"]),
        ("airtime --seconds 1e300", ["--seconds is 1e300,", "100000"]),
    ] {
        let line = line.replace("--seconds -1", "--seconds=-1");
        let out = run(dir.path(), &line);
        let message = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(2), "{line}: {message}");
        for word in words {
            assert!(message.contains(word), "{line}: {message} lacks {word}");
        }
    }
    for name in ["bad.jsonl", "-"] {
        assert!(!dir.path().join(name).exists(), "a mistake changes nothing");
    }
}

#[allow(clippy::disallowed_methods, reason = "it waits for another process")]
#[test]
fn an_interrupted_sweep_goes_on_and_ends_with_the_same_file() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("short.toml"), SWEEP).unwrap();
    let done = run(dir.path(), "run short.toml --out whole --csv");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let whole = std::fs::read(dir.path().join("whole/short.jsonl")).unwrap();
    let csv = std::fs::read_to_string(dir.path().join("whole/short.csv")).unwrap();
    assert_eq!((whole.iter().filter(|b| **b == b'\n').count(), csv.lines().count()), (12, 13));
    assert!(String::from_utf8(done.stdout).unwrap().contains("flow.0.strategy=tack"));

    let path = dir.path().join("torn.jsonl");
    let mut child = tack(dir.path(), "run short.toml --out torn.jsonl --csv --jobs 1")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while std::fs::read(&path).map_or(0, |b| b.len()) == 0 {
        std::thread::sleep(Duration::from_millis(2));
    }
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let status = child.wait().unwrap();
    let kept = std::fs::read(&path).unwrap();
    assert!(whole.starts_with(&kept) && kept.ends_with(b"\n"), "what is done is kept, and no more");
    // A machine that is very quick may be done before the signal comes.
    if kept.len() < whole.len() {
        assert_eq!(status.code(), Some(130));
        let rows = kept.iter().filter(|b| **b == b'\n').count();
        let csv = std::fs::read_to_string(dir.path().join("torn.csv")).unwrap();
        assert_eq!(csv.lines().count(), rows + 1, "nothing came after what was said");
    }
    assert!(run(dir.path(), "run short.toml --out torn.jsonl").status.success());
    assert!(std::fs::read(&path).unwrap() == whole);

    std::fs::write(dir.path().join("short.toml"), SWEEP.replace("5.0", "6.0")).unwrap();
    let edited = run(dir.path(), "run short.toml --out torn.jsonl");
    assert!(edited.status.success(), "{}", String::from_utf8_lossy(&edited.stderr));
    let both = std::fs::read(&path).unwrap();
    assert!(both.starts_with(&whole) && both.len() > whole.len(), "what was there stays");
    assert!(run(dir.path(), "run short.toml --out torn.jsonl --no-resume").status.success());
    assert!(both.ends_with(&std::fs::read(&path).unwrap()));
}

/// Each would write its lines across the other's.
#[allow(clippy::disallowed_methods, reason = "it waits for another process")]
#[test]
fn results_that_another_run_writes_are_refused_until_that_has_ended() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("own.jsonl");
    std::fs::write(dir.path().join("short.toml"), SWEEP).unwrap();
    let long = SWEEP.replace("duration_s = 0.6", "duration_s = 600.0");
    std::fs::write(dir.path().join("long.toml"), long).unwrap();
    let quiet = || Stdio::null();
    let line = "run long.toml --out own.jsonl";
    let mut first = tack(dir.path(), line).stdout(quiet()).stderr(quiet()).spawn().unwrap();
    while !path.exists() {
        std::thread::sleep(Duration::from_millis(2));
    }
    std::thread::sleep(Duration::from_millis(100));
    for more in ["", "--no-resume"] {
        let out = run(dir.path(), &format!("run short.toml --out own.jsonl {more}"));
        let why = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(1), "{why}");
        assert!(why.contains("own.jsonl") && why.contains("another run"), "{why}");
    }
    // As a scheduler of jobs ends it.
    let pid = first.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert_eq!(first.wait().unwrap().code(), Some(130));
    assert!(run(dir.path(), "run short.toml --out own.jsonl").status.success());
}

#[test]
fn parts_of_an_experiment_merge_to_the_bytes_of_one_machine() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("short.toml"), SWEEP).unwrap();
    let ok = |line: &str| {
        let out = run(dir.path(), line);
        assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    };
    let whole = ok("run short.toml --out whole.jsonl --report page.html");
    for part in [3, 1, 2] {
        ok(&format!("run short.toml --out {part}.jsonl --shard {part}/3"));
    }
    let merged = ok("run short.toml --out merged.jsonl --merge 1.jsonl 2.jsonl 3.jsonl");
    assert_eq!(merged, whole);
    let bytes = |name: &str| std::fs::read(dir.path().join(name)).unwrap();
    assert!(bytes("merged.jsonl") == bytes("whole.jsonl"));
    // What cannot be put in order is there all the same.
    std::fs::create_dir(dir.path().join("jumbled.jsonl.new")).unwrap();
    let jumbled =
        run(dir.path(), "run short.toml --out jumbled.jsonl --merge 1.jsonl 2.jsonl 3.jsonl");
    let message = String::from_utf8(jumbled.stderr).unwrap();
    let is_told = message.contains("; all 12 results are in jumbled.jsonl, in another order");
    assert!(jumbled.status.code() == Some(1) && is_told, "{message}");
    assert_eq!(ok("run short.toml --out jumbled.jsonl"), whole);
    // What was there of other runs stays.
    std::fs::write(dir.path().join("other.toml"), SWEEP.replace("5.0", "6.0")).unwrap();
    ok("run other.toml --out both.jsonl");
    let other = bytes("both.jsonl");
    ok("run short.toml --out both.jsonl --merge 1.jsonl 2.jsonl 3.jsonl");
    let both = String::from_utf8(bytes("both.jsonl")).unwrap();
    let mut lines: Vec<&str> = both.lines().collect();
    lines.sort_unstable();
    let all = String::from_utf8([other, bytes("whole.jsonl")].concat()).unwrap();
    let mut expected: Vec<&str> = all.lines().collect();
    expected.sort_unstable();
    assert!(lines == expected, "{} lines", lines.len());
    assert!(String::from_utf8(bytes("page.html")).unwrap().contains("</html>"));
    let lacking = run(dir.path(), "run short.toml --out x.jsonl --merge 1.jsonl 2.jsonl");
    let message = String::from_utf8(lacking.stderr).unwrap();
    assert!(lacking.status.code() == Some(1) && message.contains("8 of 12"), "{message}");
    let line = "reproduce C3 --short --out figures";
    assert!(ok(line).contains("agree"));
    for name in ["runs.jsonl", "C3.svg", "C3.csv", "C3.json", "report.html", "findings.txt"] {
        assert!(!bytes(&format!("figures/{name}")).is_empty(), "{name}");
    }
    let unknown = run(dir.path(), "reproduce T-0");
    let message = String::from_utf8(unknown.stderr).unwrap();
    assert!(
        unknown.status.code() == Some(2) && message.contains("landstrom, custura"),
        "{message}"
    );
}

#[test]
fn a_name_of_only_may_be_of_one_of_the_workloads_and_the_others_are_left_out_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, case: &str, variant: &str| {
        let text = format!(
            "id = \"{name}\"\n[base]\nduration_s = 0.2\nwan.rate_mbps = 10.0\nflow = [{{ strategy = \"tack\" }}]\n\
             [[case]]\nname = \"{case}\"\nset = {{ \"wan.delay_ms\" = 1.0 }}\n\
             [[variant]]\nname = \"both\"\nset = {{}}\n[[variant]]\nname = \"{variant}\"\nset = {{}}\n\
             [[view]]\nmetrics = [\"goodput\"]\n"
        );
        std::fs::write(dir.path().join(name), text).unwrap();
    };
    file("one.toml", "near", "udp");
    file("two.toml", "near", "srt");
    let told = |only: &str| {
        let out = run(dir.path(), &format!("reproduce one.toml two.toml --only {only}"));
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (out.status.code(), text(out.stdout), text(out.stderr))
    };
    let (code, shown, said) = told("near,udp");
    assert!(code == Some(0) && shown.contains("udp") && !shown.contains("srt"), "{shown}");
    assert!(said.contains("without two.toml: --only leaves nothing of it"), "{said}");
    let (code, shown, said) = told("both,udp,srt");
    assert!(code == Some(0) && shown.contains("udp") && shown.contains("srt"), "{shown}");
    assert!(!said.contains("without"), "{said}");
    let (code, _, said) = told("near,quic");
    assert!(code == Some(2) && said.contains("--only quic: of one.toml there are near"), "{said}");
    assert!(said.contains("of two.toml there are near; both; srt"), "{said}");
    file("two.toml", "far", "srt");
    let (code, _, said) = told("far,udp");
    assert!(code == Some(2) && said.contains("--only leaves nothing"), "{said}");
}

#[test]
fn another_value_of_a_key_that_every_case_sets_itself_is_refused_by_name_and_not_taken_in_vain() {
    let dir = tempfile::tempdir().unwrap();
    let text = "id = \"own\"\n[base]\nduration_s = 0.2\nwan = { rate_mbps = 10.0, delay_ms = 1.0 }\n\
                flow = [{ strategy = \"tack\" }]\n[[case]]\nname = \"near\"\nset = { \"wan.delay_ms\" = 1.0 }\n\
                [[case]]\nname = \"thin\"\nset = { \"wan.rate_mbps\" = 1.0 }\n[[view]]\nmetrics = [\"goodput\"]\n";
    std::fs::write(dir.path().join("own.toml"), text).unwrap();
    let told = |more: &str| {
        let out =
            run(dir.path(), &format!("reproduce own.toml --no-resume --set wan.delay_ms=2 {more}"));
        (out.status.code(), String::from_utf8(out.stderr).unwrap())
    };
    assert_eq!(told("").0, Some(0), "a case is left that it changes");
    let (code, said) = told("--only near");
    assert!(code == Some(2) && said.contains("every case of own sets `wan.delay_ms`"), "{said}");
}

/// Two rivals that CI has, over a veth pair: the command itself and iperf3.
#[cfg(target_os = "linux")]
#[test]
fn the_command_and_iperf3_stand_in_one_table_with_what_they_used() {
    const VERSUS: &str = r#"
id = "two"
backend = "live"
[base]
veth = true
duration_s = 60.0
flow = [{ strategy = "tack", app = { kind = "file", bytes = 400000000 } }]
[[variant]]
name = "tack-perf"
set = { stack = { rival = "tack-perf" } }
[[variant]]
name = "iperf3"
set = { stack = { rival = "iperf3-cubic" } }
[[view]]
metrics = ["goodput", "acks", "cpu_s_per_gb", "sender_rss_mb"]
"#;
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("two.toml"), VERSUS).unwrap();
    let out = run(dir.path(), "run two.toml --json");
    let told = String::from_utf8_lossy(&out.stderr);
    let must = std::env::var_os("TACK_INTEROP_REQUIRED").is_some();
    if !out.status.success() && told.contains("namespace") && !must {
        return println!("skipped: {told}");
    }
    assert!(out.status.success(), "{told}");
    let all: Value = serde_json::from_slice(&out.stdout).unwrap();
    for row in all["rows"].as_array().unwrap() {
        if row["goodput"].is_null() && !must {
            println!("skipped: {}", all["void"]);
            continue;
        }
        assert!(row["goodput"].is_number(), "{}", all["void"]);
        let figure = |key| number(row, key);
        assert!(figure("goodput") > 1e6 && figure("acks") > 5.0, "{row}");
        assert!(figure("cpu_s_per_gb") > 0.0 && figure("sender_rss_mb") > 0.5, "{row}");
        assert!(row["data"].is_null(), "super-packets are no packets: {row}");
    }
    let who = run(dir.path(), "versus --list");
    let who = String::from_utf8_lossy(&who.stdout).into_owned();
    assert!(who.contains("tack-perf") && who.contains("installed"), "{who}");
}

#[test]
fn a_rival_that_nobody_knows_is_a_mistake_with_line_and_key() {
    let dir = tempfile::tempdir().unwrap();
    let text = "id = \"x\"\nbackend = \"live\"\n[base]\nveth = true\nstack = { rival = \"quin\" }\n\
                flow = [{ strategy = \"tack\", app = { kind = \"file\", bytes = 9 } }]\n";
    std::fs::write(dir.path().join("x.toml"), text).unwrap();
    let out = run(dir.path(), "run x.toml");
    let told = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{told}");
    let linux = told.contains("line 5") && told.contains("there is no rival `quin`");
    assert!(linux || cfg!(not(target_os = "linux")), "{told}");
}

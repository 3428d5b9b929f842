//! Rivals of one's own, and runs in real time that are interrupted.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::{run, tack};

/// Only namespaces and iperf3 may be missing, and where everything must run not even they.
fn skipped(told: &str) {
    assert!(
        (told.contains("namespace") || told.contains("not installed"))
            && std::env::var_os("TACK_INTEROP_REQUIRED").is_none(),
        "{told}"
    );
}

/// Ctrl-C reaches the command alone: what it started is in groups of its own.
#[test]
fn an_interrupted_run_in_real_time_leaves_neither_programs_nor_files() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("tmp")).unwrap();
    let rival = "title = \"slow\"\nencryption = \"none\"\nprograms = [\"sh\"]\ninstall = \"true\"\n\
                 version = \"echo 1\"\n[server]\ncommand = \"ip tuntap add up0 mode tun; sleep 61\"\n\
                 listens = \"device:up0\"\n[client.file]\ncommand = \"echo $$ >$OUT/pid; sleep 62\"\n\
                 bytes = \"/bytes\"\n";
    std::fs::write(dir.path().join("slow.toml"), rival).unwrap();
    let text = "id = \"x\"\nbackend = \"live\"\n[base]\nveth = true\nduration_s = 60.0\n\
                stack = { rival = \"slow.toml\" }\n\
                flow = [{ strategy = \"tack\", app = { kind = \"file\", bytes = 9 } }]\n";
    std::fs::write(dir.path().join("x.toml"), text).unwrap();
    let mut command = tack(dir.path(), "run x.toml --quiet");
    command.env("OUT", dir.path()).env("TMPDIR", dir.path().join("tmp"));
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let pid = dir.path().join("pid");
    let read = || std::fs::read_to_string(&pid).ok().and_then(|t| t.trim().parse::<u32>().ok());
    let client = loop {
        std::thread::park_timeout(Duration::from_millis(20));
        if let Some(client) = read() {
            break client;
        }
        if child.try_wait().unwrap().is_some() {
            let out = child.wait_with_output().unwrap();
            let told = String::from_utf8_lossy(&out.stderr);
            return skipped(&told);
        }
    };
    let interrupt = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(interrupt.unwrap().success());
    let out = child.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(130), "{}", String::from_utf8_lossy(&out.stderr));
    let stat = std::fs::read_to_string(format!("/proc/{client}/stat"));
    assert!(stat.is_err() || stat.is_ok_and(|s| s.contains(") Z ")), "the client goes on");
    let left = std::fs::read_dir(dir.path().join("tmp")).unwrap().count();
    assert_eq!(left, 0, "files of the run are left");
}

#[test]
fn what_the_commands_of_a_file_say_is_not_among_the_results() {
    let dir = tempfile::tempdir().unwrap();
    let text = "id = \"x\"\nbackend = \"live\"\n[base]\nduration_s = 0.5\n\
                wan = { rate_mbps = 10.0, delay_ms = 1.0 }\nflow = [{ strategy = \"tcp-l2\" }]\n\
                stack = { command = { server = \"echo one\", client = \"echo to $TACK_SERVER\" } }\n";
    std::fs::write(dir.path().join("x.toml"), text).unwrap();
    let out = run(dir.path(), "run x.toml --json");
    let told = String::from_utf8_lossy(&out.stderr);
    if !told.contains("nothing was acknowledged") {
        return skipped(&told);
    }
    assert!(told.contains("one\n") && told.contains("to 10.77.0.2\n"), "{told}");
    assert_eq!(String::from_utf8_lossy(&out.stdout), "");
}

#[test]
fn a_rival_of_ones_own_runs_beside_those_of_the_repository() {
    let dir = tempfile::tempdir().unwrap();
    let rivals = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/rivals");
    let own = std::fs::read(rivals.join("iperf3-cubic.toml")).unwrap();
    std::fs::write(dir.path().join("mine.toml"), &own).unwrap();
    std::fs::write(dir.path().join("tack.toml"), &own).unwrap();
    let out =
        run(dir.path(), "versus bulk --rival mine.toml --only veth,mine --set seeds=1 --json");
    let told = String::from_utf8_lossy(&out.stderr);
    if !out.status.success() && (told.contains("namespace") || told.contains("not installed")) {
        return skipped(&told);
    }
    let all: Value = serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {told}"));
    let rows = all["figures"][0]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 1, "{all}");
    assert!(rows[0]["variant"] == "mine" && rows[0]["goodput"].is_number(), "{all}");
    for (line, why) in [
        ("tack.toml", "there is a rival `tack`"),
        ("mine.toml --rival mine.toml", "there is a rival `mine`"),
        ("nowhere.toml", "nowhere.toml: "),
    ] {
        let out = run(dir.path(), &format!("versus bulk --rival {line}"));
        let told = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.code() == Some(2) && told.contains(why), "{line}: {told}");
    }
}

#[test]
fn a_rival_of_ones_own_is_listed_with_what_it_lacks_and_a_run_of_it_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let own = "title = \"of my own\"\nencryption = \"none\"\nprograms = [\"tack-nothing\"]\n\
               install = \"make it\"\nversion = \"echo 1\"\n[server]\ncommand = \"true\"\n\
               listens = \"udp:9\"\n[client.file]\ncommand = \"true\"\nbytes = \"/bytes\"\n";
    std::fs::write(dir.path().join("mine.toml"), own).unwrap();
    let out = run(dir.path(), "versus --list --rival mine.toml");
    let told = String::from_utf8_lossy(&out.stdout);
    let line = told.lines().find(|line| line.trim_start().starts_with("mine ")).unwrap_or_default();
    assert!(line.contains("of my own") && line.contains("without tack-nothing: make it"), "{told}");
    let out = run(dir.path(), "versus bulk --rival mine.toml --only veth,mine --set seeds=1");
    let told = String::from_utf8_lossy(&out.stderr);
    if told.contains("namespace") {
        return skipped(&told);
    }
    let why = "no run gave figures: tack-nothing not installed: `make it`";
    assert!(!out.status.success() && told.contains(why), "{told}");
}

#[test]
fn what_is_not_simulated_is_not_recorded_from_a_simulation() {
    let dir = tempfile::tempdir().unwrap();
    let text = "id = \"x\"\nbackend = \"live\"\n[base]\nduration_s = 1.0\nwan.rate_mbps = 5.0\n\
                stack = { rival = \"iperf3-cubic\" }\n\
                flow = [{ strategy = \"tack\", app = { kind = \"file\", bytes = 9 } }]\n";
    std::fs::write(dir.path().join("x.toml"), text).unwrap();
    let out = run(dir.path(), "run x.toml --pcap x.pcap");
    let told = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.code() == Some(2) && told.contains("another `backend`"), "{told}");
    assert!(!dir.path().join("x.pcap").exists());
}

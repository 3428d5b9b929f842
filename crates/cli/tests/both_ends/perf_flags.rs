//! `tack perf` as iperf3's users type it: the command itself, over the loopback, beside iperf3.

#![allow(clippy::disallowed_methods, reason = "processes are waited for in real time")]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::net::{TcpListener, UdpSocket};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tack_interop::program::is_installed;
use tack_interop::segment::Content;
use tack_interop::{Family, Setup};
use tack_link::End;
use tack_link::queue::Limit;
use tack_link::wired::DirectionConfig;
use tack_units::Rate;
use tempfile::tempdir;

use crate::network::TRANSPORTS;
use crate::support::{Listening, run, succeeded, tack};

/// A server of this many tests at most, and its port.
fn server(home: &Path, flags: &str) -> (Listening, String) {
    let line = format!("perf -s -p 0 --open {flags}");
    let mut server = Listening(tack(home, &line).spawn().unwrap());
    let mut lines = BufReader::new(server.0.stdout.take().unwrap()).lines();
    let port = lines.find_map(|line| port_in(&line.unwrap())).unwrap();
    // Whatever else it says must find a reader.
    let draining = std::thread::Builder::new().spawn(move || lines.map_while(Result::ok).count());
    draining.unwrap();
    (server, port)
}

fn port_in(line: &str) -> Option<String> {
    Some(line.strip_prefix("Server listening on ")?.split(' ').next()?.to_owned())
}

fn ask(home: &Path, port: &str, flags: &str) -> Output {
    tack(home, &format!("perf -c 127.0.0.1 -p {port} {flags}")).output().unwrap()
}

fn said(output: &Output) -> String {
    succeeded(output);
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_str(&said(output)).unwrap()
}

/// Every key with those above it; elements of lists are all the same.
fn keys(value: &Value, at: &str, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| {
            let here = format!("{at}.{key}");
            into.insert(here.clone());
            keys(value, &here, into);
        }),
        Value::Array(all) => all.iter().for_each(|value| keys(value, &format!("{at}[]"), into)),
        _ => {}
    }
}

/// iperf3's document of a short test.
fn iperf3(flags: &str) -> (Value, Value) {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let program = |args: String| {
        let mut command = Command::new("iperf3");
        command.args(args.split_whitespace()).stdin(Stdio::null()).stdout(Stdio::piped());
        command
    };
    let mut server = Listening(program(format!("-s -1 -J -p {free}")).spawn().unwrap());
    let since = Instant::now();
    let client = loop {
        let asked = program(format!("-c 127.0.0.1 -p {free} -J -n 1M {flags}")).output().unwrap();
        let client: Value = serde_json::from_slice(&asked.stdout).unwrap();
        if client.get("error").is_none() {
            break client;
        }
        assert!(since.elapsed() < Duration::from_secs(20), "{client}");
        std::thread::sleep(Duration::from_millis(20));
    };
    let mut served = String::new();
    server.0.stdout.take().unwrap().read_to_string(&mut served).unwrap();
    (client, serde_json::from_str(&served).unwrap())
}

#[test]
fn the_json_of_both_sides_has_every_key_that_iperf3s_has() {
    if !is_installed("iperf3") {
        return;
    }
    let home = tempdir().unwrap();
    for flags in ["", "-R", "--bidir", "-M 1000 -T title --extra-data x --get-server-output"] {
        let mut ours = tack(home.path(), "perf -s -p 0 --open -1 -J -B 127.0.0.1");
        let mut ours = Listening(ours.stderr(Stdio::inherit()).spawn().unwrap());
        let port = udp_port_of(ours.0.id());
        let client = json(&ask(home.path(), &port, &format!("-J -n 1M {flags}")));
        let mut served = String::new();
        ours.0.stdout.take().unwrap().read_to_string(&mut served).unwrap();
        let server: Value = serde_json::from_str(&served).unwrap();
        let (their_client, their_server) = iperf3(flags);
        for (ours, theirs) in [(client, their_client), (server, their_server)] {
            let (mut have, mut want) = (BTreeSet::new(), BTreeSet::new());
            keys(&ours, "", &mut have);
            keys(&theirs, "", &mut want);
            // Ours shows JSON where the server does.
            have.extend(have.contains(".server_output_json").then(|| ".server_output_text".into()));
            want.retain(|key| !key.starts_with(".server_output_json."));
            let missing: Vec<_> = want.difference(&have).collect();
            assert!(missing.is_empty() && want.len() > 50, "{flags}: {missing:?}");
        }
    }
}

/// The port of the one UDP socket that a process has, once it has it.
fn udp_port_of(process: u32) -> String {
    let since = Instant::now();
    loop {
        let listing = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap();
        let sockets: BTreeSet<String> = listing
            .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
            .filter_map(|to| {
                Some(to.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned())
            })
            .collect();
        let table = std::fs::read_to_string("/proc/net/udp").unwrap();
        let mut ports = table.lines().skip(1).filter_map(|line| {
            let fields: Vec<_> = line.split_whitespace().collect();
            let port = u16::from_str_radix(fields[1].rsplit_once(':')?.1, 16).ok()?;
            sockets.contains(fields[9]).then_some(port)
        });
        if let Some(port) = ports.next() {
            return port.to_string();
        }
        assert!(since.elapsed() < Duration::from_secs(20), "it does not listen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_stream_with_so_much_to_send_sends_that_in_bursts() {
    let home = tempdir().unwrap();
    let (_server, port) = server(home.path(), "");
    for direction in ["", "-R"] {
        let flags = format!("-b 8M/10 -l 10K -t 1.02 -i 0.1 -J {direction}");
        let report = json(&ask(home.path(), &port, &flags));
        assert_eq!(report["start"]["test_start"]["target_bitrate"], 8_000_000);
        let rate = report["end"]["sum_received"]["bits_per_second"].as_f64().unwrap();
        assert!((6e6..9e6).contains(&rate), "{direction}: {rate}");
        // A burst is 102400 bytes, one in a tenth of a second.
        let bytes = report["end"]["sum_sent"]["bytes"].as_u64().unwrap();
        assert!(bytes.is_multiple_of(102_400) && bytes >= 8 * 102_400, "{direction}: {bytes}");
    }
}

#[test]
fn a_stream_of_json_has_a_line_for_each_thing_that_happens() {
    let home = tempdir().unwrap();
    let (_server, port) = server(home.path(), "");
    let text = said(&ask(home.path(), &port, "--json-stream -t 0.35 -i 0.1 --get-server-output"));
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<_> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
    assert_eq!(names[0], "start");
    let intervals = names.iter().filter(|name| **name == "interval").count();
    assert!(intervals >= 3, "{names:?}");
    assert_eq!(names[1 + intervals..], ["tack", "end", "server_output_text"]);
    assert!(lines[0]["data"]["cookie"].as_str().unwrap().len() == 32);
    assert!(lines[1]["data"]["sum"]["bytes"].as_u64().unwrap() > 0);
    let server = lines.last().unwrap()["data"].as_str().unwrap();
    assert!(server.contains("receiver") && server.contains("] local "), "{server}");
}

#[test]
fn programs_are_told_in_json_that_a_host_has_no_address() {
    let home = tempdir().unwrap();
    let asked = tack(home.path(), "perf -c nowhere.invalid -t 1 --json").output().unwrap();
    assert_eq!(asked.status.code(), Some(1));
    let document: Value = serde_json::from_slice(&asked.stdout).unwrap();
    assert!(document["error"].as_str().unwrap().contains("nowhere.invalid"));
}

#[test]
fn lines_have_a_title_a_time_one_unit_and_on_demand_every_detail() {
    let home = tempdir().unwrap();
    let (_server, port) = server(home.path(), "");
    let flags = "-t 0.2 -i 0 -V -T run7 -f K --timestamps=[%Y] --get-server-output -4 -N -Z -S 0x20 \
                 -A 0,0 --connect-timeout 20000";
    let asked = ask(home.path(), &port, flags);
    let text = said(&asked);
    let year = text.split_once(']').unwrap().0[1..].parse::<u16>().unwrap();
    let prefix = format!("[{year}]run7:  ");
    let own = text.split_once("Server output:").unwrap().0;
    let lines: Vec<_> = own.lines().map(|line| line.strip_prefix(&prefix).unwrap()).collect();
    let has = |part: &str| assert!(lines.iter().any(|l| l.contains(part)), "{part}: {text}");
    has(concat!("tack ", env!("CARGO_PKG_VERSION")));
    has(
        "Starting Test: protocol: TACK, 1 streams, 131072 byte blocks, omitting 0 seconds, 0.2 sec",
    );
    has("tos 32");
    has("KBytes/sec");
    has("snd_tcp_congestion bbr");
    has("CPU Utilization: local/sender ");
    assert!(text.split_once("Server output:").unwrap().1.contains("receiver"), "{text}");
    let notes = String::from_utf8(asked.stderr).unwrap();
    assert!(notes.contains("--zerocopy means nothing here: bytes pass through encryption"));
    assert!(notes.contains("--no-delay means nothing here"), "{notes}");
}

/// Everything the client sends is marked; the server marks from when it knows the mark until it is done.
#[test]
fn packets_on_the_path_carry_the_type_of_service_that_was_asked_for_over_both_families() {
    run(async {
        for (over, family) in TRANSPORTS.into_iter().zip([Family::V4, Family::V6]) {
            let rate = Rate::from_mbps(20);
            let limit = Limit::Bytes(100_000);
            let way = DirectionConfig::clean(rate, Duration::from_millis(2), limit);
            let Some(world) = Setup::over(way).start() else { return };
            let home = tempdir().unwrap();
            let mut server = tack(home.path(), &format!("perf -s -1 -p 0 --open{over}"));
            let mut server = Listening(world.far().spawn(&mut server).unwrap());
            let mut lines = BufReader::new(server.0.stdout.take().unwrap()).lines();
            let port = lines.find_map(|line| port_in(&line.unwrap())).unwrap();
            let at = world.kernel(family, port.parse().unwrap());
            // 46, expedited forwarding, with the two bits of ECN.
            let line = format!("perf -c {} -p {port} -n 200K -S 0xb8{over}", at.ip());
            let client = world.near().spawn(&mut tack(home.path(), &line)).unwrap();
            let done = tokio::task::spawn_blocking(|| client.wait_with_output()).await;
            succeeded(&done.unwrap().unwrap());
            let datagrams = |end| {
                let mut sent = world.log.sent_by(end);
                sent.retain(|seen| seen.content == Content::Other);
                sent.into_iter().map(|seen| seen.dscp).collect::<Vec<_>>()
            };
            let (ours, theirs) = (datagrams(End::A), datagrams(End::B));
            assert!(ours.len() > 100 && ours.iter().all(|dscp| *dscp == 46), "{over}: {ours:?}");
            let marked = theirs.iter().filter(|dscp| **dscp == 46).count();
            assert!(marked * 2 > theirs.len(), "{over}: {theirs:?}");
        }
    });
}

#[test]
fn a_server_in_the_background_says_its_key_and_leaves_a_log_and_no_pid_file() {
    let home = tempdir().unwrap();
    let line = "perf -s -p 0 --open -1 -D -I pid --logfile log -B 127.0.0.1";
    let shown = said(&tack(home.path(), line).output().unwrap());
    assert!(shown.contains("Key: SHA256:"), "{shown}");
    let port = shown.lines().find_map(port_in).unwrap();
    let pid: i32 =
        std::fs::read_to_string(home.path().join("pid")).unwrap().trim().parse().unwrap();
    let alive = || rustix::process::test_kill_process(Pid::from_raw(pid).unwrap()).is_ok();
    assert!(alive());
    succeeded(&ask(home.path(), &port, "-n 1M"));
    let since = Instant::now();
    while home.path().join("pid").exists() {
        assert!(since.elapsed() < Duration::from_secs(20), "it does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
    let log = std::fs::read_to_string(home.path().join("log")).unwrap();
    assert!(log.contains("Server listening on") && log.contains("receiver"), "{log}");

    // One that cannot listen says so to whoever started it.
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let _taken = UdpSocket::bind(("127.0.0.1", taken)).unwrap();
    let failed = tack(home.path(), &format!("perf -s -p {taken} --open -D -B 127.0.0.1"));
    let failed = { failed }.output().unwrap();
    assert_eq!(failed.status.code(), Some(1));
    assert!(String::from_utf8(failed.stderr).unwrap().contains("cannot open a UDP socket"));
}

#[test]
fn a_test_without_an_end_goes_on_until_it_is_stopped() {
    let home = tempdir().unwrap();
    let (_server, port) = server(home.path(), "");
    let line = format!("perf -c 127.0.0.1 -p {port} -t 0 -i 0.1");
    let mut client = Listening(tack(home.path(), &line).spawn().unwrap());
    let mut lines = BufReader::new(client.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    lines.find(|line| line.contains(" sec  ")).unwrap();
    kill_process(Pid::from_child(&client.0), Signal::INT).unwrap();
    assert_eq!(client.0.wait().unwrap().code(), Some(130));
    assert!(lines.any(|line| line.ends_with("sender")));
}

#[test]
fn the_port_that_a_client_chose_is_the_one_in_its_report() {
    let home = tempdir().unwrap();
    let (_server, port) = server(home.path(), "");
    let ours = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let report = json(&ask(home.path(), &port, &format!("--cport {ours} -n 1K -J -P 2")));
    for stream in report["start"]["connected"].as_array().unwrap() {
        assert_eq!(stream["local_port"], ours, "the UDP port, not what is inside of it");
    }
}

#[test]
fn what_cannot_be_had_is_refused_with_the_reason() {
    let home = tempdir().unwrap();
    let (_server, port) = server(home.path(), "-B 127.0.0.1");
    // Nobody answers there.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let dead = silent.local_addr().unwrap().port().to_string();
    let from_there = format!("--cport {dead}");
    for (port, flags, status, why) in [
        (&port, from_there.as_str(), 1, "another port with -p, as a client of perf with --cport"),
        (&port, "-A 9999", 2, "-A 9999: there is no such processor"),
        (&port, "-A 0,9999", 5, "-A: the server has no processor 9999"),
        (&port, "-u", 2, "--udp means nothing here: streams are all there is"),
        (&port, "-F file", 2, "tack send"),
        (&port, "-6", 1, "has no address of the family that -4, -6 or -B asks for"),
        (&port, "-b 1", 2, "smaller blocks (-l)"),
        (&dead, "--connect-timeout 200", 1, "no connection to 127.0.0.1"),
    ] {
        let failed = ask(home.path(), port, flags);
        let said = String::from_utf8(failed.stderr).unwrap();
        assert_eq!(failed.status.code(), Some(status), "{flags}: {said}");
        assert!(said.contains(why), "{flags}: {said}");
    }
}

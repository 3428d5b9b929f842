use super::*;
use crate::bundle::RIVALS;
use crate::scenario::Stack;

/// A run of the rival that `text` describes over a veth pair; `None` where there can be none.
fn versus(text: &str) -> Option<Faced> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rival.toml");
    fs::write(&file, text).unwrap();
    let scenario = "duration_s = 5.0\nveth = true\n[[flow]]\nstrategy = \"tack\"\n\
                    app = { kind = \"file\", bytes = 3000 }\n";
    let mut scenario = Scenario::parse(scenario).unwrap();
    let name = file.display().to_string();
    scenario.stack = Some(Stack::Rival(name.clone()));
    match run(&scenario, &name, &|| true) {
        Ok(faced) => Some(faced),
        Err(e) if e.to_string().contains("namespace") => {
            crate::skipped::skipped(e);
            None
        }
        Err(e) => panic!("{e:#}"),
    }
}

/// What the server sends nobody reads: the client has a copy.
const FILE: &str = r#"
title = "a copy"
encryption = "none"
programs = ["bash"]
install = "apt-get install bash"
version = "echo 1.2; echo more"
prepare = '''
truncate -s $TACK_BYTES file
echo 'while sleep 0.02; do head -c 9000 /dev/zero >/dev/udp/$TACK_CLIENT/9; done 2>/dev/null' >send
touch ready
'''
[server]
command = "ip link add ready0 type veth peer name ready1; echo up >&2; exec bash send"
listens = "device:ready0"
[client.file]
command = "cat file >received; sleep .4; echo '{\"seconds\": 0.5}'"
received = "received"
seconds = "/seconds"
"#;

const SERVER: &str = "ip link add ready0 type veth peer name ready1; echo up >&2; exec bash send";

#[test]
fn a_rival_is_prepared_started_read_and_stopped() {
    let Some(faced) = versus(FILE) else { return };
    assert_eq!((faced.void, faced.again), (None, false));
    assert_eq!((faced.figures["completion"], faced.figures["goodput"]), (0.5, 48_000.0));
    assert_eq!(faced.about["version"], "1.2");
    assert_eq!(faced.about["encryption"], "none");
}

#[test]
fn whatever_goes_wrong_with_a_rival_is_told_and_voids_the_run() {
    for (from, to, told) in [
        ("[\"bash\"]", "[\"tack-nothing\"]", "tack-nothing not installed: `apt-get install bash`"),
        ("echo 1.2", "echo built without >&2; exit 3", "not installed: `echo built without"),
        ("touch ready", "echo no room >&2; exit 3", "prepare ended with exit status: 3: no room"),
        (SERVER, "echo taken >&2; exit 1", "the server ended early"),
        ("cat file", "echo refused >&2; exit 7; cat file", "exit status: 7: refused"),
        ("cat file", "head -c 2999 file", "2999 of 3000 bytes arrived"),
        ("0.5", "\\\"soon\\\"", "there is no number at /seconds"),
        ("0.5", "0", "3000 bytes arrived in no time"),
        ("-s $TACK_BYTES", "-s 90000000", "90000000 bytes arrived, by what the client said, of "),
        ("0.5", "500", "the client said 500 s, and was there for 0."),
        ("cat file", "yes; cat file", "the client said more than"),
        ("cat file", "sleep 20; cat file", "did not end within 5 s: ; the server: up"),
        ("client.file", "client.paced", "no client for the workload file"),
    ] {
        assert!(FILE.contains(from), "{from}");
        let Some(faced) = versus(&FILE.replacen(from, to, 1)) else { return };
        let void = faced.void.unwrap_or_default();
        assert!(void.contains(told), "{told} is not in: {void}");
        assert!(faced.figures.is_empty() && !faced.again);
    }
}

#[test]
fn a_run_that_is_not_to_go_on_ends_at_once_wherever_it_is() {
    let scenario = format!("duration_s = 60.0\nveth = true\nflow = [{FILE_OF_A_MB}]\n");
    let scenario = Scenario::parse(&scenario).unwrap();
    for (from, to) in [
        ("touch ready", "touch ready; sleep 60"),
        (SERVER, "sleep 60"),
        ("cat file", "sleep 60; cat file"),
        ("echo 1.2", "sleep 60; echo 1.2"),
    ] {
        assert!(FILE.contains(from), "{from}");
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("rival.toml");
        fs::write(&file, FILE.replacen(from, to, 1)).unwrap();
        let (clock, name) = (Clock::start(), file.display().to_string());
        let seconds = || clock.now().saturating_since(tack_units::Instant::ZERO).as_secs();
        match run(&scenario, &name, &|| seconds() < 2) {
            Err(e) if e.to_string().contains("namespace") => return crate::skipped::skipped(e),
            Err(e) => assert!(e.is::<Interrupted>(), "{to}: {e:#}"),
            Ok(faced) => panic!("{to}: {faced:?}"),
        }
    }
}

#[test]
fn a_version_is_one_line_that_a_terminal_can_be_shown() {
    let Some(faced) =
        versus(&FILE.replacen("echo 1.2", "printf '\\\\n\\\\033[31m1.2\\\\377\\\\n'", 1))
    else {
        return;
    };
    assert_eq!(faced.about["version"], "[31m1.2\u{fffd}");
}

/// One of the repository's rivals over a veth pair, if it is installed.
fn real(name: &str, load: &str) {
    let scenario = format!("duration_s = 30.0\nwarmup_s = 28.0\nveth = true\nflow = [{load}]\n");
    let mut scenario = Scenario::parse(&scenario).unwrap();
    scenario.stack = Some(Stack::Rival(name.to_owned()));
    match run(&scenario, name, &|| true) {
        Err(e) if e.to_string().contains("namespace") => crate::skipped::skipped(e),
        Err(e) => panic!("{name}: {e:#}"),
        Ok(Faced { void: Some(void), .. }) if void.contains("not installed") => {
            // CI has what `script/setup --tests` installs, so there they must run.
            let must = std::env::var_os("TACK_INTEROP_REQUIRED").is_some();
            assert!(!must || name.starts_with("tack") || !IN_CI.contains(&name), "{void}");
            println!("skipped: {name}: {void}");
        }
        Ok(faced) => {
            assert_eq!(faced.void, None, "{name}");
            let figure = |name: &str| faced.figures.get(name).copied().unwrap_or(0.0);
            assert!(figure("goodput") > 1e5 && figure("acks") >= 1.0, "{name}: {faced:?}");
            let version = &faced.about["version"];
            assert!(version.contains(|c: char| c.is_ascii_digit()), "{name}: {version}");
        }
    }
}

const IN_CI: [&str; 4] = ["iperf3-cubic", "iperf3-bbr", "nginx-cubic", "nginx-bbr"];
const FILE_OF_A_MB: &str = r#"{ strategy = "tack", app = { kind = "file", bytes = 1000000 } }"#;

#[test]
fn every_rival_that_is_installed_moves_a_file() {
    for (name, _) in RIVALS.iter() {
        // The command itself is not this program: its own tests have those.
        if !["tack-perf", "tack-perf-quic", "tack-tun"].contains(name) {
            real(name, FILE_OF_A_MB);
        }
    }
}

#[test]
fn every_rival_that_is_installed_does_what_its_file_says_it_can() {
    let many = FILE_OF_A_MB.replacen("strategy", "count = 20, strategy", 1);
    let words =
        "kind = 'request-response', request_bytes = 100, response_bytes = 100, think_ms = 1.0";
    let loads = [
        (Load::Paced, r#"{ strategy = "tack", app = { kind = "cbr", mbps = 5.0 } }"#.to_owned()),
        (Load::Many, many),
        (Load::Latency, format!("{FILE_OF_A_MB}, {{ strategy = \"tack\", app = {{ {words} }} }}")),
    ];
    for (name, text) in RIVALS.iter() {
        let rival = Rival::parse(text).unwrap();
        let own = loads.iter().filter(|(load, _)| rival.client.contains_key(load));
        if !["tack-perf", "tack-perf-quic", "tack-tun"].contains(name) {
            own.for_each(|(_, load)| real(name, load));
        }
    }
}

/// A run of a rival of the repository whose client's end is captured by another program meanwhile: the
/// acknowledgments that the run counted, and the client's packets in the capture.
fn counted_twice(name: &str, path: &str) -> Option<(f64, f64)> {
    let dir = tempfile::tempdir().unwrap();
    let (rival, capture) = (dir.path().join("rival.toml"), dir.path().join("capture.pcap"));
    let text = RIVALS.iter().find(|(own, _)| *own == name).unwrap().1;
    let mut value: toml::Table = text.parse().unwrap();
    let client = value["client"]["file"].as_table_mut().unwrap();
    let command = client["command"].as_str().unwrap().replace("exec ", "");
    // What is captured is on disk before the run ends and takes its directory along.
    let command = format!(
        "dumpcap -q -P -B 32 -i path0 -w {0} 2>dumpcap.err & capture=$!\n\
         until grep -q File: dumpcap.err; do sleep 0.05; done\n{command}\nstatus=$?\n\
         sleep 0.3; kill -INT $capture; wait $capture; exit $status",
        capture.display()
    );
    client.insert("command".to_owned(), command.into());
    let programs = value["programs"].as_array_mut().unwrap();
    programs.extend(["dumpcap".into(), "tshark".into()]);
    fs::write(&rival, value.to_string()).unwrap();
    let scenario = format!("duration_s = 60.0\n{path}\nflow = [{FILE_OF_A_MB}]\n");
    let mut scenario = Scenario::parse(&scenario).unwrap();
    let own = rival.display().to_string();
    scenario.stack = Some(Stack::Rival(own.clone()));
    // A path that comes late is worth another try: other tests run beside this one.
    let mut tries = 0;
    let faced = loop {
        tries += 1;
        match run(&scenario, &own, &|| true) {
            Err(e) if e.to_string().contains("namespace") => {
                crate::skipped::skipped(e);
                return None;
            }
            Ok(faced) if faced.again && tries < 4 => {}
            faced => break faced.unwrap(),
        }
    };
    if let Some(void) = faced.void {
        let must = std::env::var_os("TACK_INTEROP_REQUIRED").is_some() && IN_CI.contains(&name);
        let why_not = void.contains("not installed") || faced.again;
        assert!(why_not && !(must && void.contains("not installed")), "{name}: {void}");
        println!("skipped: {name}: {void}");
        return None;
    }
    let mut tshark = Program::shell("exec tshark -n -r \"$1\" -Y 'ip.src == 10.77.0.1'");
    let listed = tshark.args(["sh", &capture.display().to_string()]).output().unwrap();
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    let lines = listed.stdout.iter().filter(|byte| **byte == b'\n').count();
    Some((faced.figures["acks"], lines as f64))
}

#[test]
fn acknowledgments_are_as_many_as_another_program_captures() {
    // Beside what the rival sends, kernels greet new links and ask for neighbours.
    const GREETINGS: f64 = 12.0;
    let emulated = "wan = { rate_mbps = 100.0, delay_ms = 5.0 }";
    for path in [emulated, "veth = true"] {
        for name in ["iperf3-cubic", "nginx-cubic", "tack", "quic-tack", "quinn", "s2n"] {
            let Some((counted, captured)) = counted_twice(name, path) else { continue };
            println!("{name}, {path}: {counted} counted, {captured} captured");
            assert!(captured >= 10.0, "{name}: {captured}");
            let more = counted - captured;
            assert!((0.0..=GREETINGS).contains(&more), "{name}, {path}: {counted}, {captured}");
        }
    }
}

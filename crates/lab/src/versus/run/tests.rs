use super::*;
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
    match run(&scenario, &name) {
        Ok(faced) => Some(faced),
        Err(e) if e.to_string().contains("namespace") => {
            println!("skipped: {e}");
            None
        }
        Err(e) => panic!("{e:#}"),
    }
}

/// Sends nothing: bash listens on a UDP port by asking itself.
const FILE: &str = r#"
title = "a copy"
encryption = "none"
programs = ["bash"]
install = "apt-get install bash"
version = "echo 1.2; echo more"
prepare = "truncate -s $TACK_BYTES file; touch ready"
[server]
command = "ip link add ready0 type veth peer name ready1; exec sleep 9"
listens = "device:ready0"
[client.file]
command = "cat file >received; echo '{\"seconds\": 0.5}'"
received = "received"
seconds = "/seconds"
"#;

const SERVER: &str = "ip link add ready0 type veth peer name ready1; exec sleep 9";

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
        ("touch ready", "echo no room >&2; exit 3", "prepare ended with exit status: 3: no room"),
        (SERVER, "echo taken >&2; exit 1", "the server ended early"),
        ("cat file", "echo refused >&2; exit 7; cat file", "exit status: 7: refused"),
        ("cat file", "head -c 2999 file", "2999 of 3000 bytes arrived"),
        ("0.5", "\\\"soon\\\"", "there is no number at /seconds"),
        ("cat file", "sleep 20; cat file", "did not end within 5 s"),
        ("client.file", "client.paced", "no client for the workload file"),
    ] {
        assert!(FILE.contains(from), "{from}");
        let Some(faced) = versus(&FILE.replacen(from, to, 1)) else { return };
        let void = faced.void.unwrap_or_default();
        assert!(void.contains(told), "{told} is not in: {void}");
        assert!(faced.figures.is_empty() && !faced.again);
    }
}

/// One of the repository's rivals over a veth pair, if it is installed.
fn real(name: &str, load: &str) {
    let scenario = format!("duration_s = 30.0\nwarmup_s = 28.0\nveth = true\nflow = [{load}]\n");
    let mut scenario = Scenario::parse(&scenario).unwrap();
    scenario.stack = Some(Stack::Rival(name.to_owned()));
    match run(&scenario, name) {
        Err(e) if e.to_string().contains("namespace") => println!("skipped: {e}"),
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
    for (name, _) in super::super::rival::RIVALS {
        // The command itself is not this program: its own tests have those.
        if !["tack-perf", "tack-tun"].contains(name) {
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
    for (name, text) in super::super::rival::RIVALS {
        let rival = Rival::parse(text).unwrap();
        let own = loads.iter().filter(|(load, _)| rival.client.contains_key(load));
        if !["tack-perf", "tack-tun"].contains(name) {
            own.for_each(|(_, load)| real(name, load));
        }
    }
}

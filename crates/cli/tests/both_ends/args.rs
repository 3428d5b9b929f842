//! The command line: what is understood, and what is said about the rest.

use clap::CommandFactory;
use tack_cli::args::perf::{PerfConfig, Side};
use tack_cli::args::send::What;
use tack_cli::args::{Cli, Command};
use tack_cli::args::{nc, recv};
use tack_cli::exit::{ExitCode, Failure};
use tack_cli::net::Family;
#[cfg(target_os = "linux")]
use tack_cli::net::Way;
use tack_cli::perf::pace::Pace;
use tack_cli::perf::params::{Direction, Until};

fn parse(line: &str) -> Result<Command, clap::Error> {
    Cli::read(line.split_whitespace()).map(|cli| cli.command)
}

fn perf(line: &str) -> Result<PerfConfig, Failure> {
    match parse(line).unwrap() {
        Command::Perf(args) => args.resolve(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_definition_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn send_takes_many_paths_and_then_a_host() {
    let Ok(Command::Send(args)) = parse("tack send a b/c nas:9000 -q") else { panic!() };
    let config = args.resolve().unwrap();
    assert_eq!(config.what, What::Paths(vec!["a".into(), "b/c".into()]));
    assert_eq!((config.host.name.as_str(), config.host.port), ("nas", 9000));
    let Ok(Command::Send(args)) = parse("tack send - ::1 -p 77") else { panic!() };
    let config = args.resolve().unwrap();
    assert_eq!((config.what, config.host.port), (What::Stdin, 77));
}

#[test]
fn send_says_what_is_wrong_with_its_arguments() {
    let wrong = |line| match parse(line).unwrap() {
        Command::Send(args) => args.resolve().unwrap_err(),
        other => panic!("{other:?}"),
    };
    let failure = wrong("tack send - file host");
    assert!(failure.message.contains("./-"), "{failure}");
    assert_eq!(failure.code, ExitCode::Usage);
    let failure = wrong("tack send file host:http");
    assert!(failure.message.contains("`http` is no port"), "{failure}");
    assert!(parse("tack send file").is_err(), "a host is missing");
    assert!(parse("tack send file host --fingerprint MD5:1").is_err());
    assert!(parse("tack send file host --cc nonsense").is_err());
}

#[test]
fn beta_is_that_of_tack_and_of_nothing_else() {
    let send = |line: &str| match parse(line).map_err(|e| e.to_string())? {
        Command::Send(args) => args.resolve().map_err(|e| e.message),
        other => panic!("{other:?}"),
    };
    for line in ["", "--strategy tack", "--quic"] {
        let config = send(&format!("tack send file host --beta 16 {line}")).unwrap();
        let beta = config.transport.conn_config().ack.tack().map(|tack| tack.beta);
        assert_eq!(beta, Some(16), "{line}");
    }
    for (line, why) in [
        ("--beta 16 --strategy tcp-l2", "beta is TACK's"),
        ("--beta 16 --plain-tcp", "cannot be used with"),
        ("--beta 1", "2..=64"),
        ("--beta 65", "2..=64"),
    ] {
        let said = send(&format!("tack send file host {line}")).unwrap_err();
        assert!(said.contains(why), "{line}: {said}");
    }
}

#[test]
fn send_without_a_host_misses_that_and_not_what_was_given() {
    let said = parse("tack send film.mkv").unwrap_err().to_string();
    assert!(said.contains("<HOST[:PORT]>, behind what is sent"), "{said}");
    let said = parse("tack send").unwrap_err().to_string();
    assert!(said.contains("<PATH>...\n  <HOST[:PORT]>\n"), "{said}");
}

#[test]
fn recv_takes_a_host_for_a_mistake_and_not_for_the_name_of_a_folder() {
    let of = |dir: &str| {
        let Ok(Command::Recv(args)) = parse(&format!("tack recv {dir}")) else { panic!("{dir}") };
        args.resolve().map(|config| config.destination).map_err(|failure| failure.message)
    };
    for (host, port) in [("nas:9000", "9000"), ("192.168.1.5", "8225"), ("[fd00::1]:80", "80")] {
        let said = of(host).unwrap_err();
        assert!(said.contains(&format!("tack recv -p {port}")), "{said}");
    }
    for dir in ["inbox", "2024", "./nas:9000", "a:b", "nas.local"] {
        assert_eq!(of(dir).unwrap(), recv::Destination::Dir(dir.into()));
    }
}

#[test]
fn recv_says_that_a_number_becomes_a_folder_where_a_port_may_be_meant() {
    let note = |line: &str| {
        let Ok(Command::Recv(args)) = parse(line) else { panic!("{line}") };
        args.resolve().unwrap().note
    };
    assert!(note("tack recv 9000").unwrap().contains("-p 9000"));
    for line in ["tack recv", "tack recv 9000 -p 77", "tack recv 0", "tack recv ./9000"] {
        assert_eq!(note(line), None, "{line}");
    }
}

#[test]
fn perf_with_a_host_alone_says_where_that_belongs() {
    for line in ["tack perf nas:77", "tack perf nas:77 -t 3", "tack perf -R nas:77"] {
        let said = parse(line).unwrap_err().to_string();
        assert!(said.contains("`tack perf -c nas:77`"), "{said}");
    }
    let said = parse("tack perf --nonsense").unwrap_err().to_string();
    assert!(!said.contains("measures to there"), "{said}");
}

#[test]
fn recv_refuses_flags_that_mean_nothing_for_a_stream() {
    for flag in ["--keep", "--overwrite", "--no-sync"] {
        let Ok(Command::Recv(args)) = parse(&format!("tack recv - {flag}")) else { panic!() };
        assert!(args.resolve().unwrap_err().message.contains(flag));
    }
    assert!(parse("tack recv --cert c.pem").is_err(), "a certificate needs its key");
    assert!(parse("tack recv --cert c.pem --key k.pem --insecure-plaintext").is_err());
}

#[test]
fn perf_takes_iperf3s_flags() {
    let config = perf("tack perf -c h -p 9 -i 0 -t 3 -P 4 -R -w 2M -l 64K -O 1 -J").unwrap();
    assert_eq!((config.interval, config.window_bytes), (None, Some(2 << 20)));
    assert!(config.output.json);
    let Side::Client { host, params, .. } = config.side else { panic!() };
    assert_eq!(host.port, 9);
    assert_eq!((params.streams, params.block_bytes), (4, 65_536));
    assert_eq!((params.direction, params.until), (Direction::Reverse, Until::Seconds(3.0)));
    let bidir = perf("tack perf -c h --bidir -n 5M --no-tls").unwrap();
    let Side::Client { params, security, .. } = bidir.side else { panic!() };
    assert_eq!((params.direction, params.until), (Direction::Both, Until::Bytes(5 << 20)));
    assert!(security.insecure_plaintext);
    let Side::Client { params, .. } = perf("tack perf -c h -k 10 -l 1000").unwrap().side else {
        panic!()
    };
    assert_eq!(params.until, Until::Bytes(10_000));
    let served = perf("tack perf -s -1 -B 127.0.0.1 -p 0").unwrap().side;
    assert!(matches!(served, Side::Server { one_off: true, security: Some(_), .. }));
    let config = perf("tack perf -c h -t 0 -b 20M/10 -6 --dscp ef -M 1400 -A 1,0 --cport 77 -V");
    let config = config.unwrap();
    let Side::Client { params, origin, .. } = config.side else { panic!() };
    assert_eq!((params.until, params.dscp, params.server_processor), (Until::Stopped, 46, Some(0)));
    assert_eq!(params.pace, Some(Pace { bits_per_second: 20_000_000, blocks: 10 }));
    assert_eq!((origin.port, origin.dscp, origin.family), (77, 46, Some(Family::V6)));
    assert_eq!((config.mss, config.processor), (Some(1_400), Some(1)));
    assert!(config.output.details && config.notes.is_empty());
}

#[test]
fn iperf3s_flags_that_mean_nothing_here_say_why() {
    for flag in ["-Z", "-N", "-d", "--forceflush", "--fq-rate 1M", "--pacing-timer 100"] {
        let notes = perf(&format!("tack perf -c h {flag}")).unwrap().notes;
        assert!(notes.len() == 1 && notes[0].contains(" means nothing here: "), "{notes:?}");
    }
    for flag in ["-u", "--sctp", "-X a", "-F a", "-L 7", "--username me", "--bind-dev lo"] {
        let failure = perf(&format!("tack perf -c h {flag}")).unwrap_err();
        assert_eq!(failure.code, ExitCode::Usage, "{flag}");
        assert!(failure.message.contains(" means nothing here: "), "{failure}");
    }
}

#[test]
fn perf_says_what_is_wrong_with_its_arguments() {
    for contradiction in ["", "-s -c h", "-s -t 3", "-c h -t 1 -n 1", "-c h -1", "-c h -R --bidir"]
    {
        assert!(parse(&format!("tack perf {contradiction}")).is_err(), "{contradiction}");
    }
    for (flags, word) in [
        ("-P 0", "-P: 0 streams"),
        ("-P 500", "128"),
        ("-t 1e6", "-t: a test of 1000000 s, where more than 0 and at most 86400"),
        ("-l 0", "-l: blocks of 0 bytes"),
        ("-l 5G", "-l: blocks of 5368709120 bytes"),
        ("-O 601", "-O: a warm-up of 601 s"),
        ("-4 -B ::1", "no address of the family"),
        ("-b 1k -l 1M", "smaller blocks"),
        ("-l 2M", "blocks of 2097152"),
        ("-i 0.01", "0.1 to 60"),
        ("-w 1", "4K"),
        ("-n 1 -O 1", "warm-up"),
        ("-n 0", "0 bytes"),
        ("-p 0", "-p 0: "),
    ] {
        let failure = perf(&format!("tack perf -c h {flags}")).unwrap_err();
        assert!(failure.message.contains(word), "{flags}: {failure}");
        assert_eq!(failure.code, ExitCode::Usage);
    }
}

#[test]
fn what_is_no_number_is_told_so_and_not_what_is_wrong_with_its_digits() {
    for (line, words) in [
        ("perf -c h -t soon", "'soon' for '--time <SECONDS>': a number is wanted"),
        ("perf -c h -P few", "'few' for '--parallel <N>': a whole number from 0 on"),
        ("lab envelope --draws -3", "'-3' for '--draws <N>': a whole number from 0 on"),
        ("lab envelope --draws 99999999999999999999", ">': too much"),
        ("perf -s --metrics 9826", "'9826' for '--metrics <ADDRESS:PORT>': ADDRESS:PORT"),
    ] {
        let error = Cli::read(format!("tack {line}").split_whitespace()).unwrap_err();
        assert!(error.to_string().contains(words), "{line}: {error}");
        assert_eq!(error.exit_code(), 2);
    }
}

#[test]
fn a_number_below_zero_is_a_value_and_the_option_says_what_it_thinks_of_it() {
    for (line, word) in [
        ("perf -c h -P -1", "--parallel"),
        ("perf -c h -n -5", "no amount"),
        ("recv -p -1", "--port"),
        ("lab emulate --rate -1", "1.5G"),
        ("demo --rate 1e40", "1000G at most"),
        ("lab emulate --rate 1e40", "1000G at most"),
    ] {
        let error = parse(&format!("tack {line}")).unwrap_err().to_string();
        assert!(error.contains(word), "{line}: {error}");
    }
    for (flags, word) in [("-t -1", "more than 0"), ("-O -2", "warm-up"), ("-i -1", "0.1 to 60")] {
        let failure = perf(&format!("tack perf -c h {flags}")).unwrap_err();
        assert!(failure.message.contains(word), "{flags}: {failure}");
    }
    // An option that is a digit stays one.
    let served = perf("tack perf -s -1").unwrap().side;
    assert!(matches!(served, Side::Server { one_off: true, .. }));
}

#[test]
fn nc_takes_nc_s_arguments() {
    let nc = |line: &str| match parse(&format!("tack nc {line}")).unwrap() {
        Command::Nc(args) => args.resolve(),
        other => panic!("{other:?}"),
    };
    let nc::Side::Connect { host, security } = nc("-N host 80").unwrap().side else { panic!() };
    assert_eq!((host.name.as_str(), host.port, security.insecure_plaintext), ("host", 80, false));
    let nc::Side::Listen { local, security } = nc("-l 80").unwrap().side else { panic!() };
    assert!(local.ip().is_unspecified() && local.port() == 80 && security.is_some());
    let nc::Side::Listen { local, security } = nc("-l ::1 0 --no-tls").unwrap().side else {
        panic!()
    };
    assert!(local == "[::1]:0".parse().unwrap() && security.is_none());
    for zone in ["fe80::1%1", "[fe80::1%1]"] {
        let nc::Side::Listen { local, .. } = nc(&format!("-l {zone} 80")).unwrap().side else {
            panic!()
        };
        assert_eq!(local, std::net::SocketAddrV6::new("fe80::1".parse().unwrap(), 80, 0, 1).into());
        let bound = perf(&format!("tack perf -s -B {zone}")).unwrap().side;
        assert!(matches!(bound, Side::Server { local, .. } if local.to_string().contains("%1")));
    }
    let nc::Side::Connect { host, .. } = nc("[fd00::1] 80").unwrap().side else { panic!() };
    assert_eq!((host.name.as_str(), host.port), ("fd00::1", 80));
    for (line, word) in [
        ("", "HOST and PORT"),
        ("-l", "-l and PORT"),
        ("host", "HOST and PORT"),
        ("host 0", "no port"),
        ("host http", "no port"),
        ("-l host 80", "no address"),
        ("-l 10.7.0.2 80 --tun --tun-addr 10.7.0.2/24", "--tun-addr"),
    ] {
        let failure = nc(line).unwrap_err();
        assert!(failure.message.contains(word), "{line}: {failure}");
        assert_eq!(failure.code, ExitCode::Usage);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_tun_has_our_address_and_gives_the_kernel_another() {
    let nc = |line: &str| match parse(&format!("tack nc {line}")).unwrap() {
        Command::Nc(args) => args.resolve(),
        other => panic!("{other:?}"),
    };
    let tun = "--tun=t0 --tun-addr 10.7.0.2/24 --tun-route 10.8.0.0/16 --tun-mtu 1400";
    let config = nc(&format!("{tun} 10.7.0.1 80")).unwrap();
    let Way::Tun(way) = config.way else { panic!() };
    assert_eq!((way.device.name.as_str(), way.device.mtu, way.device.offload), ("t0", 1_400, true));
    assert_eq!(way.device.addresses[0].to_string(), "10.7.0.1/24");
    assert_eq!(way.device.routes[0].to_string(), "10.8.0.0/16");
    let nc::Side::Connect { security, .. } = config.side else { panic!() };
    assert!(security.insecure_plaintext, "the kernel's peers know no TLS of ours");
    let config = nc(&format!("{tun} 10.7.0.1 80 --tls")).unwrap();
    let nc::Side::Connect { security, .. } = config.side else { panic!() };
    assert!(!security.insecure_plaintext);
    assert!(parse("tack nc --tun h 80").is_err(), "an address is missing");
    assert!(parse("tack nc --tun-addr 10.7.0.2/24 h 80").is_err(), "--tun is missing");
    assert!(nc("--tun --tun-addr fd07::2/64 --tun-mtu 1279 h 80").is_err());
    for command in ["send x h", "recv", "perf -s", "nc -l 80"] {
        let line =
            format!("tack {command} --tun --tun-addr 10.7.0.2/24 --strategy tcp-l1 -C cubic");
        assert!(parse(&line).is_ok(), "{line}");
    }
}

#[test]
fn every_command_has_examples_or_says_what_it_takes() {
    let mut cli = Cli::command();
    cli.build();
    for command in cli.get_subcommands_mut().filter(|c| c.get_name() != "help") {
        let help = command.render_long_help().to_string();
        assert!(help.contains("Example"), "{}", command.get_name());
    }
    assert!(cli.render_long_help().to_string().contains("Exit status:"));
}

#[test]
fn completions_and_manual_pages_know_every_command() {
    let mut script = Vec::new();
    let shell = clap_complete::Shell::Bash;
    clap_complete::generate(shell, &mut Cli::command(), "tack", &mut script);
    let script = String::from_utf8(script).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let Ok(Command::Man(args)) = parse(&format!("tack man {}", dir.path().display())) else {
        panic!()
    };
    tack_cli::cmd::extras::man(&args).unwrap();
    for name in ["send", "recv", "perf", "nc", "completions", "man"] {
        assert!(script.contains(name), "{name}");
        assert!(dir.path().join(format!("tack-{name}.1")).exists(), "{name}");
    }
}

#[test]
fn what_looks_into_connections_is_offered_where_there_are_any() {
    let looks = "--qlog a.sqlog --capture a.pcapng --metrics 127.0.0.1:0";
    for command in ["send f host", "recv", "perf -s", "nc host 1", "doctor host", "tunnel serve"] {
        let read = parse(&format!("tack {command} {looks}"));
        let read = read.unwrap_or_else(|e| panic!("{command}: {e}"));
        let observe = read.observe().unwrap_or_else(|| panic!("{command}: sees nothing"));
        assert!(observe.qlog.is_some() && observe.capture.is_some(), "{command}");
        assert!(observe.metrics.is_some(), "{command}");
    }
    for command in ["lab run f.toml", "lab envelope", "demo", "top", "key"] {
        let refused = parse(&format!("tack {command} --qlog a.sqlog")).unwrap_err();
        assert!(refused.to_string().contains("--qlog"), "{command}: {refused}");
    }
}

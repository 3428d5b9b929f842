//! The command line: what is understood, and what is said about the rest.

use clap::{CommandFactory, Parser};
use tack_cli::args::perf::{PerfConfig, Side};
use tack_cli::args::send::What;
use tack_cli::args::{Cli, Command};
use tack_cli::exit::{ExitCode, Failure};
use tack_cli::perf::params::{Direction, Until};

fn parse(line: &str) -> Result<Command, clap::Error> {
    Cli::try_parse_from(line.split_whitespace()).map(|cli| cli.command)
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
fn recv_refuses_flags_that_mean_nothing_for_a_stream() {
    for flag in ["--keep", "--overwrite"] {
        let Ok(Command::Recv(args)) = parse(&format!("tack recv - {flag}")) else { panic!() };
        assert!(args.resolve().unwrap_err().message.contains(flag));
    }
    assert!(parse("tack recv --cert c.pem").is_err(), "a certificate needs its key");
    assert!(parse("tack recv --cert c.pem --key k.pem --insecure-plaintext").is_err());
}

#[test]
fn perf_takes_iperf3s_flags() {
    let config = perf("tack perf -c h -p 9 -i 0 -t 3 -P 4 -R -w 2M -l 64K -O 1 -J").unwrap();
    assert_eq!((config.interval, config.json, config.window_bytes), (None, true, Some(2 << 20)));
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
}

#[test]
fn perf_says_what_is_wrong_with_its_arguments() {
    for contradiction in ["", "-s -c h", "-s -t 3", "-c h -t 1 -n 1", "-c h -1", "-c h -R --bidir"]
    {
        assert!(parse(&format!("tack perf {contradiction}")).is_err(), "{contradiction}");
    }
    for (flags, word) in [
        ("-P 0", "streams"),
        ("-P 500", "128"),
        ("-t 0", "more than 0"),
        ("-l 2M", "blocks of 2097152"),
        ("-i 0.01", "0.1 to 60"),
        ("-w 1", "4K"),
        ("-n 1 -O 1", "warm-up"),
        ("-n 0", "0 bytes"),
    ] {
        let failure = perf(&format!("tack perf -c h {flags}")).unwrap_err();
        assert!(failure.message.contains(word), "{flags}: {failure}");
        assert_eq!(failure.code, ExitCode::Usage);
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
    for name in ["send", "recv", "perf", "completions", "man"] {
        assert!(script.contains(name), "{name}");
        assert!(dir.path().join(format!("tack-{name}.1")).exists(), "{name}");
    }
}

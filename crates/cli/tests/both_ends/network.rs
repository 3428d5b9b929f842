//! The same over real TACK streams, in one process and through the built command.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tack_cli::admission::Door;
use tack_cli::conn::Accept;
use tack_cli::net::{NetAccept, NetDial, Way};
use tack_cli::progress::Progress;
use tack_cli::stop::Stop;
use tack_cli::transfer::recv::{Intake, receive_tree};
use tack_cli::transfer::scan::scan;
use tack_cli::transfer::send::send_tree;
use tack_cli::transfer::store::{Durability, Store};
use tack_interop::program::is_installed;
use tack_net::ConnConfig;
use tack_net::HostPort;
use tack_net::tls::{Acceptor, ClientTrust, Connector, ServerIdentity};
use tempfile::tempdir;

use crate::support::{
    Listening, ME, random_bytes, random_tree, rng, run, snapshot, succeeded, tack,
};
use crate::top::Terminal;

/// What is said to speak TCP-TACK, and QUIC.
pub(crate) const TRANSPORTS: [&str; 2] = ["", " --quic"];

/// A tree over real sockets on the loopback.
fn tree_over_network(encrypted: bool, config: ConnConfig, seed: u64) {
    let dir = tempdir().unwrap();
    let (from, into) = (dir.path().join("tree"), dir.path().join("in"));
    random_tree(&from, &mut rng(seed));
    let identity = ServerIdentity::generate(&["localhost"]).unwrap();
    let trust = ClientTrust::Pinned(identity.fingerprint());
    let connector = encrypted.then(|| Connector::new(trust).unwrap());
    let acceptor = Acceptor::new(&identity).unwrap();
    let shown = encrypted.then(|| (acceptor, identity.fingerprint(), Door::open()));
    run(async {
        let local = "127.0.0.1:0".parse().unwrap();
        let mut server = NetAccept::listen(&Way::Udp, local, config.clone(), shown).unwrap();
        let port = server.local_addr().port();
        let host = HostPort { name: "127.0.0.1".into(), port };
        let quiet = Progress::hidden();
        let sending = async {
            let dial = NetDial::open(&Way::Udp, &host, config, connector, None).await.unwrap();
            let found = scan(std::slice::from_ref(&from), false).unwrap();
            let sent =
                send_tree(dial.connect().await.unwrap(), ME, found, &quiet, &Stop::never()).await;
            dial.settle(&Stop::never()).await;
            sent
        };
        let receiving = async {
            let conn = server.accept().await.unwrap();
            let intake = Intake::alone(Store::open(&into, Durability::Synced).unwrap());
            let received = receive_tree(conn, &intake, &quiet, &Stop::never()).await;
            drop(intake);
            crate::support::tidied(&into);
            received
        };
        let (sent, received) = tokio::join!(sending, receiving);
        assert_eq!(sent.unwrap().bytes, received.unwrap().bytes, "seed {seed}");
    });
    assert_eq!(snapshot(&from), snapshot(&into.join("tree")), "seed {seed}");
}

#[test]
fn a_tree_arrives_over_tack_with_tls() {
    tree_over_network(true, ConnConfig::default(), 21);
}

#[test]
fn a_tree_arrives_over_tack_without_tls() {
    tree_over_network(false, ConnConfig::default(), 22);
}

#[test]
fn a_tree_arrives_over_plain_tcp_with_tls() {
    tree_over_network(true, ConnConfig::plain(), 23);
}

/// Starts `tack recv …` on a free port; the command that it says to type, with its PATH replaced.
pub(crate) fn listen(home: &Path, line: &str, path: &str) -> (Listening, String) {
    started(&mut tack(home, line), path)
}

/// The same of a command that is a `recv` already.
pub(crate) fn started(recv: &mut Command, path: &str) -> (Listening, String) {
    let mut child = Listening(recv.spawn().unwrap());
    let mut lines = BufReader::new(child.0.stderr.take().unwrap());
    let mut said = String::new();
    loop {
        let mut line = String::new();
        assert!(lines.read_line(&mut line).unwrap() > 0, "it ended: {said}");
        if let Some(command) = line.trim().strip_prefix("tack send ") {
            // Whatever else it says must find a reader.
            std::io::Write::flush(&mut std::io::stderr()).unwrap();
            let typed = command.replace("PATH…", path);
            child.0.stderr = Some(lines.into_inner());
            return (child, format!("send {typed}"));
        }
        said += &line;
    }
}

#[test]
fn tar_piped_through_the_command_arrives_byte_for_byte() {
    for over in TRANSPORTS {
        let home = tempdir().unwrap();
        let bytes = random_bytes(&mut rng(5), 5_000_003);
        let (mut receiver, send) =
            listen(home.path(), &format!("recv - -p 0 -B 127.0.0.1{over}"), "-");
        let mut out = receiver.0.stdout.take().unwrap();
        let mut sender = tack(home.path(), &send).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = sender.stdin.take().unwrap();
        let (written, mut arrived) = (bytes.clone(), Vec::new());
        std::thread::scope(|scope| {
            scope.spawn(move || stdin.write_all(&written).unwrap());
            out.read_to_end(&mut arrived).unwrap();
        });
        succeeded(&sender.wait_with_output().unwrap());
        assert!(receiver.0.wait().unwrap().success());
        assert!(arrived == bytes, "{} of {} bytes", arrived.len(), bytes.len());
    }
}

#[test]
fn the_command_sends_a_folder_and_refuses_a_stranger_and_a_conflict() {
    for over in TRANSPORTS {
        let home = tempdir().unwrap();
        random_tree(&home.path().join("tree"), &mut rng(6));
        let (mut receiver, send) =
            listen(home.path(), &format!("recv in -p 0 -B 127.0.0.1 --open{over}"), "tree");
        let pinned = &send.split("SHA256:").nth(1).unwrap()[..43];
        let stranger = send.replace(pinned, &"A".repeat(43));
        let refused = tack(home.path(), &stranger).output().unwrap();
        assert_eq!(refused.status.code(), Some(4), "{refused:?}");
        fs::create_dir_all(home.path().join("in/tree")).unwrap();
        fs::write(home.path().join("in/tree/mine"), "mine").unwrap();
        fs::write(home.path().join("tree/mine"), "theirs").unwrap();
        let refused = tack(home.path(), &send).output().unwrap();
        assert_eq!(refused.status.code(), Some(5), "{refused:?}");
        fs::remove_file(home.path().join("tree/mine")).unwrap();
        fs::remove_dir_all(home.path().join("in/tree")).unwrap();
        succeeded(&tack(home.path(), &send).output().unwrap());
        assert!(receiver.0.wait().unwrap().success());
        let (sent, received) = (home.path().join("tree"), home.path().join("in/tree"));
        assert_eq!(snapshot(&sent), snapshot(&received));
    }
}

#[test]
fn perf_through_the_command_counts_the_same_bytes_on_both_sides() {
    for over in TRANSPORTS {
        let home = tempdir().unwrap();
        let mut server = Listening(
            tack(home.path(), &format!("perf -s -1 -p 0 -B 127.0.0.1{over}")).spawn().unwrap(),
        );
        let mut lines = BufReader::new(server.0.stdout.take().unwrap()).lines();
        let port = lines.find_map(|line| {
            let line = line.unwrap();
            Some(line.strip_prefix("Server listening on ")?.split(' ').next()?.to_owned())
        });
        let ask = format!("perf -c 127.0.0.1 -p {} -n 20M -J{over}", port.unwrap());
        let asked = tack(home.path(), &ask).output().unwrap();
        succeeded(&asked);
        let document: Value = serde_json::from_slice(&asked.stdout).unwrap();
        assert_eq!(document["end"]["sum_sent"]["bytes"], 20 << 20);
        assert_eq!(document["end"]["sum_received"]["bytes"], 20 << 20);
        assert_eq!(document["start"]["test_start"]["protocol"], "TACK");
        assert_eq!(document["tack"]["encryption"], "tls1.3");
        let local = &document["tack"]["local"];
        assert!(local["acks_received_by_kind"]["tack"].as_u64().unwrap() > 0, "{local}");
        assert!(lines.any(|line| line.unwrap().ends_with("receiver")));
        assert!(server.0.wait().unwrap().success());
    }
}

#[test]
fn whoever_is_told_the_code_may_send_and_nobody_else() {
    for over in TRANSPORTS {
        let (receiver_home, alice, mallory) =
            (tempdir().unwrap(), tempdir().unwrap(), tempdir().unwrap());
        random_tree(&alice.path().join("tree"), &mut rng(8));
        fs::create_dir(mallory.path().join("tree")).unwrap();
        let (mut receiver, send) =
            listen(receiver_home.path(), &format!("recv in -p 0 -B 127.0.0.1{over}"), "tree");
        let (rest, code) = send.split_once(" --code ").unwrap();
        let code = code.split(' ').next().unwrap();
        let rest = &format!("{rest}{over}");
        assert!(!send.contains("SHA256"), "the code is enough: {send}");
        for line in [
            // Met for the first time, with nobody to confirm it.
            rest.to_owned(),
            format!("{rest} --code lusab-babad"),
        ] {
            let refused = tack(mallory.path(), &line).output().unwrap();
            assert_eq!(refused.status.code(), Some(4), "{line}: {refused:?}");
        }
        let said = tack(mallory.path(), rest).output().unwrap().stderr;
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(said.contains("no terminal") && said.contains("--code"), "{said}");
        assert!(!mallory.path().join("tack/known_hosts").exists());
        succeeded(&tack(alice.path(), &format!("{rest} --code {code}")).output().unwrap());
        assert!(receiver.0.wait().unwrap().success());
        let (sent, received) = (alice.path().join("tree"), receiver_home.path().join("in/tree"));
        assert_eq!(snapshot(&sent), snapshot(&received));
    }
}

#[test]
fn a_first_contact_is_confirmed_on_the_terminal_and_remembered_and_anything_but_yes_ends_it() {
    if !is_installed("tmux") {
        return;
    }
    let (receiver_home, alice) = (tempdir().unwrap(), tempdir().unwrap());
    fs::write(alice.path().join("f"), "f").unwrap();
    let line = "recv in --keep -p 0 -B 127.0.0.1 --open";
    let (_receiver, send) = listen(receiver_home.path(), line, "f");
    let (rest, pin) = send.split_once(" --fingerprint ").unwrap();
    let key = pin.split(' ').next().unwrap();
    let known = alice.path().join("tack/known_hosts");
    for (answer, ends) in [("no", "you did not confirm it"), ("yes", "verified")] {
        assert!(!known.exists());
        // What it says last stays to be seen.
        let terminal = Terminal::running(alice.path(), &format!("{rest}; read stay"));
        // The question stays whole while it is thought about: no progress is drawn over it.
        #[expect(clippy::disallowed_methods, reason = "a user thinks in real time")]
        std::thread::sleep(Duration::from_millis(500));
        terminal.shows(&["First contact", key, "Type yes"]);
        terminal.press(answer);
        terminal.press("Enter");
        terminal.shows(&[ends]);
    }
    assert!(fs::read_to_string(&known).unwrap().contains(key.trim_start_matches("SHA256:")));
    // Met once, it is not asked for again.
    succeeded(&tack(alice.path(), rest).output().unwrap());
}

#[test]
fn progress_is_shown_in_the_units_of_the_summary() {
    if !is_installed("tmux") {
        return;
    }
    let home = tempdir().unwrap();
    // Nothing but zeros: it takes no room, and a while all the same.
    fs::File::create(home.path().join("large")).unwrap().set_len(1 << 30).unwrap();
    let (receiver, send) = listen(home.path(), "recv in -p 0 -B 127.0.0.1 --open", "large");
    let terminal = Terminal::running(home.path(), &send);
    terminal.shows(&["of 1.00 GBytes", "bits/sec", "left", "large"]);
    drop(receiver);
}

#[test]
fn whose_key_is_authorized_may_send_and_the_key_is_what_tack_key_prints() {
    for over in TRANSPORTS {
        let (receiver_home, alice, mallory) =
            (tempdir().unwrap(), tempdir().unwrap(), tempdir().unwrap());
        for home in [&alice, &mallory] {
            fs::write(home.path().join("f"), home.path().to_string_lossy().as_bytes()).unwrap();
        }
        let key = tack(alice.path(), "key").output().unwrap();
        succeeded(&key);
        fs::write(receiver_home.path().join("keys"), &key.stdout).unwrap();
        let (mut receiver, send) = listen(
            receiver_home.path(),
            &format!("recv in -p 0 -B 127.0.0.1 --authorized-keys keys{over}"),
            "f",
        );
        let refused = tack(mallory.path(), &send).output().unwrap();
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(4), "{said}");
        assert!(said.contains("does not know your key"), "{said}");
        succeeded(&tack(alice.path(), &send).output().unwrap());
        assert!(receiver.0.wait().unwrap().success());
        let f = fs::read(receiver_home.path().join("in/f")).unwrap();
        assert_eq!(f, alice.path().to_string_lossy().as_bytes());
    }
}

/// An address of one link alone means nothing without the link's name.
#[cfg(target_os = "linux")]
#[test]
fn a_host_is_reached_by_an_address_with_a_zone() {
    let Some(net) = crate::rebinding::namespace() else { return };
    net.ip(&["link set lo up", "addr add fe80::1/64 dev lo nodad"]).unwrap();
    let home = tempdir().unwrap();
    fs::write(home.path().join("f"), "f").unwrap();
    let line = "recv in -p 8225 -B :: --insecure-plaintext";
    let mut receiver = Listening(net.spawn(&mut tack(home.path(), line)).unwrap());
    // Kept to the end: what else it says must find a reader.
    let mut lines = BufReader::new(receiver.0.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("tack send")));
    let send = "send f fe80::1%lo -p 8225 --insecure-plaintext";
    let sent = net.spawn(&mut tack(home.path(), send)).unwrap().wait_with_output().unwrap();
    succeeded(&sent);
    assert!(receiver.0.wait().unwrap().success());
    assert_eq!(fs::read(home.path().join("in/f")).unwrap(), b"f");
}

#[test]
fn an_empty_folder_of_a_stranger_does_not_end_an_open_recv() {
    let (receiver_home, mallory) = (tempdir().unwrap(), tempdir().unwrap());
    fs::create_dir(mallory.path().join("empty")).unwrap();
    fs::write(mallory.path().join("f"), "f").unwrap();
    let (mut receiver, send) =
        listen(receiver_home.path(), "recv in -p 0 -B 127.0.0.1 --open", "empty");
    succeeded(&tack(mallory.path(), &send).output().unwrap());
    assert!(receiver.0.try_wait().unwrap().is_none(), "it still waits for a file");
    let file = send.replacen("empty", "f", 1);
    succeeded(&tack(mallory.path(), &file).output().unwrap());
    assert!(receiver.0.wait().unwrap().success());
}

#[test]
fn whoever_encrypts_and_whoever_does_not_are_told_of_each_other() {
    let home = tempdir().unwrap();
    fs::write(home.path().join("f"), "f").unwrap();
    let plain = |send: &str| {
        let host = send.split(' ').nth(2).unwrap().to_owned();
        format!("send f {host} --insecure-plaintext")
    };
    let (_receiver, send) = listen(home.path(), "recv in -p 0 -B 127.0.0.1 --open", "f");
    let refused = tack(home.path(), &plain(&send)).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("the other side encrypts"), "{said}");
    let (_receiver, send) =
        listen(home.path(), "recv in -p 0 -B 127.0.0.1 --insecure-plaintext", "f");
    let encrypting = send.replace(" --insecure-plaintext", "");
    let refused = tack(home.path(), &encrypting).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("does the other side encrypt"), "{said}");
}

#[test]
fn whoever_speaks_quic_and_whoever_does_not_are_told_of_each_other() {
    let home = tempdir().unwrap();
    fs::write(home.path().join("f"), "f").unwrap();
    for (over, told) in [("", "leave out --quic"), (" --quic", "give --quic as well")] {
        let (_receiver, send) =
            listen(home.path(), &format!("recv in -p 0 -B 127.0.0.1 --open{over}"), "f");
        let other = match over {
            "" => format!("{send} --quic"),
            over => send.replace(over, ""),
        };
        let asked = tack(home.path(), &other).output().unwrap();
        let said = String::from_utf8_lossy(&asked.stderr).into_owned();
        assert_eq!(asked.status.code(), Some(1), "{said}");
        assert!(said.contains(told), "{other}: {said}");
    }
}

#[test]
fn what_quic_cannot_do_is_said_and_nothing_is_sent() {
    let home = tempdir().unwrap();
    fs::write(home.path().join("f"), "f").unwrap();
    for (line, why) in [
        ("send f 127.0.0.1 --quic --insecure-plaintext", "always encrypted"),
        ("recv in -p 0 --quic --insecure-plaintext", "always encrypted"),
        ("perf -c 127.0.0.1 --quic --no-tls", "always encrypted"),
        ("perf -c 127.0.0.1 --quic -M 1000", "--set-mss"),
        ("send f 127.0.0.1 --quic --strategy tcp-l2", "TACK says when"),
        ("send f 127.0.0.1 --quic --plain-tcp", "--plain-tcp"),
        ("nc 127.0.0.1 9 --quic --tun --tun-addr 10.7.0.2/24", "UDP only"),
    ] {
        let refused = tack(home.path(), line).output().unwrap();
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{line}: {said}");
        assert!(said.contains(why), "{line}: {said}");
    }
}

#[test]
fn what_arrives_has_no_mode_that_the_receiver_s_umask_forbids() {
    let home = tempdir().unwrap();
    random_tree(&home.path().join("tree"), &mut rng(9));
    let mut masked = Command::new("sh");
    masked.args(["-c", r#"umask 027; exec "$0" "$@""#, env!("CARGO_BIN_EXE_tack")]);
    masked.args("recv in -p 0 -B 127.0.0.1 --open".split(' '));
    masked.env("XDG_CONFIG_HOME", home.path()).current_dir(home.path());
    masked.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (mut receiver, send) = started(&mut masked, "tree");
    succeeded(&tack(home.path(), &send).output().unwrap());
    assert!(receiver.0.wait().unwrap().success());
    let (sent, arrived) = (snapshot(&home.path().join("tree")), snapshot(&home.path().join("in")));
    const LINK: u32 = 0o120_000;
    let (mut looked_at, mut narrowed) = (0, 0);
    for (name, (mode, ..)) in sent.into_iter().filter(|(_, (mode, ..))| mode & LINK != LINK) {
        let (is, ..) = arrived[&format!("tree/{name}")];
        assert_eq!(is, mode & !0o027, "{name}: {mode:o} became {is:o}");
        looked_at += 1;
        narrowed += u32::from(is != mode);
    }
    assert!(narrowed > 3, "{narrowed} of {looked_at}");
}

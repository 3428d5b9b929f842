//! nc and ssh: programs that lean on half-closed connections.

use std::fs;
use std::io::{Seek, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use tack_interop::world::{say_skipped, within};
use tack_interop::{Family, Program, Setup, World, program, stream};
use tack_net::ConnConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::forward::Forwarder;
use crate::iperf::until_it_listens;
use crate::support::{LIMIT, Opener, pair, way};

/// A file to be read from, with so many bytes of a seed.
fn file_with(seed: u64, bytes: u64) -> Stdio {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&stream::Source::new(seed, bytes).bytes()).unwrap();
    file.rewind().unwrap();
    file.into()
}

#[tokio::test]
async fn nc_sends_us_a_file_ends_its_half_and_gets_an_answer() {
    if !program::is_installed("nc") {
        return;
    }
    let Some(world) = Setup::over(way(100, 5)).start() else { return };
    for family in Family::BOTH {
        let mut listener = world.listen(2_000, ConnConfig::default());
        let ours = world.ours(family, 2_000).ip().to_string();
        let args = ["-N", &ours, "2000"];
        let nc = Program::start(world.far(), "nc", &args, file_with(21, 3 << 20)).unwrap();
        let answering = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let got = stream::receive(&mut stream).await.unwrap();
            let sent = stream::send_all(&mut stream, 22, 2 << 20).await.unwrap();
            (got, sent)
        };
        let (got, sent) = within(LIMIT, "nc", answering).await;
        let outcome = nc.wait(LIMIT).await.unwrap().expect_success("nc");
        assert_eq!(got, stream::of(&stream::Source::new(21, 3 << 20).bytes()));
        assert_eq!(sent, stream::of(&outcome.stdout));
    }
}

#[tokio::test]
async fn nc_listens_for_our_file_and_answers_after_its_end() {
    if !program::is_installed("nc") {
        return;
    }
    let Some(world) = Setup::over(way(100, 5)).start() else { return };
    for family in Family::BOTH {
        let to = world.kernel(family, 2_000);
        let args = ["-l", "-N", &to.ip().to_string(), "2000"];
        let mut nc = Program::start(world.far(), "nc", &args, file_with(23, 2 << 20)).unwrap();
        let mut ours = loop {
            // It takes one connection only: a probe would be it.
            match within(LIMIT, "connecting", world.endpoint.connect(to)).await {
                Ok(stream) => break stream,
                Err(_) => assert!(nc.is_running().unwrap(), "{}", nc.stderr().unwrap()),
            }
        };
        let (sent, got) =
            within(LIMIT, "nc", stream::exchange(&mut ours, 24, 3 << 20)).await.unwrap();
        let outcome = nc.wait(LIMIT).await.unwrap().expect_success("nc");
        assert_eq!(got, stream::of(&stream::Source::new(23, 2 << 20).bytes()));
        assert_eq!(sent, stream::of(&outcome.stdout));
    }
}

/// Whether sshd could become the user it serves: a user namespace may know of one user only.
fn users_can_change() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let users = map.split_whitespace().nth(2).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
    let root = rustix::process::getuid().is_root();
    if !root || users < 65_536 {
        say_skipped("sshd needs root and its own user, which this namespace does not know");
    }
    root && users >= 65_536
}

fn generate_key(path: &Path) {
    let mut keygen = Command::new("ssh-keygen");
    keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path);
    assert!(keygen.status().unwrap().success());
}

/// Keys and configuration of a server and its only client.
fn configure(dir: &Path) {
    generate_key(&dir.join("host"));
    generate_key(&dir.join("client"));
    fs::copy(dir.join("client.pub"), dir.join("authorized")).unwrap();
    let dir = dir.display();
    let config = format!(
        "Port 2222\nHostKey {dir}/host\nAuthorizedKeysFile {dir}/authorized\nPidFile none\n\
         StrictModes no\nUsePAM no\nPermitRootLogin prohibit-password\n\
         PasswordAuthentication no\nClientAliveInterval 5\nClientAliveCountMax 2\n"
    );
    fs::write(format!("{dir}/config"), config).unwrap();
}

/// Runs `command` at the far end over our address `at`.
async fn ssh(world: &World, dir: &Path, at: SocketAddr, input: Stdio, command: &str) -> Vec<u8> {
    let config = format!(
        "IdentityFile {}\nPort {}\nUser root\nIdentitiesOnly yes\nStrictHostKeyChecking no\n\
         UserKnownHostsFile /dev/null\nLogLevel ERROR\nConnectTimeout 20\n",
        dir.join("client").display(),
        at.port(),
    );
    let path = dir.join("client.config");
    fs::write(&path, config).unwrap();
    let (path, host) = (path.display().to_string(), at.ip().to_string());
    let ssh = Program::start(world.near(), "ssh", &["-F", &path, &host, command], input).unwrap();
    ssh.wait(LIMIT).await.unwrap().expect_success("ssh").stdout
}

#[tokio::test]
async fn ssh_copies_files_both_ways_through_our_stack() {
    let installed = ["ssh", "sshd", "ssh-keygen"].into_iter().all(program::is_installed);
    if !installed || !users_can_change() {
        return;
    }
    let Some(world) = Setup::over(way(100, 5)).start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    configure(dir);
    // Where it locks its unprivileged half in; a package's start script makes it.
    let _ = fs::create_dir_all("/run/sshd");
    let config = dir.join("config").display().to_string();
    let args = ["-D", "-e", "-f", &config];
    let sshd = program::path_of("sshd").expect("it is installed").display().to_string();
    let mut server = Program::start(world.far(), &sshd, &args, Stdio::null()).unwrap();
    until_it_listens(&world, &mut server, Family::V4, 2_222).await;
    for (family, port) in Family::BOTH.into_iter().zip([2_224, 2_226]) {
        let _forwarder = Forwarder::start(&world, port, world.kernel(family, 2_222));
        let host = world.ours(family, port);
        let bytes = 5 << 20;
        let sent = stream::of(&stream::Source::new(25, bytes).bytes());
        let there = ssh(&world, dir, host, file_with(25, bytes), "sha256sum").await;
        assert_eq!(String::from_utf8_lossy(&there)[..64], stream::hex(&sent.sha256));
        // There and back at once.
        let back = ssh(&world, dir, host, file_with(25, bytes), "cat").await;
        assert_eq!(stream::of(&back), sent);
    }
}

#[tokio::test]
async fn a_word_a_second_is_not_held_back() {
    // An interactive session: single bytes, answered at once, without Nagle's delay.
    let Some(world) = Setup::over(way(100, 5)).start() else { return };
    let (mut ours, mut theirs) = pair(&world, Family::V4, Opener::We, ConnConfig::default()).await;
    let mut byte = [0];
    for round in 0..20_u8 {
        let both = async {
            ours.write_all(&[round]).await.unwrap();
            theirs.read_exact(&mut byte).await.unwrap();
            theirs.write_all(&byte).await.unwrap();
            ours.read_exact(&mut byte).await.unwrap();
        };
        within(LIMIT, "an echo", both).await;
        assert_eq!(byte, [round]);
    }
    assert_eq!(ours.info().counters.retransmissions, 0);
}

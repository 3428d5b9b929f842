//! nc and ssh: programs that lean on half-closed connections.

use std::net::SocketAddr;
use std::process::Stdio;

use tack_interop::world::within;
use tack_interop::{Family, Program, Setup, Sshd, World, program, stream};
use tack_net::ConnConfig;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::forward::Forwarder;
use crate::support::{LIMIT, Opener, pair, way};

#[tokio::test]
async fn nc_sends_us_a_file_ends_its_half_and_gets_an_answer() {
    if !program::is_installed("nc") {
        return;
    }
    let Some(world) = Setup::over(way(100, 5)).start() else { return };
    for family in Family::BOTH {
        let listener = world.listen(2_000, ConnConfig::default());
        let ours = world.ours(family, 2_000).ip().to_string();
        let args = ["-N", &ours, "2000"];
        let nc = Program::start(world.far(), "nc", &args, stream::file(21, 3 << 20)).unwrap();
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
        let mut nc = Program::start(world.far(), "nc", &args, stream::file(23, 2 << 20)).unwrap();
        let mut ours = loop {
            // It takes one connection only: a probe would be it.
            match within(LIMIT, "connecting", world.endpoint.connect_plain(to)).await {
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

/// Runs `command` at the far end over our address `at`.
async fn ssh(world: &World, sshd: &Sshd, at: SocketAddr, input: Stdio, command: &str) -> Vec<u8> {
    let config = sshd.client_config("client.config", &format!("Port {}", at.port()));
    let (path, host) = (config.display().to_string(), at.ip().to_string());
    let ssh = Program::start(world.near(), "ssh", &["-F", &path, &host, command], input).unwrap();
    ssh.wait(LIMIT).await.unwrap().expect_success("ssh").stdout
}

#[tokio::test]
async fn ssh_copies_files_both_ways_through_our_stack() {
    let Some(world) = Setup::over(way(100, 5)).start() else { return };
    let Some(sshd) = Sshd::start(world.far(), 2_222).await else { return };
    for (family, port) in Family::BOTH.into_iter().zip([2_224, 2_226]) {
        let _forwarder = Forwarder::start(&world, port, world.kernel(family, sshd.port()));
        let host = world.ours(family, port);
        let bytes = 5 << 20;
        let sent = stream::of(&stream::Source::new(25, bytes).bytes());
        let there = ssh(&world, &sshd, host, stream::file(25, bytes), "sha256sum").await;
        assert_eq!(String::from_utf8_lossy(&there)[..64], stream::hex(&sent.sha256));
        // There and back at once.
        let back = ssh(&world, &sshd, host, stream::file(25, bytes), "cat").await;
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

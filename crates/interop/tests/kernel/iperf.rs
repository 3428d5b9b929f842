//! iperf3 in both kernels, with our stack between them as server and as client.

use std::process::Stdio;
use std::time::Duration;

use tack_interop::{Family, Program, Setup, World, program, sockets};

use crate::forward::Forwarder;
use crate::support::{LIMIT, way};

const PORT: u16 = 5_201;

/// A moment until a server listens.
pub(crate) async fn until_it_listens(
    world: &World,
    server: &mut Program,
    family: Family,
    port: u16,
) {
    let listening = async {
        while sockets::connect(world.far(), world.kernel(family, port)).await.is_err() {
            assert!(server.is_running().unwrap(), "{}", server.stderr().unwrap());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tack_interop::world::within(LIMIT, "a server's start", listening).await;
}

/// Runs a client with `args` and returns what its report says.
async fn run(family: Family, args: &[&str]) -> Option<serde_json::Value> {
    if !program::is_installed("iperf3") {
        return None;
    }
    let world = (Setup { log: false, ..Setup::over(way(400, 2)) }).start()?;
    let server = ["-s", "--forceflush"];
    let mut server = Program::start(world.far(), "iperf3", &server, Stdio::null()).unwrap();
    until_it_serves(&mut server).await;
    let _forwarder = Forwarder::start(&world, PORT, world.kernel(family, PORT));
    let ours = world.ours(family, PORT).ip().to_string();
    let args = [&["-c", &ours, "-J", "--get-server-output"], args].concat();
    let client = Program::start(world.near(), "iperf3", &args, Stdio::null()).unwrap();
    let outcome = client.wait(LIMIT).await.unwrap().expect_success("iperf3");
    let report: serde_json::Value = serde_json::from_slice(&outcome.stdout).unwrap();
    assert!(report["error"].is_null(), "{}", report["error"]);
    Some(report)
}

/// Its first connection is a test to it: it must not be knocked at.
async fn until_it_serves(server: &mut Program) {
    let serving = async {
        while !server.stdout().unwrap().contains("listening") {
            assert!(server.is_running().unwrap(), "{}", server.stderr().unwrap());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tack_interop::world::within(LIMIT, "iperf3's start", serving).await;
}

/// What one end sent and the other got, in bytes, by the programs' own count.
fn totals(report: &serde_json::Value, suffix: &str) -> (u64, u64) {
    let bytes = |name: &str| report["end"][format!("{name}{suffix}")]["bytes"].as_u64().unwrap();
    (bytes("sum_sent"), bytes("sum_received"))
}

#[tokio::test]
async fn iperf3_uploads_through_our_stack() {
    let Some(report) = run(Family::V4, &["-n", "64M", "-l", "64K"]).await else { return };
    let (sent, received) = totals(&report, "");
    // The server stops counting when the client says so on another connection; by then buffers on
    // the way hold tens of megabytes.
    assert!(sent >= 64 << 20 && received >= 24 << 20 && received <= sent, "{received} of {sent}");
}

#[tokio::test]
async fn iperf3_downloads_through_our_stack() {
    let Some(report) = run(Family::V6, &["-R", "-n", "64M", "-l", "64K"]).await else { return };
    let (sent, received) = totals(&report, "");
    assert!(received >= 24 << 20 && received <= sent, "{received} of {sent}");
}

#[tokio::test]
async fn iperf3_runs_four_streams_both_ways_through_our_stack() {
    let args = ["--bidir", "-P", "4", "-t", "2"];
    let Some(report) = run(Family::V4, &args).await else { return };
    for suffix in ["", "_bidir_reverse"] {
        let (sent, received) = totals(&report, suffix);
        assert!(received > 1 << 20 && received <= sent, "{suffix}: {sent}, {received}");
    }
}

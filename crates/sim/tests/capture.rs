//! What the real stack puts on a path, seen by tshark.

use core::time::Duration;
use std::process::Command;

use tack_link::End;
use tack_link::loss::LossConfig;
use tack_link::queue::Limit;
use tack_link::tap::Tap;
use tack_link::wired::{DirectionConfig, Wired};
use tack_sim::{AckStrategy, App, FlowConfig, Seed, Simulation, Site, Transport};
use tack_units::{Instant, Rate};

/// A lossy transfer with TACK and one without, as pcapng; and how many packets it shows.
fn capture() -> (Vec<u8>, u64) {
    let direction = DirectionConfig {
        loss: LossConfig::Bernoulli(0.01),
        ..DirectionConfig::clean(
            Rate::from_mbps(20),
            Duration::from_millis(20),
            Limit::Packets(200),
        )
    };
    let wired = Wired::symmetric(direction, 1).unwrap();
    let mut sim = Simulation::new(Seed(1));
    let link = sim.add_link(Tap::new(wired, Vec::new(), "path").unwrap());
    let from = sim.add_host(Site { link, end: End::A });
    let to = sim.add_host(Site { link, end: End::B });
    for ack in [AckStrategy::TACK, AckStrategy::every(2)] {
        let mut config = FlowConfig::bulk(from, to, &Transport::new(ack));
        config.app = App::Bulk { bytes: Some(1_000_000) };
        sim.add_flow(config);
    }
    sim.run_until(Instant::from_secs(10));
    for flow in sim.flows() {
        assert_eq!(sim.flow(flow).1.received, 1_000_000);
    }
    let (wired, file) = sim.into_links().pop().unwrap().finish().unwrap();
    let crossings = [End::A, End::B]
        .map(|e| wired.counters(e))
        .map(|c| c.offered.packets + c.delivered.packets);
    (file, crossings.iter().sum())
}

#[test]
fn tshark_reads_every_packet_and_finds_none_malformed() {
    let (file, crossings) = capture();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("path.pcapng");
    std::fs::write(&path, file).unwrap();
    let rows = |filter: &str| {
        let mut tshark = Command::new("tshark");
        tshark.arg("-r").arg(&path).args(["-Y", filter, "-T", "fields", "-e", "frame.number"]);
        tshark.args(["-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"]);
        let output = tshark.output().ok()?;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Some(String::from_utf8(output.stdout).unwrap().lines().count() as u64)
    };
    let Some(tcp) = rows("tcp") else {
        assert!(std::env::var_os("TACK_INTEROP_REQUIRED").is_none(), "tshark is required");
        eprintln!("skipped: tshark is not installed (Debian: apt-get install tshark)");
        return;
    };
    assert_eq!(tcp, crossings, "both crossings of every packet are there, as TCP");
    for wrong in ["_ws.malformed", "ip.checksum.status == 0", "tcp.checksum.status == 0"] {
        assert_eq!(rows(wrong), Some(0), "{wrong}");
    }
    // Both flows close: the capture ends the way it began.
    assert!(rows("tcp.flags.fin == 1").unwrap() >= 4);
}

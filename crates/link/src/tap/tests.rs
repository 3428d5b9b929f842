//! What the tap writes, read back by the crate's reader and by tshark.

use core::time::Duration;
use std::process::{Command, Stdio};

use pcap_file::pcapng::{Block, PcapNgReader};
use tack_units::Rate;

use super::*;
use crate::ip::build::{ipv4_tcp, ipv6_tcp, timestamps};
use crate::queue::Limit;
use crate::wired::{DirectionConfig, Wired};

fn tapped() -> Tap<Wired, Vec<u8>> {
    let delay = Duration::from_nanos(1_000_001);
    let config = DirectionConfig::clean(Rate::from_mbps(8), delay, Limit::Packets(9));
    Tap::new(Wired::symmetric(config, 1).unwrap(), Vec::new(), "wan").unwrap()
}

fn exchange() -> Vec<u8> {
    let mut tap = tapped();
    let data = ipv4_tcp(1, 0x18, 1, &timestamps(), &[7; 1_000]);
    let ack = ipv6_tcp(&ipv4_tcp(1, 0x10, 1_001, &timestamps(), &[]));
    for (id, (end, bytes)) in
        [(End::A, data), (End::B, ack), (End::A, vec![])].into_iter().enumerate()
    {
        let packet = Packet { id: id as u64, dst: 1, ip_bytes: 1_000, bytes, ..Packet::default() };
        tap.offer(end, packet, Instant::from_nanos(5));
    }
    let mut now = Instant::from_nanos(5);
    loop {
        match tap.poll(now) {
            Output::Deliver { .. } => {}
            Output::Wait(Some(at)) => now = at,
            Output::Wait(None) => break,
        }
    }
    tap.finish().unwrap().1
}

#[test]
fn both_ends_are_recorded_with_direction_and_nanoseconds() {
    let file = exchange();
    let mut reader = PcapNgReader::new(&file[..]).unwrap();
    let mut packets = Vec::new();
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(p) = block.unwrap() {
            let EnhancedPacketOption::Flags(flags) = p.options[0] else { panic!("no direction") };
            packets.push((p.interface_id, p.timestamp.as_nanos(), flags));
        }
    }
    let (inbound, outbound) = (1, 2);
    // 1000 bytes at 8 Mbit/s and 1.000001 ms of delay: 2 000 001 ns after the offer.
    let expected =
        [(0, 5, outbound), (1, 5, outbound), (1, 2_000_006, inbound), (0, 2_000_006, inbound)];
    assert_eq!(packets, expected);
}

#[test]
fn a_full_disk_ends_the_capture_and_not_the_run() {
    struct Full(usize);
    impl Write for Full {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(buf.len()).ok_or(io::ErrorKind::StorageFull)?;
            Ok(buf.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let wired = Wired::symmetric(DirectionConfig::default(), 1).unwrap();
    let mut tap = Tap::new(wired, Full(400), "x").unwrap();
    for id in 0..10 {
        let bytes = ipv4_tcp(1, 0x10, 1, &[], &[0; 100]);
        let packet = Packet { id, dst: 1, ip_bytes: 140, bytes, ..Packet::default() };
        tap.offer(End::A, packet, Instant::ZERO);
        assert!(matches!(tap.poll(Instant::ZERO), Output::Deliver { .. }));
    }
    assert_eq!(tap.link().counters(End::A).delivered.packets, 10);
    assert_eq!(tap.finish().err().unwrap().kind(), io::ErrorKind::StorageFull);
}

#[test]
fn tshark_finds_four_packets_and_none_malformed() {
    let mut tshark = Command::new("tshark");
    tshark.args(["-r", "-", "-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"]);
    tshark.args(["-T", "fields", "-E", "separator=,"]);
    for field in ["frame.interface_name", "frame.time_epoch", "tcp.len", "_ws.expert.severity"] {
        tshark.args(["-e", field]);
    }
    let spawned = tshark.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let Ok(mut child) = spawned else {
        assert!(std::env::var_os("TACK_INTEROP_REQUIRED").is_none(), "tshark is required");
        eprintln!("skipped: tshark is not installed (Debian: apt-get install tshark)");
        return;
    };
    child.stdin.take().expect("piped").write_all(&exchange()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), 4, "{text}");
    let names: Vec<_> = rows.iter().map(|r| r[0]).collect();
    assert_eq!(names, ["wan-a", "wan-b", "wan-b", "wan-a"]);
    assert!(rows[0][1].ends_with(".000000005"), "{text}");
    assert!(rows.iter().all(|r| r[2] == "1000" || r[2] == "0"), "{text}");
    // 0x00800000 is an error: a malformed packet or a bad checksum.
    let severities = rows.iter().flat_map(|r| &r[3..]).filter(|s| !s.is_empty());
    assert!(severities.map(|s| s.parse::<u32>().unwrap()).all(|s| s < 0x0080_0000), "{text}");
}

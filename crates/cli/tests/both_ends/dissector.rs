//! Wireshark's dissector, held against our own reading of a captured transfer.
//!
//! `docs/wireshark/transfer.pcap` is `tack send` of 150 000 bytes on a loopback that loses every
//! sixtieth datagram, without segmentation offload.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tack_interop::program::is_installed;
use tack_net::wire::{Codepoints, Segment};
use tempfile::tempdir;

use crate::network::{TRANSPORTS, listen};
use crate::qlog_schema;
use crate::support::{random_bytes, rng, succeeded, tack};

fn docs(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/wireshark").join(name)
}

/// What tshark says of each packet of `file` that `filter` selects: these fields, `;` between them.
fn tshark(file: &Path, filter: &str, fields: &[&str]) -> Vec<String> {
    let script = format!("lua_script:{}", docs("tack.lua").display());
    let mut command = Command::new("tshark");
    // A free port may be one that tshark knows as another protocol's.
    command.args(["-n", "-X", &script, "-o", "udp.try_heuristic_first:TRUE"]);
    command.args(["-Y", filter, "-T", "fields", "-E", "separator=;", "-r"]);
    command.arg(file);
    for field in fields {
        command.args(["-e", field]);
    }
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !said.contains("Lua"), "{said}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// No packet is one of which tshark, in all that it has to say, says that it is malformed or spurious.
fn is_clean(file: &Path) {
    let script = format!("lua_script:{}", docs("tack.lua").display());
    let mut command = Command::new("tshark");
    let output = command.args(["-n", "-X", &script, "-V", "-r"]).arg(file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8_lossy(&output.stdout).to_lowercase();
    assert!(said.contains("tcp-tack"), "{} bytes", said.len());
    let wrong = |line: &&str| line.contains("malformed") || line.contains("spurious");
    assert_eq!(said.lines().find(wrong), None, "{}", file.display());
}

#[test]
fn a_captured_transfer_is_decoded_as_we_read_it_and_nothing_is_malformed_or_spurious() {
    if !is_installed("tshark") {
        return;
    }
    let file = docs("transfer.pcap");
    let wrong = tshark(&file, "!tack || _ws.malformed || tack.too_short", &["frame.number"]);
    assert!(wrong.is_empty(), "{wrong:?}");
    is_clean(&file);
    let fields =
        ["udp.payload", "tack.seq", "tack.pkt_seq", "tack.ack_type", "tack.len", "tack.tsval"];
    let rows = tshark(&file, "tack", &fields);
    assert!(rows.len() > 100, "{} packets", rows.len());
    let mut kinds = [0; 3];
    for row in rows {
        let mut columns = row.split(';');
        let payload = columns.next().unwrap().as_bytes();
        let byte = |hex: &[u8]| u8::from_str_radix(std::str::from_utf8(hex).unwrap(), 16).unwrap();
        let bytes: Vec<u8> = payload.chunks(2).map(byte).collect();
        let ours = Segment::parse_datagram(&bytes, Codepoints::Experimental).unwrap();
        let options = &ours.header.options;
        let number = |value: Option<u32>| value.map(|v| v.to_string()).unwrap_or_default();
        let text = options.ack_type.is_none().then_some(ours.payload.len() as u32);
        let expected = [
            ours.header.seq.0.to_string(),
            number(options.pkt_seq),
            number(options.ack_type.map(|kind| kind.code().into())),
            number(text),
            number(options.timestamps.map(|stamps| stamps.val)),
        ];
        assert_eq!(columns.collect::<Vec<_>>(), expected, "{row}");
        kinds[0] += u32::from(options.pkt_seq.is_some());
        kinds[1] += u32::from(options.ack_type.is_some_and(|kind| kind.code() == 1));
        kinds[2] += u32::from(options.ack_type.is_some_and(|kind| kind.code() == 2));
    }
    assert!(kinds.iter().all(|&count| count > 0), "data, TACKs, loss IACKs: {kinds:?}");
}

/// Where the payload of UDP begins in a packet of `transfer.pcap`, behind Ethernet and IPv4.
const PAYLOAD_AT: usize = 42;

/// The capture where segments of one length, numbered one after the other, are one datagram, as a machine that sends
/// with segmentation offload captures its own; and how many were joined to others.
fn joined(capture: &[u8]) -> (Vec<u8>, usize) {
    let (mut out, mut rest) = (capture[..24].to_vec(), &capture[24..]);
    let (mut packets, mut joins) = (Vec::<Vec<u8>>::new(), 0);
    let (mut last, mut size) = (None, 0);
    while let Some((head, behind)) = rest.split_at_checked(16) {
        let length = u32::from_le_bytes(head[8..12].try_into().unwrap()) as usize;
        let (packet, behind) = behind.split_at(length);
        rest = behind;
        let payload = &packet[PAYLOAD_AT..];
        let segment = Segment::parse_datagram(payload, Codepoints::Experimental).unwrap();
        let number = segment.header.options.pkt_seq.map(|n| (payload[..4].to_vec(), n));
        let follows = |(ports, n): &(Vec<u8>, u32)| number == Some((ports.clone(), n + 1));
        match packets.last_mut() {
            Some(burst) if last.as_ref().is_some_and(follows) && payload.len() <= size => {
                burst.extend(payload);
                joins += 1;
            }
            _ => {
                packets.push(packet.to_vec());
                size = payload.len();
            }
        }
        // A shorter one is the last of its datagram.
        last = number.filter(|_| payload.len() == size);
    }
    for mut packet in packets {
        for at in [16, 38] {
            let length = u16::try_from(packet.len() - if at == 16 { 14 } else { 34 }).unwrap();
            packet[at..at + 2].copy_from_slice(&length.to_be_bytes());
        }
        let length = u32::try_from(packet.len()).unwrap().to_le_bytes();
        out.extend([[0; 4], [0; 4], length, length].concat());
        out.extend(packet);
    }
    (out, joins)
}

#[test]
fn segments_that_left_in_one_call_are_decoded_one_by_one() {
    if !is_installed("tshark") {
        return;
    }
    let dir = tempdir().unwrap();
    let (bytes, joins) = joined(&std::fs::read(docs("transfer.pcap")).unwrap());
    assert!(joins > 20, "{joins} joined");
    let file = dir.path().join("joined.pcap");
    std::fs::write(&file, bytes).unwrap();
    is_clean(&file);
    for field in ["tack.seq", "tack.pkt_seq", "tack.len", "tls.record.length"] {
        let [apart, together] = [&docs("transfer.pcap"), &file].map(|file| {
            let rows = tshark(file, field, &[field]);
            rows.iter().flat_map(|row| row.split(',')).map(str::to_owned).collect::<Vec<_>>()
        });
        assert!(apart.len() > 2 && apart == together, "{field}: {apart:?}\n{together:?}");
    }
}

#[test]
fn damaged_packets_are_shown_and_end_nothing() {
    if !is_installed("tshark") || !is_installed("editcap") {
        return;
    }
    let dir = tempdir().unwrap();
    for seed in ["1", "2", "3"] {
        let damaged = dir.path().join(format!("{seed}.pcap"));
        let mut command = Command::new("editcap");
        // Every fiftieth byte behind the headers of Ethernet, IP and UDP.
        command.args(["-F", "pcap", "-E", "0.02", "-o", "42", "--seed", seed]);
        assert!(command.arg(docs("transfer.pcap")).arg(&damaged).status().unwrap().success());
        let (all, errors) = ["frame", "_ws.lua.error"]
            .map(|filter| tshark(&damaged, filter, &["frame.number"]).len())
            .into();
        assert!(all > 100 && errors == 0, "seed {seed}: {errors} errors in {all} packets");
    }
}

/// A transfer of the built command whose sender is looked at with `options`; how it was said.
fn transfer(home: &Path, options: &str) {
    let (mut receiver, send) = listen(home, "recv in -p 0 -B 127.0.0.1", "file");
    std::fs::write(home.join("file"), random_bytes(&mut rng(91), 400_000)).unwrap();
    let sent = tack(home, &format!("{send} {options}"))
        .env("SSLKEYLOGFILE", home.join("keys"))
        .output()
        .unwrap();
    succeeded(&sent);
    assert!(receiver.0.wait().unwrap().success());
}

#[test]
fn capture_and_qlog_have_the_same_packets_and_keys_are_written() {
    let home = tempdir().unwrap();
    transfer(home.path(), "--capture all.pcapng --qlog all.sqlog");
    let log = std::fs::read(home.path().join("all.sqlog")).unwrap();
    let events = qlog_schema::events(&log).unwrap();
    let named = |name: &str| events.iter().filter(|e| e["name"] == name).count();
    let sent = named("transport:packet_sent");
    let passed = sent + named("transport:packet_received");
    assert!(sent > 250 && passed < events.len(), "{sent}, {passed} of {}", events.len());
    a_congestion_plot_has_all_it_needs(&events);
    let received = events.iter().filter(|e| e["name"] == "transport:packet_received");
    let acks: Vec<_> = received.filter(|e| !e["data"]["acknowledgment"].is_null()).collect();
    assert!(acks.iter().any(|e| e["data"]["acknowledgment"]["reason"] == "tack"), "no TACK");
    for ack in acks {
        let ack = &ack["data"]["acknowledgment"];
        assert!(ack["reason"].is_string() && ack["error"].is_null(), "{ack}");
    }
    // TLS 1.3: a line per secret.
    let keys = std::fs::read_to_string(home.path().join("keys")).unwrap();
    assert!(keys.contains("CLIENT_TRAFFIC_SECRET_0 "), "{keys}");
    if !is_installed("tshark") {
        return;
    }
    let file = home.path().join("all.pcapng");
    let wrong = "!tack || _ws.malformed || tack.too_short || udp.length.bad";
    let wrong = tshark(&file, wrong, &["frame.number", "_ws.col.Info"]);
    assert!(wrong.is_empty(), "{wrong:?}");
    assert_eq!(tshark(&file, "tack", &["frame.number"]).len(), passed);
    is_clean(&file);
}

/// What viewers draw of a sender: bytes by time from packets with a length and a number that is no other's, window
/// and flight in bytes, round trips in milliseconds.
fn a_congestion_plot_has_all_it_needs(events: &[Value]) {
    let data = |name: &str| -> Vec<&Value> {
        events.iter().filter(|e| e["name"] == name).map(|e| &e["data"]).collect()
    };
    let packets = data("transport:packet_sent").into_iter().filter_map(|data| {
        assert!(data["raw"]["length"].as_u64() > Some(0), "{data}");
        let header = &data["header"];
        Some((header["packet_type"].to_string(), header["packet_number"].as_u64()?))
    });
    let packets: Vec<_> = packets.collect();
    assert!(packets.len() > 250, "{}", packets.len());
    assert_eq!(packets.iter().collect::<BTreeSet<_>>().len(), packets.len(), "numbers repeat");
    let metrics = data("recovery:metrics_updated");
    let moments = |field: &str| metrics.iter().filter(|m| m[field].as_f64() > Some(0.0)).count();
    // In flight there may be nothing at any of them: a TACK of the loopback has everything.
    assert!(metrics.iter().all(|m| m["bytes_in_flight"].is_u64()), "{metrics:?}");
    for field in ["congestion_window", "smoothed_rtt", "min_rtt"] {
        assert!(moments(field) > 0, "{field}: {} of {}", moments(field), metrics.len());
    }
    let states = data("recovery:congestion_state_updated");
    assert!(states[0].get("old").is_none() && !states.is_empty());
    assert!(states.windows(2).all(|pair| pair[1]["old"] == pair[0]["new"]), "{states:?}");
    for lost in data("recovery:packet_lost") {
        let number = lost["header"]["packet_number"].as_u64().unwrap();
        assert!(packets.contains(&(lost["header"]["packet_type"].to_string(), number)), "{lost}");
    }
}

#[test]
fn a_capture_with_its_secrets_is_decrypted_and_one_without_is_not() {
    if !is_installed("tshark") {
        return;
    }
    // Only a handshake that was decrypted shows its end.
    let finished = |home: &Path| {
        let file = home.join("all.pcapng");
        let wrong = tshark(&file, "!tack || _ws.malformed || _ws.lua.error", &["frame.number"]);
        assert!(wrong.is_empty(), "{wrong:?}");
        tshark(&file, "tls.handshake.type == 20", &["frame.number"]).len()
    };
    for (options, handshakes) in
        [("--capture all.pcapng", 0), ("--capture all.pcapng --capture-secrets", 2)]
    {
        let home = tempdir().unwrap();
        transfer(home.path(), options);
        assert_eq!(finished(home.path()), handshakes, "{options}");
    }
}

/// What `GET path` is answered at `at`.
fn ask(at: SocketAddr, path: &str) -> String {
    answered(at, &format!("GET {path}"))
}

/// What is answered at `at` to this method and path.
fn answered(at: SocketAddr, request: &str) -> String {
    #[expect(clippy::disallowed_methods, reason = "a collector's HTTP client is the kernel's")]
    let mut stream = std::net::TcpStream::connect(at).unwrap();
    write!(stream, "{request} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// One line's value.
fn metric(answer: &str, name: &str) -> f64 {
    let line = answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let value = line.and_then(|value| value.parse::<f64>().ok());
    value.unwrap_or_else(|| panic!("{name}: {answer}"))
}

#[test]
fn metrics_are_served_while_a_command_runs() {
    for over in TRANSPORTS {
        let home = tempdir().unwrap();
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let recv =
            format!("recv in -p 0 -B 127.0.0.1 --keep --metrics {free} --qlog in.sqlog{over}");
        let (_receiver, send) = listen(home.path(), &recv, "file");
        std::fs::write(home.path().join("file"), random_bytes(&mut rng(92), 100_000)).unwrap();
        succeeded(&tack(home.path(), &send).output().unwrap());
        let answer = ask(free, "/metrics");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        let value = |name: &str| metric(&answer, name);
        assert!(value("tack_packets_total{direction=\"received\",kind=\"data\"}") > 60.0);
        let tacks = value("tack_packets_total{direction=\"sent\",kind=\"tack\"}");
        assert!(tacks > 0.0);
        assert!(value("tack_bytes_total{direction=\"received\"}") > 100_000.0);
        assert!(ask(free, "/other").starts_with("HTTP/1.1 404 "));
        // What looks whether it is there, as balancers and scripts do.
        let head = answered(free, "HEAD /metrics");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.ends_with("\r\n\r\n"), "{head}");
        // The log has what is counted; it may have gone on since.
        let events = qlog_schema::events(&std::fs::read(home.path().join("in.sqlog")).unwrap());
        let events = events.unwrap();
        // Over QUIC a TACK tells of losses, too.
        let reasons: &[&str] = if over.is_empty() { &["tack"] } else { &["tack", "loss"] };
        let is_tack = |e: &&Value| {
            e["name"] == "transport:packet_sent"
                && reasons.iter().any(|reason| e["data"]["acknowledgment"]["reason"] == *reason)
                && !frames(e).contains(&"stream".to_owned())
        };
        let logged = events.iter().filter(is_tack).count() as f64;
        assert!(tacks <= logged && logged <= tacks + 3.0, "{tacks} counted, {logged} logged");
    }
}

/// The frames of a QUIC packet by their names.
fn frames(event: &Value) -> Vec<String> {
    let frames = event["data"]["frames"].as_array().into_iter().flatten();
    frames.map(|frame| frame["frame_type"].as_str().unwrap().to_owned()).collect()
}

/// Code points of TACK's frames, which tshark does not know: what it makes of the bytes behind is nothing.
const TACK_FRAMES: std::ops::RangeInclusive<u64> = 0x3ac0..=0x3ac3;

/// A QUIC packet that tshark has decrypted.
struct Decrypted {
    /// It went to the side whose capture this is.
    received: bool,
    number: u64,
    /// The types of its frames. `None`: it is of the handshake, or shares a datagram, and tshark's columns do
    /// not say which are whose.
    frames: Option<Vec<u64>>,
}

/// The packets in a capture of the side that did not begin.
fn decrypted(file: &Path) -> Vec<Decrypted> {
    let fields = ["udp.dstport", "quic.packet_number", "quic.frame_type", "quic.long.packet_type"];
    let rows = tshark(file, "quic.packet_number", &fields);
    let port = rows[0].split(';').next().unwrap().to_owned();
    let list = |column: &str| -> Vec<u64> {
        column.split(',').filter(|n| !n.is_empty()).map(|n| n.parse().unwrap()).collect()
    };
    let read = |row: &String| {
        let columns: Vec<_> = row.split(';').collect();
        let (received, numbers, frames) = (columns[0] == port, list(columns[1]), list(columns[2]));
        let is_clear = numbers.len() == 1 && columns[3].is_empty();
        let frames = is_clear.then_some(frames);
        let one = move |number| Decrypted { received, number, frames: frames.clone() };
        numbers.into_iter().map(one).collect::<Vec<_>>()
    };
    rows.iter().flat_map(read).collect()
}

#[test]
fn over_quic_log_and_capture_have_the_same_packets_and_every_acknowledgment_has_its_reason() {
    let home = tempdir().unwrap();
    let recv =
        "recv in -p 0 -B 127.0.0.1 --quic --capture in.pcapng --capture-secrets --qlog in.sqlog";
    let (mut receiver, send) = listen(home.path(), recv, "file");
    std::fs::write(home.path().join("file"), random_bytes(&mut rng(93), 400_000)).unwrap();
    let sent = tack(home.path(), &format!("{send} --qlog out.sqlog"))
        .env("SSLKEYLOGFILE", home.path().join("keys"))
        .output()
        .unwrap();
    succeeded(&sent);
    assert!(receiver.0.wait().unwrap().success());
    let log = |name: &str| {
        let events = qlog_schema::events(&std::fs::read(home.path().join(name)).unwrap()).unwrap();
        let ids: BTreeSet<_> =
            events.iter().map(|e| e["group_id"].as_str().unwrap().to_owned()).collect();
        (events, ids)
    };
    let ((ours, our_ids), (theirs, their_ids)) = (log("in.sqlog"), log("out.sqlog"));
    assert!(our_ids == their_ids && our_ids.len() == 1, "{our_ids:?} {their_ids:?}");
    let named = |events: &[Value], name: &str| -> Vec<Value> {
        events.iter().filter(|e| e["name"] == name).cloned().collect()
    };
    // What one side sent is what the other received: the loopback loses nothing.
    let (sent, received) =
        (named(&ours, "transport:packet_sent"), named(&ours, "transport:packet_received"));
    assert!(received.len() > 250, "{}", received.len());
    let numbers = |events: Vec<Value>| -> BTreeSet<String> {
        events.iter().map(|e| e["data"]["header"].to_string()).collect()
    };
    let arrived = numbers(received.clone());
    assert!(arrived.is_subset(&numbers(named(&theirs, "transport:packet_sent"))));
    assert!(numbers(named(&theirs, "transport:packet_received")).is_subset(&numbers(sent.clone())));
    // Whoever sends an acknowledgment knows why.
    let acks: Vec<_> = sent.iter().filter(|e| !e["data"]["acknowledgment"].is_null()).collect();
    assert!(acks.iter().all(|e| e["data"]["acknowledgment"]["reason"] != "unknown"));
    assert!(acks.iter().any(|e| e["data"]["acknowledgment"]["reason"] == "tack"));
    // The sender's view of the path.
    a_congestion_plot_has_all_it_needs(&theirs);
    let keys = std::fs::read_to_string(home.path().join("keys")).unwrap();
    assert!(keys.contains("CLIENT_TRAFFIC_SECRET_0 "), "{keys}");
    if !is_installed("tshark") {
        return;
    }
    // Of QUIC's frames tshark knows those of RFCs, and calls what follows another one malformed.
    let file = home.path().join("in.pcapng");
    let packets = decrypted(&file);
    let dropped = named(&ours, "transport:packet_dropped").len();
    assert_eq!(packets.len(), sent.len() + received.len() + dropped, "{dropped} dropped");
    // The same ones acknowledge something.
    let acknowledges = |packet: &&Decrypted| {
        let frames = packet.frames.iter().flatten();
        let mut known = frames.take_while(|kind| !TACK_FRAMES.contains(kind));
        known.any(|kind| matches!(kind, 2 | 3))
    };
    let lone = |received: bool| {
        packets.iter().filter(move |p| p.received == received && p.frames.is_some())
    };
    for (events, received) in [(&sent, false), (&received, true)] {
        let seen: BTreeSet<u64> =
            lone(received).filter(acknowledges).map(|packet| packet.number).collect();
        for event in events {
            let number = event["data"]["header"]["packet_number"].as_u64().unwrap();
            let is_ours = |p: &&Decrypted| p.number == number;
            if event["data"]["header"]["packet_type"] == "1RTT"
                && let Some(packet) = lone(received).find(is_ours)
            {
                let frames = event["data"]["frames"].as_array().unwrap();
                let is_ack = |kind: &str| kind == "ack";
                let kinds = frames.iter().map(|frame| frame["frame_type"].as_str().unwrap());
                let says = !event["data"]["acknowledgment"].is_null();
                assert_eq!(kinds.clone().any(is_ack), says, "{event}");
                assert_eq!(seen.contains(&number), says, "{:?} is {event}", packet.frames);
                // A dissector that knows no TACK reads no further than its first frame, which is behind all
                // others.
                let behind = kinds.skip_while(|kind| !kind.starts_with("tack_"));
                let mut foreign = behind.filter(|kind| !kind.starts_with("tack_"));
                assert!(foreign.all(|kind| kind == "padding"), "{event}");
            }
        }
        // How many there are is up to the machine: one that reads late acknowledges more at once.
        assert!(received || !seen.is_empty());
    }
}

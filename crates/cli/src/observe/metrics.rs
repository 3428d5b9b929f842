//! Counters in Prometheus' text format 0.0.4, over HTTP.
//!
//! What is counted over the life of the process comes from the datagrams that passed; what is
//! measured, from the connections that are open: their sum or greatest, not one series each, which
//! a tunnel of ten thousand would make many of.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tack_net::budget::{Budget, Peer};
use tack_net::quic::wire::{Frame, Reader};
use tack_net::quic::{SeenPacket, What};
use tack_net::wire::{AckType, Segment};
use tack_net::{Direction, Figures, LimitedTime, Reading, Seen, Tap};
use tack_units::Instant;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::said::{lost, said};
use crate::task::task;

/// Most bytes of a request's head.
const MAX_HEAD_BYTES: usize = 8 << 10;
/// Most who ask at once, and of one address.
const MOST_ASKING: (usize, usize) = (64, 16);
/// Time to ask and be answered.
const LIMIT: Duration = Duration::from_secs(5);

/// What passed, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    packets: BTreeMap<(Direction, &'static str), u64>,
    bytes: BTreeMap<Direction, u64>,
}

impl Tap for Passed {
    fn passed(
        &mut self,
        direction: Direction,
        _local: SocketAddr,
        _peer: SocketAddr,
        datagram: &[u8],
        _at: Instant,
    ) {
        *self.bytes.entry(direction).or_default() += datagram.len() as u64;
    }

    fn seen(&mut self, _peer: SocketAddr, seen: &Seen<'_>, _at: Instant) {
        let (direction, kind) = match seen {
            Seen::Segment(direction, segment, _) => (
                *direction,
                match segment.header.options.ack_type {
                    Some(kind) => ack_name(kind, segment),
                    None if !segment.payload.is_empty() => "data",
                    None => "control",
                },
            ),
            Seen::Unreadable(direction, ..) => (*direction, "unreadable"),
            Seen::Quic(seen) => match &seen.what {
                What::Sent(packet) => (Direction::Sent, quic_kind(packet)),
                What::Received(packet) => (Direction::Received, quic_kind(packet)),
                What::Dropped(..) => (Direction::Received, "unreadable"),
                What::Lost(..) | What::Figures(_) => return,
            },
            _ => return,
        };
        *self.packets.entry((direction, kind)).or_default() += 1;
    }
}

/// What a packet is by what it carries: data, whatever goes with it; an acknowledgment, by its kind, if all
/// else rides along; or what keeps the connection going.
fn quic_kind(packet: &SeenPacket) -> &'static str {
    let mut reader = Reader::new(&packet.frames);
    let mut kind = "control";
    while !reader.is_empty() {
        match Frame::parse(&mut reader) {
            Err(_) => return "unreadable",
            Ok(Frame::Stream { .. } | Frame::Datagram(_)) => return "data",
            Ok(Frame::Crypto { .. }) => return "control",
            Ok(Frame::Report(_)) => kind = "tack",
            Ok(Frame::Loss(_)) => kind = "loss_iack",
            Ok(Frame::Ack(_)) if kind == "control" => kind = "ack",
            Ok(_) => {}
        }
    }
    kind
}

/// A TACK in place of a loss IACK counts as one.
fn ack_name(kind: AckType, segment: &Segment<'_>) -> &'static str {
    match kind {
        AckType::Tack if said(kind, segment).is_ok_and(|said| !lost(&said).is_empty()) => {
            "loss_iack"
        }
        AckType::Tack => "tack",
        AckType::LossIack => "loss_iack",
        AckType::WindowIack => "window_iack",
        AckType::FrequencyIack => "frequency_iack",
        AckType::RttIack => "rtt_iack",
        AckType::CeIack => "ce_iack",
        AckType::Unknown(_) => "unknown_ack",
    }
}

fn direction_name(direction: Direction) -> &'static str {
    match direction {
        Direction::Sent => "sent",
        Direction::Received => "received",
    }
}

/// Answers whoever asks, for ever. Who is silent makes room for others: each holds a file descriptor, of which
/// the command needs its own.
pub async fn serve(listener: TcpListener) {
    let places = Budget::new(MOST_ASKING.0, MOST_ASKING.1);
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let Ok(place) = places.take_or_replace(Peer::of(Some(peer)), 1) else { continue };
                tokio::spawn(task(async move {
                    tokio::select! {
                        biased;
                        answered = timeout(LIMIT, answer(stream)) => {
                            tracing::debug!(%peer, ?answered, "metrics");
                        }
                        () = place.revoked() => tracing::debug!(%peer, "metrics: it made room"),
                    }
                }));
            }
            Err(error) => {
                tracing::warn!(%error, "--metrics");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn answer(mut stream: TcpStream) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < MAX_HEAD_BYTES {
        head.push(stream.read_u8().await?);
    }
    let asked = asked(&head);
    let (status, body) = match asked {
        Asked::Metrics { .. } => ("200 OK", render(&super::passed(), &super::readings())),
        Asked::Other { .. } => ("404 Not Found", "metrics are at /metrics\n".to_owned()),
        Asked::Change => {
            ("405 Method Not Allowed\r\nAllow: GET, HEAD", "metrics are to be read\n".to_owned())
        }
    };
    let mut answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    // To HEAD the length is told, and that is all [RFC 9110 §9.3.2].
    if !matches!(asked, Asked::Metrics { head: true } | Asked::Other { head: true }) {
        answer.push_str(&body);
    }
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Metrics {
        head: bool,
    },
    Other {
        head: bool,
    },
    /// Neither GET nor HEAD.
    Change,
}

/// Whatever follows a question mark: Prometheus sends the `params` of a job.
fn asked(request: &[u8]) -> Asked {
    let mut words = request.split(|byte| b" ?".contains(byte));
    let head = match words.next() {
        Some(b"GET") => false,
        Some(b"HEAD") => true,
        _ => return Asked::Change,
    };
    match words.next() {
        Some(b"/metrics" | b"/") => Asked::Metrics { head },
        _ => Asked::Other { head },
    }
}

/// The text.
fn render(passed: &Passed, readings: &[Reading]) -> String {
    let mut out = String::new();
    let mut metric = |name: &str, kind: &str, help: &str, values: &[(String, f64)]| {
        let _ = writeln!(out, "# HELP tack_{name} {help}\n# TYPE tack_{name} {kind}");
        for (labels, value) in values {
            // The sum of nothing is -0.
            let _ = writeln!(out, "tack_{name}{labels} {}", value + 0.0);
        }
    };
    let packets = passed.packets.iter().map(|((direction, kind), count)| {
        let direction = direction_name(*direction);
        (format!("{{direction=\"{direction}\",kind=\"{kind}\"}}"), *count as f64)
    });
    let bytes = passed.bytes.iter().map(|(direction, count)| {
        (format!("{{direction=\"{}\"}}", direction_name(*direction)), *count as f64)
    });
    let (packets, bytes): (Vec<_>, Vec<_>) = (packets.collect(), bytes.collect());
    metric("packets_total", "counter", "Packets by kind; acknowledgments by reason.", &packets);
    metric("bytes_total", "counter", "Bytes of datagrams.", &bytes);
    let io = |of: fn(&Reading) -> u64| {
        vec![(String::new(), readings.iter().map(of).sum::<u64>() as f64)]
    };
    metric(
        "sends_blocked",
        "gauge",
        "Times a socket's buffer was full.",
        &io(|r| r.io.sends_blocked),
    );
    metric(
        "datagrams_refused",
        "gauge",
        "Datagrams the kernel would not send.",
        &io(|r| r.io.datagrams_refused),
    );
    let infos = || readings.iter().flat_map(|r| r.connections.iter().map(|(_, info)| info));
    let count = |tack: bool| infos().filter(|i| i.is_tack == tack).count() as f64;
    let modes = [("{mode=\"tack\"}", true), ("{mode=\"plain\"}", false)];
    let modes = modes.map(|(labels, tack)| (labels.to_owned(), count(tack)));
    metric("connections", "gauge", "Connections that are open.", &modes);
    let sum = |of: fn(&Figures) -> f64| vec![(String::new(), infos().map(of).sum())];
    let most = |of: fn(&Figures) -> f64| vec![(String::new(), infos().map(of).fold(0.0, f64::max))];
    metric(
        "in_flight_bytes",
        "gauge",
        "Bytes in flight, all connections.",
        &sum(|i| i.in_flight as f64),
    );
    metric(
        "send_buffered_bytes",
        "gauge",
        "Bytes written and not acknowledged, all connections.",
        &sum(|i| i.send_buffered as f64),
    );
    metric(
        "recv_buffered_bytes",
        "gauge",
        "Bytes received and not read, all connections.",
        &sum(|i| i.recv_buffered as f64),
    );
    metric(
        "buffer_memory_bytes",
        "gauge",
        "Memory of buffers, all connections.",
        &sum(|i| i.buffer_memory as f64),
    );
    metric(
        "open_retransmissions",
        "gauge",
        "Segments sent again, or packets lost over QUIC, of connections that are open.",
        &sum(|i| i.retransmissions as f64),
    );
    metric(
        "rtt_seconds_max",
        "gauge",
        "Greatest smoothed round-trip time.",
        &most(|i| i.srtt.map_or(0.0, |d| d.as_secs_f64())),
    );
    metric(
        "rtt_min_seconds_max",
        "gauge",
        "Greatest of the least round-trip times.",
        &most(|i| i.rtt_min.map_or(0.0, |d| d.as_secs_f64())),
    );
    let limited = |of: fn(&LimitedTime) -> Duration| {
        infos().map(|info| of(&info.limited).as_secs_f64()).sum::<f64>()
    };
    let limits = [
        ("{by=\"application\"}", limited(|l| l.app)),
        ("{by=\"peer\"}", limited(|l| l.rwnd)),
        ("{by=\"congestion\"}", limited(|l| l.cwnd)),
    ];
    metric(
        "limited_seconds",
        "gauge",
        "What senders waited for so far: something to send, the peer's window, the congestion \
         window or pacer; open connections.",
        &limits.map(|(labels, seconds)| (labels.to_owned(), seconds)),
    );
    metric(
        "delivery_rate_bps",
        "gauge",
        "Delivery rates, all connections, bit/s.",
        &sum(|i| i.delivery_rate.map_or(0.0, |r| r.as_bps() as f64)),
    );
    out
}

#[cfg(test)]
mod tests {
    use tack_net::wire::{Codepoints, Segment};

    use super::*;

    #[test]
    fn who_asks_with_parameters_is_answered_as_who_asks_without() {
        for (method, head) in [("GET", false), ("HEAD", true)] {
            let asked = |path| asked(format!("{method} {path} HTTP/1.1\r\n\r\n").as_bytes());
            for path in ["/metrics", "/", "/metrics?x=1&y", "/?"] {
                assert_eq!(asked(path), Asked::Metrics { head }, "{path}");
            }
            for other in ["/metric", "/metrics/x", ""] {
                assert_eq!(asked(other), Asked::Other { head }, "{other}");
            }
        }
        for other in ["POST /metrics HTTP/1.1", "GETS / HTTP/1.1", ""] {
            assert_eq!(asked(other.as_bytes()), Asked::Change, "{other}");
        }
    }

    #[tokio::test]
    async fn who_connects_and_says_nothing_makes_room_and_keeps_nobody_from_an_answer() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let serving = tokio::spawn(serve(listener));
        let mut silent = Vec::new();
        for _ in 0..40 {
            silent.push(TcpStream::connect(at).await.unwrap());
        }
        let mut asking = TcpStream::connect(at).await.unwrap();
        asking.write_all(b"GET /other HTTP/1.1\r\n\r\n").await.unwrap();
        let mut said = String::new();
        asking.read_to_string(&mut said).await.unwrap();
        assert!(said.starts_with("HTTP/1.1 404"), "{said}");
        // Well before its time is over.
        let hung_up = timeout(LIMIT / 2, silent[0].read(&mut [0])).await;
        assert!(matches!(hung_up, Ok(Ok(0) | Err(_))), "{hung_up:?}");
        serving.abort();
    }

    #[test]
    fn every_line_is_a_comment_or_a_name_with_a_number() {
        let mut passed = Passed::default();
        let peer = "127.0.0.1:1".parse().unwrap();
        let garbage = b"not a segment";
        passed.passed(Direction::Received, peer, peer, garbage, Instant::ZERO);
        let error = Segment::parse_datagram(garbage, Codepoints::Experimental).unwrap_err();
        let seen = Seen::Unreadable(Direction::Received, &error, garbage.len());
        passed.seen(peer, &seen, Instant::ZERO);
        let text = render(&passed, &[]);
        assert!(
            text.contains("tack_packets_total{direction=\"received\",kind=\"unreadable\"} 1\n")
        );
        assert!(text.contains("tack_bytes_total{direction=\"received\"} 13\n"));
        let (mut helped, mut typed) = (0, 0);
        for line in text.lines() {
            match line.strip_prefix("# ") {
                Some(comment) if comment.starts_with("HELP tack_") => helped += 1,
                Some(comment) if comment.starts_with("TYPE tack_") => typed += 1,
                Some(other) => panic!("{other}"),
                None => {
                    let (name, value) = line.rsplit_once(' ').unwrap();
                    assert!(name.starts_with("tack_") && value.parse::<f64>().is_ok(), "{line}");
                    assert!(!value.starts_with('-'), "{line}");
                }
            }
        }
        assert!(helped > 10 && helped == typed);
    }
}

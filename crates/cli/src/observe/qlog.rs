//! What connections sent, received, lost and found out, as qlog 0.3: [draft-ietf-quic-qlog-main-schema-04] and
//! [draft-ietf-quic-qlog-quic-events-04], the last with the names of events that viewers know. JSON text
//! sequences [RFC 7464], so that a file that ends anywhere is read up to there.
//!
//! What TACK has and QUIC has not stands in members of its own, which viewers skip: `acknowledgment` with the
//! reason of each, and of TCP-TACK's packets `segment` with their header. Connections are told apart by
//! `group_id`. `docs/qlog.md` has all of it.

mod frame;
mod quic;
mod recovery;
mod segment;

use std::fmt;
use std::io::{self, Write};
use std::net::SocketAddr;

use serde_json::{Value, json};
use tack_net::{Direction, Seen, Tap};
use tack_units::Instant;

use self::recovery::Recoveries;
use super::Output;

/// What begins a record.
const RECORD_SEPARATOR: u8 = 0x1e;

/// A file under way.
pub struct Log<W> {
    out: Output<W>,
    recoveries: Recoveries,
}

/// The name of an event, and what it says.
type Event = (&'static str, Value);

impl<W> fmt::Debug for Log<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").finish_non_exhaustive()
    }
}

impl<W: Write> Log<W> {
    /// Begins a file. Its times count from `began_ms`, in milliseconds since 1970.
    ///
    /// # Errors
    /// When `out` fails.
    pub fn new(mut out: W, began_ms: f64) -> io::Result<Log<W>> {
        let head = json!({
            "qlog_version": "0.3",
            "qlog_format": "JSON-SEQ",
            "title": "tack",
            "trace": {
                "vantage_point": { "type": "unknown" },
                "common_fields": { "time_format": "relative", "reference_time": began_ms },
            },
        });
        record(&mut out, &head)?;
        let out = Output { out: Some(out), what: "qlog" };
        Ok(Log { out, recoveries: Recoveries::default() })
    }

    fn write(&mut self, group: &str, (name, data): &Event, at: Instant) {
        let time_ms = (at - Instant::ZERO).as_secs_f64() * 1_000.0;
        let event = json!({ "time": time_ms, "name": name, "group_id": group, "data": data });
        self.out.write(|out| record(out, &event));
    }
}

fn record(out: &mut impl Write, value: &Value) -> io::Result<()> {
    out.write_all(&[RECORD_SEPARATOR])?;
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")
}

impl<W: Write + Send> Tap for Log<W> {
    /// Events are of what datagrams carry.
    fn passed(
        &mut self,
        _direction: Direction,
        _local: SocketAddr,
        _peer: SocketAddr,
        _datagram: &[u8],
        _at: Instant,
    ) {
    }

    fn seen(&mut self, peer: SocketAddr, seen: &Seen<'_>, at: Instant) {
        let (group, events) = match seen {
            Seen::Segment(direction, segment, bytes) => {
                let group = segment::group(*direction, segment, peer);
                let mut events = vec![segment::event(*direction, segment, *bytes)];
                events.extend(self.recoveries.on_segment(&group, *direction, segment));
                (group, events)
            }
            Seen::Learned(segment, figures) => {
                let group = segment::group(Direction::Received, segment, peer);
                let events = self.recoveries.on_figures(&group, figures);
                (group, events)
            }
            Seen::Unreadable(_, error, bytes) => {
                (peer.to_string(), vec![dropped(*bytes, "invalid", &error.to_string())])
            }
            Seen::Quic(seen) => {
                let group = quic::group(&seen.original_dcid);
                let events = quic::events(&seen.what, &group, &mut self.recoveries);
                (group, events)
            }
            _ => return,
        };
        for event in &events {
            self.write(&group, event, at);
        }
    }
}

/// A datagram or packet that was not read: the draft's word for it, and ours.
fn dropped(bytes: usize, trigger: &str, reason: &str) -> Event {
    let details = json!({ "reason": reason });
    let data = json!({ "raw": { "length": bytes }, "trigger": trigger, "details": details });
    ("transport:packet_dropped", data)
}

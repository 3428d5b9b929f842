//! What is known when a test begins: iperf3's `start`.

use serde_json::{Map, Value, json};

use super::Context;
use crate::perf::params::Direction;
use crate::perf::report::{Lane, Start};

const VERSION: &str = concat!("tack ", env!("CARGO_PKG_VERSION"));

/// The object `start` of a test that has not come so far as to have streams.
pub fn unconnected() -> Value {
    json!({ "connected": [], "version": VERSION, "system_info": system_info() })
}

/// The object `start`.
pub fn start(start: &Start, context: &Context) -> Value {
    let params = &start.params;
    let target = params.pace.map_or(0, |pace| pace.bits_per_second);
    let mut value = json!({
        "connected": start.lanes.iter().map(connected).collect::<Vec<_>>(),
        "version": VERSION,
        "system_info": system_info(),
        "timestamp": { "time": http_date(context.timestamp), "timesecs": context.timestamp },
        "cookie": hex(&start.cookie),
        "tcp_mss_default": start.lanes.iter().map(|lane| lane.mss).max().unwrap_or(0),
        "target_bitrate": target,
        "fq_rate": 0,
        "sock_bufsize": context.window_bytes.unwrap_or(0),
        "sndbuf_actual": context.buffer_bytes.0,
        "rcvbuf_actual": context.buffer_bytes.1,
        "test_start": {
            "protocol": if start.lanes.iter().any(|lane| lane.tack) { "TACK" } else { "TCP" },
            "num_streams": params.streams,
            "blksize": params.block_bytes,
            "omit": seconds(params.omit_seconds),
            "duration": seconds(params.duration().map_or(0.0, |d| d.as_secs_f64())),
            "bytes": params.bytes().unwrap_or(0),
            "blocks": context.blocks,
            "reverse": u8::from(params.direction == Direction::Reverse),
            "bidir": u8::from(params.direction == Direction::Both),
            "tos": params.dscp << 2,
            "target_bitrate": target,
            "fqrate": 0,
            "interval": seconds(context.interval),
        },
    });
    if let Some((host, port)) = &context.connecting_to {
        value["connecting_to"] = json!({ "host": host, "port": port });
    } else if let Some(peer) = start.peer {
        let host = peer.ip().to_canonical().to_string();
        value["accepted_connection"] = json!({ "host": host, "port": peer.port() });
    }
    if let Some(mss) = params.mss {
        value["tcp_mss"] = mss.into();
    }
    value
}

/// Whole ones without a fraction, as iperf3 has them: what reads its numbers into integers refuses `10.0`.
fn seconds(seconds: f64) -> Value {
    match seconds.fract() == 0.0 && (0.0..f64::from(u32::MAX)).contains(&seconds) {
        true => (seconds as u32).into(),
        false => seconds.into(),
    }
}

fn connected(lane: &Lane) -> Value {
    let mut one = Map::new();
    one.insert("socket".into(), lane.id.into());
    if let Some((local, remote)) = lane.addresses {
        one.insert("local_host".into(), local.ip().to_string().into());
        one.insert("local_port".into(), local.port().into());
        one.insert("remote_host".into(), remote.ip().to_string().into());
        one.insert("remote_port".into(), remote.port().into());
    }
    Value::Object(one)
}

/// System, name and version of this machine, as uname(1) says them.
pub fn system_info() -> String {
    let uname = rustix::system::uname();
    let parts =
        [uname.sysname(), uname.nodename(), uname.release(), uname.version(), uname.machine()];
    parts.map(|part| part.to_string_lossy().into_owned()).join(" ")
}

/// `Sun, 22 Nov 2026 13:48:09 GMT`, as iperf3 dates its reports.
pub fn http_date(seconds_since_epoch: u64) -> String {
    let seconds = i64::try_from(seconds_since_epoch).unwrap_or(i64::MAX);
    let moment = jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::MAX);
    moment.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

/// Two digits for each byte.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_http() {
        assert_eq!(http_date(1_795_355_289), "Sun, 22 Nov 2026 13:48:09 GMT");
        assert_eq!(http_date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert!(http_date(u64::MAX).starts_with("Thu, 30 Dec 9999"));
    }
}

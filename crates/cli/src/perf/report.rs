//! What a test found, as data; [`text`](super::text) and [`json`](super::json) show it.

use std::net::SocketAddr;

use crate::conn::{Connection, Flow};
use crate::net::source_towards;
use crate::perf::control::{Cookie, Output, Results, StreamResult};
use crate::perf::params::TestParams;

/// One stream's ends and direction.
#[derive(Clone, Debug, PartialEq)]
pub struct Lane {
    /// Its number in brackets: iperf3 shows a file descriptor, which starts at 5 as well.
    pub id: u32,
    /// Whether this side sends on it.
    pub sends: bool,
    /// This end and the other, where there are addresses.
    pub addresses: Option<(SocketAddr, SocketAddr)>,
    /// Largest segment payload in bytes when it began; 0 where nobody knows.
    pub mss: u64,
    /// Whether TACK was agreed on.
    pub tack: bool,
}

impl Lane {
    /// The stream at `index`, on `conn`.
    pub fn new(index: usize, sends: bool, conn: &impl Connection) -> Self {
        let flow = conn.flow().unwrap_or_default();
        let (mss, tack) = (flow.mss, flow.tack);
        let addresses = conn.addresses().map(|(local, peer)| (own(local, peer), canonical(peer)));
        Self { id: Self::id_of(index), sends, addresses, mss, tack }
    }

    /// The number shown for the stream at `index`.
    pub fn id_of(index: usize) -> u32 {
        5 + 2 * u32::try_from(index).expect("streams are at most 256")
    }
}

/// The end `local` of a stream with `peer`. A socket of all addresses has none to show: it is the one that
/// packets leave from.
fn own(mut local: SocketAddr, peer: SocketAddr) -> SocketAddr {
    let source = local.ip().is_unspecified().then(|| source_towards(peer)).flatten();
    local.set_ip(source.unwrap_or(local.ip()));
    canonical(local)
}

fn canonical(mut address: SocketAddr) -> SocketAddr {
    address.set_ip(address.ip().to_canonical());
    address
}

/// A test that begins: all streams are connected.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Start {
    /// What is measured.
    pub params: TestParams,
    /// The streams.
    pub lanes: Vec<Lane>,
    /// The test's name between the two sides.
    pub cookie: Cookie,
    /// The other end of the control connection, where there are addresses.
    pub peer: Option<SocketAddr>,
}

/// What happened on one stream in one interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Span {
    /// Payload bytes.
    pub bytes: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// The transport's counters at its end.
    pub flow: Option<Flow>,
}

/// One interval of all streams, in the order of the lanes.
#[derive(Clone, Debug, PartialEq)]
pub struct Interval {
    /// Seconds since counting (or the warm-up) began.
    pub start: f64,
    /// The same, at its end.
    pub end: f64,
    /// Whether it belongs to the warm-up.
    pub omitted: bool,
    /// Each stream.
    pub spans: Vec<Span>,
}

/// Extremes of the intervals, as iperf3's `end` has them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Extremes {
    /// Largest congestion window in bytes.
    pub max_snd_cwnd: u64,
    /// Largest peer's window in bytes.
    pub max_snd_wnd: u64,
    /// Largest smoothed round-trip time in µs.
    pub max_rtt: u64,
    /// Smallest of these.
    pub min_rtt: u64,
    /// Their mean.
    pub mean_rtt: u64,
}

impl Extremes {
    /// Over the counted intervals of the stream at `index`.
    pub fn of(intervals: &[Interval], index: usize) -> Self {
        let counted = intervals.iter().filter(|i| !i.omitted);
        let flows: Vec<&Flow> = counted.filter_map(|i| i.spans[index].flow.as_ref()).collect();
        let rtts: Vec<u64> = flows.iter().map(|f| f.rtt_us).filter(|&rtt| rtt > 0).collect();
        Self {
            max_snd_cwnd: flows.iter().map(|f| f.snd_cwnd).max().unwrap_or(0),
            max_snd_wnd: flows.iter().map(|f| f.snd_wnd).max().unwrap_or(0),
            max_rtt: rtts.iter().copied().max().unwrap_or(0),
            min_rtt: rtts.iter().copied().min().unwrap_or(0),
            mean_rtt: rtts.iter().sum::<u64>().checked_div(rtts.len() as u64).unwrap_or(0),
        }
    }
}

/// Whose user ended a test before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupted {
    /// This side's.
    Here,
    /// The other side's.
    There,
}

/// Everything about a test, as one side knows it at the end.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// What was measured, on which streams.
    pub start: Start,
    /// The intervals, in order.
    pub intervals: Vec<Interval>,
    /// What this side counted.
    pub local: Results,
    /// What the other side counted; `None` if a test was interrupted and it did not say in time.
    pub remote: Option<Results>,
    /// Whether it ended before its time.
    pub interrupted: Option<Interrupted>,
    /// What the server showed, if that was asked for.
    pub server_output: Option<Output>,
}

impl Report {
    /// For the stream at `index`: what its sender and what its receiver counted, as far as known.
    pub fn ends(&self, index: usize) -> (Option<&StreamResult>, Option<&StreamResult>) {
        let local = Some(&self.local.streams[index]);
        let remote = self.remote.as_ref().map(|remote| &remote.streams[index]);
        if self.start.lanes[index].sends { (local, remote) } else { (remote, local) }
    }

    /// Streams on which this side sends, or receives.
    pub fn lanes_that(&self, sends: bool) -> impl Iterator<Item = usize> + '_ {
        (0..self.start.lanes.len()).filter(move |&i| self.start.lanes[i].sends == sends)
    }

    /// Sums over the streams on which this side sends, or receives: what the senders and what the
    /// receivers counted, as far as known.
    pub fn sums(&self, sends: bool) -> (Option<StreamResult>, Option<StreamResult>) {
        let known = |is_known: bool| is_known.then(StreamResult::default);
        let mut sums =
            (known(sends || self.remote.is_some()), known(!sends || self.remote.is_some()));
        for index in self.lanes_that(sends) {
            let (sender, receiver) = self.ends(index);
            add(&mut sums.0, sender);
            add(&mut sums.1, receiver);
        }
        sums
    }

    /// The counters of all streams of one side together.
    pub fn total_flow(results: &Results) -> Option<Flow> {
        let mut flows = results.streams.iter().filter_map(|s| s.flow.as_ref());
        let mut sum = flows.next()?.clone();
        flows.for_each(|flow| sum.add(flow));
        Some(sum)
    }
}

fn add(sum: &mut Option<StreamResult>, one: Option<&StreamResult>) {
    let (Some(sum), Some(one)) = (sum, one) else { return };
    sum.bytes += one.bytes;
    sum.seconds = sum.seconds.max(one.seconds);
    match (&mut sum.flow, &one.flow) {
        (Some(sum), Some(one)) => sum.add(one),
        (None, Some(one)) => sum.flow = Some(one.clone()),
        (_, None) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_of_a_socket_of_all_addresses_shows_the_one_that_it_has() {
        for (local, peer, shown) in [
            ("0.0.0.0:1", "127.0.0.1:2", "127.0.0.1:1"),
            ("[::]:1", "[::ffff:127.0.0.1]:2", "127.0.0.1:1"),
            ("127.0.0.9:1", "127.0.0.1:2", "127.0.0.9:1"),
        ] {
            let (local, peer) = (local.parse().unwrap(), peer.parse().unwrap());
            assert_eq!(own(local, peer), shown.parse().unwrap(), "{local}");
        }
    }
}

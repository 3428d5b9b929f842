//! A toy transport that hosts the mechanism: one stream of bytes over an in-memory path that loses
//! packets both ways, in virtual time. It prints how many acknowledgments that took.
//!
//! ```text
//! cargo run -p tack-ack --example toy -- [LOSS] [ACK_LOSS] [MBIT_PER_S] [RTT_MS]
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::time::Duration;

use tack::{
    Arrival, Buffer, Feedback, Frequency, Params, PktSeq, Ranges, Receiver, Sender, Timeout,
    equations,
};
use tack_units::{Instant, Rate};

const TOTAL: u64 = 20_000_000;
const CAPACITY: u64 = 1 << 24;

/// A data packet. PKT.SEQ has 32 bits here, as on a real wire.
struct Data {
    pkt_seq: PktSeq,
    seq: Range<u64>,
    departure_us: u32,
    bytes: Vec<u8>,
}

/// What travels.
enum Packet {
    Data(Data),
    Frequency(Frequency),
    Feedback(Feedback),
}

/// One direction of the path: a fixed delay, and loss from a seeded stream.
struct Path {
    delay: Duration,
    loss: f64,
    random: u64,
    packets: VecDeque<(Instant, Packet)>,
}

impl Path {
    fn send(&mut self, packet: Packet, now: Instant) {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        if (self.random >> 11) as f64 / (1u64 << 53) as f64 >= self.loss {
            self.packets.push_back((now + self.delay, packet));
        }
    }

    fn receive(&mut self, now: Instant) -> Option<Packet> {
        self.packets.pop_front_if(|(at, _)| *at <= now).map(|(_, packet)| packet)
    }

    fn next(&self) -> Option<Instant> {
        self.packets.front().map(|(at, _)| *at)
    }
}

/// The stream's content: reproducible, so that the receiver can check every byte.
fn content(seq: Range<u64>) -> Vec<u8> {
    seq.map(|i| (i % 251) as u8).collect()
}

/// The receiving host: reassembly, and the mechanism's receiver.
struct Sink {
    receiver: Receiver,
    rcv_nxt: u64,
    next_pkt_seq: u64,
    queued: Ranges,
    chunks: BTreeMap<u64, Vec<u8>>,
}

impl Sink {
    fn new(receiver: Receiver) -> Self {
        let (queued, chunks) = (Ranges::new(), BTreeMap::new());
        Sink { receiver, rcv_nxt: 0, next_pkt_seq: 1, queued, chunks }
    }

    fn on_data(&mut self, data: Data, now: Instant) {
        let Data { seq, departure_us, bytes, .. } = data;
        let pkt_seq = data.pkt_seq.expand(self.next_pkt_seq);
        self.next_pkt_seq = self.next_pkt_seq.max(pkt_seq + 1);
        let (fin, arrival_us) = (seq.end == TOTAL, now.as_micros() as u32);
        let len = seq.end - seq.start;
        let duplicate = seq.end <= self.rcv_nxt || self.queued.contains(&seq);
        if !duplicate {
            self.queued.insert(seq.clone());
            self.chunks.insert(seq.start, bytes);
        }
        // Deliver what is in order. Segments are never cut differently here.
        while let Some(chunk) = self.chunks.remove(&self.rcv_nxt) {
            let end = self.rcv_nxt + chunk.len() as u64;
            assert!(chunk == content(self.rcv_nxt..end), "a byte differs");
            self.rcv_nxt = end;
        }
        self.queued.remove_below(self.rcv_nxt);
        let (push, immediate, ce) = (fin, fin, false);
        let arrival = Arrival {
            pkt_seq,
            bytes: len,
            departure_us,
            arrival_us,
            push,
            immediate,
            ce,
            duplicate,
        };
        self.receiver.on_data(&arrival, Self::buffer(self.rcv_nxt, &self.queued), now);
    }

    /// The application reads at once: what is out of order waits inside the window.
    fn buffer(rcv_nxt: u64, queued: &Ranges) -> Buffer<'_> {
        let delivered = rcv_nxt + queued.covered();
        Buffer { rcv_nxt, queued, delivered, window: CAPACITY, capacity: CAPACITY }
    }

    fn poll(&mut self, now: Instant) -> Option<Feedback> {
        // 90 holes of 16 bytes fit an MSS.
        self.receiver.poll(Self::buffer(self.rcv_nxt, &self.queued), 90, now)
    }
}

fn main() {
    let mut args = std::env::args().skip(1).map(|a| a.parse::<f64>().expect("a number"));
    let (loss, ack_loss) = (args.next().unwrap_or(0.01), args.next().unwrap_or(0.01));
    let rate = Rate::from_mbps(args.next().unwrap_or(100.0) as u64);
    let rtt = Duration::from_secs_f64(args.next().unwrap_or(80.0) / 1e3);

    let params = Params::default();
    let (mss, mut now) = (u64::from(params.mss), Instant::ZERO);
    let path = |loss, random| Path { delay: rtt / 2, loss, random, packets: VecDeque::new() };
    let mut forward = path(loss, 0x9e37_79b9_7f4a_7c15);
    let mut back = path(ack_loss, 0x2545_f491_4f6c_dd1d);
    let mut sink = Sink::new(Receiver::new(params, 1));
    let mut sender = Sender::new(params, 1, 0, now);
    // As if a handshake had measured it, at both ends.
    sender.on_cum_ack(0, Some(rtt), now);
    sink.receiver.on_handshake(rtt);
    // A fixed rate and twice the bdp stand in for congestion control.
    let window = 2 * equations::bdp(rate, rtt) + 10 * mss;
    let (mut next_send, mut nxt, mut data, mut tacks, mut iacks) = (now, 0, 0, 0, 0);

    while sink.rcv_nxt < TOTAL || !sender.outstanding().is_empty() {
        // The sending host: the frequency, a probe, retransmissions, new data.
        if let Some(frequency) = sender.poll_frequency(rate, false, now) {
            forward.send(Packet::Frequency(frequency), now);
        }
        let mut probe = sender.on_timeout(now) == Some(Timeout::Probe);
        loop {
            let paced = next_send <= now && sender.in_flight() < window;
            let lost = sender.next_lost(now).filter(|_| paced);
            let new = (nxt < TOTAL && (paced || probe)).then(|| nxt..(nxt + mss).min(TOTAL));
            let last = || sender.outstanding().last().filter(|_| probe).map(|o| o.seq.clone());
            let Some(seq) = lost.or(new).or_else(last) else { break };
            probe = false;
            let pkt_seq = PktSeq::truncate(sender.on_sent(seq.clone(), now));
            let (bytes, departure_us) = (content(seq.clone()), now.as_micros() as u32);
            next_send = now.max(next_send) + rate.time_for(seq.end - seq.start).unwrap();
            nxt = nxt.max(seq.end);
            data += 1;
            forward.send(Packet::Data(Data { pkt_seq, seq, departure_us, bytes }), now);
        }
        // The receiving host.
        while let Some(feedback) = sink.poll(now) {
            match &feedback {
                Feedback::Tack(_) => tacks += 1,
                Feedback::Iack(_) => iacks += 1,
            }
            back.send(Packet::Feedback(feedback), now);
        }
        // Sleep until anything happens.
        let more = nxt < TOTAL || sender.next_lost(now).is_some();
        let send = (more && sender.in_flight() < window).then_some(next_send);
        let timers = [sender.deadline(), sink.receiver.deadline(), send];
        let wake = timers.into_iter().chain([forward.next(), back.next()]).flatten().min();
        now = now.max(wake.expect("something is outstanding"));
        while let Some(packet) = forward.receive(now) {
            match packet {
                Packet::Data(data) => sink.on_data(data, now),
                Packet::Frequency(frequency) => sink.receiver.on_frequency(&frequency, now),
                Packet::Feedback(_) => unreachable!("feedback goes the other way"),
            }
        }
        while let Some(Packet::Feedback(feedback)) = back.receive(now) {
            // A real host hands this to congestion control.
            let _acked = match feedback {
                Feedback::Tack(tack) => sender.on_tack(&tack, now.as_micros() as u32, now),
                Feedback::Iack(iack) => sender.on_iack(&iack, now),
            };
        }
    }

    report(&sender, &params, rate, rtt, [data, tacks, iacks], now.as_secs_f64());
}

fn report(sender: &Sender, params: &Params, rate: Rate, rtt: Duration, count: [u32; 3], s: f64) {
    let [data, tacks, iacks] = count;
    let l = params.segments_per_ack;
    let eq4 = equations::tack_frequency(rate, rtt, params.beta, l, params.mss);
    let (again, needless) = (sender.retransmissions(), sender.needless());
    println!("{TOTAL} bytes intact in {s:.3} s: {:.1} Mbit/s", TOTAL as f64 * 8e-6 / s);
    println!("data packets {data:7}   retransmitted {again}, needless {needless}");
    println!("TACKs        {tacks:7}   {:.1} Hz, Eq. 4 says {eq4:.1} Hz", f64::from(tacks) / s);
    println!("IACKs        {iacks:7}   TCP with L = 2 would have sent {} ACKs", data / 2);
    println!("RTTmin       {:?}   of {rtt:?}", sender.rtt_min().expect("sampled"));
}

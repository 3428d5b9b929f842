//! The measures of the main job in simulated time, printed as tables.

use core::time::Duration;

use tack_tcp::{AckStrategy, ConnConfig, Info, Mode};
use tack_units::{Instant, Rate};

use crate::bulk::{Bulk, path};
use crate::pipe::{Crowd, PipeConfig};
use crate::world::WorldConfig;

const ENDLESS: u64 = u64::MAX >> 8;

/// What a bulk transfer did between two moments.
struct Window {
    seconds: f64,
    goodput_bps: f64,
    before: Info,
    after: Info,
}

impl Window {
    fn tacks_per_s(&self) -> f64 {
        // Those in place of a loss IACK are TACKs, too.
        let tacks = |i: &Info| i.counters.acks_received.tack + i.counters.acks_received.loss;
        (tacks(&self.after) - tacks(&self.before)) as f64 / self.seconds
    }
}

fn measure(pipes: [PipeConfig; 2], conn: &ConnConfig, seed: u64, from: u64, to: u64) -> Window {
    let mut config = WorldConfig::new(seed, pipes);
    config.clocks[1].offset = Duration::from_secs(1_234);
    let mut bulk = Bulk::new(config, conn.clone(), conn.clone(), ENDLESS);
    bulk.run(Instant::from_secs(from));
    let (read, before) = (bulk.reader.read, bulk.info());
    bulk.run(Instant::from_secs(to));
    let after = bulk.info();
    if conn.ack.tack().is_some() {
        assert_eq!(after.mode, Mode::Tack);
    }
    let seconds = (to - from) as f64;
    let goodput_bps = (bulk.reader.read - read) as f64 * 8.0 / seconds;
    Window { seconds, goodput_bps, before, after }
}

/// Payload rate of a link that carries full segments in UDP over IPv4 over Ethernet-less links.
fn payload_rate(rate: Rate, info: &Info) -> f64 {
    rate.as_bps() as f64 * f64::from(info.mss) / 1_500.0
}

fn lossy(rate: Rate, rtt: Duration, bdps: f64, data: f64, ack: f64) -> [PipeConfig; 2] {
    let [mut a, mut b] = path(rate, rtt, bdps);
    (a.loss, b.loss) = (data, ack);
    [a, b]
}

#[test]
fn tacks_come_at_the_frequency_of_eq_4_in_both_regimes() {
    println!(
        "{:>6} {:>9} {:>10} {:>10} {:>7} {:>9}",
        "RTT", "rate", "TACK/s", "Eq. 4", "off %", "goodput %"
    );
    let mut worst = 0.0f64;
    for rtt_ms in [1, 10, 80, 200] {
        for mbps in [1, 10, 100, 500] {
            let (rtt, rate) = (Duration::from_millis(rtt_ms), Rate::from_mbps(mbps));
            let w = measure(path(rate, rtt, 1.0), &ConnConfig::default(), 1, 4, 9);
            let counting = w.goodput_bps / 8.0 / (2.0 * f64::from(w.after.mss));
            let eq4 = counting.min(4.0 / rtt.as_secs_f64());
            let off = (w.tacks_per_s() / eq4 - 1.0) * 100.0;
            let share = w.goodput_bps / payload_rate(rate, &w.after) * 100.0;
            println!(
                "{rtt_ms:>4}ms {mbps:>5}Mb/s {:>10.1} {eq4:>10.1} {off:>7.2} {share:>9.1}",
                w.tacks_per_s()
            );
            worst = worst.max(off.abs());
            // What comes beyond TACKs is IACKs, and there is no loss to tell of here.
            let (before, after) = (&w.before.counters, &w.after.counters);
            assert_eq!(before.acks_received.plain, after.acks_received.plain);
            if before.loss_episodes == after.loss_episodes {
                assert_eq!(before.acks_received.loss, after.acks_received.loss);
            }
        }
    }
    assert!(worst <= 3.0, "worst deviation {worst} %");
}

#[test]
fn goodput_on_clean_and_lossy_paths() {
    let (rate, rtt) = (Rate::from_mbps(100), Duration::from_millis(80));
    let long = Duration::from_millis(200);
    println!("{:<44} {:>9} {:>9}", "path", "tack %", "plain %");
    let row = |name: &str, pipes: [PipeConfig; 2], to: u64| {
        let share = |conn: ConnConfig| {
            let w = measure(pipes.clone(), &conn, 3, 3, to);
            w.goodput_bps / payload_rate(rate, &w.after) * 100.0
        };
        let (tack, plain) = (share(ConnConfig::default()), share(ConnConfig::plain()));
        println!("{name:<44} {tack:>9.1} {plain:>9.1}");
        tack
    };
    let clean = row("100 Mbit/s 80 ms 1 bdp, clean", lossy(rate, rtt, 1.0, 0.0, 0.0), 23);
    let both = row("100 Mbit/s 80 ms 1 bdp, 1 % both ways", lossy(rate, rtt, 1.0, 0.01, 0.01), 23);
    let data = row("100 Mbit/s 200 ms 1 bdp, 1 % data", lossy(rate, long, 1.0, 0.01, 0.0), 43);
    let acks =
        row("100 Mbit/s 200 ms 1 bdp, 1 % data 10 % ACK", lossy(rate, long, 1.0, 0.01, 0.1), 43);
    assert!(clean >= 95.0);
    assert!(both >= 90.0);
    assert!(data - acks <= 3.0);
}

/// Per hole that opened at the receiver: how long until it was filled.
fn repair_times(pipes: [PipeConfig; 2], to: u64) -> Vec<Duration> {
    let mut config = WorldConfig::new(11, pipes);
    config.clocks[1].offset = Duration::from_secs(1_234);
    let conn = ConnConfig::default().with(|it| it.initial_seq = Some(0));
    let mut bulk = Bulk::new(config, conn.clone(), conn, ENDLESS);
    // Behind Startup's overflow, which is no 1 % loss.
    bulk.run(Instant::from_secs(6));
    bulk.world.tap = Some(Vec::new());
    bulk.run(Instant::from_secs(to));
    let arrivals = bulk.world.tap.take().expect("set above");
    let mut open: Vec<(u64, u64, Instant)> = Vec::new();
    let (mut high, mut times) = (arrivals[0].1 + arrivals[0].2, Vec::new());
    for &(at, seq, len) in &arrivals[1..] {
        let end = seq + len;
        if seq > high {
            open.push((high, seq, at));
        }
        high = high.max(end);
        open.retain_mut(|(from, until, since)| {
            if seq <= *from && end > *from {
                *from = end.min(*until);
            } else if seq < *until && end >= *until {
                *until = seq;
            }
            let filled = from >= until;
            if filled {
                times.push(at - *since);
            }
            !filled
        });
    }
    times.sort();
    times
}

#[test]
fn a_hole_is_repaired_in_an_rtt_and_settling_time_and_twice_that_when_the_repair_is_lost() {
    println!(
        "{:>6} {:>9} {:>7} {:>9} {:>9} {:>9}",
        "RTT", "rate", "holes", "median", "p98.5", "p99"
    );
    for (rtt_ms, mbps) in [(10, 100), (80, 100), (200, 20)] {
        let rtt = Duration::from_millis(rtt_ms);
        let times = repair_times(lossy(Rate::from_mbps(mbps), rtt, 1.0, 0.01, 0.01), 56);
        let at =
            |q: f64| times[(times.len() as f64 * q) as usize].as_secs_f64() / rtt.as_secs_f64();
        let (median, near, p99) = (at(0.5), at(0.985), at(0.99));
        let n = times.len();
        println!("{rtt_ms:>4}ms {mbps:>5}Mb/s {n:>7} {median:>9.3} {near:>9.3} {p99:>9.3}");
        // RTT and the settling time of RTTmin/4, and a little for the paced queue.
        assert!(median <= 1.25 + 0.1, "median {median} RTT");
        // One hole in a hundred loses its retransmission as well, so the 99th percentile lies
        // where two repairs in a row begin to show: a second loss is known one RTT after the
        // first repair left, and repaired one RTT later.
        assert!(p99 <= 2.25, "99th percentile {p99} RTT");
    }
}

/// RTTmin after 24 s on a path that others crowd, in percent above the truth.
fn rtt_min_error(owd_timing: bool, run: u64) -> f64 {
    let (rate, rtt) = (Rate::from_mbps(100), Duration::from_millis(200));
    let truth = rtt + rate.time_for(1_500 + 120).expect("a rate");
    let [mut a, b] = path(rate, rtt, 1.0);
    // Others' traffic fills the queue but for 36 ms out of 8 s, of which the order of packets
    // leaves 4 ms, and a silence until the first crowded packet: much less than the 100 ms between
    // two TACKs at beta = 2.
    a.crowd = Some(Crowd {
        least: Duration::from_millis(12),
        spread: Duration::from_millis(20),
        calm_every: Duration::from_millis(8_000 + 7 * run),
        calm_for: Duration::from_millis(36),
    });
    let params = tack::Params { owd_timing, beta: 2, ..tack::Params::default() };
    // A window that makes no queue of its own: 1.35 MB with the half that is allowed for TACKs at
    // beta = 2, and the path holds 2.5. (At 2.3 MB one run in nine has no packet in the calm.)
    let conn = ConnConfig::default().with(|it| {
        it.ack = AckStrategy::Tack(params);
        it.recv_buffer = 900_000;
    });
    let mut config = WorldConfig::new(run, [a, b]);
    config.clocks[1].offset = Duration::from_secs(1_234);
    let mut bulk = Bulk::new(config, conn.clone(), conn, ENDLESS);
    // What Startup's more frequent TACKs found has left the filter of 10 s by then.
    bulk.run(Instant::from_secs(24));
    let rtt_min = bulk.info().rtt_min.expect("measured");
    (rtt_min.as_secs_f64() / truth.as_secs_f64() - 1.0) * 100.0
}

#[test]
fn rtt_min_is_within_a_percent_of_truth_where_the_newest_packet_alone_is_3_percent_high() {
    println!("{:<24} {:>9} {:>9}", "RTTmin above truth by", "median %", "worst %");
    let errors = |owd_timing| {
        let mut all: Vec<f64> = (0..9).map(|run| rtt_min_error(owd_timing, run)).collect();
        all.sort_by(f64::total_cmp);
        (all[4], all[8])
    };
    let (owd, newest) = (errors(true), errors(false));
    println!("{:<24} {:>9.2} {:>9.2}", "least OWD", owd.0, owd.1);
    println!("{:<24} {:>9.2} {:>9.2}", "newest packet", newest.0, newest.1);
    assert!(owd.1 <= 1.0);
    assert!(newest.0 >= 3.0);
}

//! The measures of the main job in simulated time, printed as tables.

use core::time::Duration;

use tack_tcp::{ConnConfig, Info, Mode};
use tack_units::{Instant, Rate};

use crate::bulk::{Bulk, path};
use crate::pipe::PipeConfig;
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
        let tacks = |i: &Info| i.counters.acks_received.tack;
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
    if conn.tack.is_some() {
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

#[test]
fn trace() {
    let pipes = lossy(Rate::from_mbps(500), Duration::from_millis(200), 1.0, 0.0, 0.0);
    let mut bulk = Bulk::new(
        WorldConfig::new(1, pipes),
        ConnConfig::default(),
        ConnConfig::default(),
        ENDLESS,
    );
    for ms in (200..10000).step_by(200) {
        bulk.run(Instant::from_millis(ms));
        let i = bulk.info();
        println!(
            "{ms:>5} cwnd {} inflight {} bw {:?} dr {:?} pace {:?} srtt {:?} min {:?} acks {:?} sent {} lim {:?} lossep {} rtx {}",
            i.cwnd,
            i.in_flight,
            i.bandwidth,
            i.delivery_rate,
            i.pacing_rate,
            i.srtt,
            i.rtt_min,
            i.counters.acks_received,
            i.counters.data_segments_sent,
            i.limited,
            i.counters.loss_episodes,
            i.counters.retransmissions
        );
    }
}

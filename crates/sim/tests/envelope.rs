//! The envelope: who limits a flow, how long it lives and how long its path is must not matter.
//! Never more acknowledgments than TCP with L = 2 on the same path, and no less goodput.

use core::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg32;
use tack_cc::Algorithm;
use tack_link::loss::LossConfig;
use tack_link::path::Path;
use tack_link::queue::Limit;
use tack_link::wired::{DirectionConfig, Outages, Wired};
use tack_link::wlan::{Preset, Standard, Wlan, WlanConfig};
use tack_link::{End, Link};
use tack_sim::{AckStrategy, App, FlowConfig, FlowId, Seed, Simulation, Site, Transport};
use tack_tcp::Mode;
use tack_units::{Instant, Rate, math};

const STRATEGIES: [AckStrategy; 2] = [AckStrategy::TACK, AckStrategy::every(2)];

type Run = Simulation<Box<dyn Link + Send>>;

/// A flow from a server behind `link`'s end B to a client at its end A, or the other way round.
fn flow(
    link: Box<dyn Link + Send>,
    down: bool,
    config: impl Fn(u32, u32) -> FlowConfig,
) -> (Run, FlowId) {
    let mut sim = Simulation::new(Seed(1));
    let link = sim.add_link(link);
    let a = sim.add_host(Site { link, end: End::A });
    let b = sim.add_host(Site { link, end: End::B });
    let flow = sim.add_flow(if down { config(b, a) } else { config(a, b) });
    (sim, flow)
}

fn wired(direction: DirectionConfig) -> Box<dyn Link + Send> {
    Box::new(Wired::symmetric(direction, 1).unwrap())
}

/// 802.11n with one station, and a wire of the given round trip behind it.
fn wlan(rtt: Duration) -> Box<dyn Link + Send> {
    let mut wlan = WlanConfig::preset(Preset::PaperA, Standard::N);
    wlan.seed = 3;
    wlan.stations[0].hosts = vec![0];
    let wire = DirectionConfig { delay: rtt / 2, ..DirectionConfig::default() };
    let hops: Vec<Box<dyn Link + Send>> =
        vec![Box::new(Wlan::new(wlan).unwrap()), Box::new(Wired::symmetric(wire, 4).unwrap())];
    Box::new(Path::new(hops))
}

/// What a flow did between two moments.
struct Span {
    goodput: Rate,
    /// Packets without data that came back to the sender.
    acks_per_s: f64,
    mss: u32,
    rtt_min: Duration,
}

fn span(sim: &mut Run, flow: FlowId, from_ms: u64, to_ms: u64) -> Span {
    let mut reading = |at| {
        sim.run_until(Instant::from_millis(at));
        let (sender, receiver) = sim.flow(flow);
        assert_eq!(receiver.first_wrong_byte, None);
        (receiver.received, sender.arrived.ack_packets)
    };
    let (before, after) = (reading(from_ms), reading(to_ms));
    let over = Duration::from_millis(to_ms - from_ms);
    let info = sim.flow(flow).0.info.expect("connected");
    Span {
        goodput: Rate::from_bytes_over(after.0 - before.0, over).unwrap(),
        acks_per_s: (after.1 - before.1) as f64 / over.as_secs_f64(),
        mss: info.mss,
        rtt_min: info.rtt_min.expect("measured"),
    }
}

/// Bulk with buffers for any path here, over a clean one with a queue of 1 bdp.
fn long_fat(mbps: u64, rtt_ms: u64, to_ms: u64) -> Span {
    let (rate, rtt) = (Rate::from_mbps(mbps), Duration::from_millis(rtt_ms));
    let path = DirectionConfig::clean(rate, rtt / 2, Limit::Bytes(rate.bytes_in(rtt)));
    let mut transport = Transport::new(AckStrategy::TACK);
    (transport.send_buffer, transport.recv_buffer) = (Some(64 << 20), Some(64 << 20));
    let (mut sim, flow) = flow(wired(path), true, |a, b| FlowConfig::bulk(a, b, &transport));
    let span = span(&mut sim, flow, to_ms - 1_000, to_ms);
    let eq4 = 4.0 / span.rtt_min.as_secs_f64();
    println!(
        "{mbps} Mbit/s x {rtt_ms} ms: {:.1} Mbit/s, {:.1} ACK/s, Eq. 4 {eq4:.1}",
        span.goodput.as_mbps_f64(),
        span.acks_per_s
    );
    span
}

#[test]
fn one_flow_fills_1_gbit_per_s_at_120_ms_with_a_queue_of_one_bdp() {
    assert!(long_fat(1_000, 120, 5_000).goodput >= Rate::from_mbps(900));
}

#[test]
fn one_flow_fills_500_mbit_per_s_at_120_ms() {
    assert!(long_fat(500, 120, 5_000).goodput >= Rate::from_mbps(450));
}

#[test]
fn one_flow_fills_2500_mbit_per_s_at_20_ms() {
    assert!(long_fat(2_500, 20, 2_000).goodput >= Rate::from_mbps(2_250));
}

/// 125 MB are under way before the first of it is acknowledged: Startup takes 14 round trips to that.
#[test]
fn one_flow_at_10_gbit_per_s_and_100_ms_never_stands_still() {
    let (rate, rtt) = (Rate::from_mbps(10_000), Duration::from_millis(100));
    let path = DirectionConfig::clean(rate, rtt / 2, Limit::Bytes(rate.bytes_in(rtt)));
    let mut transport = Transport::new(AckStrategy::TACK);
    (transport.send_buffer, transport.recv_buffer) = (Some(512 << 20), Some(512 << 20));
    transport.congestion = Some(Algorithm::Bbr);
    let (mut sim, flow) = flow(wired(path), true, |a, b| FlowConfig::bulk(a, b, &transport));
    let (mut received, mut before) = (0, 0);
    for at in (300..=2_500).step_by(100) {
        sim.run_until(Instant::from_millis(at));
        let got = sim.flow(flow).1.received;
        println!("{at} ms: {:.2} Gbit/s", (got - received) as f64 * 8e-8);
        // A repair holds up what came behind its hole, for a round trip.
        assert!(got > before, "nothing was read in the two round trips before {at} ms");
        (before, received) = (received, got);
    }
    assert!(sim.stall().is_none(), "{:?}", sim.stall());
    let last = span(&mut sim, flow, 2_500, 2_700).goodput;
    assert!(
        last >= Rate::from_mbps(5_000),
        "{:.2} Gbit/s after 25 round trips",
        last.as_mbps_f64() / 1e3
    );
}

#[test]
fn an_application_that_limits_its_flow_on_802_11n_costs_no_more_acks_than_eq_4_nor_than_tcp() {
    println!("Mbit/s  controller  chunk   TACK/s   TCP/s  Eq. 4  in the first second, both");
    for (mbps, algorithm, chunk_bytes) in [
        (1, Algorithm::Bbr, 1_400),
        (1, Algorithm::Cubic, 20_000),
        (20, Algorithm::Bbr, 1_400),
        (20, Algorithm::Cubic, 1_400),
        (20, Algorithm::Bbr, 20_000),
        (100, Algorithm::Bbr, 1_400),
        (100, Algorithm::Cubic, 20_000),
    ] {
        let rate = Rate::from_mbps(mbps);
        let [tack, tcp] = STRATEGIES.map(|ack| {
            let transport = Transport { congestion: Some(algorithm), ..Transport::new(ack) };
            let app = App::ConstantRate { rate, chunk_bytes };
            let link = wlan(Duration::from_millis(40));
            let config =
                |a, b| FlowConfig { app: app.clone(), ..FlowConfig::bulk(a, b, &transport) };
            let (mut sim, flow) = flow(link, true, config);
            let whole = span(&mut sim, flow, 0, 1_000);
            (whole.acks_per_s, span(&mut sim, flow, 1_000, 3_000))
        });
        let span = &tack.1;
        let counting = span.goodput.as_bps() as f64 / 8.0 / (2.0 * f64::from(span.mss));
        let eq4 = counting.min(4.0 / span.rtt_min.as_secs_f64());
        let (got, l2) = (span.acks_per_s, tcp.1.acks_per_s);
        println!(
            "{mbps:6}  {algorithm:10} {chunk_bytes:6} {got:8.1} {l2:7.1} {eq4:6.1}  {} {}",
            tack.0, tcp.0
        );
        assert!(got <= 1.05 * eq4 + 0.5, "{mbps} {algorithm} {chunk_bytes}: {got}, Eq. 4 {eq4}");
        assert!(got <= l2, "{mbps} {algorithm} {chunk_bytes}: {got}, TCP {l2}");
        // The first second has Startup, whose patience is short: packets 11 ms apart are
        // acknowledged one by one while it lasts, by TCP's quick acknowledgments, too.
        assert!(tack.0 <= tcp.0 + 6.0, "{} and {} in the first second", tack.0, tcp.0);
        // The last chunk may be on its way.
        let due = rate.bytes_in(Duration::from_secs(2)) - chunk_bytes;
        let got = span.goodput.bytes_in(Duration::from_secs(2));
        assert!(got as f64 >= 0.99 * due as f64, "{got} of {due} bytes");
    }
}

/// What each of four flows resends from the eighth second on, after the path was gone for a moment in the third.
fn resent_in_twenty_seconds(
    rate: Rate,
    rtt: Duration,
    app: &App,
    algorithm: Algorithm,
    seed: u64,
) -> [u64; 4] {
    let transport = Transport { congestion: Some(algorithm), ..Transport::new(AckStrategy::TACK) };
    let mut path = DirectionConfig::clean(rate, rtt / 2, Limit::Packets(20_000));
    path.blackouts = Outages::At(vec![(Instant::from_millis(2_000), Instant::from_millis(2_300))]);
    let mut sim = Simulation::new(Seed(seed));
    let link = sim.add_link(wired(path));
    let a = sim.add_host(Site { link, end: End::A });
    let b = sim.add_host(Site { link, end: End::B });
    let config = FlowConfig { app: app.clone(), ..FlowConfig::bulk(b, a, &transport) };
    let flows = [(); 4].map(|()| sim.add_flow(config.clone()));
    // What the others' packets do to the round trip is learnt in the first seconds.
    let [before, after] = [8, 28].map(|at| {
        sim.run_until(Instant::from_secs(at));
        flows.map(|flow| sim.flow(flow).0.info.expect("connected").counters.retransmissions)
    });
    core::array::from_fn(|flow| after[flow] - before[flow])
}

/// Four flows at once, so that their packets queue behind each other, and a moment without a path that has all of
/// them send again what is lost: it must not go on when that is over.
#[test]
fn slow_and_sparse_flows_resend_nothing_where_nothing_is_lost() {
    let mut random = Pcg32::seed_from_u64(20_261_127);
    let mut log = |from: f64, to: f64| from * math::pow(to / from, random.random());
    let mut often = Vec::new();
    for draw in 0..120 {
        let (mbps, rtt) = (log(0.3, 200.0), Duration::from_secs_f64(log(0.0003, 0.6)));
        let rate = Rate::from_bps((mbps * 1e6) as u64);
        let apart = Duration::from_secs_f64(log(0.01, 0.3));
        let most = rate.mul_f64(1.0 / 8.0);
        let app = match draw % 3 {
            0 | 1 => App::ConstantRate {
                rate: Rate::from_bytes_over(1_400, apart).unwrap().min(most),
                chunk_bytes: 1_400,
            },
            _ => App::RequestResponse {
                request_bytes: log(50.0, 40_000.0) as u64,
                response_bytes: log(50.0, 40_000.0) as u64,
                think: apart,
                count: None,
            },
        };
        let controllers = [Algorithm::Bbr, Algorithm::Cubic, Algorithm::BbrInteractive];
        let algorithm = controllers[draw / 3 % 3];
        let resent = resent_in_twenty_seconds(rate, rtt, &app, algorithm, draw as u64);
        let case = format!("draw {draw}: {mbps:.2} Mbit/s, {rtt:?}, {algorithm}, {app:?}");
        often.extend(resent.into_iter().filter(|resent| *resent > 2).map(|n| (n, case.clone())));
    }
    // A timer is wrong about others' requests now and then: of 3 000 such draws 14 flows of 12 000 resend more than
    // twice in these twenty seconds, where two of a draw have it in common. These are 480.
    assert!(often.len() <= 2 && often.iter().all(|(n, _)| *n <= 4), "{often:?}");
}

/// Their receivers took the probes for packets, waited for the next of what seemed a brisk flow, and so brought about
/// the next probe: 74 each for as many packets.
#[test]
fn four_slow_calls_that_were_probed_once_are_not_probed_for_ever() {
    for apart_ms in 255..275 {
        let (rate, rtt) = (Rate::from_bps(851_000), Duration::from_micros(448));
        let pace = Rate::from_bytes_over(1_400, Duration::from_millis(apart_ms)).unwrap();
        let app = App::ConstantRate { rate: pace, chunk_bytes: 1_400 };
        let resent = resent_in_twenty_seconds(rate, rtt, &app, Algorithm::BbrInteractive, 61);
        assert!(resent.iter().all(|resent| *resent <= 2), "{apart_ms} ms apart: {resent:?}");
    }
}

#[test]
fn requests_whose_startup_never_ends_overflow_no_queue_of_half_a_bdp() {
    for (mbps, rtt_ms, request_bytes, packets) in [(79, 19, 115_799, 50), (57, 12, 58_011, 28)] {
        let rtt = Duration::from_millis(rtt_ms);
        let path = DirectionConfig::clean(Rate::from_mbps(mbps), rtt / 2, Limit::Packets(packets));
        let [tack, tcp] = STRATEGIES.map(|ack| {
            let transport = Transport { congestion: Some(Algorithm::Bbr), ..Transport::new(ack) };
            let think = Duration::from_millis(2);
            let app =
                App::RequestResponse { request_bytes, response_bytes: 900, think, count: None };
            let config =
                |a, b| FlowConfig { app: app.clone(), ..FlowConfig::bulk(a, b, &transport) };
            let (mut sim, flow) = flow(wired(path.clone()), false, config);
            sim.run_until(Instant::from_secs(10));
            let (sender, receiver) = sim.flow(flow);
            (receiver.received, sender.info.expect("connected").counters.retransmissions)
        });
        println!(
            "{mbps} Mbit/s, {rtt_ms} ms: {tack:?}, TCP {tcp:?} bytes arrived, segments resent"
        );
        assert!(tack.0 as f64 >= 0.97 * tcp.0 as f64, "{} and {} bytes", tack.0, tcp.0);
        assert!(tack.1 <= tcp.1 + 10, "{} and {} resent", tack.1, tcp.1);
    }
}

#[test]
fn a_fixed_receive_window_carries_w_per_rtt() {
    println!("segments  Mbit/s  of W/RTT  ACK/s");
    for segments in [16, 130, 300] {
        let (rate, rtt) = (Rate::from_mbps(1_000), Duration::from_millis(60));
        let path = DirectionConfig::clean(rate, rtt / 2, Limit::Bytes(rate.bytes_in(rtt)));
        let window = segments * 1_440;
        let mut transport = Transport::new(AckStrategy::TACK);
        transport.recv_buffer = Some(window);
        let (mut sim, flow) = flow(wired(path), true, |a, b| FlowConfig::bulk(a, b, &transport));
        let span = span(&mut sim, flow, 1_000, 3_000);
        assert_eq!(span.mss, 1_440);
        let full = Rate::from_bytes_over(window as u64, rtt).unwrap();
        let share = span.goodput.as_mbps_f64() / full.as_mbps_f64();
        let mbps = span.goodput.as_mbps_f64();
        println!("{segments:8}  {mbps:6.2}  {share:8.3}  {:5.1}", span.acks_per_s);
        assert!(share >= 0.97, "{segments} segments: {share} of W/RTT");
        // Four per round trip; window IACKs beside them.
        assert!(span.acks_per_s <= 2.0 * 4.0 / 0.06, "{}", span.acks_per_s);
    }
}

/// ACK packets of a whole file, handshake and ends included, and when its last byte was read.
fn file(ack: AckStrategy, bytes: u64, algorithm: Algorithm) -> (u64, f64) {
    let transport = Transport { congestion: Some(algorithm), ..Transport::new(ack) };
    let app = App::Bulk { bytes: Some(bytes) };
    let config = |a, b| FlowConfig { app: app.clone(), ..FlowConfig::bulk(a, b, &transport) };
    let (mut sim, flow) = flow(wlan(Duration::from_millis(80)), true, config);
    sim.run_until(Instant::from_secs(10));
    let (sender, receiver) = sim.flow(flow);
    assert_eq!((receiver.received, receiver.first_wrong_byte), (bytes, None), "{ack:?}");
    (sender.arrived.ack_packets, receiver.last_read_at.unwrap().as_secs_f64())
}

#[test]
fn a_file_on_802_11n_costs_no_more_acks_than_tcp_and_a_long_one_a_tenth() {
    println!("bytes      controller  TACK   TCP   seconds");
    for algorithm in [Algorithm::Bbr, Algorithm::Cubic] {
        for (bytes, most) in [(10_000, 1.0), (100_000, 1.0), (1_000_000, 0.4), (10_000_000, 0.1)] {
            let [(tack, took), (tcp, tcp_took)] = STRATEGIES.map(|ack| file(ack, bytes, algorithm));
            println!("{bytes:9}  {algorithm:10}  {tack:4}  {tcp:5}  {took:.3} {tcp_took:.3}");
            assert!(tack as f64 <= most * tcp as f64, "{bytes} {algorithm}: {tack} of {tcp}");
            assert!(took <= 1.03 * tcp_took, "{bytes} {algorithm}: {took} s, TCP {tcp_took}");
        }
    }
}

/// Every second packet of some thousand is lost, and a segment is so small that the receive buffer
/// would need more islands than it may have.
#[test]
fn a_receiver_that_refuses_islands_has_everything_repaired() {
    for one_way_ms in [30, 60] {
        let lost: Vec<u64> = (400..3_400).filter(|n| n % 2 == 0).collect();
        let (rate, one_way) = (Rate::from_mbps(20), Duration::from_millis(one_way_ms));
        let mut path = DirectionConfig::clean(rate, one_way, Limit::Packets(u32::MAX));
        let back = path.clone();
        path.loss = LossConfig::Listed(lost.clone());
        let mut transport = Transport::new(AckStrategy::TACK);
        transport.recv_buffer = Some(256 << 10);
        let bytes = 1_000_000;
        let config = |a, b| {
            let mut config = FlowConfig::bulk(a, b, &transport);
            config.app = App::Bulk { bytes: Some(bytes) };
            (config.from_conn.mss, config.to_conn.mss) = (Some(128), Some(128));
            config
        };
        let link = Box::new(Wired::new(path, back, 1).unwrap());
        let (mut sim, flow) = flow(link, false, config);
        sim.run_until(Instant::from_secs(60));
        let (sender, receiver) = sim.flow(flow);
        assert_eq!((receiver.received, receiver.first_wrong_byte), (bytes, None), "{one_way_ms}");
        assert!(receiver.at_end);
        let info = sender.info.expect("connected");
        let (again, timeouts) = (info.counters.retransmissions, info.counters.timeouts);
        let took = receiver.last_read_at.unwrap();
        println!("{one_way_ms} ms: {again} retransmissions, {timeouts} timeouts, {took}");
        assert_eq!(info.mode, Mode::Tack);
        assert!(again as usize > lost.len(), "what was refused is sent again");
    }
}

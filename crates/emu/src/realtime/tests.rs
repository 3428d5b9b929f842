use tack_link::PacketKind;
use tack_link::loss::LossConfig;
use tack_link::path::Path;
use tack_link::queue::Limit;
use tack_link::wired::{DirectionConfig, Wired};
use tack_link::wlan::{Preset, Standard, Wlan, WlanConfig};
use tack_units::Rate;

use super::*;

type Boxed = Box<dyn Link + Send>;

fn wire(mbps: u64) -> Boxed {
    let rate = Rate::from_mbps(mbps);
    let clean = DirectionConfig::clean(rate, Duration::from_millis(10), Limit::Packets(200));
    let config = DirectionConfig { loss: LossConfig::Bernoulli(0.01), ..clean };
    Box::new(Wired::symmetric(config, 42).unwrap())
}

fn wifi(standard: Standard) -> Boxed {
    let config = WlanConfig { seed: 7, ..WlanConfig::preset(Preset::Textbook, standard) };
    Box::new(Path::new(vec![Box::new(Wlan::new(config).unwrap()) as Boxed, wire(200)]))
}

fn packet(id: u64, end: End, ip_bytes: u32, now: Instant) -> Packet {
    let (src, dst) = if end == End::A { (1, 0) } else { (0, 1) };
    let kind = if ip_bytes > 60 { PacketKind::Data } else { PacketKind::Ack };
    Packet { id, src, dst, ip_bytes, kind, bytes: Vec::new(), ecn: 0, sent_at: now }
}

/// Which packet left where, and when it was handed over.
type Out = Vec<(u64, End, Instant)>;

/// Data from B and an ACK from A per two packets; released at the moments of a fake clock.
fn run(link: Boxed, mut gap: impl FnMut() -> Duration) -> (Out, Lateness) {
    let mut realtime = Realtime::new(link);
    let (mut out, mut id, mut wake) = (Vec::new(), 0, Instant::ZERO);
    let every = Duration::from_micros(700);
    let mut next = Instant::ZERO;
    while next < Instant::from_secs(2) {
        let acks = if id % 3 == 0 { 1 } else { 0 };
        for (end, bytes) in [(End::B, 1_500), (End::A, 52)].into_iter().take(1 + acks) {
            realtime.offer(end, packet(id, end, bytes, next), next);
            id += 1;
        }
        next += every;
        while wake < next {
            while let Output::Deliver { end, packet } = realtime.poll(wake) {
                out.push((packet.id, end, wake));
            }
            wake += gap();
        }
    }
    let (_, lateness) = realtime.finish();
    (out, lateness)
}

#[test]
fn waking_late_shifts_nothing_in_the_model_and_is_recorded() {
    let links: [fn() -> Boxed; 3] = [|| wire(20), || wifi(Standard::G), || wifi(Standard::N)];
    for (number, link) in links.into_iter().enumerate() {
        let (exact, punctual) = run(link(), || Duration::from_micros(50));
        let mut n = 0_u64;
        let tardy = || {
            n += 1;
            Duration::from_micros(100 + n * 7_919 % 3_000)
        };
        let (late, lateness) = run(link(), tardy);
        let both = exact.len().min(late.len());
        // All that differs is what the last, unfinished wake-up has not yet seen.
        assert!(both > 2_000 && exact.len().abs_diff(late.len()) <= 12, "link {number}");
        for (e, l) in exact.iter().zip(&late) {
            assert_eq!((e.0, e.1), (l.0, l.1), "link {number}");
            assert!(l.2 + Duration::from_micros(50) >= e.2, "link {number}");
            assert!(l.2 <= e.2 + Duration::from_micros(3_100), "link {number}");
        }
        assert!(punctual.greatest() <= Duration::from_micros(50), "link {number}");
        let greatest = lateness.greatest().as_micros();
        assert!((1_000..=3_100).contains(&greatest), "link {number}: {greatest}");
        assert!(lateness.quantile(0.5) < lateness.quantile(0.99), "link {number}");
        assert_eq!(lateness.packets(), late.len() as u64);
    }
}

#[test]
fn lateness_is_the_time_from_due_to_handed_over() {
    let delay = Duration::from_millis(5);
    let config = DirectionConfig { delay, ..DirectionConfig::default() };
    let mut realtime = Realtime::new(Wired::symmetric(config, 1).unwrap());
    let ms = Instant::from_millis;
    realtime.offer(End::A, packet(0, End::A, 100, ms(1)), ms(1));
    realtime.offer(End::A, packet(1, End::A, 100, ms(2)), ms(2));
    assert!(matches!(realtime.poll(ms(3)), Output::Wait(Some(at)) if at <= ms(6)));
    let delivered = |output| match output {
        Output::Deliver { end: End::B, packet } => packet.id,
        other => panic!("{other:?}"),
    };
    // Both are due by now; the clock goes on while the first is handed over.
    assert_eq!(delivered(realtime.poll(ms(9))), 0);
    assert_eq!(realtime.lateness().greatest(), Duration::from_millis(3));
    assert_eq!(delivered(realtime.poll(ms(11))), 1);
    assert_eq!(realtime.lateness().greatest(), Duration::from_millis(4));
    assert_eq!(realtime.lateness().quantile(0.5), Duration::from_millis(3));
    assert_eq!(realtime.poll(ms(12)), Output::Wait(None));
}

#[test]
fn a_burst_enters_whole_before_the_air_is_taken() {
    let mut realtime = Realtime::new(wifi(Standard::N));
    let now = Instant::from_millis(5);
    for id in 0..20 {
        realtime.offer(End::A, packet(id, End::A, 1_500, now), now);
    }
    let mut at = Vec::new();
    let mut clock = now;
    while let Output::Wait(Some(next)) = realtime.poll(clock) {
        clock = next;
        while let Output::Deliver { .. } = realtime.poll(clock) {
            at.push(clock);
        }
        if at.len() >= 19 {
            break;
        }
    }
    // One A-MPDU, then the wire: packets follow each other at the wire's pace, 60 µs apart, which
    // is what they would not do if each had taken the air by itself.
    let gaps: Vec<u128> = at.windows(2).map(|w| (w[1] - w[0]).as_micros()).collect();
    assert!(gaps.iter().all(|gap| *gap <= 121), "{gaps:?}");
}

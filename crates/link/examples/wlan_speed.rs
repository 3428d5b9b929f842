//! Prints how many seconds of each WLAN one second of this machine simulates, MAC only
//! (wlan-model check 10), and how the cost grows with stations.

use std::time::{Duration, Instant};

use tack_link::open_loop::{AckRule, Mode, OpenLoop};
use tack_link::wlan::{Preset, Standard, WlanConfig};

fn main() {
    println!("simulated seconds per second, textbook parameters, saturated");
    println!("{:>3} {:>10} {:>10} {:>10} {:>10}", "", "udp", "L=1", "L=2", "20 ms");
    for standard in Standard::ALL {
        let config = WlanConfig::preset(Preset::Textbook, standard);
        let speed = |mode, ack| {
            let mut run = OpenLoop::new(config.clone(), mode);
            run.ack = ack;
            simulated_per_second(&run)
        };
        println!(
            "{:>3} {:>10.0} {:>10.0} {:>10.0} {:>10.0}",
            standard.name(),
            speed(Mode::Udp, AckRule::Never),
            speed(Mode::UdpAck, AckRule::EveryPackets(1)),
            speed(Mode::UdpAck, AckRule::EveryPackets(2)),
            speed(Mode::UdpAck, AckRule::Every(Duration::from_millis(20))),
        );
    }
    println!("\nn by stations, L=2 and uplink saturation");
    for stations in [1, 10, 100, 1_000] {
        let config = WlanConfig::preset(Preset::Textbook, Standard::N).with_stations(stations);
        let down = OpenLoop::new(config.clone(), Mode::UdpAck);
        let up = OpenLoop::new(config, Mode::Up);
        println!(
            "{stations:>5} {:>10.1} {:>10.1}",
            simulated_per_second(&down),
            simulated_per_second(&up)
        );
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the real clock")]
fn simulated_per_second(run: &OpenLoop) -> f64 {
    let mut run = run.clone();
    run.duration = Duration::from_millis(500);
    loop {
        let start = Instant::now();
        let report = run.run().expect("a valid experiment");
        let wall = start.elapsed();
        assert!(report.ledger.balances());
        if wall > Duration::from_millis(300) {
            return (run.warm_up + run.duration).as_secs_f64() / wall.as_secs_f64();
        }
        run.duration *= 2;
    }
}

//! Bulk in both directions of one connection: data acknowledges, and packets that only acknowledge
//! are few.

use core::time::Duration;

use tack_tcp::{ConnConfig, Info};
use tack_units::{Instant, Rate};

use crate::app::{Reader, Writer};
use crate::bulk::{Bulk, path};
use crate::world::WorldConfig;

const ENDLESS: u64 = u64::MAX >> 8;

/// Both ends write and read without end.
struct TwoWay {
    bulk: Bulk,
    writer: Writer,
    reader: Reader,
}

impl TwoWay {
    fn new(config: WorldConfig, conn: &ConnConfig) -> TwoWay {
        let bulk = Bulk::new(config, conn.clone(), conn.clone(), ENDLESS);
        TwoWay { bulk, writer: Writer::new(9, ENDLESS), reader: Reader::new(9) }
    }

    fn run(&mut self, until: Instant) {
        self.bulk.run(self.bulk.world.now);
        while let Some(next) = self.bulk.world.next().filter(|at| *at <= until) {
            self.bulk.run(next);
            let (here, there) = (self.bulk.world.local(0), self.bulk.world.local(1));
            let [a, b] = &mut self.bulk.world.ends;
            self.reader.poll(&mut a.host, self.bulk.client, u64::MAX, here);
            if let Some(server) = self.bulk.server {
                self.writer.poll(&mut b.host, server, u64::MAX, there);
            }
            self.bulk.world.flush();
        }
    }

    fn infos(&self) -> [Info; 2] {
        [self.bulk.info(), self.bulk.server_info()]
    }
}

#[test]
fn bulk_in_both_directions_takes_a_tack_per_round_trip_and_fills_both() {
    println!("RTT    Mbit/s  loss    goodput there, back   ACK packets/s by either end   TCP's");
    // With the queue of each direction's Startup on the other's way back, half of all seeds used to leave
    // one of them at two thirds of the path.
    let long = [2, 3, 5, 8].map(|seed| (seed, 80, 100, 0.0));
    let short = [(3, 40, 20, 0.0), (3, 40, 20, 0.001)];
    for (seed, rtt_ms, mbps, loss) in short.into_iter().chain(long) {
        let (rate, rtt) = (Rate::from_mbps(mbps), Duration::from_millis(rtt_ms));
        let [tack, tcp] = [ConnConfig::default(), ConnConfig::plain()].map(|conn| {
            let mut pipes = path(rate, rtt, 1.0);
            pipes.iter_mut().for_each(|pipe| pipe.loss = loss);
            let mut world = TwoWay::new(WorldConfig::new(seed, pipes), &conn);
            world.run(Instant::from_secs(2));
            let (before, read) = (world.infos(), [world.bulk.reader.read, world.reader.read]);
            world.run(Instant::from_secs(6));
            let after = world.infos();
            let read = [world.bulk.reader.read - read[0], world.reader.read - read[1]];
            let goodput = read.map(|bytes| bytes as f64 * 8e-6 / 4.0);
            let acks = [0, 1].map(|i| {
                let sent = |info: &Info| info.counters.acks_sent;
                let (before, after) = (sent(&before[i]), sent(&after[i]));
                let lost = after.loss - before.loss;
                (after.total() - before.total() - lost) as f64 / 4.0
            });
            (goodput, acks)
        });
        let ([there, back], acks) = tack;
        println!(
            "{rtt_ms} ms  {mbps:6}  {loss:5}  {there:.2}  {back:.2}   {acks:.1?}  {:.1?}",
            tcp.1
        );
        let full = 0.9 * mbps as f64 * 1_428.0 / 1_500.0;
        assert!(there >= full && back >= full, "{there} and {back}");
        for acks in acks {
            // One per RTT of what TACKs alone tell, and corrections of the frequency: as rare.
            let most = if loss > 0.0 { 4.5 } else { 1.5 } / rtt.as_secs_f64();
            assert!(acks <= most, "{acks} per second, RTT {rtt:?}");
        }
    }
}

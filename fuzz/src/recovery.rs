//! Plain recovery under a peer that says anything: the books stay right, timers make progress.

use core::ops::Range;
use core::time::Duration;

use tack_tcp::recovery::{PlainAck, PlainSender};
use tack_units::Instant;

use super::input::Input;

const MSS: u64 = 1_000;

/// Operations and their arguments, one after the other.
pub fn recovery(data: &[u8]) -> bool {
    let mut input = Input::new(data);
    let first = u64::from(input.byte());
    let sack = input.byte() & 3 != 0;
    let mut script = Script {
        sender: PlainSender::new(MSS as u32, first, sack, Instant::ZERO),
        first,
        snd_una: first,
        snd_nxt: first,
        now: Instant::ZERO,
        acked: 0,
    };
    while !input.is_empty() {
        script.step(&mut input);
    }
    script.settle();
    true
}

struct Script {
    sender: PlainSender,
    first: u64,
    snd_una: u64,
    snd_nxt: u64,
    now: Instant,
    acked: u64,
}

impl Script {
    fn step(&mut self, input: &mut Input<'_>) {
        match input.byte() % 8 {
            0..3 => self.send_new(1 + u64::from(input.half()) % MSS),
            3 => {
                if let Some(lost) = self.sender.next_lost(self.now) {
                    assert!(self.snd_una <= lost.start && lost.end <= self.snd_nxt, "{lost:?}");
                    self.sender.on_sent(lost, self.now);
                }
            }
            4 => self.sender.on_app_limited(),
            5 => self.wait(Duration::from_millis(u64::from(input.byte()))),
            6 => self.wait(Duration::from_secs(u64::from(input.byte()))),
            _ => self.acknowledge(input),
        }
        assert!(self.sender.in_flight() <= self.snd_nxt - self.snd_una);
        assert_eq!(self.sender.deadline().is_some(), self.snd_una < self.snd_nxt);
    }

    fn send_new(&mut self, len: u64) {
        self.sender.on_sent(self.snd_nxt..self.snd_nxt + len, self.now);
        self.snd_nxt += len;
    }

    fn wait(&mut self, time: Duration) {
        self.now += time;
        let mut rounds = 0;
        while self.sender.deadline().is_some_and(|deadline| deadline <= self.now) {
            let before = self.sender.deadline();
            let timeout = self.sender.on_timeout(self.now);
            let news = self.sender.take_unreported();
            let progress = timeout.is_some() || news.is_some() || self.sender.deadline() != before;
            assert!(progress, "a busy loop");
            rounds += 1;
            assert!(rounds < 100, "timers that never rest");
        }
    }

    fn acknowledge(&mut self, input: &mut Input<'_>) {
        let flags = input.byte();
        let cum_ack = match flags & 3 {
            0 => self.snd_una,
            1 => self.snd_una + u64::from(input.half() % 3_000),
            2 => self.snd_una.saturating_sub(u64::from(input.half())),
            _ => u64::from(input.word()),
        };
        let mut block = || {
            let start = self.snd_una.saturating_sub(500) + u64::from(input.half());
            start..(start + u64::from(input.half())).saturating_sub(200)
        };
        let blocks: Vec<Range<u64>> = (0..flags >> 2 & 3).map(|_| block()).collect();
        let dsack = (flags & 16 != 0).then(block);
        let ack = PlainAck {
            cum_ack,
            sack: &blocks,
            dsack,
            ts_rtt: (flags & 32 != 0).then(|| Duration::from_micros(u64::from(input.word()))),
            ts_is_coarse: flags & 8 != 0,
            echoes_original: flags & 64 != 0,
            is_pure_ack: flags & 128 != 0,
        };
        let news = self.sender.on_ack(&ack, self.now);
        if cum_ack <= self.snd_nxt {
            self.snd_una = self.snd_una.max(cum_ack);
        }
        self.acked += news.acked_bytes;
        assert_eq!(self.acked, news.delivered, "every byte counts once");
        assert!(self.acked <= self.snd_nxt - self.first, "no more than was sent");
        assert_eq!(news.in_flight, self.sender.in_flight());
    }

    /// Everything is acknowledged in the end.
    fn settle(&mut self) {
        let ack = PlainAck {
            cum_ack: self.snd_nxt,
            sack: &[],
            dsack: None,
            ts_rtt: None,
            ts_is_coarse: false,
            echoes_original: false,
            is_pure_ack: true,
        };
        self.acked += self.sender.on_ack(&ack, self.now).acked_bytes;
        assert_eq!(self.acked, self.snd_nxt - self.first);
        assert_eq!((self.sender.in_flight(), self.sender.deadline()), (0, None));
    }
}

//! A video as an encoder made it, and when a receiver has each of its frames.
//!
//! Over a stream a frame is there when its last byte was read. Over datagrams it is there when all of
//! its packets are, and given up when one of a later frame comes first: what it lacks is lost, or so
//! late that a decoder has gone on.

use core::time::Duration;
use std::sync::Arc;

use tack_link::HostId;
use tack_units::Instant;

/// A frame of a video.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Encoded size, at least 1.
    pub bytes: u32,
    /// Decoded without any other frame; all others need the one before.
    pub is_key: bool,
}

/// Frames at a constant rate, over and over. Frames are numbered from zero, without end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Video {
    frames: Arc<[Frame]>,
    /// Bytes before each frame of one round, and those of the whole round at the end.
    offsets: Arc<[u64]>,
    per_second: u32,
}

impl Video {
    /// `frames` at so many `per_second`; `None` without a frame, a rate, or with an empty frame.
    pub fn new(frames: &[Frame], per_second: u32) -> Option<Video> {
        if frames.is_empty() || per_second == 0 || frames.iter().any(|f| f.bytes == 0) {
            return None;
        }
        let mut offsets = vec![0];
        offsets.extend(frames.iter().scan(0, |sum, frame| {
            *sum += u64::from(frame.bytes);
            Some(*sum)
        }));
        Some(Video { frames: frames.into(), offsets: offsets.into(), per_second })
    }

    /// Frame number `n`.
    pub fn frame(&self, n: u64) -> Frame {
        self.frames[(n % self.frames.len() as u64) as usize]
    }

    /// When frame `n` was captured, from the first on.
    pub fn captured_at(&self, n: u64) -> Duration {
        let nanos = u128::from(n) * 1_000_000_000 / u128::from(self.per_second);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// From one frame to the next.
    pub fn interval(&self) -> Duration {
        self.captured_at(1)
    }

    /// How many frames were captured `elapsed` after the first, it included.
    pub fn captured_by(&self, elapsed: Duration) -> u64 {
        let parts = (elapsed.as_nanos() + 1) * u128::from(self.per_second);
        u64::try_from(parts.div_ceil(1_000_000_000)).unwrap_or(u64::MAX)
    }

    /// Bytes of all frames before number `n`.
    pub fn bytes_before(&self, n: u64) -> u64 {
        let (rounds, rest) = (n / self.frames.len() as u64, n % self.frames.len() as u64);
        let whole = self.offsets[self.frames.len()];
        rounds.saturating_mul(whole).saturating_add(self.offsets[rest as usize])
    }

    /// Mean rate, bit/s.
    pub fn mean_bps(&self) -> f64 {
        let bits = self.offsets[self.frames.len()] as f64 * 8.0;
        bits * f64::from(self.per_second) / self.frames.len() as f64
    }
}

/// What a receiver has of a frame; that of number `n` stands at place `n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Complete, or given up.
    pub at: Instant,
    /// Nothing of it is missing.
    pub is_whole: bool,
}

/// Frames that come over a stream.
#[derive(Debug)]
pub(crate) struct Reader {
    video: Video,
    arrivals: Vec<Arrival>,
}

impl Reader {
    pub(crate) fn new(video: Video) -> Self {
        Reader { video, arrivals: Vec::new() }
    }

    /// So many bytes of the stream were read by `now`.
    pub(crate) fn on_read(&mut self, received: u64, now: Instant) {
        while self.video.bytes_before(self.arrivals.len() as u64 + 1) <= received {
            self.arrivals.push(Arrival { at: now, is_whole: true });
        }
    }

    pub(crate) fn arrivals(&self) -> &[Arrival] {
        &self.arrivals
    }
}

/// A video as datagrams: each frame's leave when it was captured, full ones first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cast {
    /// Whom it is for.
    pub dst: HostId,
    /// What is sent.
    pub video: Video,
    /// Bytes of a frame in one packet, at most; at least 1.
    pub payload_bytes: u32,
    /// Headers of a packet, on the IP level.
    pub header_bytes: u32,
    /// First frame.
    pub start: Instant,
    /// No frame at this time or later.
    pub stop: Instant,
}

impl Cast {
    /// Packets of frame `n`.
    pub fn packets(&self, n: u64) -> u32 {
        self.video.frame(n).bytes.div_ceil(self.payload_bytes.max(1))
    }

    /// IP-level size of a frame's packet; both counted from zero.
    pub(crate) fn ip_bytes(&self, n: u64, packet: u32) -> u32 {
        let before = packet * self.payload_bytes.max(1);
        self.header_bytes + (self.video.frame(n).bytes - before).min(self.payload_bytes.max(1))
    }

    /// When frame `n` leaves; `None` if it does not.
    pub(crate) fn leaves_at(&self, n: u64) -> Option<Instant> {
        Some(self.start + self.video.captured_at(n)).filter(|at| *at < self.stop)
    }
}

/// Frames that come as datagrams.
#[derive(Debug)]
pub(crate) struct Assembly {
    cast: Cast,
    arrivals: Vec<Arrival>,
    /// Packets that are there of the frame after the last of `arrivals`.
    packets: Vec<u64>,
}

impl Assembly {
    pub(crate) fn new(cast: Cast) -> Self {
        Assembly { cast, arrivals: Vec::new(), packets: Vec::new() }
    }

    /// Packet `id`, which left at `sent_at`, arrived: all packets of a frame leave when it is captured,
    /// so their time names it.
    pub(crate) fn on_packet(&mut self, id: u64, sent_at: Instant, now: Instant) {
        let since = sent_at.saturating_since(self.cast.start);
        let frame = self.cast.video.captured_by(since) - 1;
        while (self.arrivals.len() as u64) < frame {
            self.end_frame(false, now);
        }
        if frame < self.arrivals.len() as u64 || self.packets.contains(&id) {
            return;
        }
        self.packets.push(id);
        if self.packets.len() == self.cast.packets(frame) as usize {
            self.end_frame(true, now);
        }
    }

    fn end_frame(&mut self, is_whole: bool, at: Instant) {
        self.arrivals.push(Arrival { at, is_whole });
        self.packets.clear();
    }

    pub(crate) fn arrivals(&self) -> &[Arrival] {
        &self.arrivals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn video(sizes: &[u32], per_second: u32) -> Video {
        let frame = |(n, bytes): (usize, &u32)| Frame { bytes: *bytes, is_key: n == 0 };
        Video::new(&sizes.iter().enumerate().map(frame).collect::<Vec<_>>(), per_second).unwrap()
    }

    fn cast() -> Cast {
        Cast {
            dst: 1,
            video: video(&[2_500, 1_000, 300], 30),
            payload_bytes: 1_000,
            header_bytes: 40,
            start: Instant::from_secs(1),
            stop: Instant::from_secs(9),
        }
    }

    #[test]
    fn frames_are_captured_at_their_rate_for_ever_and_counted_at_that_very_moment() {
        for per_second in [1, 24, 30, 60, 999] {
            let video = video(&[10, 20, 30], per_second);
            for n in [0, 1, 2, 3, 1_000, 108_000] {
                let at = video.captured_at(n);
                assert_eq!(video.captured_by(at), n + 1, "{per_second}/s, frame {n}");
                let before = at.saturating_sub(Duration::from_nanos(1));
                assert_eq!(video.captured_by(before), n.max(1), "{per_second}/s, frame {n}");
            }
        }
        let video = video(&[10, 20, 30], 60);
        assert_eq!([0, 1, 2, 3, 4, 7].map(|n| video.bytes_before(n)), [0, 10, 30, 60, 70, 130]);
        assert_eq!(video.mean_bps(), 9_600.0);
        assert!(Video::new(&[], 60).is_none());
    }

    #[test]
    fn a_frame_of_a_stream_is_there_with_its_last_byte() {
        let mut reader = Reader::new(video(&[10, 20, 30], 60));
        let at = Instant::from_millis;
        for (received, now) in [(9, 1), (10, 2), (29, 3), (75, 4)] {
            reader.on_read(received, at(now));
        }
        let times: Vec<Instant> = reader.arrivals().iter().map(|a| a.at).collect();
        assert_eq!(times, [at(2), at(4), at(4), at(4)]);
    }

    #[test]
    fn packets_of_a_frame_carry_all_of_it() {
        let cast = cast();
        for n in 0..6 {
            let packets = cast.packets(n);
            let bytes: u32 = (0..packets).map(|p| cast.ip_bytes(n, p) - 40).sum();
            assert_eq!(bytes, cast.video.frame(n).bytes);
        }
        assert_eq!([cast.packets(0), cast.packets(1), cast.packets(2)], [3, 1, 1]);
    }

    #[test]
    fn a_frame_of_datagrams_is_whole_with_its_last_packet_or_given_up_for_a_later_one() {
        let cast = cast();
        let sent = |n| cast.leaves_at(n).unwrap();
        let at = Instant::from_millis;
        let mut assembly = Assembly::new(cast.clone());
        // Frame 0 in three packets, one of them twice; of 1 nothing, of 3 two, and one too late.
        for (id, frame, now) in [(0, 0, 5), (1, 0, 6), (1, 0, 7), (2, 0, 8), (9, 2, 40)] {
            assembly.on_packet(id, sent(frame), at(now));
        }
        for (id, frame, now) in [(10, 3, 50), (11, 3, 51), (13, 4, 60), (12, 3, 61)] {
            assembly.on_packet(id, sent(frame), at(now));
        }
        let seen: Vec<(Instant, bool)> =
            assembly.arrivals().iter().map(|a| (a.at, a.is_whole)).collect();
        let whole = [(8, true), (40, false), (40, true), (60, false), (60, true)];
        assert_eq!(seen, whole.map(|(ms, is_whole)| (at(ms), is_whole)));
    }
}

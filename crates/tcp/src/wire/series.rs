//! Numbers that segmentation offload can carry: one option for a whole series of segments.
//!
//! A device cuts a super-packet into segments whose headers differ in nothing but SEG.SEQ, so a
//! PKT.SEQ for each cannot be written into them. It follows from SEG.SEQ instead: the option, the
//! same in every segment of the series, says the PKT.SEQ of the first, the low 16 bits of the
//! first's SEG.SEQ (the anchor), and the size, how much text each but the last has.
//!
//! ```text
//!          anchor                                     offset = (SEG.SEQ - anchor) mod 2^16
//!            |<-- size -->|<-- size -->|<- the rest ->|
//! PKT.SEQ    |     n      |   n + 1    |    n + 2     |    number = n + offset / size
//! ```
//!
//! A super-packet is an IP packet, hence shorter than 2^16 bytes, and no offset means two places.
//!
//! What arrives is told apart by the same rule, whoever cut or merged it on the way: segments merged
//! into one packet again are as many numbers, and pieces of one that was cut have its number, as they
//! have where an ordinary PKT.SEQ is copied to them. The first piece then stands for the transmission;
//! if another one is lost, no gap of PKT.SEQ tells, but the hole in SEQ space does, which every TACK
//! lists. A series may claim any numbers, as an ordinary option may.

use crate::seq::SeqNum;

/// Least size of a series, bytes: what the least MSS leaves beside timestamps and this option. A
/// packet that claims less would be more segments than any sender makes of it.
pub const LEAST_SIZE: u16 = 64;

/// What an option says of its series, beside the PKT.SEQ of the first segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Series {
    anchor: u16,
    size: u16,
}

impl Series {
    /// A series of segments with `size` bytes of text each; the SEG.SEQ of the first ends in
    /// `anchor`. `None`: the size is below [`LEAST_SIZE`].
    pub const fn new(anchor: u16, size: u16) -> Option<Series> {
        if size < LEAST_SIZE { None } else { Some(Series { anchor, size }) }
    }

    /// The series that a segment at `seq` with `text` bytes begins. If its size is another than
    /// `text`, being bounded, that segment is the only one.
    pub(crate) fn beginning(seq: SeqNum, text: usize) -> Series {
        let size = u16::try_from(text).unwrap_or(u16::MAX).max(LEAST_SIZE);
        Series { anchor: seq.0 as u16, size }
    }

    /// Low 16 bits of the first segment's SEG.SEQ.
    pub const fn anchor(self) -> u16 {
        self.anchor
    }

    /// Bytes of text in each segment but the last.
    pub const fn size(self) -> u16 {
        self.size
    }

    /// What is at `seq`: how many segments come before it, and how many bytes from there on are the
    /// same segment's, at least 1.
    pub const fn place(self, seq: SeqNum) -> (u32, usize) {
        let offset = (seq.0 as u16).wrapping_sub(self.anchor);
        ((offset / self.size) as u32, (self.size - offset % self.size) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_of_a_super_packet_is_in_the_segment_that_it_is_cut_into() {
        for seq in [0, 7, 0xfff0, 0xffff, 0x1_0000, u32::MAX - 900] {
            for size in [LEAST_SIZE, 100, 1_436, 8_936, u16::MAX] {
                let series = Series::new(seq as u16, size).expect("large enough");
                for offset in (0..=u32::from(u16::MAX)).step_by(7) {
                    let size = u32::from(size);
                    let (before, left) = series.place(SeqNum(seq).add(offset));
                    assert_eq!(before, offset / size);
                    assert_eq!(left as u32, (before + 1) * size - offset);
                }
            }
        }
    }

    #[test]
    fn a_series_of_nearly_nothing_is_none() {
        for size in 0..LEAST_SIZE {
            assert_eq!(Series::new(1, size), None);
        }
        assert!(Series::new(1, LEAST_SIZE).is_some());
    }

    #[test]
    fn a_segment_begins_a_series_of_its_own_length() {
        for (text, size) in [(0, 64), (63, 64), (64, 64), (1_436, 1_436), (1 << 20, u16::MAX)] {
            let series = Series::beginning(SeqNum(0xabcd_ef01), text);
            assert_eq!((series.anchor(), series.size()), (0xef01, size));
        }
    }
}

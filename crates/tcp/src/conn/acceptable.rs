//! Pure tests of a segment's place: sequence window and acknowledgment window.

/// Offset of an ISN. Stream offsets are 64 bits and count from here, so that nothing a peer sends,
/// half the sequence space before the start included, lies below zero.
pub(crate) const ISN_OFFSET: u64 = 1 << 32;
/// Offset of the first stream byte.
pub(crate) const FIRST_BYTE: u64 = ISN_OFFSET + 1;

/// The four cases of [RFC 9293 §3.10.7.4], with the end of the segment at `seq + len`.
pub(crate) fn is_acceptable(seq: u64, len: u64, rcv_nxt: u64, rcv_wnd: u64) -> bool {
    let window = rcv_nxt..rcv_nxt + rcv_wnd;
    match (len, rcv_wnd) {
        (0, 0) => seq == rcv_nxt,
        (0, _) => window.contains(&seq),
        (_, 0) => false,
        _ => {
            window.contains(&seq)
                || window.contains(&(seq + len - 1))
                || seq < rcv_nxt && seq + len > window.end
        }
    }
}

/// Where an acknowledgment lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AckPlace {
    /// Acknowledges something new.
    New,
    /// Repeats SND.UNA.
    Repeated,
    /// Below SND.UNA, but no older than what may still travel.
    Old,
    /// Acknowledges what was never sent, or is older than anything that travels: an injection
    /// [RFC 5961 §5.2].
    Impossible,
}

/// Places an acknowledgment; `max_wnd` is the largest window the peer ever offered.
pub(crate) fn place_ack(ack: u64, snd_una: u64, snd_nxt: u64, max_wnd: u64) -> AckPlace {
    if ack > snd_nxt || ack + max_wnd < snd_una {
        AckPlace::Impossible
    } else if ack > snd_una {
        AckPlace::New
    } else if ack == snd_una {
        AckPlace::Repeated
    } else {
        AckPlace::Old
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acceptance_agrees_with_the_table_byte_by_byte() {
        // [RFC 9293 §3.10.7.4]: acceptable when any byte lies in the window; an empty segment
        // when its number does, or equals RCV.NXT in a zero window.
        for wnd in 0..6u64 {
            for seq in 90..112u64 {
                for len in 0..14u64 {
                    let window = 100..100 + wnd;
                    let expected = match (len, wnd) {
                        (0, 0) => seq == 100,
                        (0, _) => window.contains(&seq),
                        _ => (seq..seq + len).any(|byte| window.contains(&byte)),
                    };
                    assert_eq!(is_acceptable(seq, len, 100, wnd), expected, "{seq}+{len} in {wnd}");
                }
            }
        }
    }

    #[test]
    fn acknowledgments_beyond_what_was_sent_are_impossible() {
        assert_eq!(place_ack(151, 100, 150, 50), AckPlace::Impossible);
        assert_eq!(place_ack(150, 100, 150, 50), AckPlace::New);
        assert_eq!(place_ack(100, 100, 150, 50), AckPlace::Repeated);
        assert_eq!(place_ack(50, 100, 150, 50), AckPlace::Old);
        assert_eq!(place_ack(49, 100, 150, 50), AckPlace::Impossible);
    }
}

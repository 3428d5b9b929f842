//! QUIC's codecs: whatever the bytes, no panic; and what was read survives being written and read
//! again.

use rustls::Side;
use tack_quic::protection::{initial_keys, is_valid_retry, open};
use tack_quic::wire::{ConnectionId, Frame, Parameters, Protected, Reader, Sender, Version};

/// First byte: what the rest is. Whether it was well-formed.
pub fn quic(data: &[u8]) -> bool {
    let Some((kind, rest)) = data.split_first() else { return false };
    match kind % 4 {
        0 => frames(rest),
        1 => parameters(rest, Sender::Client),
        2 => parameters(rest, Sender::Server),
        _ => packet(rest),
    }
}

fn frames(bytes: &[u8]) -> bool {
    let Ok(frames) = read(bytes) else { return false };
    let mut again = Vec::new();
    for frame in &frames {
        frame.emit(&mut again);
        if let Frame::Ack(ack) = frame {
            assert!(ack.ranges.iter().all(|range| !range.is_empty()));
            assert!(ack.ranges.windows(2).all(|pair| pair[1].end < pair[0].start));
        }
    }
    assert_eq!(read(&again).expect("we wrote it"), frames);
    !frames.is_empty()
}

fn read(bytes: &[u8]) -> Result<Vec<Frame<'_>>, tack_quic::wire::ParseError> {
    let (mut reader, mut frames) = (Reader::new(bytes), Vec::new());
    while !reader.is_empty() {
        frames.push(Frame::parse(&mut reader)?);
    }
    Ok(frames)
}

fn parameters(bytes: &[u8], sender: Sender) -> bool {
    let Ok(parameters) = Parameters::parse(bytes, sender) else { return false };
    let mut again = Vec::new();
    parameters.emit(&mut again);
    assert_eq!(Parameters::parse(&again, sender).expect("we wrote it"), parameters);
    true
}

fn packet(datagram: &[u8]) -> bool {
    let Ok(packet) = Protected::parse(datagram, 8) else { return false };
    assert!(packet.end <= datagram.len());
    let dcid = ConnectionId::new(b"original").expect("8 bytes");
    assert!(!is_valid_retry(&dcid, datagram), "nobody guesses a tag");
    if let Some(number_at) = packet.number_at {
        assert!(number_at + 20 <= packet.end);
        let keys = initial_keys(Version::V1, &dcid, Side::Client);
        let mut bytes = datagram[..packet.end].to_vec();
        assert!(open(&keys.remote, &mut bytes, number_at, 0).is_err(), "nor one of a packet");
    }
    true
}

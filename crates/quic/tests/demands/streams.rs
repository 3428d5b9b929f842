//! Streams: their numbers, states, limits and lengths.

use tack_quic::streams::Dir;
use tack_quic::wire::Frame;
use tack_quic::{Config, code};

use super::met::Met;
use super::puppet::DATA;

fn config() -> Config {
    Config {
        initial_window: 1_000,
        max_window: 1_000,
        initial_connection_window: 1_500,
        max_connection_window: 1_500,
        max_streams_bidi: 4,
        max_streams_uni: 4,
        ..Config::default()
    }
}

const TEXT: &[u8] = b"text";

fn stream(id: u64, offset: u64, fin: bool, data: &[u8]) -> Frame<'_> {
    Frame::Stream { id, offset, fin, data }
}

/// What a server of ours says to these frames of a client's.
fn breach(frames: &[Frame<'_>]) -> Option<u64> {
    let mut met = Met::server(config());
    frames.iter().for_each(|frame| met.say(DATA, std::slice::from_ref(frame)));
    met.breach()
}

#[test]
fn a_frame_for_a_stream_that_cannot_have_it_is_a_state_error() {
    // Streams 2, 6, ... are the client's alone, 3, 7, ... the server's, 1, 5, ... the server's to open.
    let frames = [
        stream(3, 0, false, TEXT),
        stream(1, 0, false, TEXT),
        Frame::ResetStream { id: 3, code: 0, final_size: 0 },
        Frame::ResetStream { id: 1, code: 0, final_size: 0 },
        Frame::StopSending { id: 2, code: 0 },
        Frame::StopSending { id: 1, code: 0 },
        Frame::MaxStreamData { id: 2, most: 9 },
        Frame::MaxStreamData { id: 1, most: 9 },
        Frame::StreamDataBlocked { id: 3, at: 9 },
        Frame::StreamDataBlocked { id: 1, at: 9 },
    ];
    for frame in frames {
        let said = format!("{frame:?}");
        assert_eq!(breach(&[frame]), Some(code::STREAM_STATE_ERROR), "{said}");
    }
}

#[test]
fn a_stream_beyond_the_limit_is_refused_whatever_frame_opens_it() {
    for kind in [0, 2] {
        let (last, beyond) = (3 << 2 | kind, 4 << 2 | kind);
        assert_eq!(breach(&[stream(last, 0, false, TEXT)]), None);
        let mut frames = vec![
            stream(beyond, 0, false, TEXT),
            Frame::ResetStream { id: beyond, code: 0, final_size: 0 },
            Frame::StreamDataBlocked { id: beyond, at: 0 },
        ];
        if kind == 0 {
            frames.push(Frame::StopSending { id: beyond, code: 0 });
            frames.push(Frame::MaxStreamData { id: beyond, most: 9 });
        }
        for frame in frames {
            let said = format!("{frame:?}");
            assert_eq!(breach(&[frame]), Some(code::STREAM_LIMIT_ERROR), "{said}");
        }
    }
}

#[test]
fn data_beyond_a_stream_s_limit_or_the_connection_s_is_refused_and_so_is_a_length_beyond() {
    let flow = Some(code::FLOW_CONTROL_ERROR);
    assert_eq!(breach(&[stream(0, 996, false, TEXT)]), None);
    assert_eq!(breach(&[stream(0, 997, false, TEXT)]), flow);
    assert_eq!(breach(&[Frame::ResetStream { id: 0, code: 0, final_size: 1_001 }]), flow);
    let two = |second| [stream(0, 996, false, TEXT), second];
    assert_eq!(breach(&two(stream(4, 496, false, TEXT))), None);
    assert_eq!(breach(&two(stream(4, 497, false, TEXT))), flow);
    assert_eq!(breach(&two(Frame::ResetStream { id: 4, code: 0, final_size: 501 })), flow);
}

#[test]
fn a_stream_that_has_two_lengths_is_refused() {
    let ended = || stream(0, 0, true, TEXT);
    let size = Some(code::FINAL_SIZE_ERROR);
    assert_eq!(breach(&[ended(), stream(0, 0, true, b"tex")]), size);
    assert_eq!(breach(&[ended(), stream(0, 4, false, b"s")]), size);
    assert_eq!(breach(&[ended(), Frame::ResetStream { id: 0, code: 0, final_size: 5 }]), size);
    assert_eq!(breach(&[stream(0, 0, false, TEXT), stream(0, 0, true, b"t")]), size);
    let reset = || Frame::ResetStream { id: 0, code: 0, final_size: 4 };
    assert_eq!(breach(&[reset(), reset()]), None);
    assert_eq!(breach(&[reset(), stream(0, 3, false, TEXT)]), size);
}

#[test]
fn a_limit_that_shrinks_is_ignored() {
    let mut met = Met::server(config());
    let id = met.ours.open(Dir::Uni, met.now).unwrap();
    met.say(DATA, &[Frame::MaxStreamData { id: id.number(), most: 1 }, Frame::MaxData(1)]);
    met.say(DATA, &[Frame::MaxStreams { bidi: true, most: 0 }]);
    assert_eq!(met.ours.write(id, &[7; 2_000]), Ok(2_000));
    met.listen();
    assert_eq!(met.ours.unsent(id), 0, "what was allowed once stays so");
    assert!(met.ours.open(Dir::Bidi, met.now).is_ok());
}

#[test]
fn nothing_is_sent_beyond_what_the_peer_allows() {
    use super::puppet::{emitted, id, usual};
    use tack_quic::wire::Parameters;
    let parameters = Parameters {
        initial_scid: Some(id(2)),
        max_data: 1_500,
        max_stream_data_uni: 1_000,
        max_streams_uni: 2,
        ..usual()
    };
    let mut met = Met::server_with(Config::default(), emitted(&parameters));
    met.exchange();
    let streams = [(); 2].map(|()| met.ours.open(Dir::Uni, met.now).unwrap());
    assert!(met.ours.open(Dir::Uni, met.now).is_err());
    for stream in streams {
        met.ours.write(stream, &[7; 5_000]).unwrap();
    }
    // What is in the way is told by the probe of a flight that nobody acknowledges.
    met.wait(std::time::Duration::from_secs(3));
    let unsent: u64 = streams.iter().map(|stream| met.ours.unsent(*stream)).sum();
    assert_eq!(unsent, 10_000 - 1_500);
    assert!(streams.iter().all(|stream| met.ours.unsent(*stream) >= 4_000));
    assert!(met.heard(|frame| matches!(frame, Frame::DataBlocked(1_500))));
    let is_told = |frame: &Frame<'_>| matches!(frame, Frame::StreamsBlocked { bidi: false, at: 2 });
    assert!(met.heard(is_told));
    // Else whoever asks with each acknowledgment hears of the next at once, without end.
    met.puppet.payloads.clear();
    for _ in 0..10 {
        assert!(met.ours.open(Dir::Uni, met.now).is_err());
        met.wait(std::time::Duration::from_millis(10));
    }
    assert!(!met.heard(is_told), "once");
}

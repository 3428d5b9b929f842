use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::*;

fn connect(host: &str, port: u16) -> Wish {
    Wish::Connect(Target::new(Host::parse(host).unwrap(), port))
}

/// What a program wants, how it wants to hear of it, and what it sent behind that.
type Wanted = (Wish, Speech, Vec<u8>);

/// Hands `bytes` over in pieces of `size`; all that is said until something is wanted, and what.
fn speak(bytes: &[u8], size: usize) -> Result<(Vec<u8>, Option<Wanted>), ProxyError> {
    let (mut handshake, mut said) = (Handshake::default(), Vec::new());
    let mut pieces = bytes.chunks(size);
    loop {
        match handshake.poll()? {
            Output::Send(bytes) => said.extend(bytes),
            Output::Wants(open, speech, mut rest) => {
                pieces.for_each(|piece| rest.extend(piece));
                return Ok((said, Some((open, speech, rest))));
            }
            Output::Wait => match pieces.next() {
                Some(piece) => handshake.handle(piece),
                None => return Ok((said, None)),
            },
        }
    }
}

const SOCKS_NAME: &[u8] = b"\x05\x01\x00\x05\x01\x00\x03\x0bexample.org\x01\xbbhello";

#[test]
fn a_request_means_the_same_however_it_is_cut() {
    let http = b"CONNECT [2001:db8::1]:443 HTTP/1.1\r\nHost: x\r\n\r\nhello";
    for size in 1..SOCKS_NAME.len().max(http.len()) {
        let (said, wants) = speak(SOCKS_NAME, size).unwrap();
        assert_eq!(said, [5, 0]);
        let (open, speech, rest) = wants.unwrap();
        assert_eq!((open, speech), (connect("example.org", 443), Speech::Socks));
        assert_eq!(rest, b"hello");
        let (said, wants) = speak(http, size).unwrap();
        let (open, speech, rest) = wants.unwrap();
        assert_eq!((open, speech), (connect("2001:db8::1", 443), Speech::Http));
        assert!(said.is_empty() && rest == b"hello");
    }
}

#[test]
fn an_address_of_ipv6_without_brackets_is_what_stands_before_the_last_colon() {
    for authority in ["fd00::3:443", "[fd00::3]:443", "fd00:0:0:0:0:0:0:3:443"] {
        let asked = format!("CONNECT {authority} HTTP/1.1\r\n\r\n");
        let (_, wants) = speak(asked.as_bytes(), 7).unwrap();
        assert_eq!(wants.unwrap().0, connect("fd00::3", 443), "{authority}");
    }
}

#[test]
fn a_field_of_http_may_have_bytes_that_are_no_text() {
    let (_, wants) =
        speak(b"CONNECT example.org:443 HTTP/1.1\r\nUser-Agent: \xe9\r\n\r\n", 7).unwrap();
    assert_eq!(wants.unwrap().0, connect("example.org", 443));
    let no_text = speak(b"CONNECT \xe9.example.org:443 HTTP/1.1\r\n\r\n", 7);
    assert_eq!(no_text.unwrap_err(), ProxyError::Head);
}

#[test]
fn datagrams_are_asked_for_with_any_address() {
    let asked = b"\x05\x02\x00\x02\x05\x03\x00\x01\x00\x00\x00\x00\x00\x00";
    let (_, wants) = speak(asked, 3).unwrap();
    assert_eq!(wants.unwrap(), (Wish::Associate, Speech::Socks, Vec::new()));
}

#[test]
fn who_cannot_be_served_is_told_why_in_its_own_protocol() {
    let told = |bytes: &[u8]| speak(bytes, 7).unwrap_err().answer();
    assert_eq!(told(b"\x04\x01\x00\x50"), b"", "SOCKS4");
    assert_eq!(told(b"\x05\x01\x02"), [5, 0xff]);
    assert_eq!(told(b"\x05\x01\x00\x05\x02\x00\x01\0\0\0\0\0\0")[..2], [5, 7]);
    assert_eq!(told(b"\x05\x01\x00\x05\x01\x00\x09\0\0\0\0\0\0")[..2], [5, 8]);
    assert_eq!(told(b"\x05\x01\x00\x05\x01\x00\x03\x01\n\0\0")[..2], [5, 4]);
    let starts = |bytes: &[u8], status: &str| {
        let told = String::from_utf8(told(bytes)).unwrap();
        assert!(told.starts_with(&format!("HTTP/1.1 {status}")), "{told}");
    };
    starts(b"GET http://example.org/ HTTP/1.1\r\n\r\n", "501");
    for authority in
        ["example.org", "example.org:0", ":80", "a b:80", "a\\b:80", "[::1]", "::80", "::1:0"]
    {
        starts(format!("CONNECT {authority} HTTP/1.1\r\n\r\n").as_bytes(), "400");
    }
    starts(b"CONNECT a:80\r\n\r\n", "400");
    starts(b"CONNECT a:80 HTTP/2\r\n\r\n", "400");
}

#[test]
fn a_head_without_end_is_not_kept() {
    let mut handshake = Handshake::default();
    let mut ended = None;
    for _ in 0..20 {
        handshake.handle(&[b'a'; 1_000]);
        if let Err(error) = handshake.poll() {
            ended = Some((error, handshake.buffer.len()));
            break;
        }
    }
    assert!(matches!(ended, Some((ProxyError::Head, kept)) if kept <= MAX_HEAD_BYTES + 1_000));
}

#[test]
fn every_cause_has_an_answer_that_the_program_can_read() {
    for cause in [Cause::NotAllowed, Cause::NoSuchHost, Cause::TimedOut, Cause::Busy] {
        let refusal = Refusal::new(cause, "because");
        let socks = Speech::Socks.refused(&refusal);
        assert_eq!((socks[0], socks.len()), (5, 10));
        assert!(socks[1] > 0);
        let http = String::from_utf8(Speech::Http.refused(&refusal)).unwrap();
        let (head, body) = http.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{http}");
    }
    let bound = "[2001:db8::1]:99".parse().unwrap();
    let reply = Speech::Socks.opened(bound);
    assert_eq!(reply[..3], [5, 0, 0]);
    assert_eq!(Target::read(&reply[3..]), Ok(Some((bound.into(), reply.len() - 3))));
}

#[test]
fn random_conversations_end_in_a_request_or_an_error_and_never_hold_much() {
    let mut rng = Pcg64::seed_from_u64(0x50c5);
    let whole: [&[u8]; 2] = [SOCKS_NAME, b"CONNECT example.org:443 HTTP/1.1\r\nA: b\r\n\r\n"];
    for _ in 0..20_000 {
        let mut bytes = whole[rng.random_range(0..2)].to_vec();
        for _ in 0..rng.random_range(0..4) {
            let at = rng.random_range(0..bytes.len());
            bytes[at] = rng.random();
        }
        if rng.random_bool(0.3) {
            bytes = vec![0; rng.random_range(1..60)];
            rng.fill_bytes(&mut bytes);
        }
        let size = rng.random_range(1..=bytes.len());
        // The same verdict however it is cut.
        let wants = |size| speak(&bytes, size).map(|(_, wants)| wants);
        assert_eq!(wants(size), wants(bytes.len()), "{bytes:?} in pieces of {size}");
    }
}

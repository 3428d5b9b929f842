//! What strangers reach above the transport: the files protocol, names, perf's control messages, TLS.
//!
//! Not in the library of the transport's targets, which need less to build. Each of these says whether
//! its input was well-formed.

pub mod target;

use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::OnceLock;
use std::task::{Context, Poll, Waker};

use rand::{Rng, RngExt};
use rand_pcg::Pcg64;
use tack_cli::conn::Connection;
use tack_cli::perf::control::{Inbox, Message, read_opening, send};
use tack_cli::progress::Progress;
use tack_cli::stop::Stop;
use tack_cli::transfer::VERSION;
use tack_cli::transfer::frame::{Frame, HEADER, MAX_CONTROL, MAX_DATA, PREFACE, What};
use tack_cli::transfer::frame::{encode, parse_body, parse_header};
use tack_cli::transfer::list::{Entry, FileList, Kind, Mtime};
use tack_cli::transfer::name::{RelPath, check_link_target, printable};
use tack_cli::transfer::recv::{Intake, receive_tree};
use tack_cli::transfer::store::{Durability, Store};
use tack_net::tls::{Acceptor, ClientTrust, Connector, ServerIdentity, TlsStream};
use tokio::io::{
    AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, Join, ReadBuf, ReadHalf,
    WriteHalf, duplex, join, split,
};

use target::Target;

/// Every target there is here.
pub const TARGETS: &[Target] = &[
    Target { name: "frames", run: frames, valid: valid_frames, cost: 1 },
    Target { name: "names", run: names, valid: valid_names, cost: 1 },
    Target { name: "perf_control", run: perf_control, valid: valid_messages, cost: 4 },
    Target { name: "session", run: session, valid: valid_session, cost: 400 },
    Target { name: "tls", run: tls, valid: noise, cost: 400 },
];

/// Frames one after the other: what is understood says the same when it is written again, and a list
/// of the entries among them keeps its promises.
pub fn frames(data: &[u8]) -> bool {
    let (mut list, mut rest, mut understood) = (FileList::new(), data, 0);
    while let Some((header, behind)) = rest.split_first_chunk::<HEADER>() {
        let Ok((kind, length)) = parse_header(*header) else { break };
        assert!(length <= MAX_DATA.max(MAX_CONTROL));
        let Some((body, behind)) = behind.split_at_checked(length) else { break };
        rest = behind;
        let Ok(frame) = parse_body(kind, body) else { continue };
        understood += 1;
        let mut again = Vec::new();
        encode(&frame, &mut again);
        let of_another_version =
            matches!(frame, Frame::Hello { version, .. } if version != VERSION);
        if !of_another_version {
            assert_eq!(again, [&header[..], body].concat(), "{frame:?}");
        }
        match frame {
            Frame::Entry(entry) => add(&mut list, entry),
            Frame::Listed { entries, bytes } => drop(list.check_totals(entries, bytes)),
            _ => {}
        }
    }
    let _ = list.check_case();
    understood > 0
}

fn add(list: &mut FileList, entry: Entry) {
    let path = entry.path.clone();
    let (before, bytes) = (list.entries().len(), list.total_bytes());
    match list.push(entry) {
        Ok(()) => {
            assert_eq!(list.entries().len(), before + 1);
            let is_dir = |e: &&Entry| Some(e.path.as_bytes()) == path.parent();
            let parent = list.entries().iter().find(is_dir);
            assert!(path.parent().is_none() || parent.is_some_and(|e| e.kind == Kind::Dir));
        }
        Err(why) => {
            assert!(!why.to_string().is_empty());
            assert_eq!((list.entries().len(), list.total_bytes()), (before, bytes));
        }
    }
}

/// A name, and behind a zero byte a link's target: what is allowed stays inside.
pub fn names(data: &[u8]) -> bool {
    let shown = printable(data);
    assert!(!shown.chars().any(char::is_control), "{shown:?}");
    let (name, target) = match data.iter().position(|&b| b == 0) {
        Some(zero) => (&data[..zero], &data[zero + 1..]),
        None => (data, &[][..]),
    };
    let Ok(path) = RelPath::from_bytes(name) else { return false };
    assert_eq!(path.as_bytes(), name);
    assert!(path.as_path().is_relative());
    let normal = |c| matches!(c, std::path::Component::Normal(_));
    assert!(path.as_path().components().all(normal), "{path}");
    assert_eq!(path.as_path().components().count(), path.depth());
    if check_link_target(&path, target).is_ok() {
        // Walked from where the link is, it never leaves the top.
        let mut depth = path.depth() as i64 - 1;
        for component in target.split(|&b| b == b'/') {
            depth += match component {
                b"" | b"." => 0,
                b".." => -1,
                _ => 1,
            };
            assert!(depth >= 0, "{path} -> {}", printable(target));
        }
        assert!(!target.starts_with(b"/"));
    }
    true
}

/// A connection that says what it is, and then messages.
pub fn perf_control(data: &[u8]) -> bool {
    // Its limits of time ask for a clock.
    let _inside = runtime().enter();
    let opened = now(read_opening(Script { says: data.to_vec(), at: 0 }));
    let messages = match opened {
        Some(Ok(_)) => data.get(9..).unwrap_or_default(),
        _ => data,
    };
    let mut inbox = Inbox::new(Script { says: messages.to_vec(), at: 0 });
    let mut understood = 0;
    // Each takes bytes: there is an end.
    while let Some(Ok(message)) = now(inbox.next()) {
        understood += 1;
        if let Message::Open { params } = &message
            && params.check().is_ok()
        {
            assert!(params.client_sends().len() <= 256);
            let _ = (params.omit(), params.duration(), params.bytes());
        }
        let mut written = Vec::new();
        assert!(now(send(&mut written, &message)).is_some_and(|sent| sent.is_ok()));
        // JSON has no numbers that are none, so what was read can be read again.
        let again = now(Inbox::new(Script { says: written, at: 0 }).next());
        assert!(matches!(again, Some(Ok(again)) if again == message), "{message:?}");
    }
    understood > 0
}

/// A whole session of the receiving command, on a real directory: nothing outside of the inbox changes,
/// and what is in it has the name that was listed.
pub fn session(data: &[u8]) -> bool {
    let memory = Path::new("/dev/shm");
    let top = if memory.is_dir() { memory } else { Path::new("/tmp") };
    let dir = tempfile::tempdir_in(top).expect("a directory");
    std::fs::write(dir.path().join("canary"), "canary").expect("room");
    let store = Store::open(&dir.path().join("in"), Durability::Lazy).expect("a directory");
    let intake = Intake::alone(store);
    let conn = Script { says: [&PREFACE[..], data].concat(), at: 0 };
    let (quiet, never) = (Progress::hidden(), Stop::never());
    let received = runtime().block_on(receive_tree(conn, &intake, &quiet, &never));
    let outside: Vec<_> = std::fs::read_dir(dir.path())
        .expect("it is there")
        .map(|entry| entry.expect("readable").file_name())
        .collect();
    assert_eq!(outside.len(), 2, "{outside:?}");
    assert_eq!(std::fs::read(dir.path().join("canary")).expect("it is there"), b"canary");
    received.is_ok()
}

/// Two ends of TLS, cut into pieces and perhaps damaged on the way: what is read is what was written,
/// up to where it breaks. First byte: how; second and third: where; then sizes of writes and reads.
pub fn tls(data: &[u8]) -> bool {
    static ENDS: OnceLock<(Acceptor, Connector)> = OnceLock::new();
    let (acceptor, connector) = ENDS.get_or_init(|| {
        let identity = ServerIdentity::generate(&["localhost"]).expect("a key");
        let trust = ClientTrust::Pinned(identity.fingerprint());
        let acceptor = Acceptor::new(&identity).expect("a key of ours");
        (acceptor, Connector::new(trust).expect("a pin of ours"))
    });
    let [how, high, low, sizes @ ..] = data else { return false };
    // A handshake has a time limit, hence wants a timer.
    let _timers = runtime().enter();
    if how & 1 == 1 {
        // Whoever it is says something else altogether.
        let stranger = Script { says: sizes.to_vec(), at: 0 };
        assert!(now(acceptor.accept(stranger)).is_none_or(|accepted| accepted.is_err()));
        return false;
    }
    let (near, far) = duplex(1 << (usize::from(how >> 1) % 8 + 6));
    let at = usize::from(*high) << 8 | usize::from(*low);
    let (inner, write) = split(far);
    let flips = if how >> 4 & 3 == 0 { 0 } else { 1 << (how >> 5) };
    let far = join(Damaged { inner, left: at, flips }, write);
    let shaken = now_both(connector.connect("localhost", near), acceptor.accept(far));
    let (Some(Ok(near)), Some(Ok(far))) = shaken else { return false };
    carry(near, far, sizes)
}

fn carry(
    near: TlsStream<DuplexStream>,
    far: TlsStream<Join<Damaged, WriteHalf<DuplexStream>>>,
    sizes: &[u8],
) -> bool {
    let (mut near, mut far) = (near, far);
    let (mut written, mut read) = (0_u32, 0_u32);
    for pair in sizes.chunks(2).take(200) {
        let (write, take) =
            (usize::from(pair[0]) * 97, usize::from(*pair.last().unwrap_or(&0)) * 61);
        let bytes: Vec<u8> = (0..write as u32).map(|i| pattern(written + i)).collect();
        if let Some(Ok(n)) = now(near.write(&bytes)) {
            written += n as u32;
        }
        let _ = now(near.flush());
        let mut out = vec![0; take.max(1)];
        match now(far.read(&mut out)) {
            Some(Ok(n)) => {
                for &byte in &out[..n] {
                    assert!(read < written, "bytes that nobody wrote");
                    assert_eq!(byte, pattern(read), "byte {read}");
                    read += 1;
                }
            }
            Some(Err(_)) => return true,
            None => {}
        }
    }
    true
}

fn pattern(at: u32) -> u8 {
    (at ^ at >> 8).wrapping_mul(167) as u8
}

fn runtime() -> &'static tokio::runtime::Runtime {
    static RUNTIME: OnceLock<tokio::runtime::Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
    })
}

/// One poll, or some: nothing here waits for anything but the other end.
fn now<T>(work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    let mut cx = Context::from_waker(Waker::noop());
    (0..64).find_map(|_| match work.as_mut().poll(&mut cx) {
        Poll::Ready(done) => Some(done),
        Poll::Pending => None,
    })
}

fn now_both<A, B>(
    a: impl Future<Output = A>,
    b: impl Future<Output = B>,
) -> (Option<A>, Option<B>) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let mut cx = Context::from_waker(Waker::noop());
    let (mut of_a, mut of_b) = (None, None);
    for _ in 0..10_000 {
        if of_a.is_none()
            && let Poll::Ready(done) = a.as_mut().poll(&mut cx)
        {
            of_a = Some(done);
        }
        if of_b.is_none()
            && let Poll::Ready(done) = b.as_mut().poll(&mut cx)
        {
            of_b = Some(done);
        }
        if of_a.is_some() && of_b.is_some() {
            break;
        }
    }
    (of_a, of_b)
}

/// A peer that says something and then ends; whatever it hears is nothing to it.
struct Script {
    says: Vec<u8>,
    at: usize,
}

impl Connection for Script {}

impl AsyncRead for Script {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let n = (self.says.len() - self.at).min(buf.remaining());
        buf.put_slice(&self.says[self.at..self.at + n]);
        self.at += n;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Script {
    fn poll_write(
        self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// What is read of a stream, one byte changed.
struct Damaged {
    inner: ReadHalf<DuplexStream>,
    left: usize,
    flips: u8,
}

impl AsyncRead for Damaged {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let done = Pin::new(&mut self.inner).poll_read(cx, buf);
        let (left, flips) = (self.left, self.flips);
        let came = &mut buf.filled_mut()[before..];
        if let Some(byte) = came.get_mut(left) {
            *byte ^= flips;
        }
        // Once it is passed it does not come again.
        self.left = left.checked_sub(came.len()).unwrap_or(usize::MAX);
        done
    }
}

/// Random bytes of a random length.
pub fn noise(rng: &mut Pcg64) -> Vec<u8> {
    let mut bytes = vec![0; 1 << rng.random_range(0..10)];
    rng.fill_bytes(&mut bytes);
    bytes
}

fn valid_name(rng: &mut Pcg64) -> Vec<u8> {
    let parts = ["a", "b", "..x", "\u{1f980}", "tree", "-", "A"];
    let depth = rng.random_range(1..4);
    let name: Vec<_> = (0..depth).map(|_| parts[rng.random_range(0..parts.len())]).collect();
    name.join("/").into_bytes()
}

fn valid_names(rng: &mut Pcg64) -> Vec<u8> {
    let mut out = valid_name(rng);
    out.push(0);
    let climbs = rng.random_range(0..3);
    out.extend_from_slice("../".repeat(climbs).as_bytes());
    out.extend(valid_name(rng));
    out
}

/// Files, a folder and a link, and what each file holds.
fn valid_entries(rng: &mut Pcg64) -> Vec<(Entry, Vec<u8>)> {
    let mtime = Mtime { seconds: rng.random_range(-5..2_000_000_000), nanos: 7 };
    let entry = |name: &str, kind| {
        let path = RelPath::from_bytes(name.as_bytes()).expect("a clean name");
        Entry { path, mode: 0o755, mtime, kind }
    };
    let mut all = vec![(entry("d", Kind::Dir), Vec::new())];
    for number in 0..rng.random_range(1..4) {
        let bytes = noise(rng);
        let place = if rng.random_bool(0.5) { "d/" } else { "" };
        let kind = Kind::File { size: bytes.len() as u64 };
        all.push((entry(&format!("{place}f{number}"), kind), bytes));
    }
    all.push((entry("l", Kind::Symlink { target: b"d/f0".to_vec() }), Vec::new()));
    all
}

fn written(frames: &[Frame]) -> Vec<u8> {
    let mut out = Vec::new();
    frames.iter().for_each(|frame| encode(frame, &mut out));
    out
}

fn listing(entries: &[(Entry, Vec<u8>)]) -> Vec<Frame> {
    let mut all: Vec<_> = entries.iter().map(|(entry, _)| Frame::Entry(entry.clone())).collect();
    let bytes = entries.iter().map(|(_, bytes)| bytes.len() as u64).sum();
    all.push(Frame::Listed { entries: entries.len() as u32, bytes });
    all
}

fn valid_frames(rng: &mut Pcg64) -> Vec<u8> {
    let mut all = vec![Frame::Welcome { version: VERSION }, Frame::Noop];
    all.extend(listing(&valid_entries(rng)));
    let (index, bytes, hash) = (rng.random(), rng.random(), rng.random());
    all.extend([
        Frame::Have { index, bytes },
        Frame::Planned,
        Frame::Proof { index, hash },
        Frame::Keep { index },
        Frame::Go,
        Frame::File { index, offset: bytes },
        Frame::Data(noise(rng)),
        Frame::End { hash },
        Frame::Skip { index, reason: "why".to_owned() },
        Frame::Stored { index },
        Frame::Done { files: index, bytes },
        Frame::Finished,
    ]);
    written(&all)
}

/// All that a sender says.
fn valid_session(rng: &mut Pcg64) -> Vec<u8> {
    let entries = valid_entries(rng);
    let sender = rng.random();
    let mut all = vec![Frame::Hello { version: VERSION, what: What::Tree, sender }];
    all.extend(listing(&entries));
    for (index, (entry, bytes)) in (0..).zip(&entries) {
        if entry.file_size().is_some() {
            all.push(Frame::File { index, offset: 0 });
            all.push(Frame::Data(bytes.clone()));
            all.push(Frame::End { hash: *blake3::hash(bytes).as_bytes() });
        }
    }
    all.push(Frame::Finished);
    written(&all)
}

fn valid_messages(rng: &mut Pcg64) -> Vec<u8> {
    let messages = [
        r#"{"type":"open","params":{"version":1,"streams":2,"direction":"reverse","until":{"seconds":1.5},"omit_seconds":0.0,"block_bytes":1000}}"#,
        r#"{"type":"refused","reason":"no"}"#,
        r#"{"type":"start"}"#,
        r#"{"type":"end","interrupted":true}"#,
        r#"{"type":"results","results":{"streams":[{"bytes":5,"seconds":1.0,"flow":null}],"cpu":{}}}"#,
    ];
    let mut out = Vec::new();
    if rng.random_bool(0.5) {
        out.extend(b"tackperf\0");
    }
    for _ in 0..rng.random_range(1..4) {
        let message = messages[rng.random_range(0..messages.len())];
        out.extend((message.len() as u32).to_be_bytes());
        out.extend(message.as_bytes());
    }
    out
}

/// Turns bits, drops and doubles bytes.
pub fn mutate(rng: &mut Pcg64, input: &mut Vec<u8>) {
    for _ in 0..rng.random_range(1..5) {
        if input.is_empty() {
            return;
        }
        let at = rng.random_range(0..input.len());
        match rng.random_range(0..4) {
            0 => input[at] ^= 1 << rng.random_range(0..8),
            1 => input[at] = rng.random(),
            2 => drop(input.remove(at)),
            _ => input.insert(at, rng.random()),
        }
    }
}

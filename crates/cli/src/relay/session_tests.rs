use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64;
use std::task::ready;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadBuf, duplex};

use super::*;
use crate::relay::frame::HEADER;
use crate::relay::outgoing::MOST_KEPT;

fn run<T>(work: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().start_paused(true).build().unwrap().block_on(work)
}

/// A program's connection that breaks when so much was read from it.
struct Program {
    inner: DuplexStream,
    breaks_after: Option<usize>,
}

impl AsyncRead for Program {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.breaks_after == Some(0) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let most = self.breaks_after.unwrap_or(usize::MAX).min(buf.remaining());
        let mut part = ReadBuf::new(buf.initialize_unfilled_to(most));
        ready!(Pin::new(&mut self.inner).poll_read(cx, &mut part))?;
        let n = part.filled().len();
        buf.advance(n);
        self.breaks_after = self.breaks_after.map(|left| left - n);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Program {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

fn program(room: usize, breaks_after: Option<usize>) -> (DuplexStream, Program) {
    let (outer, inner) = duplex(room);
    (outer, Program { inner, breaks_after })
}

/// One end: its session, its program, and how it ended.
struct Side {
    session: Session,
    program: Program,
    ended: Option<Result<(), Broken>>,
}

impl Side {
    fn new(program: Program) -> Side {
        Side { session: Session::default(), program, ended: None }
    }

    /// Until something other than the connection ends it; then says so to the other side.
    async fn carry(&mut self, conn: &mut DuplexStream) {
        while self.ended.is_none() {
            match self.session.carry(conn, &mut self.program).await {
                Err(Broken::Connection(_)) => std::future::pending().await,
                ended => self.ended = Some(ended),
            }
        }
        match &self.ended {
            Some(Ok(())) => conn.shutdown().await.unwrap(),
            Some(Err(Broken::Reset)) => self.session.part(conn).await,
            Some(Err(Broken::Program(_))) if self.session.farewell(conn).await.is_ok() => {}
            _ => {}
        }
        std::future::pending().await
    }
}

/// Says all it has and ends, and hears all there is, at the outer end of a program's connection.
async fn talk(outer: DuplexStream, says: &[u8]) -> Vec<u8> {
    let (mut reader, mut writer) = tokio::io::split(outer);
    let mut heard = Vec::new();
    let saying = async {
        // It fails where the program breaks.
        let _ = writer.write_all(says).await;
        let _ = writer.shutdown().await;
    };
    let (_, read) = tokio::join!(saying, reader.read_to_end(&mut heard));
    read.unwrap();
    heard
}

fn bytes(rng: &mut Pcg64, most: usize) -> Vec<u8> {
    let mut bytes = vec![0; rng.random_range(0..most)];
    rng.fill_bytes(&mut bytes);
    bytes
}

/// Two sides whose connection breaks so often after a random time, what is on its way being lost; what both
/// programs heard, and how both sides ended.
async fn broken_talk(
    rng: &mut Pcg64,
    breaks: usize,
    (up, down): (&[u8], &[u8]),
    program_breaks_after: Option<usize>,
) -> (Vec<u8>, Vec<u8>, Side, Side) {
    let (near, inner) = program(rng.random_range(100..100_000), program_breaks_after);
    let mut a = Side::new(inner);
    let (far, inner) = program(rng.random_range(100..100_000), None);
    let mut b = Side::new(inner);
    let moving = async {
        for left in (0..=breaks).rev() {
            let (mut x, mut y) = duplex(rng.random_range(50..200_000));
            let steps = if left > 0 { rng.random_range(0..60) } else { 30_000 };
            let mut step = 0;
            let over = {
                let mut carrying = std::pin::pin!(async {
                    tokio::join!(a.carry(&mut x), b.carry(&mut y));
                });
                poll_fn(|cx| {
                    step += 1;
                    let _ = carrying.as_mut().poll(cx);
                    cx.waker().wake_by_ref();
                    if step > steps { Poll::Ready(()) } else { Poll::Pending }
                })
                .await;
                left == 0
            };
            if !over {
                let (at_a, at_b) = (a.session.position(), b.session.position());
                a.session.restart(at_b).unwrap();
                b.session.restart(at_a).unwrap();
            }
        }
        // Their programs hear that it is over.
        (a.program, b.program) = (program(1, None).1, program(1, None).1);
        (a, b)
    };
    let (heard_near, heard_far, (a, b)) = tokio::join!(talk(near, up), talk(far, down), moving);
    (heard_near, heard_far, a, b)
}

#[test]
fn connections_that_break_anywhere_cost_no_byte_and_no_end() {
    for seed in 0..200 {
        let mut rng = Pcg64::seed_from_u64(seed);
        let (up, down) = (bytes(&mut rng, 300_000), bytes(&mut rng, 300_000));
        let breaks = rng.random_range(0..8);
        let talked = run(broken_talk(&mut rng, breaks, (&up, &down), None));
        let (near, far, a, b) = talked;
        assert!(far == up, "seed {seed}: {} of {} bytes went up", far.len(), up.len());
        assert!(near == down, "seed {seed}: {} of {} bytes came down", near.len(), down.len());
        let ended = (&a.ended, &b.ended);
        assert!(matches!(ended, (Some(Ok(())), Some(Ok(())))), "seed {seed}: {ended:?}");
        let (up, down) = (up.len() as u64, down.len() as u64);
        assert_eq!(a.session.passed(), Passed { from: up, to: down }, "seed {seed}");
    }
}

#[test]
fn a_reset_is_heard_as_one_however_often_the_connection_breaks() {
    for seed in 0..200 {
        let mut rng = Pcg64::seed_from_u64(seed);
        let (up, down) = (bytes(&mut rng, 300_000), bytes(&mut rng, 300_000));
        let (breaks, after) = (rng.random_range(0..8), rng.random_range(0..=up.len()));
        let (_, far, a, b) = run(broken_talk(&mut rng, breaks, (&up, &down), Some(after)));
        assert!(up.starts_with(&far), "seed {seed}");
        // Whoever has everything before the reset may have ended in order.
        let ended = (&a.ended, &b.ended);
        let reset = matches!(ended, (Some(Err(Broken::Program(_))), Some(Err(Broken::Reset))));
        assert!(reset, "seed {seed}: {ended:?}");
    }
}

#[test]
fn an_idle_direction_holds_no_buffer() {
    run(async {
        let ((mut near, mut program), (mut conn, mut other)) =
            (program(1 << 20, None), duplex(1 << 20));
        let mut session = Session::default();
        near.write_all(&vec![1; 300_000]).await.unwrap();
        for _ in 0..3 {
            let mut carrying = std::pin::pin!(session.carry(&mut conn, &mut program));
            assert!(poll_fn(|cx| Poll::Ready(carrying.as_mut().poll(cx).is_pending())).await);
            // The other end has it all.
            other.write_all(&Frame::Have(300_000).bytes()).await.unwrap();
        }
        let text = format!("{session:?}");
        assert!(text.contains("pieces: []") && text.contains("buffer: []"), "{text}");
        assert!(text.contains("spare: []"), "{text}");
    });
}

#[test]
fn what_came_before_a_connection_broke_is_passed_on_first() {
    run(async {
        let (mut outer, mut program) = program(64 << 10, None);
        let (mut conn, mut other) = duplex(64 << 10);
        for part in [&b"one"[..], b"two"] {
            let mut frame = vec![0; HEADER];
            Frame::Data(part.len()).put(&mut frame);
            other.write_all(&[&frame, part].concat()).await.unwrap();
        }
        drop(other);
        let mut session = Session::default();
        let broke = session.carry(&mut conn, &mut program).await;
        assert!(matches!(broke, Err(Broken::Connection(_))), "{broke:?}");
        assert_eq!(session.position(), 6);
        let mut got = [0; 6];
        outer.read_exact(&mut got).await.unwrap();
        assert_eq!(&got, b"onetwo");
    });
}

/// A window on what is kept, so that nobody has to keep more.
#[test]
fn who_sends_waits_for_the_other_end_unless_that_cannot_be_heard() {
    let mut outgoing = Outgoing::default();
    let fill = |outgoing: &mut Outgoing, deaf| {
        while outgoing.takes(deaf) {
            outgoing.take_copy(&vec![7; 1 << 20]);
            while let Some(n) = outgoing.bytes().map(<[u8]>::len) {
                outgoing.wrote(n);
            }
            if outgoing.passed() > 3 * MOST_KEPT {
                break;
            }
        }
    };
    fill(&mut outgoing, false);
    assert_eq!(outgoing.passed(), MOST_KEPT);
    // Deaf, it goes on, and cannot take up from the beginning any more.
    fill(&mut outgoing, true);
    assert!(outgoing.passed() > 2 * MOST_KEPT);
    assert_eq!(outgoing.restart(1), Err(Violation::Forgotten));
    assert_eq!(outgoing.restart(outgoing.passed() + 1), Err(Violation::NeverSent));
    assert_eq!(outgoing.restart(outgoing.passed() - 5), Ok(()));
    assert_eq!(outgoing.bytes().map(<[u8]>::len), Some(HEADER + 5));
}

#[test]
fn a_stream_that_is_over_takes_no_memory_and_one_that_is_not_had_takes_what_it_keeps() {
    run(async {
        let ((mut near, mut program), (mut conn, mut other)) =
            (program(1 << 20, None), duplex(1 << 20));
        let kept = Arc::<AtomicUsize>::default();
        let mut session = Session::told(kept.clone());
        near.write_all(&vec![1; 300_000]).await.unwrap();
        near.shutdown().await.unwrap();
        let mut carrying = std::pin::pin!(session.carry(&mut conn, &mut program));
        assert!(poll_fn(|cx| Poll::Ready(carrying.as_mut().poll(cx).is_pending())).await);
        assert!(kept.load(Relaxed) >= 300_000);
        // The end has a position of its own, and is no byte.
        other.write_all(&Frame::Have(300_001).bytes()).await.unwrap();
        assert!(poll_fn(|cx| Poll::Ready(carrying.as_mut().poll(cx).is_pending())).await);
        assert!(kept.load(Relaxed) < 1_000, "{}", kept.load(Relaxed));
    });
}

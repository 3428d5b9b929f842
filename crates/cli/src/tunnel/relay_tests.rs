use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::*;
use crate::tunnel::protocol::Cause;

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// A connection that tells whether it was aborted.
struct Told {
    inner: DuplexStream,
    aborted: Arc<AtomicBool>,
}

impl Told {
    fn new(inner: DuplexStream) -> (Told, Arc<AtomicBool>) {
        let aborted = Arc::new(AtomicBool::new(false));
        (Told { inner, aborted: aborted.clone() }, aborted)
    }
}

impl AsyncRead for Told {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl AsyncWrite for Told {
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

impl Connection for Told {
    fn abort(self) {
        self.aborted.store(true, Ordering::Relaxed);
    }
}

async fn relay_from(
    stream: impl Connection,
    program: impl Connection,
    answer: bool,
    down: Vec<u8>,
) -> Result<Passed, RelayError> {
    relay(stream, program, Opening { down, answer, ..Opening::default() }, &Stop::never()).await
}

#[test]
fn each_direction_carries_its_bytes_and_ends_by_itself() {
    for seed in 0..30 {
        let mut rng = Pcg64::seed_from_u64(seed);
        let mut bytes = |most| {
            let mut bytes = vec![0; rng.random_range(0..most)];
            rng.fill_bytes(&mut bytes);
            bytes
        };
        let (up, down, first) = (bytes(400_000), bytes(400_000), bytes(10));
        let ((near, program), (far, stream)) = (duplex(1_000 + seed as usize * 700), duplex(5_000));
        let passed = run(async {
            let ((program, a), (stream, b)) = (Told::new(program), Told::new(stream));
            let relaying = tokio::spawn(relay_from(stream, program, false, first.clone()));
            let (mut near_read, mut near_write) = tokio::io::split(near);
            let (mut far_read, mut far_write) = tokio::io::split(far);
            let write_up = async {
                near_write.write_all(&up).await.unwrap();
                near_write.shutdown().await.unwrap();
            };
            let write_down = async {
                far_write.write_all(&down).await.unwrap();
                far_write.shutdown().await.unwrap();
            };
            let (mut went_up, mut came_down) = (Vec::new(), Vec::new());
            let (_, _, read_up, read_down) = tokio::join!(
                write_up,
                write_down,
                far_read.read_to_end(&mut went_up),
                near_read.read_to_end(&mut came_down)
            );
            assert!(read_up.is_ok() && read_down.is_ok());
            assert!(went_up == up && came_down == [&first[..], &down].concat(), "seed {seed}");
            assert!(!a.load(Ordering::Relaxed) && !b.load(Ordering::Relaxed));
            relaying.await.unwrap().unwrap()
        });
        let (up, down) = (up.len() as u64, (first.len() + down.len()) as u64);
        assert_eq!(passed, Passed { up, down });
    }
}

#[test]
fn a_half_that_ended_leaves_the_other_open() {
    run(async {
        let ((mut near, program), (mut far, stream)) = (duplex(100), duplex(100));
        let relaying = tokio::spawn(relay_from(stream, program, false, Vec::new()));
        near.write_all(b"request").await.unwrap();
        near.shutdown().await.unwrap();
        let mut request = Vec::new();
        far.read_to_end(&mut request).await.unwrap();
        assert_eq!(request, b"request");
        far.write_all(b"answer").await.unwrap();
        let mut answer = [0; 6];
        near.read_exact(&mut answer).await.unwrap();
        assert!(!relaying.is_finished());
        far.shutdown().await.unwrap();
        relaying.await.unwrap().unwrap();
    });
}

#[test]
fn what_breaks_on_one_side_breaks_on_the_other() {
    run(async {
        let ((near, program), (_far, stream)) = (duplex(100), duplex(100));
        let ((program, a), (stream, b)) = (Told::new(program), Told::new(stream));
        let relaying = relay_from(stream, program, false, b"too late".to_vec());
        // Nobody reads what the program gets any more.
        drop(near);
        let ended = relaying.await.unwrap_err();
        assert!(matches!(ended, RelayError::Program(_)), "{ended}");
        assert!(a.load(Ordering::Relaxed) && b.load(Ordering::Relaxed));
    });
}

#[test]
fn bytes_go_up_before_the_answer_and_come_down_after_it() {
    run(async {
        let ((mut near, program), (mut far, stream)) = (duplex(100), duplex(100));
        let relaying = tokio::spawn(relay_from(stream, program, true, Vec::new()));
        near.write_all(b"early").await.unwrap();
        let mut early = [0; 5];
        far.read_exact(&mut early).await.unwrap();
        let opened = Answer::Opened("[::1]:9".parse().unwrap()).bytes();
        for byte in [&opened[..], b"late"].concat() {
            far.write_all(&[byte]).await.unwrap();
            tokio::task::yield_now().await;
        }
        let mut late = [0; 4];
        near.read_exact(&mut late).await.unwrap();
        assert_eq!(&late, b"late");
        drop((near, far));
        relaying.await.unwrap().unwrap();
    });
}

#[test]
fn a_refusal_resets_the_program() {
    run(async {
        let ((_near, program), (mut far, stream)) = (duplex(100), duplex(100));
        let (program, aborted) = Told::new(program);
        let refused = Answer::Refused(Refusal::new(Cause::NotAllowed, "not there")).bytes();
        far.write_all(&refused).await.unwrap();
        let ended = relay_from(stream, program, true, Vec::new()).await.unwrap_err();
        assert_eq!(ended.to_string(), "not there");
        assert!(aborted.load(Ordering::Relaxed));
    });
}

#[test]
fn told_to_stop_it_resets_both() {
    run(async {
        let ((_near, program), (_far, stream)) = (duplex(100), duplex(100));
        let ((program, a), (stream, b)) = (Told::new(program), Told::new(stream));
        let stop = Stop::after(std::time::Duration::from_millis(20));
        let ended = relay(stream, program, Opening::default(), &stop).await.unwrap_err();
        assert!(matches!(ended, RelayError::Stopped));
        assert!(a.load(Ordering::Relaxed) && b.load(Ordering::Relaxed));
    });
}

#[test]
fn an_idle_direction_holds_no_buffer() {
    run(async {
        let ((mut near, mut program), (far, mut stream)) = (duplex(1 << 20), duplex(1 << 20));
        let mut pipe = Pipe::new(Vec::new());
        near.write_all(&vec![1; 300_000]).await.unwrap();
        let idle = poll_fn(|cx| Poll::Ready(pipe.poll(cx, &mut program, &mut stream).is_pending()));
        assert!(idle.await && pipe.buffer.capacity() == 0);
        assert_eq!((pipe.passed, pipe.chunk), (300_000, MOST_CHUNK));
        drop((near, far));
    });
}

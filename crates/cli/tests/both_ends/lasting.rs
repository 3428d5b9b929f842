//! Pipes and talks while connections break under them: every byte arrives once, every end is the one that was
//! meant, and nobody else gets in between.

#![allow(clippy::disallowed_methods, reason = "a path between processes runs in real time")]

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rand::RngExt;
use rand_pcg::Pcg64;
use tack_cli::cmd::lasting::{Over, asked, served};
use tack_cli::cmd::recv::to_stdout;
use tack_cli::exit::{ExitCode, Failure};
use tack_cli::progress::Progress;
use tack_cli::relay::{Carrier, Session};
use tack_cli::stop::Stop;
use tack_cli::transfer::VERSION;
use tack_cli::transfer::frame::{Code, Frame, PREFACE, What};
use tack_cli::transfer::passage::{Asking, Dialler};
use tack_cli::transfer::pipe::send_stream;
use tack_cli::transfer::wire::FrameReader;
use tempfile::tempdir;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use crate::course::{Course, Orders, STEADY, forward};
use crate::hostile::frames;
use crate::network::{TRANSPORTS, listen};
use crate::patience::run_in_fast_time;
use crate::strangers::Net;
use crate::support::{Death, Listening, Mortal, random_bytes, rng, succeeded, tack};

/// Connections that break after a random number of bytes, so many of them; the next one does not.
pub(crate) struct Breaking {
    pub(crate) net: Net,
    pub(crate) rng: Pcg64,
    pub(crate) breaks: usize,
}

impl Dialler for Breaking {
    type Conn = Mortal;

    async fn another(&mut self, broken: bool, _known: bool) -> Result<Mortal, Failure> {
        if !broken {
            return std::future::pending().await;
        }
        let bytes_left = match self.breaks.checked_sub(1) {
            None => usize::MAX,
            Some(left) => {
                self.breaks = left;
                // In the middle of an opening, too.
                let most = [100, 10_000, 500_000][self.rng.random_range(0..3)];
                self.rng.random_range(0..most)
            }
        };
        let (inner, is_cut) = self.net.connect_until_cut(2);
        Ok(Mortal { inner, bytes_left, death: Death::Cut, is_cut: Some(is_cut) })
    }
}

/// Does `work` with a stream to `net` over connections of which so many break.
pub(crate) async fn over_breaking<T>(
    net: &Net,
    what: What,
    (seed, breaks): (u64, usize),
    work: impl AsyncFnOnce(DuplexStream) -> Result<T, Failure>,
) -> Result<Over<T>, Failure> {
    let dialler = Breaking { net: net.clone(), rng: rng(seed), breaks };
    let mut carrier = Carrier::new(Asking::new(dialler, what).unwrap(), Session::default());
    asked(&mut carrier, what, &Stop::never(), work).await
}

#[test]
fn a_pipe_whose_connections_break_anywhere_arrives_byte_for_byte() {
    for seed in 0..40 {
        let mut rng = rng(seed);
        let length = rng.random_range(0..3_000_000);
        let bytes = random_bytes(&mut rng, length);
        let breaks = rng.random_range(0..8);
        let (sent, received, out) = run_in_fast_time(async {
            let (net, mut port) = Net::new();
            let (never, quiet) = (Stop::never(), Progress::hidden());
            let mut out = Vec::new();
            let sending =
                async |conn| Ok(send_stream(conn, bytes.as_slice(), &quiet, &never).await?);
            let (sent, received) = tokio::join!(
                over_breaking(&net, What::Stream, (seed, breaks), sending),
                to_stdout(&mut port, &mut out, true, &never)
            );
            (sent, received, out)
        });
        assert!(out == bytes, "seed {seed}: {} of {length} bytes", out.len());
        let (sent, told) = sent.unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        assert_eq!(sent, length as u64, "seed {seed}");
        assert!(told.is_ok(), "seed {seed}: {told:?}");
        assert_eq!(received.unwrap(), ExitCode::Success, "seed {seed}");
    }
}

/// Says all it has, ends its direction, before or after the other side has, and hears all there is.
async fn talk(conn: DuplexStream, says: &[u8], first: bool) -> Result<Vec<u8>, Failure> {
    let (mut reader, mut writer) = tokio::io::split(conn);
    let mut heard = Vec::new();
    let saying = async {
        writer.write_all(says).await.unwrap();
        writer.shutdown().await.unwrap();
    };
    if first {
        saying.await;
        reader.read_to_end(&mut heard).await.unwrap();
    } else {
        reader.read_to_end(&mut heard).await.unwrap();
        saying.await;
    }
    Ok(heard)
}

#[test]
fn a_talk_whose_connections_break_anywhere_keeps_every_byte_and_both_ends() {
    for seed in 0..40 {
        let mut rng = rng(1_000 + seed);
        let mut said = || {
            let length = rng.random_range(0..1_000_000);
            random_bytes(&mut rng, length)
        };
        let (up, down) = (said(), said());
        let (breaks, up_first) = (rng.random_range(0..8), rng.random());
        let (near, far) = run_in_fast_time(async {
            let (net, mut port) = Net::new();
            let never = Stop::never();
            tokio::join!(
                over_breaking(&net, What::Talk, (seed, breaks), async |conn| {
                    talk(conn, &up, up_first).await
                }),
                served(&mut port, What::Talk, None, &never, async |conn| {
                    talk(conn, &down, !up_first).await
                })
            )
        });
        for (over, said) in [(near, &down), (far, &up)] {
            let (heard, told) = over.unwrap_or_else(|e| panic!("seed {seed}: {e}"));
            assert!(heard == *said, "seed {seed}: {} of {} bytes", heard.len(), said.len());
            assert!(told.is_ok(), "seed {seed}: {told:?}");
        }
    }
}

/// What a stranger is told that says this.
async fn told(net: &Net, what: What, name: [u8; 32]) -> Code {
    let mut conn = net.connect(9);
    let hello = Frame::Hello { version: VERSION, what, sender: name };
    let opening = frames(&[hello, Frame::Have { index: 0, bytes: 0 }]);
    conn.write_all(&[PREFACE.to_vec(), opening].concat()).await.unwrap();
    let mut reader = FrameReader::new(conn);
    reader.preface().await.unwrap();
    match reader.next("testing").await {
        Err(tack_cli::transfer::TransferError::Peer { code, .. }) => code,
        other => panic!("{what:?}: {other:?}"),
    }
}

#[test]
fn a_stranger_neither_takes_a_stream_over_nor_ends_it_nor_begins_another_beside_it() {
    let (first, rest) = (random_bytes(&mut rng(3), 400_000), random_bytes(&mut rng(4), 400_000));
    let (sent, received, out) = run_in_fast_time(async {
        let (net, mut port) = Net::new();
        let (never, quiet) = (Stop::never(), Progress::hidden());
        let mut out = Vec::new();
        let (mut pipe, input) = tokio::io::duplex(1 << 20);
        let piping = async {
            pipe.write_all(&first).await.unwrap();
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(told(&net, What::Rest, [7; 32]).await, Code::Refused);
            assert_eq!(told(&net, What::Stream, [7; 32]).await, Code::Busy);
            assert_eq!(told(&net, What::Tree, [7; 32]).await, Code::Refused);
            // Nor do those that say nothing, in whatever numbers, nor does a pause in what is piped.
            let silent: Vec<_> = (0..300).map(|_| net.connect(9)).collect();
            tokio::time::sleep(Duration::from_secs(150)).await;
            pipe.write_all(&rest).await.unwrap();
            drop((pipe, silent));
        };
        let sending = async |conn| Ok(send_stream(conn, input, &quiet, &never).await?);
        let (sent, received, ()) = tokio::join!(
            over_breaking(&net, What::Stream, (5, 2), sending),
            to_stdout(&mut port, &mut out, true, &never),
            piping
        );
        (sent, received, out)
    });
    assert!(out == [first, rest].concat(), "{} bytes", out.len());
    assert!(sent.is_ok() && received.is_ok());
}

#[test]
fn a_receiver_that_was_started_anew_is_not_given_the_middle_of_a_stream() {
    let failed = run_in_fast_time(async {
        let (net, mut port) = Net::new();
        let (never, quiet) = (Stop::never(), Progress::hidden());
        let (mut pipe, input) = tokio::io::duplex(1 << 14);
        let sending = async |conn| Ok(send_stream(conn, input, &quiet, &never).await?);
        let receiving = async {
            pipe.write_all(&[7; 5_000]).await.unwrap();
            // The process dies, and its sockets with it, and another one listens where it did.
            let dies = tokio::time::sleep(Duration::from_secs(2));
            tokio::select! {
                ended = to_stdout(&mut port, tokio::io::sink(), true, &never) => panic!("{ended:?}"),
                () = dies => {}
            }
            let ended = to_stdout(&mut port, tokio::io::sink(), true, &never).await;
            panic!("{ended:?}");
        };
        tokio::select! {
            sent = over_breaking(&net, What::Stream, (1, 0), sending) => sent.unwrap_err(),
            () = receiving => unreachable!("it panics"),
        }
    });
    assert!(failed.message.contains("is not known here"), "{failed}");
}

#[test]
fn a_stream_whose_sender_does_not_come_back_ends_with_a_reason() {
    for what in [What::Stream, What::Talk] {
        let (failed, took) = run_in_fast_time(async {
            let (net, mut port) = Net::new();
            let never = Stop::never();
            let sending = async {
                let work = async |mut conn: DuplexStream| {
                    conn.write_all(b"a word").await.unwrap();
                    std::future::pending::<Result<(), Failure>>().await
                };
                let leaves = tokio::time::sleep(Duration::from_secs(2));
                tokio::select! {
                    _ = over_breaking(&net, what, (1, 0), work) => panic!("it ended"),
                    () = leaves => {}
                }
            };
            let since = tokio::time::Instant::now();
            let hearing = async |mut conn: DuplexStream| {
                tokio::io::copy(&mut conn, &mut tokio::io::sink()).await.unwrap();
                Ok(())
            };
            let (over, ()) = tokio::join!(served(&mut port, what, None, &never, hearing), sending);
            (over.map(drop).unwrap_err(), since.elapsed())
        });
        assert!(failed.message.contains("nobody came back"), "{what:?}: {failed}");
        assert_eq!(failed.code, ExitCode::Failed);
        assert!(took < Duration::from_secs(70), "{what:?}: {took:?}");
    }
}

/// A `recv -`, and the line that sends to it by a path which takes orders.
fn receiver(home: &Path, over: &str, course: Course, orders: &Arc<Orders>) -> (Listening, String) {
    let (receiver, send) = listen(home, &format!("recv - -p 0 -B 127.0.0.1{over}"), "-");
    let inner = send.split("127.0.0.1:").nth(1).unwrap().split(' ').next().unwrap();
    let outer = forward(inner.parse().unwrap(), course, orders);
    let line = send.replace(inner, &outer.to_string());
    (receiver, line)
}

fn sender(home: &Path, line: &str) -> Child {
    tack(home, line).stdin(Stdio::piped()).spawn().unwrap()
}

/// Pipes so many bytes over a path; they arrive. What the sender said.
fn pipe_over(over: &str, course: Course, bytes: usize) -> String {
    let (home, orders) = (tempdir().unwrap(), Arc::default());
    let bytes = random_bytes(&mut rng(61), bytes);
    let (mut receiver, line) = receiver(home.path(), over, course, &orders);
    let mut sender = sender(home.path(), &line);
    let (mut stdin, mut stdout) = (sender.stdin.take().unwrap(), receiver.0.stdout.take().unwrap());
    let mut arrived = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            stdin.write_all(&bytes).unwrap();
            drop(stdin);
        });
        stdout.read_to_end(&mut arrived).unwrap();
    });
    let sent = sender.wait_with_output().unwrap();
    orders.end();
    succeeded(&sent);
    assert!(receiver.0.wait().unwrap().success());
    assert!(arrived == bytes, "{} of {} bytes", arrived.len(), bytes.len());
    String::from_utf8_lossy(&sent.stderr).into_owned()
}

fn went_on(said: &str) {
    assert!(said.contains("going on over another one"), "{said}");
}

#[test]
fn a_pipe_goes_on_through_a_nat_that_rebinds_again_and_again() {
    went_on(&pipe_over("", Course { rebinds_after: 6_000, ..STEADY }, 20_000_000));
}

#[test]
fn a_pipe_goes_on_after_a_silence_in_which_the_address_changed() {
    for over in TRANSPORTS {
        let silent = Duration::from_secs(4);
        let said = pipe_over(over, Course { rebinds_after: 6_000, silent, ..STEADY }, 20_000_000);
        // A connection of QUIC may have found the new path before another one did.
        if over.is_empty() {
            went_on(&said);
        }
    }
}

#[test]
fn a_pipe_goes_on_past_datagrams_that_are_damaged_behind_the_checksum() {
    went_on(&pipe_over("", Course { damages: Some(4_000), ..STEADY }, 20_000_000));
}

#[test]
fn a_pipe_whose_reader_only_waits_is_found_within_two_seconds_of_a_rebinding() {
    let (home, orders) = (tempdir().unwrap(), Arc::<Orders>::default());
    let (mut receiver, line) = receiver(home.path(), "", STEADY, &orders);
    let mut sender = sender(home.path(), &line);
    let (mut stdin, mut stdout) = (sender.stdin.take().unwrap(), receiver.0.stdout.take().unwrap());
    let mut word = [0; 5];
    stdin.write_all(b"first").unwrap();
    stdout.read_exact(&mut word).unwrap();
    for _ in 0..3 {
        thread::sleep(Duration::from_millis(1_500));
        orders.rebind();
        thread::sleep(Duration::from_millis(20));
        let since = Instant::now();
        stdin.write_all(b"again").unwrap();
        stdout.read_exact(&mut word).unwrap();
        println!("found after {:?}", since.elapsed());
        assert_eq!(&word, b"again");
        // Far more than a machine takes that is not busy.
        assert!(since.elapsed() < Duration::from_secs(20), "{:?}", since.elapsed());
    }
    drop(stdin);
    succeeded(&sender.wait_with_output().unwrap());
    assert!(receiver.0.wait().unwrap().success());
    orders.end();
}

#[test]
fn a_receiver_that_is_killed_in_the_middle_of_a_stream_is_an_error_soon() {
    for over in TRANSPORTS {
        let (home, orders) = (tempdir().unwrap(), Arc::<Orders>::default());
        let (mut receiver, line) = receiver(home.path(), over, STEADY, &orders);
        let mut sender = sender(home.path(), &line);
        let mut stdin = sender.stdin.take().unwrap();
        let mut word = [0; 5];
        stdin.write_all(b"first").unwrap();
        receiver.0.stdout.as_mut().unwrap().read_exact(&mut word).unwrap();
        // Dropped, it is killed, and says nothing.
        let since = Instant::now();
        drop(receiver);
        orders.end();
        let sent = sender.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&sent.stderr);
        assert_eq!(sent.status.code(), Some(1), "{over}: {said}");
        assert!(said.contains("refused") || said.contains("nothing was heard"), "{over}: {said}");
        println!("an error after {:?}{over}: {said}", since.elapsed());
        assert!(since.elapsed() < Duration::from_secs(100), "{:?}{over}", since.elapsed());
        drop(stdin);
    }
}

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::*;
use crate::tunnel::protocol::Open;

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

fn request() -> Request {
    Request { name: [7; 16], open: Open::Associate }
}

fn opened() -> Answer {
    Answer::Opened(SocketAddr::from(([10, 0, 0, 1], 9)))
}

async fn hears(far: &mut DuplexStream, expected: &[u8]) {
    let mut heard = vec![0; expected.len()];
    far.read_exact(&mut heard).await.unwrap();
    assert_eq!(heard, expected);
}

#[test]
fn bytes_go_up_before_the_answer_and_none_behind_it_is_touched() {
    run(async {
        let ((mut near, mut program), (mut far, mut stream)) = (duplex(100), duplex(100));
        let mut beginning = Beginning::new(&request(), b"early");
        let server = async {
            hears(&mut far, &[&request().bytes(), &b"early"[..]].concat()).await;
            near.write_all(b" and late").await.unwrap();
            hears(&mut far, b" and late").await;
            for byte in [opened().bytes(), b"theirs".to_vec()].concat() {
                far.write_all(&[byte]).await.unwrap();
                tokio::task::yield_now().await;
            }
        };
        let (answer, ()) =
            tokio::join!(beginning.answered(Some(&mut program), &mut stream), server);
        assert_eq!(answer.unwrap(), opened());
        let opening = beginning.opening();
        assert!(opening.up.is_empty() && opening.stage == PipeStage::Open);
        hears(&mut stream, b"theirs").await;
    });
}

#[test]
fn over_another_connection_all_is_said_again_the_end_too() {
    run(async {
        let (mut near, mut program) = duplex(100);
        near.write_all(b"all I have").await.unwrap();
        near.shutdown().await.unwrap();
        let mut beginning = Beginning::new(&request(), b"");
        for answers in [false, true] {
            let (mut far, mut stream) = duplex(200);
            let server = async {
                let mut said = Vec::new();
                far.read_to_end(&mut said).await.unwrap();
                assert_eq!(said, [&request().bytes(), &b"all I have"[..]].concat());
                if answers {
                    far.write_all(&opened().bytes()).await.unwrap();
                }
                drop(far);
            };
            let (answer, ()) =
                tokio::join!(beginning.answered(Some(&mut program), &mut stream), server);
            match answer {
                Err(RelayError::Stream(_)) if !answers => beginning.again(),
                answer => assert_eq!(answer.unwrap(), opened()),
            }
        }
        assert!(beginning.opening().stage == PipeStage::Ended);
    });
}

#[test]
fn a_program_that_talks_on_without_an_answer_is_held_back() {
    run(async {
        let ((mut near, mut program), (mut far, mut stream)) = (duplex(1 << 20), duplex(1 << 20));
        near.write_all(&vec![1; 300_000]).await.unwrap();
        let mut beginning = Beginning::new(&request(), b"");
        let waiting = beginning.answered(Some(&mut program), &mut stream);
        assert!(tokio::time::timeout(std::time::Duration::ZERO, waiting).await.is_err());
        assert!((MOST_KEPT..MOST_KEPT + CHUNK).contains(&beginning.kept.len()));
        // Nor is what a slow connection has not taken lost.
        far.write_all(&opened().bytes()).await.unwrap();
        beginning.answered(Some(&mut program), &mut stream).await.unwrap();
        let mut rest = beginning.opening().up;
        drop(stream);
        let mut said = Vec::new();
        far.read_to_end(&mut said).await.unwrap();
        said.append(&mut rest);
        let own = said.split_off(request().bytes().len());
        assert_eq!(said, request().bytes());
        assert!(own.iter().all(|byte| *byte == 1));
        assert!(own.len() + CHUNK > MOST_KEPT);
    });
}

#[test]
fn which_side_broke_is_told() {
    run(async {
        let ((near, mut program), (far, mut stream)) = (duplex(10), duplex(10));
        let mut beginning = Beginning::new(&request(), b"");
        drop((near, far));
        let error = beginning.answered(Some(&mut program), &mut stream).await.unwrap_err();
        assert!(matches!(error, RelayError::Stream(_)), "{error}");
    });
}

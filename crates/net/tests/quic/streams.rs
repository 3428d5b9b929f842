//! Bytes go through, on one stream and on many.

use sha2::{Digest, Sha256};
use tack_net::quic::Dir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::{bytes, echo, echoed, pair, soon};

#[tokio::test]
async fn bytes_come_back_intact_and_tack_is_spoken() {
    let (near, far) = pair().await;
    tokio::spawn(echo(far.clone()));
    assert!(soon(echoed(&near, bytes(3_000_000))).await == bytes(3_000_000));
    assert!(near.info().is_tack && far.info().is_tack);
    assert!(far.info().tacks > 0);
    assert_eq!(near.protocol().as_deref(), Some(super::PROTOCOL));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_megabytes_each_way_have_the_hash_they_left_with() {
    const LEN: usize = 16 << 20;
    async fn send(mut to: impl AsyncWrite + Unpin, seed: u8) -> [u8; 32] {
        let data: Vec<u8> = bytes(LEN).iter().map(|byte| byte ^ seed).collect();
        to.write_all(&data).await.unwrap();
        to.shutdown().await.unwrap();
        Sha256::digest(&data).into()
    }
    async fn receive(mut from: impl AsyncRead + Unpin) -> [u8; 32] {
        let mut data = Vec::new();
        from.read_to_end(&mut data).await.unwrap();
        assert_eq!(data.len(), LEN);
        Sha256::digest(&data).into()
    }
    let (near, far) = pair().await;
    let (near_w, near_r) = near.open_bi().await.unwrap();
    let up = tokio::spawn(send(near_w, 1));
    let (far_w, far_r) = soon(far.accept_bi()).await.unwrap();
    let down = tokio::spawn(send(far_w, 2));
    let (at_far, at_near) = soon(async { tokio::join!(receive(far_r), receive(near_r)) }).await;
    assert_eq!((up.await.unwrap(), down.await.unwrap()), (at_far, at_near));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_streams_share_a_connection_a_hundred_at_a_time() {
    let (near, far) = pair().await;
    tokio::spawn(echo(far));
    let streams: Vec<_> = (0..1_000)
        .map(|i| {
            let near = near.clone();
            let data = bytes(1_000 + 7 * i);
            tokio::spawn(async move { echoed(&near, data.clone()).await == data })
        })
        .collect();
    for stream in streams {
        assert!(soon(stream).await.unwrap());
    }
}

#[tokio::test]
async fn streams_of_one_side_arrive_in_the_order_they_were_opened() {
    let (near, far) = pair().await;
    for i in 0..20u8 {
        let mut send = near.open_uni().await.unwrap();
        assert_eq!((send.id().dir(), send.id().index()), (Dir::Uni, u64::from(i)));
        send.write_all(&[i; 100]).await.unwrap();
    }
    for i in 0..20u8 {
        let mut recv = soon(far.accept_uni()).await.unwrap();
        let mut got = Vec::new();
        soon(recv.read_to_end(&mut got)).await.unwrap();
        assert_eq!(got, [i; 100]);
    }
}

#[tokio::test]
async fn datagrams_arrive_and_one_that_is_too_long_is_refused() {
    let (near, far) = pair().await;
    let most = near.max_datagram();
    assert!(near.send_datagram(&vec![0; most + 1]).is_err());
    // A short one first: what does not share its packet makes a longer datagram behind it.
    let sent = [vec![1; 100], vec![2; most], vec![3; 5], vec![4; most]];
    for datagram in &sent {
        near.send_datagram(datagram).unwrap();
    }
    for datagram in &sent {
        assert!(soon(far.read_datagram()).await.unwrap() == *datagram);
    }
}

#[tokio::test]
async fn who_reads_slowly_holds_the_writer_back() {
    let (near, far) = pair().await;
    let mut send = near.open_uni().await.unwrap();
    let data = bytes(40 << 20);
    let sent = data.clone();
    let writing = tokio::spawn(async move {
        send.write_all(&sent).await.unwrap();
        send.shutdown().await.unwrap();
    });
    let mut recv = soon(far.accept_uni()).await.unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    assert!(!writing.is_finished(), "more was taken than the windows hold");
    let mut got = Vec::new();
    soon(recv.read_to_end(&mut got)).await.unwrap();
    assert!(got == data);
    soon(writing).await.unwrap();
}

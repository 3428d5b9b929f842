//! A hundred connections at once.

use std::sync::Arc;

use tack_interop::world::within;
use tack_interop::{Family, Setup, sockets, stream};
use tack_link::loss::LossConfig;
use tack_link::wired::DirectionConfig;
use tack_net::{ConnConfig, ListenConfig};
use tokio::task::JoinSet;

use crate::support::{LIMIT, way};

const CONNECTIONS: u64 = 100;

/// From nothing to some hundred kilobytes, each its own.
fn bytes(number: u64) -> u64 {
    number * number * 37 % 300_000
}

#[tokio::test]
async fn a_hundred_at_once_from_us_to_the_kernel() {
    let loss = LossConfig::Bernoulli(0.002);
    let Some(world) = Setup::over(DirectionConfig { loss, ..way(200, 5) }).start() else { return };
    let mut tasks = JoinSet::new();
    for family in Family::BOTH {
        let to = world.kernel(family, 80);
        let listener = sockets::listen(world.far(), to).unwrap();
        tasks.spawn(async move {
            let mut answers = JoinSet::new();
            for _ in 0..CONNECTIONS / 2 {
                let (mut stream, _) = listener.accept().await.unwrap();
                answers.spawn(async move { echo(&mut stream).await });
            }
            answers.join_all().await;
        });
        for number in 0..CONNECTIONS / 2 {
            let endpoint = world.endpoint.clone();
            tasks.spawn(async move {
                let mut stream = endpoint.connect_plain(to).await.unwrap();
                ask(&mut stream, number).await;
            });
        }
    }
    within(LIMIT, "a hundred connections", tasks.join_all()).await;
}

#[tokio::test]
async fn a_hundred_at_once_from_the_kernel_to_us() {
    let loss = LossConfig::Bernoulli(0.002);
    let Some(world) = Setup::over(DirectionConfig { loss, ..way(200, 5) }).start() else { return };
    let config = ListenConfig::default().with(|it| it.conn = ConnConfig::default());
    let listener = world.endpoint.listen_plain_with(80, config).unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut answers = JoinSet::new();
        for _ in 0..CONNECTIONS {
            let (mut stream, _) = listener.accept().await.unwrap();
            answers.spawn(async move { echo(&mut stream).await });
        }
        answers.join_all().await;
    });
    let world = Arc::new(world);
    for number in 0..CONNECTIONS {
        let world = world.clone();
        tasks.spawn(async move {
            let family = Family::BOTH[(number % 2) as usize];
            let to = world.ours(family, 80);
            let mut stream = sockets::connect(world.far(), to).await.unwrap();
            ask(&mut stream, number).await;
        });
    }
    within(LIMIT, "a hundred connections", tasks.join_all()).await;
}

/// Sends, and gets the same back.
async fn ask<S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin>(stream: &mut S, number: u64) {
    let (sent, got) = stream::exchange(stream, number, bytes(number)).await.unwrap();
    assert_eq!(sent, got, "connection {number}");
}

async fn echo<S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin>(stream: &mut S) {
    let (mut reader, mut writer) = tokio::io::split(stream);
    tokio::io::copy(&mut reader, &mut writer).await.unwrap();
    tokio::io::AsyncWriteExt::shutdown(&mut writer).await.unwrap();
}

//! Futures that are dropped at any moment, and handles in any order: nothing panics or hangs, no byte is lost or
//! doubled, and sockets are given back.

use std::any::Any;
use std::net::SocketAddr;
use std::time::Duration;

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use tack_net::quic::{Config, Connection, Endpoint, RecvStream, SendStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UdpSocket;
use tokio::task::LocalSet;
use tokio::time::{sleep, timeout};

use super::{PROTOCOL, Server, loopback, soon};

/// Waits until nobody has this address any more.
async fn given_back(address: SocketAddr) {
    while UdpSocket::bind(address).await.is_err() {
        sleep(Duration::from_millis(5)).await;
    }
}

/// What `future` says, unless it is dropped before: after one poll, or some time.
async fn perhaps<F: Future>(rng: &mut Pcg64, future: F) -> Option<F::Output> {
    let patience = if rng.random() { 0 } else { rng.random_range(0..3_000) };
    timeout(Duration::from_micros(patience), future).await.ok()
}

/// Byte `at` of every stream.
fn byte(at: usize) -> u8 {
    (at * 7 + at / 251 * 3) as u8
}

struct Side {
    endpoints: Vec<Endpoint>,
    connections: Vec<Connection>,
    /// And bytes written, or read.
    sends: Vec<(SendStream, usize)>,
    recvs: Vec<(RecvStream, usize)>,
}

fn pick<'a, T>(rng: &mut Pcg64, all: &'a mut [T]) -> Option<&'a mut T> {
    (!all.is_empty()).then(|| rng.random_range(0..all.len())).map(|at| &mut all[at])
}

fn lose<T>(rng: &mut Pcg64, all: &mut Vec<T>) {
    if !all.is_empty() {
        all.swap_remove(rng.random_range(0..all.len()));
    }
}

impl Side {
    fn new(endpoint: Endpoint) -> Side {
        let endpoints = vec![endpoint.clone(), endpoint];
        Side { endpoints, connections: Vec::new(), sends: Vec::new(), recvs: Vec::new() }
    }

    /// Does something at random that ends soon.
    async fn act(&mut self, rng: &mut Pcg64) {
        match rng.random_range(0..40) {
            0..10 => self.begin_stream(rng).await,
            10..18 => self.write(rng).await,
            18..28 => self.read(rng).await,
            28..33 => self.wait(rng).await,
            33 => lose(rng, &mut self.sends),
            34 => lose(rng, &mut self.recvs),
            35 if rng.random_range(0..4) == 0 => lose(rng, &mut self.connections),
            36 if self.endpoints.len() > 1 || rng.random_range(0..20) == 0 => {
                lose(rng, &mut self.endpoints);
            }
            37 => {
                if let Some((send, _)) = pick(rng, &mut self.sends) {
                    send.reset(1);
                }
            }
            38 => {
                if let Some((recv, _)) = pick(rng, &mut self.recvs) {
                    recv.stop(1);
                }
            }
            _ => tokio::task::yield_now().await,
        }
    }

    async fn begin_stream(&mut self, rng: &mut Pcg64) {
        let kind = rng.random_range(0..4);
        let Some(connection) = pick(rng, &mut self.connections).cloned() else { return };
        let both = match kind {
            0 => perhaps(rng, connection.open_bi()).await,
            1 => perhaps(rng, connection.accept_bi()).await,
            2 => {
                let opened = perhaps(rng, connection.open_uni()).await.and_then(Result::ok);
                return self.sends.extend(opened.map(|send| (send, 0)));
            }
            _ => {
                let accepted = perhaps(rng, connection.accept_uni()).await.and_then(Result::ok);
                return self.recvs.extend(accepted.map(|recv| (recv, 0)));
            }
        };
        if let Some(Ok((send, recv))) = both {
            self.sends.push((send, 0));
            self.recvs.push((recv, 0));
        }
    }

    async fn write(&mut self, rng: &mut Pcg64) {
        let (len, ends) = (rng.random_range(1..40_000), rng.random_range(0..8) == 0);
        let Some((send, at)) = pick(rng, &mut self.sends) else { return };
        let data: Vec<u8> = (*at..*at + len).map(byte).collect();
        if let Some(Ok(written)) = perhaps(rng, send.write(&data)).await {
            *at += written;
        }
        if ends {
            let _ = send.finish();
        }
    }

    async fn read(&mut self, rng: &mut Pcg64) {
        let mut buffer = vec![0; rng.random_range(1..60_000)];
        let Some((recv, at)) = pick(rng, &mut self.recvs) else { return };
        if let Some(Ok(read)) = perhaps(rng, recv.read(&mut buffer)).await {
            for (i, found) in buffer[..read].iter().enumerate() {
                assert_eq!(*found, byte(*at + i), "byte {} of {:?}", *at + i, recv.id());
            }
            *at += read;
        }
    }

    async fn wait(&mut self, rng: &mut Pcg64) {
        let what = rng.random_range(0..6);
        if let (0, Some((send, _))) = (what, pick(rng, &mut self.sends)) {
            drop(perhaps(rng, send.finished()).await);
        }
        if let Some(connection) = pick(rng, &mut self.connections).cloned() {
            match what {
                1 => drop(perhaps(rng, connection.closed()).await),
                2 => drop(connection.send_datagram(&[7; 100])),
                3 => drop(perhaps(rng, connection.read_datagram()).await),
                _ => {}
            }
        }
        if let Some(endpoint) = pick(rng, &mut self.endpoints).cloned() {
            match what {
                4 => drop(perhaps(rng, endpoint.wait_idle()).await),
                5 => drop(perhaps(rng, endpoint.wait_delivered()).await),
                _ => {}
            }
        }
    }

    /// All that it holds, to be dropped.
    fn into_handles(self) -> Vec<Box<dyn Any>> {
        let mut all: Vec<Box<dyn Any>> = Vec::new();
        all.extend(self.endpoints.into_iter().map(|it| Box::new(it) as Box<dyn Any>));
        all.extend(self.connections.into_iter().map(|it| Box::new(it) as Box<dyn Any>));
        all.extend(self.sends.into_iter().map(|it| Box::new(it) as Box<dyn Any>));
        all.extend(self.recvs.into_iter().map(|it| Box::new(it) as Box<dyn Any>));
        all
    }
}

async fn drop_at_random(seed: u64) {
    let mut rng = Pcg64::seed_from_u64(seed);
    let few = rng.random_range(1..8);
    let config = Config { max_streams_bidi: few, max_streams_uni: few, ..Config::default() };
    let Server { host, endpoint, connector } = Server::new(config.clone());
    let client = Endpoint::client(loopback()).unwrap();
    let addresses = [client.local_addr(), endpoint.local_addr()];
    let mut sides = [Side::new(client), Side::new(endpoint)];
    for _ in 0..rng.random_range(20..400) {
        if rng.random_range(0..6) == 0 {
            if let Some(endpoint) = pick(&mut rng, &mut sides[0].endpoints).cloned() {
                let met = endpoint.connect(&host, &connector, &[PROTOCOL], config.clone());
                let met = perhaps(&mut rng, met).await.and_then(Result::ok);
                sides[0].connections.extend(met);
            }
            if let Some(endpoint) = pick(&mut rng, &mut sides[1].endpoints).cloned() {
                let met = perhaps(&mut rng, endpoint.accept()).await.flatten();
                sides[1].connections.extend(met);
            }
        }
        let who = rng.random_range(0..2);
        sides[who].act(&mut rng).await;
    }
    let mut handles: Vec<_> = sides.into_iter().flat_map(Side::into_handles).collect();
    handles.shuffle(&mut rng);
    while handles.pop().is_some() {
        if rng.random_range(0..4) == 0 {
            tokio::task::yield_now().await;
        }
    }
    for address in addresses {
        let over = timeout(Duration::from_secs(20), given_back(address)).await;
        assert!(over.is_ok(), "seed {seed}: the socket of {address} is not given back");
    }
}

/// The seeds from `TACK_DROPS` on, `FIRST..END`, or a few.
fn seeds() -> std::ops::Range<u64> {
    let Ok(named) = std::env::var("TACK_DROPS") else { return 0..12 };
    let (first, end) = named.split_once("..").expect("TACK_DROPS is FIRST..END");
    first.parse().expect("a number")..end.parse().expect("a number")
}

#[tokio::test]
async fn futures_and_handles_that_are_dropped_at_any_moment_leave_nothing_behind() {
    // Beside each other, for most of their time they wait.
    let all = LocalSet::new();
    let runs: Vec<_> = seeds().map(|seed| all.spawn_local(drop_at_random(seed))).collect();
    all.run_until(async {
        for (seed, run) in seeds().zip(runs) {
            run.await.unwrap_or_else(|error| panic!("TACK_DROPS={seed}..{} {error}", seed + 1));
        }
    })
    .await;
}

#[tokio::test]
async fn a_server_that_is_dropped_ends_connections_that_nobody_can_accept_any_more() {
    let Server { host, endpoint, connector } = Server::new(Config::default());
    let address = endpoint.local_addr();
    let client = Endpoint::client(loopback()).unwrap();
    let config = Config { keep_alive: Some(Duration::from_millis(50)), ..Config::default() };
    let connecting = client.connect(&host, &connector, &[PROTOCOL], config);
    let connection = soon(connecting).await.unwrap();
    drop(endpoint);
    timeout(Duration::from_secs(10), connection.closed()).await.expect("nobody is there");
    timeout(Duration::from_secs(10), given_back(address)).await.expect("its socket is in use");
}

#[tokio::test]
async fn a_connection_goes_on_without_its_endpoint_which_takes_in_nobody_any_more() {
    let server = Server::new(Config::default());
    let (near, far) = server.pair().await;
    let Server { host, endpoint, connector } = server;
    drop(endpoint);
    let client = Endpoint::client(loopback()).unwrap();
    let connecting = client.connect(&host, &connector, &[PROTOCOL], Config::default());
    let met = timeout(Duration::from_millis(500), connecting).await;
    assert!(!matches!(met, Ok(Ok(_))));
    let mut sending = near.open_uni().await.unwrap();
    sending.write_all(b"still here").await.unwrap();
    sending.finish().unwrap();
    let mut back = Vec::new();
    soon(soon(far.accept_uni()).await.unwrap().read_to_end(&mut back)).await.unwrap();
    assert_eq!(back, b"still here");
}

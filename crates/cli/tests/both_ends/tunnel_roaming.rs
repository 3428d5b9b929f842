//! `tack tunnel` while the network changes under it: another address, a NAT that forgets, silence.

#![allow(clippy::disallowed_methods, reason = "real programs and networks, in real time")]

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::tempdir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::network::TRANSPORTS;
use crate::rebinding::{Course, Orders, STEADY, forward, two_networks};
use crate::support::{random_bytes, rng, run, tack};
use crate::tunnel::{Tunnel, serving, started, tunnel_over};

const LIMIT: Duration = Duration::from_secs(60);

/// What a target sends is the beginning of this.
fn film() -> Vec<u8> {
    random_bytes(&mut rng(91), 12_000_000)
}

/// How much of it is sent before the break.
const FIRST: usize = 1_000_000;

/// Sends everybody as much of the film as they ask for; what is behind the break, once `goes_on` says so.
async fn project(listener: TcpListener, goes_on: Arc<Notify>) {
    let film: Arc<[u8]> = film().into();
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let (film, goes_on) = (film.clone(), goes_on.clone());
        tokio::spawn(async move {
            let wanted = stream.read_u32().await? as usize;
            let (first, rest) = film[..wanted].split_at(wanted.min(FIRST));
            stream.write_all(first).await?;
            if !rest.is_empty() {
                goes_on.notified().await;
            }
            stream.write_all(rest).await?;
            stream.shutdown().await
        });
    }
}

/// A program that has asked for so many bytes.
async fn asking(program: std::net::TcpStream, bytes: usize) -> TcpStream {
    program.set_nonblocking(true).unwrap();
    let mut program = TcpStream::from_std(program).unwrap();
    program.write_u32(bytes.try_into().unwrap()).await.unwrap();
    program
}

/// A second program asks for `bytes`, and gets them without being told to try again.
async fn at_the_first_try(what: &str, program: std::net::TcpStream, bytes: usize) {
    let (began, mut came) = (Instant::now(), Vec::new());
    let mut program = asking(program, bytes).await;
    let read = timeout(LIMIT, program.read_to_end(&mut came)).await;
    read.unwrap_or_else(|_| panic!("{what}: {} bytes, and no end", came.len()))
        .unwrap_or_else(|e| panic!("{what}: {e} after {} bytes", came.len()));
    assert!(came == film()[..bytes], "{what}: {} bytes", came.len());
    println!("{what}: a new stream took {:?}", began.elapsed());
}

/// Reads to the end of a film that something happened in the middle of: QUIC's streams outlive it; those
/// of TCP-TACK are reset, so that programs know.
async fn outlived(over: &str, mut program: TcpStream, mut came: Vec<u8>) {
    let since = Instant::now();
    let read = timeout(LIMIT, program.read_to_end(&mut came)).await;
    let read = read.unwrap_or_else(|_| panic!("{over}: {} bytes, and no end", came.len()));
    println!("{over}: {read:?} after {:?}", since.elapsed());
    if over.is_empty() {
        assert_eq!(read.unwrap_err().kind(), ErrorKind::ConnectionReset);
    } else {
        assert!(read.is_ok() && came == film(), "{over}: {read:?}, {} bytes", came.len());
    }
}

/// What of the film comes before the break.
async fn begun(program: std::net::TcpStream) -> (TcpStream, Vec<u8>) {
    let mut program = asking(program, film().len()).await;
    let mut came = vec![0; FIRST];
    timeout(LIMIT, program.read_exact(&mut came)).await.unwrap().unwrap();
    (program, came)
}

#[test]
fn a_laptop_that_changes_networks_goes_on_with_new_streams_and_over_quic_with_old_ones() {
    let Some((laptop, server)) = two_networks() else { return };
    laptop.ip(&["link set lo up"]).unwrap();
    for over in TRANSPORTS {
        laptop.ip(&["link set wifi up"]).unwrap();
        // Which the kernel has forgotten with the link.
        let _ = laptop.ip(&["route replace 10.9.9.9 via 10.9.1.1 metric 1"]);
        run(async {
            let at = || std::net::TcpListener::bind("10.9.9.9:0").unwrap();
            let listener = server.enter(at).unwrap();
            listener.set_nonblocking(true).unwrap();
            let target = listener.local_addr().unwrap();
            let goes_on = Arc::new(Notify::new());
            let listener = TcpListener::from_std(listener).unwrap();
            let projecting = tokio::spawn(project(listener, goes_on.clone()));
            let home = tempdir().unwrap();
            let line = format!("tunnel serve -B 10.9.9.9 --allow any{over}");
            let serve = serving(server.spawn(&mut tack(home.path(), &line)).unwrap());
            let options = format!("-L 0:{target}{over}");
            let line = format!("tunnel 10.9.9.9:{} {options}", serve.1);
            let client = laptop.spawn(&mut tack(home.path(), &line)).unwrap();
            let tunnel = started(home, serve, client, &options);
            let local = tunnel.locals[0];
            let connect = || laptop.enter(|| std::net::TcpStream::connect(local).unwrap()).unwrap();
            let (program, came) = begun(connect()).await;
            // No word of farewell: its packets just go nowhere, and then the route is another.
            goes_on.notify_one();
            laptop.ip(&["link set wifi down"]).unwrap();
            at_the_first_try(&format!("another network{over}"), connect(), 1_000).await;
            outlived(over, program, came).await;
            projecting.abort();
        });
    }
}

/// A tunnel through a path that can be told to take another address towards the server.
async fn behind_a_nat(over: &'static str, path: Course) -> (Tunnel, Arc<Orders>, Arc<Notify>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let options = format!("-L 0:{}{over}", listener.local_addr().unwrap());
    let (orders, goes_on) = (Arc::default(), Arc::new(Notify::new()));
    tokio::spawn(project(listener, goes_on.clone()));
    let told = Arc::clone(&orders);
    let starting = move || tunnel_over("any", &options, |port| forward(port, path, &told));
    (tokio::task::spawn_blocking(starting).await.unwrap(), orders, goes_on)
}

fn connect(to: SocketAddr) -> std::net::TcpStream {
    std::net::TcpStream::connect(to).unwrap()
}

#[test]
fn a_nat_that_rebinds_costs_no_new_stream_and_over_quic_no_old_one() {
    run(async {
        for over in TRANSPORTS {
            let (tunnel, orders, goes_on) = behind_a_nat(over, STEADY).await;
            let to = tunnel.locals[0];
            let (program, came) = begun(connect(to)).await;
            orders.rebind();
            goes_on.notify_one();
            at_the_first_try(&format!("a NAT that rebound{over}"), connect(to), 1_000).await;
            outlived(over, program, came).await;
            orders.end();
        }
    });
}

#[test]
fn a_stream_asked_for_in_a_silence_begins_when_it_ends() {
    run(async {
        for over in TRANSPORTS {
            let silent = Duration::from_secs(3);
            let (tunnel, orders, _) = behind_a_nat(over, Course { silent, ..STEADY }).await;
            orders.rebind();
            at_the_first_try(&format!("3 s of silence{over}"), connect(tunnel.locals[0]), 1_000)
                .await;
            orders.end();
        }
    });
}

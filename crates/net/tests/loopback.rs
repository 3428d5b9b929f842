//! Real sockets on loopback: streams, listeners, endpoints.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tack_device::{SocketConfig, UdpSocket};
use tack_net::{ConnConfig, ConnectError, Endpoint, Mode, TackListener, TackStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 255 + i / 65_537) as u8).collect()
}

/// Fails rather than hangs.
async fn soon<F: Future>(f: F) -> F::Output {
    timeout(Duration::from_secs(20), f).await.expect("took too long")
}

async fn pair() -> (TackStream, TackStream) {
    let listener = TackListener::bind_plain(loopback()).unwrap();
    let address = listener.local_addr();
    let (near, far) =
        tokio::join!(soon(TackStream::connect_plain(address)), soon(listener.accept()));
    (near.unwrap(), far.unwrap().0)
}

#[tokio::test]
async fn bytes_come_back_intact_and_tack_is_spoken() {
    let (near, mut far) = pair().await;
    let data = bytes(3_000_000);
    let echo = tokio::spawn(async move {
        let (mut r, mut w) = tokio::io::split(&mut far);
        tokio::io::copy(&mut r, &mut w).await.unwrap();
        w.shutdown().await.unwrap();
        far.finished().await.unwrap();
    });
    let (mut r, mut w) = near.into_split();
    let sent = data.clone();
    let send = tokio::spawn(async move {
        w.write_all(&sent).await.unwrap();
        w.shutdown().await.unwrap();
    });
    let mut got = Vec::new();
    soon(r.read_to_end(&mut got)).await.unwrap();
    assert!(got == data);
    assert_eq!(r.info().mode, Mode::Tack);
    soon(send).await.unwrap();
    soon(echo).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bulk_is_intact_when_tasks_run_on_several_threads() {
    let (near, far) = pair().await;
    let data = bytes(8_000_000);
    let (mut near_r, mut near_w) = near.into_split();
    let (mut far_r, mut far_w) = far.into_split();
    let (up, down) = (data.clone(), data.clone());
    let senders = [
        tokio::spawn(async move { near_w.write_all(&up).await }),
        tokio::spawn(async move { far_w.write_all(&down).await }),
    ];
    let (mut at_near, mut at_far) = (Vec::new(), Vec::new());
    let (a, b) =
        tokio::join!(soon(near_r.read_to_end(&mut at_near)), soon(far_r.read_to_end(&mut at_far)));
    a.unwrap();
    b.unwrap();
    assert!(at_near == data && at_far == data);
    for sender in senders {
        soon(sender).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_direction_ends_while_the_other_goes_on() {
    let (mut near, mut far) = pair().await;
    near.write_all(b"question").await.unwrap();
    near.shutdown().await.unwrap();
    assert_eq!(near.write(b"more").await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    let mut got = String::new();
    soon(far.read_to_string(&mut got)).await.unwrap();
    assert_eq!(got, "question");
    far.write_all(&bytes(100_000)).await.unwrap();
    far.shutdown().await.unwrap();
    let mut answer = Vec::new();
    soon(near.read_to_end(&mut answer)).await.unwrap();
    assert!(answer == bytes(100_000));
    soon(near.finished()).await.unwrap();
    soon(far.finished()).await.unwrap();
}

#[tokio::test]
async fn a_hundred_connections_share_two_sockets() {
    let listener = TackListener::bind_plain(loopback()).unwrap();
    let address = listener.local_addr();
    let server = tokio::spawn(async move {
        for _ in 0..100 {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut name = [0; 4];
                stream.read_exact(&mut name).await.unwrap();
                stream.write_all(&name).await.unwrap();
                stream.write_all(&bytes(20_000)).await.unwrap();
                stream.shutdown().await.unwrap();
            });
        }
    });
    let endpoint = Endpoint::bind(loopback()).unwrap();
    let clients: Vec<_> = (0..100u32)
        .map(|i| {
            let endpoint = endpoint.clone();
            tokio::spawn(async move {
                let mut stream = endpoint.connect_plain(address).await.unwrap();
                stream.write_all(&i.to_be_bytes()).await.unwrap();
                stream.shutdown().await.unwrap();
                let mut got = Vec::new();
                stream.read_to_end(&mut got).await.unwrap();
                assert!(got[..4] == i.to_be_bytes() && got[4..] == bytes(20_000));
            })
        })
        .collect();
    for client in clients {
        soon(client).await.unwrap();
    }
    soon(server).await.unwrap();
    soon(endpoint.wait_idle()).await;
}

#[tokio::test]
async fn a_dropped_stream_still_delivers_what_was_written() {
    let (mut near, mut far) = pair().await;
    near.write_all(&bytes(50_000)).await.unwrap();
    drop(near);
    let mut got = Vec::new();
    soon(far.read_to_end(&mut got)).await.unwrap();
    assert!(got == bytes(50_000));
}

/// [RFC 1122 §4.2.2.13]: what nobody will read must not look delivered.
#[tokio::test]
async fn dropping_with_data_unread_resets_the_peer() {
    let (mut near, mut far) = pair().await;
    near.write_all(b"unread").await.unwrap();
    let mut first = [0; 1];
    soon(far.read_exact(&mut first)).await.unwrap();
    drop(far);
    let error = soon(near.read(&mut first)).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn an_aborted_stream_resets_the_peer_and_frees_the_endpoint() {
    let (near, mut far) = pair().await;
    near.abort();
    let error = soon(far.read(&mut [0; 1])).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn what_was_written_to_a_stream_that_was_reset_cannot_be_ended_in_order() {
    let (mut near, far) = pair().await;
    near.write_all(&bytes(5_000)).await.unwrap();
    far.abort();
    soon(near.read(&mut [0; 1])).await.unwrap_err();
    for _ in 0..2 {
        let error = soon(near.shutdown()).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    }
    let (mut near, mut far) = pair().await;
    near.shutdown().await.unwrap();
    far.shutdown().await.unwrap();
    soon(near.finished()).await.unwrap();
    near.shutdown().await.expect("it ended in order, and stays so");
}

#[tokio::test]
async fn nobody_there_is_a_timeout_and_nobody_listening_a_refusal() {
    let silent = UdpSocket::bind(loopback(), &SocketConfig::default()).unwrap();
    let limit = Duration::from_millis(200);
    let hasty = Endpoint::builder().connect_timeout(Some(limit)).bind(loopback()).unwrap();
    let error = soon(hasty.connect_plain(silent.local_addr())).await.unwrap_err();
    assert!(matches!(error, ConnectError::TimedOut(l) if l == limit), "{error}");

    let deaf = Endpoint::bind(loopback()).unwrap();
    let error = soon(hasty.connect_plain(deaf.local_addr())).await.unwrap_err();
    assert_eq!(io::Error::from(error).kind(), io::ErrorKind::ConnectionRefused);
    soon(hasty.wait_idle()).await;
}

#[tokio::test]
async fn reads_and_writes_that_are_given_up_lose_nothing() {
    let (mut near, mut far) = pair().await;
    let data = bytes(2_000_000);
    let sent = data.clone();
    let sender = tokio::spawn(async move {
        let mut rest = &sent[..];
        while !rest.is_empty() {
            match timeout(Duration::from_micros(50), near.write(rest)).await {
                Ok(n) => rest = &rest[n.unwrap()..],
                Err(_given_up) => {}
            }
        }
        near.shutdown().await.unwrap();
        near
    });
    let mut got = Vec::new();
    let mut buffer = vec![0; 10_000];
    let mut given_up = 0;
    loop {
        match timeout(Duration::ZERO, far.read(&mut buffer)).await {
            Ok(Ok(0)) => break,
            Ok(n) => got.extend_from_slice(&buffer[..n.unwrap()]),
            Err(_) => given_up += 1,
        }
        assert!(given_up < 1_000_000, "no progress");
    }
    assert!(got == data);
    soon(sender).await.unwrap();
}

#[tokio::test]
async fn a_slow_reader_holds_the_writer_back() {
    let config = ConnConfig::default().with(|it| {
        it.send_buffer = 64 << 10;
        it.recv_buffer = 64 << 10;
    });
    let server = Endpoint::builder().conn(config.clone()).bind(loopback()).unwrap();
    let listener = server.listen_plain().unwrap();
    let client = Endpoint::builder().conn(config).bind(loopback()).unwrap();
    let (near, far) = tokio::join!(client.connect_plain(server.local_addr()), listener.accept());
    let (mut near, mut far) = (near.unwrap(), far.unwrap().0);
    let data = bytes(600_000);
    let mut written = 0;
    while let Ok(n) = timeout(Duration::from_millis(300), near.write(&data[written..])).await {
        written += n.unwrap();
    }
    assert!(written < 300_000, "{written} bytes were taken though nobody read any");
    let rest = data[written..].to_vec();
    let writer = tokio::spawn(async move {
        near.write_all(&rest).await.unwrap();
        near.shutdown().await.unwrap();
        near
    });
    let mut got = Vec::new();
    soon(far.read_to_end(&mut got)).await.unwrap();
    assert!(got == data);
    soon(writer).await.unwrap();
}

#[tokio::test]
async fn plain_tcp_is_spoken_when_one_end_knows_no_tack() {
    let plain = Endpoint::builder().conn(ConnConfig::plain()).bind(loopback()).unwrap();
    let listener = plain.listen_plain().unwrap();
    let client = Endpoint::bind(loopback()).unwrap();
    let (near, far) = tokio::join!(client.connect_plain(plain.local_addr()), listener.accept());
    let (mut near, mut far) = (near.unwrap(), far.unwrap().0);
    assert_eq!((near.info().mode, far.info().mode), (Mode::Plain, Mode::Plain));
    near.write_all(&bytes(300_000)).await.unwrap();
    drop(near);
    let mut got = Vec::new();
    soon(far.read_to_end(&mut got)).await.unwrap();
    assert!(got == bytes(300_000));
}

#[tokio::test]
async fn a_closed_endpoint_starts_nothing_but_lets_streams_finish() {
    let server = Endpoint::bind(loopback()).unwrap();
    let listener = server.listen_plain().unwrap();
    let client = Endpoint::bind(loopback()).unwrap();
    let (near, far) = tokio::join!(client.connect_plain(server.local_addr()), listener.accept());
    let (mut near, mut far) = (near.unwrap(), far.unwrap().0);
    client.close();
    server.close();
    assert!(matches!(
        client.connect_plain(server.local_addr()).await,
        Err(ConnectError::EndpointClosed)
    ));
    assert!(listener.accept().await.is_err());
    near.write_all(b"last words").await.unwrap();
    drop(near);
    let mut got = String::new();
    soon(far.read_to_string(&mut got)).await.unwrap();
    assert_eq!(got, "last words");
    drop(far);
    soon(client.wait_idle()).await;
    soon(server.wait_idle()).await;
}

#[tokio::test]
async fn a_closed_endpoint_is_idle_once_what_was_written_arrived_though_streams_are_held() {
    let server = Endpoint::bind(loopback()).unwrap();
    let listener = server.listen_plain().unwrap();
    let client = Endpoint::bind(loopback()).unwrap();
    let (near, far) = tokio::join!(client.connect_plain(server.local_addr()), listener.accept());
    let (mut near, mut far) = (near.unwrap(), far.unwrap().0);
    // As much as both buffers take, since nobody reads.
    let (chunk, mut written) = (bytes(100_000), 0);
    while let Ok(n) = timeout(Duration::from_millis(300), near.write(&chunk)).await {
        written += n.unwrap();
    }
    near.shutdown().await.unwrap();
    client.close();
    let early = timeout(Duration::from_millis(200), client.wait_idle()).await;
    assert!(early.is_err(), "the other side has not taken all of it");
    let mut got = Vec::new();
    let (read, ()) = tokio::join!(soon(far.read_to_end(&mut got)), soon(client.wait_idle()));
    assert_eq!(read.unwrap(), written);
    // Without anything in the air a held stream keeps nobody.
    server.close();
    soon(server.wait_idle()).await;
    drop((near, far));
    soon(client.wait_idle()).await;
}

#[tokio::test]
async fn a_port_that_nobody_has_is_refused_and_not_waited_for() {
    let free = tokio::net::UdpSocket::bind(loopback()).await.unwrap().local_addr().unwrap();
    let client = Endpoint::builder().connect_timeout(None).bind(loopback()).unwrap();
    let error = std::io::Error::from(client.connect_plain(free).await.unwrap_err());
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused, "{error}");
}

#[tokio::test]
async fn tasks_that_share_a_listener_accept_one_connection_each() {
    let listener = TackListener::bind_plain(loopback()).unwrap();
    let client = Endpoint::bind(loopback()).unwrap();
    let to = listener.local_addr();
    let both = async { tokio::join!(soon(listener.accept()), soon(listener.accept())) };
    let dials = async { tokio::join!(client.connect_plain(to), client.connect_plain(to)) };
    let ((one, other), (first, second)) = tokio::join!(both, dials);
    let mut met = [one.unwrap().0.peer_addr(), other.unwrap().0.peer_addr()];
    let mut dialled = [first.unwrap().local_addr(), second.unwrap().local_addr()];
    met.sort();
    dialled.sort();
    assert_eq!(met, dialled);
}

#[tokio::test]
async fn delivery_can_be_waited_for_after_a_stream_was_split() {
    let listener = TackListener::bind_plain(loopback()).unwrap();
    let client = Endpoint::bind(loopback()).unwrap();
    let (ours, theirs) =
        tokio::join!(client.connect_plain(listener.local_addr()), listener.accept());
    let (mut reader, mut writer) = ours.unwrap().into_split();
    let (mut theirs, _) = theirs.unwrap();
    writer.write_all(b"all of it").await.unwrap();
    writer.shutdown().await.unwrap();
    let mut heard = Vec::new();
    theirs.read_to_end(&mut heard).await.unwrap();
    theirs.shutdown().await.unwrap();
    reader.read_to_end(&mut Vec::new()).await.unwrap();
    writer.finished().await.unwrap();
    assert_eq!(heard, b"all of it");
}

#[tokio::test]
async fn a_name_leads_to_whichever_of_its_addresses_is_served() {
    // `localhost` is ::1 as well on many machines, where nobody listens.
    let listener = TackListener::bind_plain(loopback()).unwrap();
    let port = listener.local_addr().port();
    let both = Endpoint::bind("[::]:0".parse().unwrap());
    for client in [Endpoint::bind(loopback()), both].into_iter().flatten() {
        let (near, far) =
            tokio::join!(soon(client.connect_plain(("localhost", port))), soon(listener.accept()));
        assert_eq!(near.unwrap().peer_addr().port(), far.unwrap().0.local_addr().port());
    }
    let lost = TackStream::connect_plain("nowhere.invalid:1").await.unwrap_err();
    assert!(matches!(lost, ConnectError::NoSuchHost(_)), "{lost}");
    let client = Endpoint::bind(loopback()).unwrap();
    let lost = client.connect_plain("[::1]:1").await.unwrap_err();
    assert!(matches!(lost, ConnectError::OutOfReach), "{lost}");
}

#[test]
fn what_another_runtime_waits_for_ends_with_that_of_the_endpoint() {
    let runtime = || tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (theirs, other) = (runtime(), runtime());
    let (client, listener, mut near, far) = theirs.block_on(async {
        let listener = TackListener::bind_plain(loopback()).unwrap();
        let client = Endpoint::bind(loopback()).unwrap();
        let to = listener.local_addr();
        let pair = async || {
            let both = tokio::join!(soon(client.connect_plain(to)), soon(listener.accept()));
            (both.0.unwrap(), both.1.unwrap().0)
        };
        // One is over, and waits for a FIN that the peer may repeat.
        let (mut over, mut over_there) = pair().await;
        over.shutdown().await.unwrap();
        over_there.shutdown().await.unwrap();
        soon(over.read_to_end(&mut Vec::new())).await.unwrap();
        drop((over, over_there));
        let (near, far) = pair().await;
        (client, listener, near, far)
    });
    let at = listener.local_addr();
    let waiting = other.spawn(async move {
        let mut byte = [0];
        tokio::join!(soon(near.read(&mut byte)), soon(listener.accept()))
    });
    other.block_on(async { tokio::time::sleep(Duration::from_millis(50)).await });
    drop(theirs);
    other.block_on(async {
        let (read, accepted) = waiting.await.unwrap();
        assert!(read.is_err() && accepted.is_err(), "{read:?}, {accepted:?}");
        soon(far.finished()).await.unwrap_err();
        let late = soon(client.connect_plain(at)).await.unwrap_err();
        assert!(matches!(late, ConnectError::EndpointClosed), "{late}");
        soon(client.wait_idle()).await;
    });
}

/// Its timers are overdue by then, and what they wait for lies in the socket.
#[tokio::test]
#[allow(clippy::disallowed_methods, reason = "it stands still in real time")]
async fn a_host_that_was_away_reads_what_came_before_it_takes_anything_for_lost() {
    let (tell, told) = std::sync::mpsc::channel();
    let peer = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = TackListener::bind_plain(loopback()).unwrap();
            tell.send(listener.local_addr()).unwrap();
            let (mut stream, _) = soon(listener.accept()).await.unwrap();
            let mut got = Vec::new();
            soon(stream.read_to_end(&mut got)).await.unwrap();
            got.len()
        })
    });
    let mut stream = soon(TackStream::connect_plain(told.recv().unwrap())).await.unwrap();
    stream.write_all(&bytes(10_000)).await.unwrap();
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        stream.write_all(&bytes(10_000)).await.unwrap();
        std::thread::sleep(Duration::from_millis(600));
        stream.write_all(&bytes(10_000)).await.unwrap();
    }
    stream.shutdown().await.unwrap();
    soon(stream.finished()).await.unwrap();
    let counters = stream.info().counters;
    assert_eq!(
        (counters.timeouts, counters.probes, counters.retransmissions),
        (0, 0, 0),
        "{counters:?}"
    );
    assert_eq!(peer.join().unwrap(), 70_000);
}

#[tokio::test]
async fn the_end_of_a_stream_is_told_to_all_who_wait_for_it() {
    let (mut near, mut far) = pair().await;
    near.shutdown().await.unwrap();
    let near = std::sync::Arc::new(near);
    let waiting = [(); 3].map(|()| {
        let near = near.clone();
        tokio::spawn(async move { near.finished().await })
    });
    // All of them wait before it ends.
    tokio::time::sleep(Duration::from_millis(50)).await;
    far.shutdown().await.unwrap();
    for task in waiting {
        soon(task).await.unwrap().unwrap();
    }
}

//! `tack perf`, both sides over the loopback's own TCP.

use std::net::SocketAddr;
use std::time::Duration;

use rand::RngExt;
use serde_json::Value;
use tack_cli::conn::{Accept, Dial};
use tack_cli::exit::{ExitCode, Failure};
use tack_cli::perf::PerfError;
use tack_cli::perf::client::{self, Observer};
use tack_cli::perf::control::{Inbox, Message, Results, open_control, open_stream, send};
use tack_cli::perf::json::{Context, document};
use tack_cli::perf::pace::Pace;
use tack_cli::perf::params::{Direction, TestParams, Until};
use tack_cli::perf::report::{Interrupted, Interval, Report, Start};
use tack_cli::perf::server::{Door, serve_one};
use tack_cli::perf::text::{Style, Text};
use tack_cli::stop::Stop;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{random_bytes, rng, run};

struct Loopback(TcpListener);

impl Accept for Loopback {
    type Conn = TcpStream;

    async fn accept(&mut self) -> std::io::Result<TcpStream> {
        Ok(self.0.accept().await?.0)
    }
}

struct To(SocketAddr);

impl Dial for To {
    type Conn = TcpStream;

    async fn dial(&self) -> Result<TcpStream, Failure> {
        let failed = |e: std::io::Error| Failure::new(ExitCode::Failed, e.to_string());
        TcpStream::connect(self.0).await.map_err(failed)
    }
}

async fn loopback() -> (Loopback, To) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (Loopback(listener), To(address))
}

struct Silent;

impl Observer for Silent {
    fn connected(&mut self, _: &Start) {}
    fn interval(&mut self, _: &Start, _: &Interval) {}
}

fn params(direction: Direction, until: Until) -> TestParams {
    TestParams { streams: 2, direction, until, block_bytes: 64 * 1024, ..TestParams::default() }
}

/// Asks for a test without being told of its course.
async fn ask(to: &To, params: &TestParams, every: Every) -> Result<Report, PerfError> {
    client::run(to, params, every, &mut Silent, &Stop::never()).await
}

/// Serves one likewise.
async fn serve(door: &mut Door<'_, Loopback>, every: Every) -> Result<Report, PerfError> {
    serve_until(door, every, &Stop::never()).await
}

/// The same, unless it is told to end.
async fn serve_until(
    door: &mut Door<'_, Loopback>,
    every: Every,
    stop: &Stop,
) -> Result<Report, PerfError> {
    let control = door.client().await?;
    serve_one(door, control, every, &mut Silent, stop).await
}

type Every = Option<Duration>;

const TENTH: Option<Duration> = Some(Duration::from_millis(100));

/// One test; the client's and the server's reports.
fn measure(params: &TestParams) -> (Report, Report) {
    run(async {
        let (mut server, client) = loopback().await;
        let mut door = Door::new(&mut server);
        let (asked, served) = tokio::join!(ask(&client, params, TENTH), serve(&mut door, TENTH));
        (asked.unwrap(), served.unwrap())
    })
}

#[test]
fn a_test_by_bytes_carries_exactly_these_bytes_in_each_direction() {
    for (direction, streams) in
        [(Direction::Forward, 2), (Direction::Reverse, 2), (Direction::Both, 4)]
    {
        let n = 3_000_001;
        let (asked, served) = measure(&params(direction, Until::Bytes(n)));
        assert_eq!(asked.start.lanes.len(), streams);
        for report in [&asked, &served] {
            for sends in [true, false] {
                let (sent, received) = report.sums(sends);
                let (sent, received) = (sent.unwrap(), received.unwrap());
                let expected = if report.lanes_that(sends).count() > 0 { n } else { 0 };
                assert_eq!((sent.bytes, received.bytes), (expected, expected), "{direction:?}");
            }
        }
        let bytes = |r: &Results| r.streams.iter().map(|s| s.bytes).collect::<Vec<_>>();
        assert_eq!(bytes(&asked.local), bytes(served.remote.as_ref().unwrap()));
        assert_eq!(bytes(asked.remote.as_ref().unwrap()), bytes(&served.local));
    }
}

#[test]
fn a_test_by_time_reports_its_intervals_and_leaves_out_the_warm_up() {
    let by_time = params(Direction::Forward, Until::Seconds(0.35));
    let (asked, served) = measure(&TestParams { omit_seconds: 0.15, ..by_time });
    for report in [&asked, &served] {
        assert!(report.intervals.iter().any(|i| i.omitted));
        let counted = report.intervals.iter().filter(|i| !i.omitted);
        let sum: u64 = counted.clone().flat_map(|i| &i.spans).map(|s| s.bytes).sum();
        let total: u64 = report.local.streams.iter().map(|s| s.bytes).sum();
        assert_eq!(sum, total, "the intervals are the whole");
        assert!(total > 0);
        let ordered = counted.clone().zip(counted.skip(1)).all(|(a, b)| a.end <= b.start + 1e-9);
        assert!(ordered, "{:?}", report.intervals);
    }
    assert!(asked.sums(true).0.unwrap().seconds >= 0.35);
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

fn assert_has(value: &Value, wanted: &[&str]) {
    for key in wanted {
        assert!(value.get(key).is_some(), "no `{key}` in {:?}", keys(value));
    }
}

#[test]
fn the_document_has_iperf3s_keys_and_a_tack_object() {
    for direction in [Direction::Forward, Direction::Reverse, Direction::Both] {
        let (asked, served) = measure(&params(direction, Until::Bytes(1_000_000)));
        for report in [&asked, &served] {
            let document = document(report, &Context::default());
            assert_has(&document, &["start", "intervals", "end", "tack"]);
            let start = &document["start"];
            assert_has(start, &["connected", "version", "system_info", "timestamp", "test_start"]);
            assert_has(
                &start["test_start"],
                &["protocol", "num_streams", "blksize", "omit", "duration", "bytes", "reverse"],
            );
            let whole = ["omit", "duration"].map(|key| &start["test_start"][key]);
            assert!(whole.iter().all(|seconds| seconds.is_u64()), "{whole:?}");
            assert_has(
                &start["connected"][0],
                &["socket", "local_host", "local_port", "remote_host", "remote_port"],
            );
            let span = ["start", "end", "seconds", "bytes", "bits_per_second", "sender"];
            let interval = &document["intervals"][0];
            assert_has(&interval["sum"], &[&span[..], &["omitted"]].concat());
            assert_has(&interval["streams"][0], &[&span[..], &["socket", "omitted"]].concat());
            let end = &document["end"];
            for sum in ["sum_sent", "sum_received"] {
                assert_has(&end[sum], &span);
                assert_eq!(end[sum]["bytes"], 1_000_000);
            }
            assert_has(&end["streams"][0]["sender"], &[&span[..], &["socket"]].concat());
            assert_has(
                &end["cpu_utilization_percent"],
                &["host_total", "host_user", "host_system", "remote_total", "remote_user"],
            );
            let both = direction == Direction::Both;
            assert_eq!(end.get("sum_received_bidir_reverse").is_some(), both);
            assert_eq!(start["test_start"]["reverse"], u8::from(direction == Direction::Reverse));
        }
    }
}

#[test]
fn the_text_looks_like_iperf3s() {
    let (asked, _) = measure(&params(Direction::Both, Until::Bytes(5_000_000)));
    let mut lines = Vec::new();
    let mut text = Text::new(true, Style::default(), |line: &str| lines.push(line.to_owned()));
    text.connected(&asked.start);
    asked.intervals.iter().for_each(|i| text.interval(&asked.start, i));
    text.summary(&asked);
    assert!(lines[0].starts_with("[  5] local 127.0.0.1 port "), "{}", lines[0]);
    assert!(lines.iter().any(|l| l.starts_with("[ ID][Role] Interval           Transfer")));
    let is_total = |l: &&String| l.starts_with("[SUM][RX-C]   0.00-") && l.ends_with("receiver");
    let total = lines.iter().find(is_total).expect("a sum of what was received");
    assert!(total.contains(" sec  4.77 MBytes"), "{total}");
    assert!(total.contains("bits/sec"), "{total}");
}

#[test]
fn a_second_client_is_told_that_the_server_is_busy() {
    run(async {
        let (mut server, client) = loopback().await;
        let mut door = Door::new(&mut server);
        let long = params(Direction::Forward, Until::Seconds(0.5));
        let late = async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            ask(&client, &long, None).await
        };
        let (first, second, served) =
            tokio::join!(ask(&client, &long, None), late, serve(&mut door, None));
        first.unwrap();
        served.unwrap();
        let refused = second.unwrap_err();
        assert!(matches!(&refused, PerfError::Refused(why) if why.contains("another test")));
    });
}

/// What it sends is not collected while it hears that it is refused: it is cut off.
#[test]
fn whoever_is_refused_and_talks_without_end_is_cut_off_while_the_test_goes_on() {
    run(async {
        let (mut server, client) = loopback().await;
        let mut door = Door::new(&mut server);
        let endless = params(Direction::Forward, Until::Seconds(3600.0));
        let stop = Stop::after(Duration::from_secs(60));
        let mut silent = Silent;
        let first = client::run(&client, &endless, None, &mut silent, &stop);
        let talk = async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let mut control = client.dial().await.unwrap();
            open_control(&mut control).await.unwrap();
            let mut taken = 0_u64;
            while let Ok(n) = control.write(&[7; 64 << 10]).await {
                taken += n as u64;
            }
            taken
        };
        let taken = tokio::select! {
            taken = talk => taken,
            ended = first => panic!("the test ended first: {:?}", ended.map(|report| report.local)),
            served = serve(&mut door, None) => panic!("it was not served on: {:?}", served.err()),
        };
        // Beside what is read, the kernel's buffers of both ends.
        assert!(taken < 64 << 20, "{taken} bytes");
    });
}

#[test]
fn parameters_out_of_range_are_refused_by_the_server_too() {
    run(async {
        let (mut server, client) = loopback().await;
        let mut door = Door::new(&mut server);
        let greedy = TestParams {
            streams: 60_000,
            block_bytes: u32::MAX,
            ..params(Direction::Forward, Until::Seconds(1.0))
        };
        let asking = async {
            let mut control = client.dial().await.unwrap();
            open_control(&mut control).await.unwrap();
            send(&mut control, &Message::Open { params: greedy }).await.unwrap();
            Inbox::new(&mut control).soon().await.unwrap()
        };
        let (answer, served) = tokio::join!(asking, serve(&mut door, None));
        assert!(matches!(answer, Message::Refused { .. }), "{answer:?}");
        assert!(matches!(served, Err(PerfError::Params(_))));
    });
}

#[test]
fn a_stream_with_another_cookie_is_not_let_in() {
    run(async {
        let (mut server, client) = loopback().await;
        let mut door = Door::new(&mut server);
        let wanted = params(Direction::Forward, Until::Bytes(100_000));
        let intrude = async {
            let mut stream = client.dial().await.unwrap();
            open_stream(&mut stream, &[7; 16], 0).await.unwrap();
            // Let go at once: what it may not join, it is not told either.
            assert_eq!(stream.read(&mut [0; 16]).await.unwrap_or(0), 0);
        };
        let (asked, served, ()) =
            tokio::join!(ask(&client, &wanted, None), serve(&mut door, None), intrude,);
        assert_eq!(asked.unwrap().sums(true).1.unwrap().bytes, 100_000);
        served.unwrap();
    });
}

#[test]
fn a_client_that_goes_before_its_streams_are_here_keeps_nobody_waiting_for_them() {
    run(async {
        let (mut server, client) = loopback().await;
        let mut door = Door::new(&mut server);
        let go = async {
            let mut control = client.dial().await.unwrap();
            open_control(&mut control).await.unwrap();
            let params = params(Direction::Forward, Until::Seconds(1.0));
            send(&mut control, &Message::Open { params }).await.unwrap();
            Inbox::new(&mut control).soon().await.unwrap()
        };
        // Streams are waited for a quarter of a minute, and everybody is refused meanwhile.
        let served = tokio::time::timeout(Duration::from_secs(10), serve(&mut door, None));
        let (answer, served) = tokio::join!(go, served);
        assert!(matches!(answer, Message::Accepted { .. }), "{answer:?}");
        let served = served.expect("it ends with its client");
        assert!(matches!(served, Err(PerfError::Connection { .. })), "{served:?}");
    });
}

#[test]
fn a_client_that_vanishes_ends_the_test_and_the_next_is_served() {
    run(async {
        let (mut server, client) = loopback().await;
        let mut door = Door::new(&mut server);
        let endless = params(Direction::Reverse, Until::Seconds(3600.0));
        let vanish = async {
            let asked = ask(&client, &endless, None);
            let cut = tokio::time::timeout(Duration::from_millis(200), asked).await;
            assert!(cut.is_err());
        };
        let ((), served) = tokio::join!(vanish, serve(&mut door, None));
        assert!(matches!(served, Err(PerfError::Connection { .. })), "{served:?}");
        let short = params(Direction::Forward, Until::Bytes(10_000));
        let (asked, served) = tokio::join!(ask(&client, &short, None), serve(&mut door, None));
        assert!(asked.is_ok() && served.is_ok());
    });
}

#[test]
fn a_test_in_which_nothing_moves_gives_way_to_the_next_client() {
    run(async {
        let (mut server, client) = loopback().await;
        let mut door = Door::new(&mut server);
        let one = TestParams { streams: 1, ..params(Direction::Forward, Until::Seconds(3600.0)) };
        // As after a kill: its connections stand, and nothing more comes on them.
        let mute = async {
            let mut control = client.dial().await.unwrap();
            open_control(&mut control).await.unwrap();
            send(&mut control, &Message::Open { params: one }).await.unwrap();
            let mut inbox = Inbox::new(control);
            let Message::Accepted { cookie } = inbox.soon().await.unwrap() else { panic!() };
            let mut stream = client.dial().await.unwrap();
            open_stream(&mut stream, &cookie, 0).await.unwrap();
            assert!(matches!(inbox.soon().await.unwrap(), Message::Start));
            (inbox, stream)
        };
        let next = async {
            let _mute = mute.await;
            let short = params(Direction::Forward, Until::Bytes(10_000));
            let mut refused = 0;
            loop {
                match ask(&client, &short, None).await {
                    Ok(_) => return refused,
                    Err(PerfError::Refused(_)) => refused += 1,
                    Err(error) => panic!("{error}"),
                }
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        };
        let serve_both = async {
            let first = serve(&mut door, None).await;
            assert!(matches!(first, Err(PerfError::Stalled(10..60))), "{first:?}");
            serve(&mut door, None).await.unwrap();
        };
        let (refused, ()) = tokio::join!(next, serve_both);
        assert!(refused > 0, "it had no time to be only slow");
    });
}

#[test]
fn a_test_that_pauses_between_its_bursts_keeps_its_place() {
    run(async {
        let (mut server, client) = loopback().await;
        let mut door = Door::new(&mut server);
        let pace = Some(Pace { bits_per_second: 100_000, blocks: 1 });
        // A block every twelve seconds.
        let seldom = TestParams {
            streams: 1,
            block_bytes: 150_000,
            pace,
            ..params(Direction::Forward, Until::Seconds(13.0))
        };
        let next = async {
            tokio::time::sleep(Duration::from_millis(11_500)).await;
            ask(&client, &params(Direction::Forward, Until::Bytes(10_000)), None).await
        };
        let (asked, served, next) =
            tokio::join!(ask(&client, &seldom, None), serve(&mut door, None), next);
        assert_eq!(asked.unwrap().sums(true).1.unwrap().bytes, 300_000);
        served.unwrap();
        assert!(matches!(next, Err(PerfError::Refused(_))), "{next:?}");
    });
}

/// Of a test that lasts an hour otherwise, the client's report and the server's.
fn interrupted(params: &TestParams, by_client: bool, after: Duration) -> [Report; 2] {
    run(async {
        let (mut server, client) = loopback().await;
        let mut door = Door::new(&mut server);
        let (here, there) = match by_client {
            true => (Stop::after(after), Stop::never()),
            false => (Stop::never(), Stop::after(after)),
        };
        let mut silent = Silent;
        let asking = client::run(&client, params, TENTH, &mut silent, &here);
        let serving = serve_until(&mut door, TENTH, &there);
        let (asked, served) = tokio::join!(asking, serving);
        [asked.unwrap(), served.unwrap()]
    })
}

#[test]
fn an_interrupted_test_is_reported_by_both_sides_with_what_both_counted() {
    for until in [Until::Seconds(3600.0), Until::Bytes(1 << 50)] {
        for direction in [Direction::Forward, Direction::Reverse, Direction::Both] {
            for by_client in [true, false] {
                let after = Duration::from_millis(250);
                let reports = interrupted(&params(direction, until), by_client, after);
                let context = format!("{direction:?} {until:?} by client: {by_client}");
                let whose = |here| if here { Interrupted::Here } else { Interrupted::There };
                assert_eq!(reports[0].interrupted, Some(whose(by_client)), "{context}");
                assert_eq!(reports[1].interrupted, Some(whose(!by_client)), "{context}");
                for report in reports {
                    let counted = report.intervals.iter().flat_map(|i| &i.spans);
                    let counted: u64 = counted.map(|s| s.bytes).sum();
                    assert!(counted > 0, "{context}");
                    let sum = |r: &Results| r.streams.iter().map(|s| s.bytes).sum::<u64>();
                    assert_eq!(sum(&report.local), counted, "{context}");
                    assert!(sum(&report.remote.unwrap()) > 0, "{context}");
                }
            }
        }
    }
}

#[test]
fn of_a_test_interrupted_in_its_warm_up_nothing_counts() {
    let warming =
        TestParams { omit_seconds: 600.0, ..params(Direction::Forward, Until::Seconds(3600.0)) };
    for report in interrupted(&warming, true, Duration::from_millis(250)) {
        assert!(report.intervals.iter().all(|i| i.omitted));
        assert!(report.local.streams.iter().all(|s| s.bytes == 0), "{:?}", report.local);
    }
}

#[test]
fn a_test_interrupted_before_it_begins_is_none() {
    run(async {
        let (_server, client) = loopback().await;
        let long = params(Direction::Forward, Until::Seconds(3600.0));
        let stop = Stop::after(Duration::from_millis(50));
        let asked = client::run(&client, &long, None, &mut Silent, &stop).await;
        assert!(matches!(asked, Err(PerfError::Interrupted)), "{asked:?}");
    });
}

#[test]
fn random_bytes_on_the_control_connection_never_panic() {
    let seed = 0xc0de;
    let mut rng = rng(seed);
    for _ in 0..200 {
        let n = rng.random_range(0..200);
        let noise = random_bytes(&mut rng, n);
        let framed = rng.random_bool(0.5);
        run(async {
            let (mut server, client) = loopback().await;
            let mut door = Door::new(&mut server);
            let attack = async {
                let mut control = client.dial().await.unwrap();
                open_control(&mut control).await.unwrap();
                if framed {
                    control.write_u32(noise.len() as u32).await.unwrap();
                }
                let _ = control.write_all(&noise).await;
                let _ = control.shutdown().await;
            };
            let ((), served) = tokio::join!(attack, serve(&mut door, None));
            assert!(served.is_err());
        });
    }
}

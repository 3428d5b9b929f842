use bytes::Bytes;
use clap::ValueEnum;
use tokio::task::LocalSet;

use super::*;
use crate::Controller;
use crate::keys;

/// Beyond the windows that stacks begin with, and odd.
const BYTES: usize = 20_000_003;
const PIECE_BYTES: usize = 100_001;

/// Makes keys, in a directory that is no source's.
fn prepare() {
    let dir = std::env::temp_dir().join(format!("tack-rivals-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    std::env::set_current_dir(&dir).unwrap();
    let _ = rustls::crypto::ring::default_provider().install_default();
    keys::make().unwrap();
}

fn ask(cc: Option<Controller>) -> Ask {
    // One that nobody has just now.
    let port = udp_socket(0).unwrap().local_addr().unwrap().port();
    let settings = Settings { port, cc, ack_every: None };
    Ask {
        server: Ipv4Addr::LOCALHOST.into(),
        bytes: 0,
        connections: 1,
        mbps: 0.0,
        message_bytes: 0,
        every_ms: 1.0,
        settings,
    }
}

fn speech() -> Bytes {
    (0..BYTES).map(|at| (at * 31 + at / 255) as u8).collect()
}

async fn say(stream: &mut Stream) {
    let speech = speech();
    for at in (0..BYTES).step_by(PIECE_BYTES) {
        stream.write(speech.slice(at..BYTES.min(at + PIECE_BYTES))).await.unwrap();
    }
    stream.flush().await.unwrap();
}

async fn hear(stream: &mut Stream) {
    let mut heard = vec![0; BYTES];
    assert!(stream.fill(&mut heard).await.unwrap());
    assert!(heard == speech(), "other bytes came than were sent");
}

/// Says on a connection what is then said back.
async fn talk(stack: Stack, cc: Option<Controller>) {
    let ask = ask(cc);
    let listener = Listener::bind(stack, &ask.settings).await.unwrap();
    let dialer = Dialer::new(stack, &ask).await.unwrap();
    let server = async {
        let mut stream = listener.accept().await.unwrap().stream().await.unwrap();
        hear(&mut stream).await;
        say(&mut stream).await;
        stream.finish().await.unwrap();
        // The client closes once it has everything, which some stacks tell as an error.
        let _ = stream.fill(&mut [0]).await;
    };
    let client = async {
        let mut stream = dialer.connect().await.unwrap();
        say(&mut stream).await;
        hear(&mut stream).await;
        assert!(!stream.fill(&mut [0]).await.unwrap(), "more came than was sent");
        stream.finish().await.unwrap();
    };
    tokio::join!(server, client);
}

#[tokio::test]
async fn what_one_end_writes_is_what_the_other_reads_over_every_stack() {
    prepare();
    for stack in Stack::value_variants().iter().filter(|stack| **stack != Stack::Udp) {
        for cc in [None, Some(Controller::Bbr)] {
            println!("{stack:?}, {cc:?}");
            LocalSet::new().run_until(talk(*stack, cc)).await;
        }
    }
}

//! The client's end, which does what it is told, line by line, and says what came of it.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use tack_device::Clock;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, stdin};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::opener::Opener;
use super::stream::Stream;
use super::{ConnectsArgs, PATIENCE, Phase};

/// What came of it.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Outcome {
    pub(super) opened: u64,
    pub(super) not_opened: u64,
    /// Ended although both sides wanted it open.
    pub(super) lost: u64,
    /// How long it took.
    pub(super) seconds: f64,
}

pub(super) async fn run(args: &ConnectsArgs, at: SocketAddr, keys: &Path) -> Result<()> {
    let (phase, who) = args.part()?;
    let keepalive = (phase == Phase::Kept).then(|| Duration::from_secs_f64(args.keepalive));
    let opener = Opener::new(who, at, keepalive, keys)?;
    let mut orders = BufReader::new(stdin()).lines();
    say(&"ready")?;
    orders.next_line().await?;
    let clock = Clock::start();
    let took = || clock.now().as_nanos() as f64 / 1e9;
    if phase == Phase::Steady {
        let outcome = one_after_the_other(&opener, args).await;
        return say(&Outcome { seconds: took(), ..outcome });
    }
    let all = if phase == Phase::Busy { args.busy } else { args.at_once };
    let (streams, outcome) = open_all(&opener, all).await;
    say(&Outcome { seconds: took(), ..outcome })?;
    orders.next_line().await?;
    if phase == Phase::Busy {
        let pouring: JoinSet<_> = streams.into_iter().map(|(_, stream)| stream.pour()).collect();
        pouring.join_all().await;
        return Ok(());
    }
    let asking = streams.into_iter().map(|(number, mut stream)| async move {
        let heard = stream.heard(number).await;
        (heard, stream)
    });
    let heard = asking.collect::<JoinSet<_>>().join_all().await;
    let lost = heard.iter().filter(|(heard, _)| !heard).count() as u64;
    say(&Outcome { lost, ..outcome })
}

/// To whoever has started this program.
pub(super) fn say(what: &impl Serialize) -> Result<()> {
    println!("{}", serde_json::to_string(what)?);
    Ok(())
}

/// So many at once; those that were heard.
async fn open_all(opener: &Opener, all: usize) -> (Vec<(u64, Stream)>, Outcome) {
    let opening = (0..all as u64).map(|number| {
        let opener = opener.clone();
        async move {
            let opened = timeout(PATIENCE, opener.open()).await;
            let mut stream = opened.ok()?.ok()?;
            stream.heard(number).await.then_some((number, stream))
        }
    });
    let opened = opening.collect::<JoinSet<_>>().join_all().await;
    let streams: Vec<_> = opened.into_iter().flatten().collect();
    let opened = streams.len() as u64;
    (streams, Outcome { opened, not_opened: all as u64 - opened, ..Outcome::default() })
}

#[derive(Debug, Default)]
struct Counts {
    opened: AtomicU64,
    not_opened: AtomicU64,
    lost: AtomicU64,
}

async fn one_after_the_other(opener: &Opener, args: &ConnectsArgs) -> Outcome {
    let (counts, over) = (Arc::<Counts>::default(), Arc::<AtomicBool>::default());
    let mut tasks = JoinSet::new();
    for number in 0..args.tasks as u64 {
        let (opener, counts, over) = (opener.clone(), counts.clone(), over.clone());
        tasks.spawn(async move {
            while !over.load(Relaxed) {
                come_and_go(&opener, number, &counts).await;
            }
        });
    }
    tokio::time::sleep(Duration::from_secs_f64(args.seconds)).await;
    over.store(true, Relaxed);
    tasks.join_all().await;
    Outcome {
        opened: counts.opened.load(Relaxed),
        not_opened: counts.not_opened.load(Relaxed),
        lost: counts.lost.load(Relaxed),
        seconds: 0.0,
    }
}

async fn come_and_go(opener: &Opener, number: u64, counts: &Counts) {
    let opened = timeout(PATIENCE, opener.open()).await;
    let Ok(Ok(mut stream)) = opened else {
        counts.not_opened.fetch_add(1, Relaxed);
        return tokio::time::sleep(Duration::from_millis(10)).await;
    };
    counts.opened.fetch_add(1, Relaxed);
    let ended = stream.heard(number).await
        && stream.shutdown().await.is_ok()
        && matches!(timeout(PATIENCE, stream.read(&mut [0; 8])).await, Ok(Ok(0)));
    if !ended {
        counts.lost.fetch_add(1, Relaxed);
    }
}

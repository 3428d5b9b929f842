//! One random conversation from one seed: every choice below is drawn from it.

use core::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tack_cc::Algorithm;
use tack_tcp::wire::Codepoints;
use tack_tcp::{
    AckStrategy, ConnConfig, ConnId, FallbackReason, HostConfig, Keepalive, ListenConfig, Mode,
    Remote,
};
use tack_units::{Instant, Rate, math};

use crate::app::{Reader, Writer};
use crate::pipe::{PipeConfig, Strip};
use crate::world::{LocalClock, World, WorldConfig};

/// What kind of conversation is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Both speak TACK over a path that leaves options alone.
    Tack,
    /// One or both know plain TCP only.
    Plain,
    /// Both speak TACK, and a middlebox strips options in one or both directions from some point.
    Stripped,
    /// Both speak TACK over IP, their devices may cut and merge segments, and so may a box between them.
    Offload,
    /// At least one end acknowledges by a given strategy and sends by a given controller.
    Strategy(AckStrategy, Algorithm),
}

impl Kind {
    /// Tells the random choices of one kind from another's.
    fn number(self) -> u64 {
        match self {
            Kind::Tack => 0,
            Kind::Plain => 1,
            Kind::Stripped => 2,
            Kind::Offload => 1_000_000,
            Kind::Strategy(ack, algorithm) => {
                let place = AckStrategy::ALL.iter().position(|a| *a == ack).unwrap_or(0);
                3 + 100 * place as u64 + algorithm as u64
            }
        }
    }
}

/// One end's application.
struct App {
    conn: Option<ConnId>,
    writer: Writer,
    reader: Reader,
    /// Acts only when awake, then sleeps up to this long; zero acts at every event.
    sleep: Duration,
    wake: Instant,
    /// Most bytes written or read at once.
    most: u64,
    /// Reading stops once for this long after so many bytes.
    pause: Option<(u64, Duration)>,
    paused_until: Instant,
}

pub(crate) struct Conversation {
    kind: Kind,
    rng: Pcg64Mcg,
    world: World,
    apps: [App; 2],
    pub(crate) summary: String,
}

const PORT: u16 = 5_001;
/// Long enough for minutes of closed windows and backed-off timers; a conversation that takes
/// longer hangs.
const LIMIT: Instant = Instant::from_secs(3_600);

impl Conversation {
    pub(crate) fn new(kind: Kind, seed: u64) -> Conversation {
        let mut rng = Pcg64Mcg::seed_from_u64(seed.wrapping_mul(3).wrapping_add(kind.number()));
        let rng = &mut rng;
        let ip = [None, Some(false), Some(true)][rng.random_range(0..3)];
        // Nobody rewrites what is inside a datagram.
        let bare = matches!(kind, Kind::Stripped | Kind::Offload);
        let ip = if bare { ip.or(Some(false)) } else { ip };
        let pipes = [pipe(kind, ip, rng), pipe(kind, ip, rng)];
        let mut world_config = WorldConfig::new(seed, pipes);
        let codepoints =
            if rng.random_bool(0.5) { Codepoints::Paper } else { Codepoints::Experimental };
        for host in &mut world_config.hosts {
            *host = host_config(codepoints, rng);
        }
        world_config.ip = ip;
        world_config.clocks = [clock(rng), clock(rng)];
        let first_pkt_seq = near_wrap(rng);
        let [(a, plain_a), (b, plain_b)] = [conn_config(rng), conn_config(rng)];
        let (mut configs, plain) = ([a, b], [plain_a, plain_b]);
        for config in &mut configs {
            config.first_pkt_seq = first_pkt_seq;
        }
        if kind == Kind::Plain {
            let which = rng.random_range(0..3);
            for (i, config) in configs.iter_mut().enumerate() {
                if which == i || which == 2 {
                    config.ack = plain[i];
                } else if rng.random_bool(0.3) {
                    config.timestamps = false;
                }
            }
        }
        if bare {
            // Of its own stream: the other choices of a seed stay.
            offload(&mut world_config, kind == Kind::Offload, seed);
        }
        if let Kind::Strategy(ack, algorithm) = kind {
            let stranger = rng.random_bool(0.2).then(|| rng.random_range(0..2));
            for (i, config) in configs.iter_mut().enumerate() {
                (config.ack, config.congestion) = (ack, Some(algorithm));
                if stranger == Some(i) {
                    let all = AckStrategy::ALL;
                    config.ack = all[rng.random_range(0..all.len())];
                }
            }
            if rng.random_bool(0.1) {
                let from = Instant::from_micros(log_uniform(rng, 1.0, 1e6) as u64);
                world_config.pipes[0].strip = Some((Strip::PollMark, from));
            }
            world_config.pipes[1].drop_marked = sometimes(rng, 0.2, 0.3);
        }
        let summary = format!(
            "ip {ip:?} {codepoints:?}\n{:?}\n{:?}\n{:?}\n{:?}",
            configs[0], configs[1], world_config.pipes[0], world_config.pipes[1]
        );
        let mut world = World::new(world_config);
        let lens = [length(rng), length(rng)];
        let mut apps = [app(seed, 0, lens[0], lens[1], rng), app(seed, 1, lens[1], lens[0], rng)];
        let [client, server] = configs;
        open(&mut world, &mut apps, client, server, rng.random_bool(0.1));
        Conversation { kind, rng: rng.clone(), world, apps, summary }
    }

    /// Runs to the end and checks everything that must hold.
    pub(crate) fn run(&mut self) {
        loop {
            self.poll_apps();
            self.world.flush();
            for (i, app) in self.apps.iter().enumerate() {
                if let Some(Err(error)) =
                    app.conn.and_then(|conn| self.world.ends[i].host.closed(conn))
                {
                    panic!("end {i} ended with {error}: {}", self.state());
                }
            }
            if self.is_over() {
                break;
            }
            let wakes = self.apps.iter().filter(|a| a.wake > self.world.now).map(|a| a.wake);
            let next = self.world.next().into_iter().chain(wakes).min();
            let next = next.unwrap_or_else(|| panic!("everybody waits: {}", self.state()));
            assert!(next < LIMIT, "an hour has passed: {}", self.state());
            self.world.advance(next);
        }
        self.check();
    }

    fn state(&self) -> String {
        let mut out = String::new();
        for (i, app) in self.apps.iter().enumerate() {
            let info = app.conn.and_then(|c| self.world.ends[i].host.info(c));
            out += &format!(
                "\nend {i}: wrote {} of {}, read {} at end {}, {info:?}",
                app.writer.written, app.writer.len, app.reader.read, app.reader.at_end
            );
        }
        out
    }

    fn poll_apps(&mut self) {
        for (i, app) in self.apps.iter_mut().enumerate() {
            let local = self.world.ends[i].clock.local(self.world.now);
            let host = &mut self.world.ends[i].host;
            while host.poll_event().is_some() {}
            app.conn = app.conn.or_else(|| host.accept(PORT));
            let Some(conn) = app.conn else { continue };
            if self.world.now < app.wake {
                continue;
            }
            if !app.sleep.is_zero() {
                let most = app.sleep.as_nanos() as u64;
                let sleep = Duration::from_nanos(self.rng.random_range(1_000..=most));
                app.wake = self.world.now + sleep;
            }
            app.writer.poll(host, conn, app.most, local);
            if let Some((after, long)) = app.pause
                && app.reader.read >= after
            {
                app.pause = None;
                app.paused_until = self.world.now + long;
                app.wake = app.paused_until.max(app.wake);
            }
            if self.world.now >= app.paused_until {
                app.reader.poll(host, conn, app.most, local);
                // No event will tell of what a small read left behind.
                if app.sleep.is_zero() && !host.readable(conn).0.is_empty() {
                    app.wake = self.world.now + Duration::from_micros(100);
                }
            }
        }
    }

    fn is_over(&self) -> bool {
        (0..2).all(|i| {
            let app = &self.apps[i];
            let closed = app.conn.and_then(|c| self.world.ends[i].host.closed(c));
            closed == Some(Ok(())) && app.reader.at_end
        })
    }

    /// One end met only silence for several timeouts, or gave TACK up between two SYNs.
    fn looked_hostile(&self) -> bool {
        let unanswered = Mode::FellBack(FallbackReason::Unanswered);
        (0..2).any(|i| {
            let info = self.apps[i].conn.and_then(|c| self.world.ends[i].host.info(c));
            info.is_some_and(|i| i.mode == unanswered || i.mode == Mode::Plain)
        })
    }

    fn check(&mut self) {
        for i in 0..2 {
            let (app, other) = (&self.apps[i], &self.apps[1 - i]);
            assert_eq!(app.reader.read, other.writer.len, "end {i} read everything");
            let info = self.world.ends[i].host.info(app.conn.expect("open")).expect("known");
            match self.kind {
                Kind::Plain => assert_eq!(info.mode, Mode::Plain),
                // Lost SYNs may cost TACK, and darkness before the first sign of it.
                Kind::Tack | Kind::Offload => assert!(
                    matches!(info.mode, Mode::Plain | Mode::Tack) || self.looked_hostile(),
                    "{:?} on an honest path: {}",
                    info.mode,
                    self.state()
                ),
                Kind::Strategy(ack, _) if ack.tack().is_none() => {
                    assert_eq!(info.mode, Mode::Plain, "nobody else speaks it");
                }
                Kind::Strategy(..) | Kind::Stripped => {}
            }
            assert_eq!(info.counters.bad_bodies, 0);
        }
    }
}

fn log_uniform(rng: &mut Pcg64Mcg, low: f64, high: f64) -> f64 {
    math::exp(math::ln(low) + rng.random::<f64>() * math::ln(high / low))
}

fn sometimes(rng: &mut Pcg64Mcg, p: f64, most: f64) -> f64 {
    if rng.random_bool(p) { rng.random::<f64>() * most } else { 0.0 }
}

fn pipe(kind: Kind, ip: Option<bool>, rng: &mut Pcg64Mcg) -> PipeConfig {
    let rate = Rate::from_kbps(log_uniform(rng, 300.0, 300_000.0) as u64);
    let delay = Duration::from_micros(log_uniform(rng, 50.0, 100_000.0) as u64);
    let queue = log_uniform(rng, 6_000.0, 500_000.0) as u64;
    let mut pipe = PipeConfig::clean(rate, delay, queue);
    pipe.loss = sometimes(rng, 0.5, 0.1);
    pipe.duplicate = sometimes(rng, 0.3, 0.1);
    pipe.reorder = sometimes(rng, 0.3, 0.2);
    pipe.reorder_by = Duration::from_micros(log_uniform(rng, 10.0, 50_000.0) as u64);
    pipe.corrupt = if ip.is_some() { sometimes(rng, 0.2, 0.05) } else { 0.0 };
    pipe.mark = sometimes(rng, 0.3, 0.2);
    if rng.random_bool(0.2) {
        pipe.jitter = Duration::from_micros(log_uniform(rng, 10.0, 20_000.0) as u64);
    }
    if rng.random_bool(0.1) {
        let from = Instant::from_micros(log_uniform(rng, 1_000.0, 3e6) as u64);
        let long = Duration::from_micros(log_uniform(rng, 10_000.0, 5e6) as u64);
        pipe.blackouts.push(from..from + long);
    }
    if kind == Kind::Stripped && rng.random_bool(0.7) {
        let what =
            [Strip::PktSeq, Strip::AckType, Strip::Permitted, Strip::AllOfTack, Strip::AllOptions]
                [rng.random_range(0..5)];
        let from = if rng.random_bool(0.3) { 0.0 } else { log_uniform(rng, 1_000.0, 3e6) };
        // All options of a SYN decide about more than TACK: from the start, or never.
        pipe.strip = Some((what, Instant::from_micros(from as u64)));
        pipe.drop_tack_segments = false;
    } else if kind == Kind::Stripped && rng.random_bool(0.2) {
        pipe.drop_tack_segments = true;
    }
    pipe
}

fn host_config(codepoints: Codepoints, rng: &mut Pcg64Mcg) -> HostConfig {
    HostConfig::default().with(|it| {
        it.codepoints = codepoints;
        it.compact = rng.random_bool(0.8);
        it.max_burst_segments = [1, 2, 10, 44][rng.random_range(0..4)];
    })
}

/// Devices that cut super-packets and merge what arrives; on an `honest` path a box cuts segments anew.
fn offload(world: &mut WorldConfig, honest: bool, seed: u64) {
    let rng = &mut Pcg64Mcg::seed_from_u64(seed ^ 0x0ff1_0ad0);
    for (host, pipe) in world.hosts.iter_mut().zip(&mut world.pipes) {
        host.ip = host.ip.clone().with(|it| it.segmentation_offload = rng.random_bool(0.8));
        if rng.random_bool(0.7) {
            let every = log_uniform(rng, 1_000.0, 5e6) as u64;
            pipe.merge_every = Some(Duration::from_nanos(every));
        }
        if honest && rng.random_bool(0.4) {
            pipe.cut = rng.random::<f64>();
        }
    }
}

fn clock(rng: &mut Pcg64Mcg) -> LocalClock {
    LocalClock {
        offset: Duration::from_secs_f64(log_uniform(rng, 0.001, 1e7)),
        drift_ppm: rng.random_range(-200..=200),
    }
}

fn near_wrap(rng: &mut Pcg64Mcg) -> u32 {
    if rng.random_bool(0.5) { 1 } else { u32::MAX - rng.random_range(0..200) }
}

/// A configuration, and how it acknowledges where it is to speak no TACK.
fn conn_config(rng: &mut Pcg64Mcg) -> (ConnConfig, AckStrategy) {
    let algorithms = Algorithm::ALL;
    let mut config = ConnConfig::default().with(|it| {
        it.mss = rng.random_bool(0.3).then(|| rng.random_range(100..1_400));
        it.recv_buffer = log_uniform(rng, 3_000.0, 4e6) as usize;
        it.initial_recv_buffer = log_uniform(rng, 3_000.0, 3e5) as usize;
        it.send_buffer = log_uniform(rng, 1_000.0, 4e6) as usize;
        it.nodelay = rng.random_bool(0.7);
        it.sack = rng.random_bool(0.9);
        it.ecn = rng.random_bool(0.3);

        // One beyond the last is the default.
        it.congestion = algorithms.get(rng.random_range(0..=algorithms.len())).copied();
    });
    let plain = AckStrategy::every([1, 2, 8][rng.random_range(0..3)]);
    if rng.random_bool(0.5) {
        config.initial_seq = Some(0u32.wrapping_sub(rng.random_range(0..100_000)));
    }
    if rng.random_bool(0.1) {
        config.keepalive = Some(Keepalive {
            idle: Duration::from_secs(1),
            interval: Duration::from_secs(1),
            probes: 30,
        });
    }
    if let Some(params) = config.ack.tack_mut() {
        params.beta = [2, 4, 8][rng.random_range(0..3)];
        params.segments_per_ack = [1, 2, 4][rng.random_range(0..3)];
        params.ack_on_push = rng.random_bool(0.2);
        params.loss_iacks = rng.random_bool(0.9);
    }
    (config, plain)
}

fn length(rng: &mut Pcg64Mcg) -> u64 {
    match rng.random_range(0..10) {
        0 => 0,
        1 => 1,
        2..5 => rng.random_range(0..5_000),
        5..9 => log_uniform(rng, 1_000.0, 100_000.0) as u64,
        _ => log_uniform(rng, 50_000.0, 600_000.0) as u64,
    }
}

fn app(seed: u64, end: u64, writes: u64, reads: u64, rng: &mut Pcg64Mcg) -> App {
    let lazy = rng.random_bool(0.4);
    let sleep = if lazy { log_uniform(rng, 100.0, 100_000.0) as u64 } else { 0 };
    let most = if rng.random_bool(0.3) { log_uniform(rng, 500.0, 1e5) as u64 } else { u64::MAX };
    let pause = rng
        .random_bool(0.05)
        .then(|| (rng.random_range(0..=reads), Duration::from_secs(rng.random_range(1..200))));
    App {
        conn: None,
        writer: Writer::new(seed.wrapping_add(end), writes),
        reader: Reader::new(seed.wrapping_add(1 - end)),
        sleep: Duration::from_micros(sleep),
        wake: Instant::ZERO,
        // No application is so slow that it takes an hour.
        most: most.max(writes.max(reads) / 1_000),
        pause,
        paused_until: Instant::ZERO,
    }
}

/// End 0 connects to end 1, or both to each other at once.
fn open(
    world: &mut World,
    apps: &mut [App; 2],
    client: ConnConfig,
    server: ConnConfig,
    both: bool,
) {
    let remote = |world: &World, end: usize| Remote { path: world.ends[end].addr, port: PORT };
    if both {
        for (i, config) in [client, server].into_iter().enumerate() {
            let config = config.with(|it| it.local_port = Some(PORT));
            let (to, now) = (remote(world, 1 - i), world.local(i));
            let conn = world.ends[i].host.connect(to, config, now);
            apps[i].conn = Some(conn.expect("a free port"));
        }
        return;
    }
    let listen = ListenConfig::default().with(|it| it.conn = server);
    world.ends[1].host.listen(PORT, listen).expect("a free port");
    let (to, now) = (remote(world, 1), world.local(0));
    apps[0].conn = Some(world.ends[0].host.connect(to, client, now).expect("a free port"));
}

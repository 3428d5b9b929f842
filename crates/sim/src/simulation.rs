//! A world of real TCP hosts: flows in, reports and time series out.

use core::time::Duration;
use std::sync::Arc;

use tack_link::{HostId, Link};
use tack_tcp::wire::Codepoints;
use tack_units::Instant;

use crate::app::{Client, Pattern};
use crate::flow::{FlowConfig, FlowId};
use crate::guest::GuestFlow;
use crate::late::Late;
use crate::node::{MAX_FLOWS, Node};
use crate::open_loop::{AckRule, Blast};
use crate::record::{FlowSample, Series};
use crate::report::SideReport;
use crate::seed::Seed;
use crate::side::Role;
use crate::stall::{Stall, WATCH_PERIOD, Watch, describe};
use crate::topology::{LinkId, Site};
use crate::video::Cast;
use crate::world::World;

/// How often a run that goes on looks whether it may end.
const SETTLE_STEP: Duration = Duration::from_millis(20);

/// Hosts with the real stack, flows between them, and what is recorded of both.
///
/// ```
/// use core::time::Duration;
/// use tack_link::End;
/// use tack_link::queue::Limit;
/// use tack_link::wired::{DirectionConfig, Wired};
/// use tack_sim::{AckStrategy, App, FlowConfig, Seed, Simulation, Site, Transport};
/// use tack_units::{Instant, Rate};
///
/// let seed = Seed(1);
/// let path = DirectionConfig::clean(
///     Rate::from_mbps(100),
///     Duration::from_millis(40),
///     Limit::Bytes(1_000_000),
/// );
/// let mut sim = Simulation::new(seed);
/// let link = sim.add_link(Wired::symmetric(path, seed.derive("link"))?);
/// let server = sim.add_host(Site { link, end: End::A });
/// let client = sim.add_host(Site { link, end: End::B });
/// let transport = Transport::new(AckStrategy::TACK);
/// let mut config = FlowConfig::bulk(server, client, &transport);
/// config.app = App::Bulk { bytes: Some(1_000_000) };
/// let flow = sim.add_flow(config);
/// sim.run_until(Instant::from_secs(5));
/// let (_, receiver) = sim.flow(flow);
/// assert_eq!((receiver.received, receiver.first_wrong_byte), (1_000_000, None));
/// # Ok::<(), tack_link::wired::ConfigError>(())
/// ```
#[derive(Debug)]
pub struct Simulation<L = Box<dyn Link + Send>> {
    world: World<Late<Node>, L>,
    seed: Seed,
    codepoints: Codepoints,
    /// Hosts go without TCP's checksums.
    unchecked: bool,
    pattern: Arc<Pattern>,
    flows: Vec<Flow>,
    recorder: Option<Recorder<L>>,
    next_watch: Instant,
    stall: Option<Stall>,
}

#[derive(Debug)]
struct Flow {
    from: HostId,
    to: HostId,
    /// Foreign stacks carry it.
    is_guest: bool,
    series: Series<FlowSample>,
    /// From the connecting end on, and back.
    watches: [Watch; 2],
}

#[derive(Debug)]
struct Recorder<L> {
    period: Duration,
    next: Instant,
    queue_bytes: fn(&L) -> u64,
    queues: Vec<Series<u64>>,
}

impl<L: Link> Simulation<L> {
    /// An empty simulation. Everything random in its hosts comes from `seed`; links have seeds of
    /// their own, best derived from it.
    pub fn new(seed: Seed) -> Self {
        Simulation::with_codepoints(seed, Codepoints::Experimental)
    }

    /// As [`Simulation::new`], with TACK's options under other numbers.
    pub fn with_codepoints(seed: Seed, codepoints: Codepoints) -> Self {
        Simulation {
            world: World::new(),
            seed,
            codepoints,
            unchecked: false,
            pattern: Arc::new(Pattern::new(seed.stream("pattern"))),
            flows: Vec::new(),
            recorder: None,
            next_watch: Instant::ZERO,
            stall: None,
        }
    }

    /// Hosts added from now on leave TCP's checksums out, as those do whose network cards compute them:
    /// for links that damage nothing and write nothing down. It changes nothing else.
    pub fn trust_links(&mut self) {
        self.unchecked = true;
    }

    /// Puts a link into the world.
    pub fn add_link(&mut self, link: L) -> LinkId {
        self.world.add_link(link)
    }

    /// Joins two ends of links, as a router does.
    pub fn join(&mut self, a: Site, b: Site) {
        self.world.join(a, b);
    }

    /// Puts a host at one end of a link. Hosts are numbered from zero, so that a link that knows
    /// its hosts by number, such as a WLAN, can be made before them.
    pub fn add_host(&mut self, site: Site) -> HostId {
        let id = self.world.hosts().len() as HostId;
        let secret = self.seed.secret(&format!("host {id}"));
        let pattern = Arc::clone(&self.pattern);
        let node =
            Node::new(id, self.codepoints, pattern, self.unchecked, secret, self.world.now());
        self.world.add_host(Late::never(node), site)
    }

    /// Has a host come late to whatever happens to it, packets and timers: each time by another share of
    /// `longest`, and together to all that happened meanwhile.
    ///
    /// # Panics
    /// If there is no such host.
    pub fn wake_late(&mut self, host: HostId, longest: Duration) {
        let rng = self.seed.stream(&format!("late {host}"));
        self.world.with_host(host, |node, _| node.by(longest, rng));
    }

    /// Adds a TCP flow.
    ///
    /// # Panics
    /// If there are [`MAX_FLOWS`] already, or a host does not exist.
    pub fn add_flow(&mut self, config: FlowConfig) -> FlowId {
        let id = FlowId(self.flows.len() as u32);
        assert!(id.0 < MAX_FLOWS, "at most {MAX_FLOWS} flows");
        let FlowConfig { from, to, app, from_conn, to_conn, start, stop } = config;
        let rng = self.seed.stream(&format!("flow {}", id.0));
        let client = Client::new(app.clone(), rng, start, stop);
        self.world.with_host(to, |node, _| node.listen(id, app, to_conn));
        self.world.with_host(from, |node, _| node.connect_at(id, to, client, from_conn));
        let (series, watches) = (Series::default(), Default::default());
        self.flows.push(Flow { from, to, is_guest: false, series, watches });
        id
    }

    /// Adds a flow that foreign stacks carry. It is never found to [stall](Self::stall): what the
    /// watch asks, they do not tell.
    ///
    /// # Panics
    /// As [`Self::add_flow`].
    pub fn add_guest_flow(&mut self, config: GuestFlow) -> FlowId {
        let id = FlowId(self.flows.len() as u32);
        assert!(id.0 < MAX_FLOWS, "at most {MAX_FLOWS} flows");
        let GuestFlow { from, to, app, stacks: [client_stack, server_stack], start, stop } = config;
        let rng = self.seed.stream(&format!("flow {}", id.0));
        let client = Client::new(app.clone(), rng, start, stop);
        let server = Role::Server { app };
        self.world.with_host(to, |n, _| n.add_guest(id, server, server_stack, [to, from]));
        let client = Role::Client { client, config: None };
        self.world.with_host(from, |n, _| n.add_guest(id, client, client_stack, [from, to]));
        let (series, watches) = (Series::default(), Default::default());
        self.flows.push(Flow { from, to, is_guest: true, series, watches });
        id
    }

    /// Has `src` send open-loop packets.
    pub fn add_blast(&mut self, src: HostId, blast: Blast) {
        self.world.with_host(src, |node, _| node.add_blast(blast));
    }

    /// Has `src` send a video as datagrams. Whatever else of it arrives where the video does would be
    /// taken for frames.
    pub fn add_cast(&mut self, src: HostId, cast: Cast) {
        self.world.with_host(cast.dst, |node, _| node.expect_cast(src, cast.clone()));
        self.world.with_host(src, |node, _| node.add_cast(cast));
    }

    /// Has `host` acknowledge open-loop packets, each with `ack_ip_bytes`.
    pub fn acknowledge_blasts(&mut self, host: HostId, rule: AckRule, ack_ip_bytes: u32) {
        self.world.with_host(host, |node, _| node.set_ack_rule(rule, ack_ip_bytes));
    }

    /// Samples every flow, and each link's queue through `queue_bytes`, once per period from now
    /// on. Sampling looks and never touches: it changes nothing in the run.
    ///
    /// # Panics
    /// If the period is zero.
    pub fn record_every(&mut self, period: Duration, queue_bytes: fn(&L) -> u64) {
        assert!(!period.is_zero(), "samples need a time between them");
        let next = self.world.now();
        self.recorder = Some(Recorder { period, next, queue_bytes, queues: Vec::new() });
    }

    /// Runs up to and including `until`.
    pub fn run_until(&mut self, until: Instant) {
        loop {
            let sample = self.recorder.as_ref().map_or(Instant::MAX, |r| r.next);
            let next = sample.min(self.next_watch);
            if next > until {
                break;
            }
            self.world.run_until(next);
            if next == sample {
                self.sample(next);
            }
            if next == self.next_watch {
                self.watch(next);
            }
        }
        self.world.run_until(until);
    }

    /// The first flow that stood still on a living path though it had data to send, if any did so
    /// far: always a defect of the stack. Looked for ten times a second in every run, which
    /// changes nothing in it.
    pub fn stall(&self) -> Option<&Stall> {
        self.stall.as_ref()
    }

    /// Runs on until every flow that has data to send has moved once more, one is found to stall,
    /// or `longest` has passed: so that a flow that stands still when a run ends is told from one
    /// that only waits, however short the run was.
    pub fn settle(&mut self, longest: Duration) {
        let end = self.world.now() + longest;
        let before: Vec<[u64; 2]> = self.flows().map(|id| self.counts(id).map(|c| c.1)).collect();
        let moved = |sim: &Self| {
            sim.flows().zip(&before).all(|(id, before)| {
                let both = sim.counts(id).into_iter().zip(before);
                both.into_iter().all(|((pending, read), before)| pending == 0 || read != *before)
            })
        };
        while self.stall.is_none() && self.world.now() < end && !moved(self) {
            let next = self.world.now() + SETTLE_STEP;
            self.run_until(next);
        }
    }

    /// Bytes that wait for each direction of a flow, and bytes read of it.
    fn counts(&self, id: FlowId) -> [(u64, u64); 2] {
        let flow = &self.flows[id.0 as usize];
        let side = |host| self.world.host(host).flow_counts(id).unwrap_or_default();
        let (from, to) = (side(flow.from), side(flow.to));
        [(&from, &to), (&to, &from)].map(|(sender, receiver)| {
            let pending = if sender.closed.is_some() { 0 } else { sender.written };
            (pending.saturating_sub(receiver.received), receiver.received)
        })
    }

    /// What both ends of a flow did so far: the connecting one, then the listening one.
    ///
    /// # Panics
    /// If there is no such flow; so does [`Simulation::flow_series`].
    pub fn flow(&self, id: FlowId) -> (SideReport<'_>, SideReport<'_>) {
        let flow = &self.flows[id.0 as usize];
        let side = |host| self.world.host(host).flow(id).expect("it has an end at this host");
        (side(flow.from), side(flow.to))
    }

    /// All flows.
    pub fn flows(&self) -> impl Iterator<Item = FlowId> + use<L> {
        (0..self.flows.len() as u32).map(FlowId)
    }

    /// What was recorded of a flow, with the connecting end as the sender.
    pub fn flow_series(&self, id: FlowId) -> &Series<FlowSample> {
        &self.flows[id.0 as usize].series
    }

    /// What was recorded of a link's queue, bytes; `None` if nothing was.
    pub fn queue_series(&self, id: LinkId) -> Option<&Series<u64>> {
        self.recorder.as_ref()?.queues.get(id.0 as usize)
    }

    /// The world within: its time, links, hosts and totals.
    pub fn world(&self) -> &World<Late<Node>, L> {
        &self.world
    }

    /// The links, for their own accounts and captures.
    pub fn into_links(self) -> Vec<L> {
        self.world.into_links()
    }

    fn sample(&mut self, at: Instant) {
        let recorder = self.recorder.as_mut().expect("only a recorder asks for samples");
        recorder.next = at + recorder.period;
        recorder.queues.resize_with(self.world.links().len(), Series::default);
        for (series, link) in recorder.queues.iter_mut().zip(self.world.links()) {
            series.offer(at, || (recorder.queue_bytes)(link));
        }
        for (number, flow) in self.flows.iter_mut().enumerate() {
            let id = FlowId(number as u32);
            let end = |host| self.world.host(host).sampled(id).expect("it has an end at this host");
            flow.series.offer(at, || FlowSample::new(&end(flow.from), &end(flow.to)));
        }
    }

    /// Looks whether every flow moves.
    fn watch(&mut self, now: Instant) {
        self.next_watch = now + WATCH_PERIOD;
        if self.stall.is_some() {
            return;
        }
        let ours = self.flows.iter_mut().enumerate().filter(|(_, flow)| !flow.is_guest);
        for (number, flow) in ours {
            let id = FlowId(number as u32);
            let (one, other) = (self.world.host(flow.from), self.world.host(flow.to));
            for (backwards, watch) in flow.watches.iter_mut().enumerate() {
                let (from, to) = if backwards == 0 { (one, other) } else { (other, one) };
                let counts = (from.flow_counts(id), to.flow_counts(id));
                let (Some(sender), Some(receiver)) = counts else { continue };
                let infos = || from.flow_info(id).zip(to.flow_info(id));
                let since = watch.since();
                if let Some(why) = watch.look(&sender, &receiver, infos, now) {
                    let infos = (from.flow_info(id), to.flow_info(id));
                    let state = describe(&sender, &receiver, infos);
                    let backwards = backwards == 1;
                    self.stall = Some(Stall { flow: id, backwards, since, found: now, why, state });
                    return;
                }
            }
        }
    }
}

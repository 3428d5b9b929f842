//! Two machines and a path, or one machine: see the crate's drawing.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tack_device::{Netns, NetnsError, Prefix, Tun, TunError};
use tack_emu::{Emulation, EmulationConfig, EmulationError, Report, ipv4, ipv6};
use tack_link::End;
use tack_link::wired::{DirectionConfig, Wired};
use tack_net::{ConnConfig, Endpoint, ListenConfig, TackListener, TunConfig};

use crate::watch::{Filter, Log, Watch};

/// Skipped tests fail if this is set in the environment: for machines that are known to be able.
pub const REQUIRE: &str = "TACK_INTEROP_REQUIRED";

/// Paths are captured into files in this directory, one per path, named by their tests.
pub const CAPTURE: &str = "TACK_INTEROP_CAPTURE";

/// Which Internet Protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Both.
    pub const BOTH: [Family; 2] = [Family::V4, Family::V6];

    /// Bytes of IP and TCP header without options.
    pub fn header_bytes(self) -> u16 {
        match self {
            Family::V4 => 40,
            Family::V6 => 60,
        }
    }
}

/// What to set up.
pub struct Setup {
    /// Our connections, unless told otherwise.
    pub conn: ConnConfig,
    /// The way from our endpoint to the kernel and back. `None`: the near kernel is the peer.
    pub path: Option<[DirectionConfig; 2]>,
    /// Of all the path's randomness.
    pub seed: u64,
    /// Largest packet on the path; our interface takes 1500 bytes.
    pub path_mtu: u16,
    /// Super-packets between us and the near kernel.
    pub offload: bool,
    /// Remember what passes the path.
    pub log: bool,
    /// What may enter the path.
    pub filter: Option<Filter>,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            conn: ConnConfig::default(),
            path: None,
            seed: 1,
            path_mtu: 1_500,
            offload: true,
            log: true,
            filter: None,
        }
    }
}

enum Machines {
    One(Netns),
    Two(Emulation<Watch<Wired>>),
}

/// Our endpoint and the kernel's TCP, with all that is between them.
pub struct World {
    machines: Machines,
    /// Ours.
    pub endpoint: Endpoint,
    /// What passed the path; empty without one.
    pub log: Log,
}

impl Setup {
    /// Over a path that is the same both ways.
    pub fn over(way: DirectionConfig) -> Setup {
        Setup { path: Some([way.clone(), way]), ..Setup::default() }
    }

    /// `None` where this process may not have namespaces or devices, and says so.
    ///
    /// # Panics
    /// When it fails for another reason; outside a tokio runtime.
    pub fn start(self) -> Option<World> {
        let log = Log::default();
        let machines = match self.path {
            None => Machines::One(available(Netns::new(), netns_is_unavailable)?),
            Some([out, back]) => {
                let wired = Wired::new(out, back, self.seed).expect("a valid path");
                let link = Watch::new(wired, self.log.then(|| log.clone()), self.filter);
                let (mtu, capture) = (self.path_mtu, capture());
                let config = EmulationConfig { mtu, capture, ..EmulationConfig::default() };
                let emulation = Emulation::new(link, config);
                Machines::Two(available(emulation, EmulationError::is_unavailable)?)
            }
        };
        let near = near(&machines);
        let endpoint = endpoint(near, End::A, self.conn, self.offload)?;
        // A test provokes more ICMP errors in a moment than a router would send in one.
        near.sysctl("net.ipv4.icmp_ratelimit", "0").expect("a namespace's parameter");
        Some(World { machines, endpoint, log })
    }
}

impl World {
    /// The namespace our device is in.
    pub fn near(&self) -> &Netns {
        near(&self.machines)
    }

    /// The namespace of the peer.
    pub fn far(&self) -> &Netns {
        match &self.machines {
            Machines::One(netns) => netns,
            Machines::Two(emulation) => emulation.server(),
        }
    }

    /// The peer's address.
    pub fn kernel(&self, family: Family, port: u16) -> SocketAddr {
        let ip = match (&self.machines, family) {
            (Machines::One(_), _) => device_ip(End::A, family, 1),
            (Machines::Two(_), Family::V4) => ipv4(End::B).into(),
            (Machines::Two(_), Family::V6) => ipv6(End::B).into(),
        };
        SocketAddr::new(ip, port)
    }

    /// Our address.
    pub fn ours(&self, family: Family, port: u16) -> SocketAddr {
        SocketAddr::new(device_ip(End::A, family, 2), port)
    }

    /// A second endpoint of ours, behind the far kernel, and its address.
    ///
    /// # Panics
    /// Without a path.
    pub fn far_endpoint(&self, conn: ConnConfig, family: Family) -> Option<(Endpoint, IpAddr)> {
        assert!(matches!(self.machines, Machines::Two(_)), "the far machine is the near one");
        Some((endpoint(self.far(), End::B, conn, true)?, device_ip(End::B, family, 2)))
    }

    /// Listens with our endpoint's own configuration of connections.
    ///
    /// # Panics
    /// If the port is taken.
    pub fn listen(&self, port: u16, conn: ConnConfig) -> TackListener {
        let config = ListenConfig::default().with(|it| it.conn = conn);
        self.endpoint.listen_plain_with(port, config).expect("nobody else listens there")
    }

    /// Sets a parameter of the peer.
    ///
    /// # Panics
    /// If the kernel does not take it.
    pub fn set(&self, name: &str, value: &str) {
        self.far().sysctl(name, value).unwrap_or_else(|e| panic!("{name}={value}: {e}"));
    }

    /// Ends the path and tells of it.
    ///
    /// # Panics
    /// Without a path, and if it ended before.
    pub fn finish(self) -> Report<Watch<Wired>> {
        match self.machines {
            Machines::One(_) => panic!("there is no path"),
            Machines::Two(emulation) => emulation.finish().expect("the path was there to the end"),
        }
    }
}

fn near(machines: &Machines) -> &Netns {
    match machines {
        Machines::One(netns) => netns,
        Machines::Two(emulation) => emulation.client(),
    }
}

/// An address of the network between an endpoint of ours and its kernel: 1 is the kernel, 2 are we.
pub(crate) fn device_ip(end: End, family: Family, host: u8) -> IpAddr {
    let net = 78 + u8::from(end == End::B);
    match family {
        Family::V4 => Ipv4Addr::new(10, net, 0, host).into(),
        Family::V6 => {
            let first = if end == End::A { 0xfd78 } else { 0xfd79 };
            Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0, host.into()).into()
        }
    }
}

/// Our endpoint at `end`, behind the kernel of `netns`.
pub(crate) fn endpoint(
    netns: &Netns,
    end: End,
    conn: ConnConfig,
    offload: bool,
) -> Option<Endpoint> {
    let prefix = |family, bits| Prefix::new(device_ip(end, family, 2), bits);
    let ours = [prefix(Family::V4, 24), prefix(Family::V6, 64)].map(|p| p.expect("short enough"));
    let mut config = TunConfig::new(&ours).expect("there is room for the kernel");
    config.device.offload = offload;
    config.device.queue_packets = 10_000;
    let opened = netns.enter(|| Tun::open(&config.device)).expect("it was made just now");
    let tun = available(opened, TunError::is_unavailable)?;
    let endpoint = Endpoint::builder().conn(conn).from_tun(tun, &config.local);
    Some(endpoint.expect("a descriptor for its timer"))
}

/// Where the next path is captured, if it is wanted.
fn capture() -> Option<Box<dyn Write + Send>> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let dir = PathBuf::from(std::env::var_os(CAPTURE)?);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("{}-{number}.pcapng", test_name().replace("::", "-"));
    let file = File::create(dir.join(name)).expect("a file for the capture");
    Some(Box::new(BufWriter::new(file)))
}

/// The test harness names threads so.
fn test_name() -> String {
    std::thread::current().name().unwrap_or("test").to_owned()
}

pub(crate) fn netns_is_unavailable(e: &NetnsError) -> bool {
    matches!(e, NetnsError::NotPermitted)
}

/// # Panics
/// On errors that are no excuse.
pub(crate) fn available<T, E: std::fmt::Display>(
    result: Result<T, E>,
    excuse: fn(&E) -> bool,
) -> Option<T> {
    match result {
        Ok(it) => Some(it),
        Err(e) if excuse(&e) => {
            say_skipped(&e.to_string());
            None
        }
        Err(e) => panic!("{e}"),
    }
}

/// Tells why a test does not run, past the test harness, which shows nothing of tests that pass.
///
/// # Panics
/// If skipping is not allowed: see [`REQUIRE`].
pub fn say_skipped(reason: &str) {
    assert!(std::env::var_os(REQUIRE).is_none(), "{REQUIRE} is set, but: {reason}");
    let _ = writeln!(io::stderr(), "{} skipped: {reason}", test_name());
}

/// The result of `work`, which must not take longer than `limit`.
///
/// # Panics
/// If it does.
pub async fn within<T>(limit: Duration, what: &str, work: impl Future<Output = T>) -> T {
    match tokio::time::timeout(limit, work).await {
        Ok(it) => it,
        Err(_) => panic!("{what} took longer than {limit:?}"),
    }
}

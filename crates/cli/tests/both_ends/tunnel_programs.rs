//! `tack tunnel` with programs as they are installed, each test in a machine of its own or on both
//! sides of an emulated path.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;
use tack_device::Netns;
use tack_interop::program::{is_installed, path_of};
use tack_interop::world::within;
use tack_interop::{Family, Program, Setup, Sshd, World, sockets, stream};
use tack_link::queue::Limit;
use tack_link::wired::DirectionConfig;
use tack_units::Rate;
use tempfile::{TempDir, tempdir};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::mpsc;

use crate::support::{Listening, run, tack};

const LIMIT: Duration = Duration::from_secs(60);

/// The built command inside, once it has said `ready`.
pub(crate) async fn tack_in(netns: &Netns, home: &Path, line: &str, ready: &str) -> Program {
    let config = format!("XDG_CONFIG_HOME={}", home.display());
    let args: Vec<&str> = [config.as_str(), env!("CARGO_BIN_EXE_tack")]
        .into_iter()
        .chain(line.split_whitespace())
        .collect();
    let mut program = Program::start(netns, "env", &args, Stdio::null()).unwrap();
    let listening = async {
        while !program.stderr().unwrap().contains(ready) {
            assert!(program.is_running().unwrap(), "{line}: {}", program.stderr().unwrap());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    within(LIMIT, line, listening).await;
    program
}

/// 100 Mbit/s, 20 ms there and back, and a server of tunnels at the far machine.
async fn served() -> Option<(World, TempDir, Program)> {
    served_over(Duration::from_millis(10), "").await
}

/// The same with another delay each way, and a server that has these flags.
pub(crate) async fn served_over(delay: Duration, flags: &str) -> Option<(World, TempDir, Program)> {
    let way = DirectionConfig::clean(Rate::from_mbps(100), delay, Limit::Bytes(250_000));
    let world = Setup::over(way).start()?;
    // What is behind the server; the server itself is never redirected to.
    world.far().ip(&["addr add 10.99.0.1/32 dev lo"]).unwrap();
    world.near().ip(&["route add 10.99.0.0/24 via 10.77.0.2"]).unwrap();
    // No route of IPv6 leads there but the tunnel's; this one is for the kernel to begin with.
    world.far().ip(&["addr add fd99::1/128 dev lo nodad"]).unwrap();
    world.near().ip(&["route add fd99::/64 dev lo"]).unwrap();
    let home = tempdir().unwrap();
    let serve = format!("tunnel serve --allow any{flags}");
    let server = tack_in(world.far(), home.path(), &serve, "On the other machine").await;
    Some((world, home, server))
}

/// A client's command line. Whoever is started in the server's home has its key, and so is let in.
pub(crate) fn line(world: &World, options: &str) -> String {
    format!("tunnel {} {options}", world.kernel(Family::V4, 8226))
}

/// The same, and a client at the near machine.
async fn world(options: &str) -> Option<(World, TempDir, [Program; 2])> {
    let (world, home, server) = served().await?;
    let client = tack_in(world.near(), home.path(), &line(&world, options), "leads to").await;
    Some((world, home, [server, client]))
}

async fn succeeds(netns: &Netns, name: &str, args: &[&str]) -> Vec<u8> {
    let program = Program::start(netns, name, args, Stdio::null()).unwrap();
    program.wait(LIMIT).await.unwrap().expect_success(name).stdout
}

/// Starts a server of somebody else's, and gives it time to listen on `port`.
async fn started(netns: &Netns, name: &str, args: &[&str], port: u16) -> Program {
    let program = Program::start(netns, name, args, Stdio::null()).unwrap();
    let hex = format!(":{port:04X} ");
    let listens = || {
        let read = || {
            ["tcp", "tcp6"].map(|f| {
                std::fs::read_to_string(format!("/proc/thread-self/net/{f}")).unwrap_or_default()
            })
        };
        let tables = netns.enter(read).unwrap();
        tables.iter().flat_map(|t| t.lines()).any(|l| l.contains(&hex) && l.contains(" 0A "))
    };
    let listening = async {
        while !listens() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    within(LIMIT, name, listening).await;
    program
}

/// A web server of what is in `home`, which logs there who asks.
async fn nginx(world: &World, home: &Path) -> Program {
    let at = home.display();
    let config = home.join("nginx.conf");
    let text = format!(
        "daemon off; pid {at}/pid; error_log stderr; user root; events {{}}\n\
         http {{ access_log {at}/log; types {{ text/html html; }} server {{ \
         listen 10.99.0.1:80; listen [fd99::1]:80; root {at}; }} }}\n"
    );
    std::fs::write(&config, text).unwrap();
    started(world.far(), "nginx", &["-c", &config.display().to_string()], 80).await
}

#[test]
fn a_browser_loads_a_page_of_many_objects_through_socks_beside_downloads_that_it_gives_up() {
    const OBJECTS: usize = 100;
    const GIVEN_UP: usize = 8;

    run(async {
        if !is_installed("chromium") || !is_installed("nginx") {
            return;
        }
        let chromium = path_of("chromium").expect("it is installed");
        let Some((world, home, _ends)) = world("-D 1080").await else { return };
        let names = (0..OBJECTS).map(|n| format!("object{n}"));
        for (n, name) in names.enumerate() {
            std::fs::write(home.path().join(name), "x".repeat(n * 1_000)).unwrap();
        }
        std::fs::write(home.path().join("long"), vec![b'y'; 50_000_000]).unwrap();
        let page = format!(
            "<!doctype html><body>loading<script>\n\
             const one = n => fetch('/object' + n).then(a => a.text()).then(t => t.length);\n\
             const giveUp = async () => {{\n\
             const control = new AbortController();\n\
             const reader = (await fetch('/long', control)).body.getReader();\n\
             await reader.read();\n\
             control.abort();\n\
             return reader.read().then(() => 0, () => 1);\n\
             }};\n\
             const sum = all => Promise.all(all).then(them => them.reduce((a, b) => a + b));\n\
             const givenUp = sum([...Array({GIVEN_UP})].map(giveUp));\n\
             const arrived = sum([...Array({OBJECTS}).keys()].map(one));\n\
             Promise.all([arrived, givenUp]).then(([a, g]) =>\n\
             document.body.textContent = 'arrived: ' + a + ', given up: ' + g);\n\
             </script></body>"
        );
        std::fs::write(home.path().join("index.html"), page).unwrap();
        let _nginx = nginx(&world, home.path()).await;
        let profile = format!("--user-data-dir={}", home.path().join("profile").display());
        let args = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--proxy-server=socks5://127.0.0.1:1080",
            "--virtual-time-budget=30000",
            "--dump-dom",
            &profile,
            "http://10.99.0.1/index.html",
        ];
        let dom = succeeds(world.near(), &chromium.display().to_string(), &args).await;
        let dom = String::from_utf8(dom).unwrap();
        let bytes = 1_000 * OBJECTS * (OBJECTS - 1) / 2;
        let said = format!("arrived: {bytes}, given up: {GIVEN_UP}<");
        assert!(dom.contains(&said), "{dom}");
        let log = std::fs::read_to_string(home.path().join("log")).unwrap();
        let asked = log.lines().filter(|line| line.contains("GET /object")).count();
        assert!(asked == OBJECTS && log.lines().all(|l| l.starts_with("10.99.0.1 ")), "{log}");
    });
}

#[test]
fn git_clones_over_a_forward() {
    run(async {
        if !is_installed("git") {
            return;
        }
        let Some((world, home, _ends)) = world("-L 9418:10.99.0.1:9418").await else { return };
        let (from, to) = (home.path().join("repo"), home.path().join("clone"));
        let bytes = stream::Source::new(81, 2 << 20).bytes();
        std::fs::create_dir(&from).unwrap();
        std::fs::write(from.join("file"), &bytes).unwrap();
        let at = from.display().to_string();
        let script = "cd \"$0\" && git init -q && git add file && \
                      git -c user.name=n -c user.email=e commit -qm m";
        succeeds(world.far(), "sh", &["-ec", script, &at]).await;
        let base = format!("--base-path={}", home.path().display());
        let args = ["daemon", "--export-all", "--reuseaddr", &base, "--listen=10.99.0.1"];
        let _daemon = started(world.far(), "git", &args, 9418).await;
        let clone = to.display().to_string();
        succeeds(world.near(), "git", &["clone", "-q", "git://127.0.0.1/repo", &clone]).await;
        assert!(std::fs::read(to.join("file")).unwrap() == bytes);
    });
}

#[test]
fn ssh_copies_bytes_both_ways_through_socks() {
    run(async {
        if !is_installed("nc") {
            return;
        }
        let Some((world, _home, _ends)) = world("-D 1080").await else { return };
        let Some(sshd) = Sshd::start(world.far(), 2_222).await else { return };
        let proxy = "ProxyCommand nc -X 5 -x 127.0.0.1:1080 %h %p";
        let config = sshd.client_config("tunnelled", &format!("Port 2222\n{proxy}"));
        let config = config.display().to_string();
        let sent = stream::of(&stream::Source::new(82, 3 << 20).bytes());
        let args = ["-F", &config, "10.99.0.1", "cat"];
        let ssh = Program::start(world.near(), "ssh", &args, stream::file(82, 3 << 20)).unwrap();
        let back = ssh.wait(LIMIT).await.unwrap().expect_success("ssh").stdout;
        assert_eq!(stream::of(&back), sent);
    });
}

#[test]
fn iperf3_measures_both_ways_through_a_forward() {
    run(async {
        if !is_installed("iperf3") {
            return;
        }
        let Some((world, _home, _ends)) = world("-L 5201:10.99.0.1:5201").await else { return };
        let _server = started(world.far(), "iperf3", &["-s"], 5201).await;
        // By time: iperf3 counts a test by bytes as over once it has written them, and the server
        // then says what it has received so far.
        for reverse in [None, Some("-R")] {
            let args: Vec<&str> = ["-c", "127.0.0.1", "-t", "2", "-P", "2", "-J"]
                .into_iter()
                .chain(reverse)
                .collect();
            let said = succeeds(world.near(), "iperf3", &args).await;
            let json: serde_json::Value = serde_json::from_slice(&said).unwrap();
            let bytes = json["end"]["sum_received"]["bytes"].as_u64().unwrap();
            assert!(bytes > 1 << 20, "{bytes} bytes, {reverse:?}");
        }
    });
}

/// Answers each question for an address with the same one; who asks is told.
async fn name_server(socket: UdpSocket, tell: mpsc::UnboundedSender<SocketAddr>) {
    let mut question = [0; 512];
    loop {
        let (length, from) = socket.recv_from(&mut question).await.unwrap();
        // A header of twelve bytes, a name, which ends with an empty part, its type and its class.
        let name = question[12..length].iter().position(|byte| *byte == 0).expect("a name");
        let head = [&question[..2], &[0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]].concat();
        let record = [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 203, 0, 113, 7];
        let answer = [&head, &question[12..12 + name + 5], &record[..]].concat();
        tell.send(from).unwrap();
        socket.send_to(&answer, from).await.unwrap();
    }
}

#[test]
fn programs_that_dante_leads_into_socks_ask_a_name_server_by_udp_over_both_families() {
    run(async {
        if !["socksify", "drill", "nc"].into_iter().all(is_installed) {
            return;
        }
        let Some((world, home, _ends)) = world("-D 1080").await else { return };
        let (tell, mut told) = mpsc::unbounded_channel();
        for at in ["10.99.0.1:53", "[fd99::1]:53"] {
            let socket = sockets::datagrams(world.far(), at.parse().unwrap()).unwrap();
            tokio::spawn(name_server(socket, tell.clone()));
        }
        let config = home.path().join("dante.conf");
        let route = "logoutput: stderr\nresolveprotocol: fake\n\
                     route {\n from: 0.0.0.0/0 to: 0.0.0.0/0 via: 127.0.0.1 port = 1080\n \
                     proxyprotocol: socks_v5\n protocol: udp\n command: udpassociate\n}\n";
        std::fs::write(&config, route).unwrap();
        let config = format!("SOCKS_CONF={}", config.display());
        let socksify = |line: &str, input: Stdio| {
            let args: Vec<&str> =
                [&config, "socksify"].into_iter().chain(line.split(' ')).collect();
            Program::start(world.near(), "env", &args, input).unwrap().wait(LIMIT)
        };
        // A way around the tunnel leads to the first of them only, and from another address.
        let drill = socksify("drill -u @10.99.0.1 somewhere.test A", Stdio::null());
        let said = drill.await.unwrap().expect_success("drill").stdout;
        let said = String::from_utf8(said).unwrap();
        let address =
            said.lines().find_map(|line| line.strip_prefix("somewhere.test.\t60\tIN\tA\t"));
        assert_eq!(address, Some("203.0.113.7"), "{said}");
        assert_eq!(told.recv().await.unwrap().ip(), Ipv4Addr::new(10, 99, 0, 1));
        // The other family, by a program that carries any question. dig would not do: Dante misses its sendmmsg.
        let question = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x04test\0\0\x01\0\x01";
        let asked = home.path().join("question");
        std::fs::write(&asked, question).unwrap();
        let input = std::fs::File::open(&asked).unwrap().into();
        let said = socksify("nc -u -w 3 fd99::1 53", input).await.unwrap().expect_success("nc");
        let answer = said.stdout;
        assert!(
            answer.starts_with(b"\x12\x34\x81") && answer.ends_with(&[203, 0, 113, 7]),
            "{answer:x?}"
        );
        assert_eq!(told.recv().await.unwrap().ip(), "fd99::1".parse::<Ipv6Addr>().unwrap());
    });
}

#[test]
fn curl_is_redirected_and_the_rules_are_gone_afterwards() {
    run(async {
        if !is_installed("nft") || !is_installed("nginx") || !is_installed("curl") {
            return;
        }
        let options = "--transparent 1081 --networks 10.99.0.0/24 --networks fd99::/64 \
                       --install-rules";
        let Some((world, home, _server)) = served().await else { return };
        let mut command = tack(home.path(), &line(&world, options));
        let mut client = Listening(world.near().spawn(&mut command).unwrap());
        let mut said = BufReader::new(client.0.stderr.take().unwrap()).lines();
        let ready = said.next().unwrap().unwrap();
        assert!(ready.contains("is redirected to"), "{ready}");
        let bytes = stream::Source::new(83, 2 << 20).bytes();
        std::fs::write(home.path().join("file"), &bytes).unwrap();
        let _nginx = nginx(&world, home.path()).await;
        for url in ["http://10.99.0.1/file", "http://[fd99::1]/file"] {
            let got = succeeds(world.near(), "curl", &["-sS", url]).await;
            assert!(got == bytes, "{url}: {} bytes", got.len());
        }
        // It was the tunnel that fetched it: the far machine talked to itself.
        let log = std::fs::read_to_string(home.path().join("log")).unwrap();
        let from: Vec<_> = log.lines().filter_map(|line| line.split(' ').next()).collect();
        assert_eq!(from, ["10.99.0.1", "fd99::1"], "{log}");
        let rules = || async { succeeds(world.near(), "nft", &["list", "ruleset"]).await };
        assert!(String::from_utf8(rules().await).unwrap().contains("tack_tunnel_1081"));
        rustix::process::kill_process(rustix::process::Pid::from_child(&client.0), Signal::TERM)
            .unwrap();
        assert_eq!(client.0.wait().unwrap().code(), Some(130));
        assert!(!String::from_utf8(rules().await).unwrap().contains("tack_tunnel"));
    });
}

/// A machine of its own behind the near one, which leads everywhere for it.
fn behind(gateway: &Netns) -> Netns {
    let client = Netns::new().unwrap();
    let prefixes = |host: u8| {
        [format!("10.88.0.{host}/24"), format!("fd88::{host}/64")].map(|p| p.parse().unwrap())
    };
    // Nobody else has these addresses: they are good at once.
    for (netns, name) in [(&client, "default"), (gateway, "default")] {
        netns.sysctl(&format!("net.ipv6.conf.{name}.accept_dad"), "0").unwrap();
    }
    client.link(gateway, "lan", &prefixes(2), &prefixes(1)).unwrap();
    client.ip(&["route add default via 10.88.0.1", "route add default via fd88::1"]).unwrap();
    gateway.sysctl("net.ipv4.ip_forward", "1").unwrap();
    gateway.sysctl("net.ipv6.conf.all.forwarding", "1").unwrap();
    client
}

#[test]
fn a_gateway_leads_a_network_that_knows_nothing_of_it_through_the_tunnel() {
    run(async {
        if !is_installed("nft") || !is_installed("nginx") || !is_installed("curl") {
            return;
        }
        let Some((world, home, _server)) = served().await else { return };
        let client = behind(world.near());
        let options = "--transparent 1081 --networks 10.99.0.0/24 --networks fd99::/64 \
                       --install-rules";
        let line = line(&world, options);
        let _gateway = tack_in(world.near(), home.path(), &line, "is redirected to").await;
        let bytes = stream::Source::new(84, 2 << 20).bytes();
        std::fs::write(home.path().join("file"), &bytes).unwrap();
        let _nginx = nginx(&world, home.path()).await;
        for url in ["http://10.99.0.1/file", "http://[fd99::1]/file"] {
            let got = succeeds(&client, "curl", &["-sS", "--max-time", "60", url]).await;
            assert!(got == bytes, "{url}: {} bytes", got.len());
        }
        // The far machine never saw the client: it talked to itself.
        let log = std::fs::read_to_string(home.path().join("log")).unwrap();
        let from: Vec<_> = log.lines().filter_map(|line| line.split(' ').next()).collect();
        assert_eq!(from, ["10.99.0.1", "fd99::1"], "{log}");
    });
}

#[test]
fn what_comes_for_a_public_network_behind_a_gateway_gets_there_and_not_into_the_tunnel() {
    run(async {
        if !is_installed("nft") || !is_installed("curl") {
            return;
        }
        let Some((world, home, _server)) = served().await else { return };
        let client = behind(world.near());
        world.near().ip(&["addr add 203.0.113.1/24 dev lan"]).unwrap();
        client.ip(&["addr add 203.0.113.2/24 dev lan"]).unwrap();
        world.far().ip(&["route add 203.0.113.0/24 via 10.77.0.1"]).unwrap();
        let line = line(&world, "--transparent 1081 --install-rules");
        let _gateway = tack_in(world.near(), home.path(), &line, "is redirected to").await;
        let bound =
            client.enter(|| std::net::TcpListener::bind("203.0.113.2:80")).unwrap().unwrap();
        bound.set_nonblocking(true).unwrap();
        let listener = TcpListener::from_std(bound).unwrap();
        let serving = async {
            let (mut asking, from) = listener.accept().await.unwrap();
            let answer = format!("HTTP/1.0 200 OK\r\n\r\n{}", from.ip());
            asking.write_all(answer.as_bytes()).await.unwrap();
            asking.shutdown().await.unwrap();
            asking
        };
        let options = ["-sS", "--max-time", "20", "http://203.0.113.2/"];
        let asked = succeeds(world.far(), "curl", &options);
        // Redirected, it would go round between gateway and server without end.
        let (answer, _asking) = tokio::join!(asked, tokio::time::timeout(LIMIT, serving));
        assert_eq!(String::from_utf8(answer).unwrap(), "10.77.0.2");
    });
}

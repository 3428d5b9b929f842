//! ssh over our TCP, by `ProxyCommand`, to a kernel's sshd beyond a path that loses packets.
//!
//! ```text
//!   ssh == pipes == tack nc -- TUN -- kernel (forwards) -- path == path -- kernel -- sshd
//! ```

use std::net::IpAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tack_interop::world::within;
use tack_interop::{Family, Program, Setup, Sshd, World, stream};
use tack_link::loss::LossConfig;
use tack_link::queue::Limit;
use tack_link::wired::DirectionConfig;
use tack_units::Rate;

use crate::support::run;

const LIMIT: Duration = Duration::from_secs(60);
const BYTES: u64 = 5 << 20;

/// 100 Mbit/s, 10 ms there and back, one packet in 200 lost; and a server beyond it.
async fn world_with_sshd() -> Option<(World, Sshd)> {
    let rate = Rate::from_mbps(100);
    let clean = DirectionConfig::clean(rate, Duration::from_millis(5), Limit::Bytes(128 << 10));
    let lossy = DirectionConfig { loss: LossConfig::Bernoulli(0.005), ..clean };
    let world = Setup::over(lossy).start()?;
    let sshd = Sshd::start(world.far(), 2_222).await?;
    Some((world, sshd))
}

/// What makes ssh and scp call the built command, whose interface has `10.NET.0.2`.
fn proxied(sshd: &Sshd, net: u8) -> String {
    let tack = env!("CARGO_BIN_EXE_tack");
    let ours = format!("--tun-addr 10.{net}.0.2/24 --tun-addr fd{net}::2/64");
    let proxy = format!("ProxyCommand {tack} nc --quiet --tun {ours} %h %p");
    let config = sshd.client_config(&format!("client{net}"), &format!("Port 2222\n{proxy}"));
    config.display().to_string()
}

fn host(world: &World, family: Family) -> IpAddr {
    world.kernel(family, 0).ip()
}

/// Runs `program` at the near machine until it and its proxy have ended; its output, which is all
/// it says.
async fn succeeds(world: &World, program: &str, args: &[&str], input: Stdio) -> Vec<u8> {
    // The first process takes along all others of its PID namespace, and nc has a word to say when
    // ssh has gone: this one stays as long as there is another.
    const SCRIPT: &str =
        r#""$@"; code=$?; while kill -s 0 -- -1 2>/dev/null; do sleep 0.02; done; exit $code"#;
    let args = [&["-c", SCRIPT, "sh", program], args].concat();
    let running = Program::start(world.near(), "sh", &args, input).unwrap();
    let outcome = running.wait(LIMIT).await.unwrap().expect_success(program);
    assert_eq!(outcome.stderr, "");
    outcome.stdout
}

/// Waits until the far kernel has no connection with the server any more, except such as wait for
/// stray packets: states 06, TIME-WAIT, and 0A, LISTEN.
async fn until_all_are_closed(world: &World) {
    let read =
        || ["tcp", "tcp6"].map(|f| std::fs::read_to_string(format!("/proc/thread-self/net/{f}")));
    let open = |text: &str| {
        let fields = text.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
        let open = fields.filter(|f| f[1].ends_with(":08AE") && !["06", "0A"].contains(&f[3]));
        open.map(|f| f[..4].join(" ")).collect::<Vec<_>>()
    };
    let closing = async {
        loop {
            let all = world.far().enter(read).unwrap().map(|text| open(&text.unwrap()));
            if all.iter().all(Vec::is_empty) {
                return;
            }
            println!("not closed: {all:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    within(Duration::from_secs(5), "the end of the connections", closing).await;
}

#[test]
fn ssh_runs_through_nc_as_its_proxy() {
    run(async {
        let Some((world, sshd)) = world_with_sshd().await else { return };
        let config = proxied(&sshd, 90);
        let sent = stream::of(&stream::Source::new(51, BYTES).bytes());
        for family in Family::BOTH {
            let host = host(&world, family).to_string();
            let ssh = async |input, command| {
                succeeds(&world, "ssh", &["-F", &config, &host, command], input).await
            };
            let there = ssh(stream::file(51, BYTES), "sha256sum").await;
            assert_eq!(String::from_utf8_lossy(&there)[..64], stream::hex(&sent.sha256));
            // There and back at once.
            assert_eq!(stream::of(&ssh(stream::file(51, BYTES), "cat").await), sent);
            until_all_are_closed(&world).await;
        }
    });
}

#[test]
fn two_scp_copy_a_file_there_and_back_through_nc_at_once() {
    run(async {
        let Some((world, sshd)) = world_with_sshd().await else { return };
        let home = tempfile::tempdir().unwrap();
        let copy = async |net, family| {
            let (config, dir) = (proxied(&sshd, net), home.path().join(net.to_string()));
            std::fs::create_dir(&dir).unwrap();
            let bytes = stream::Source::new(net.into(), BYTES).bytes();
            std::fs::write(dir.join("file"), &bytes).unwrap();
            let at = |name: &str| dir.join(name).display().to_string();
            let far = |name: &str| format!("[{}]:{}", host(&world, family), at(name));
            for (from, to) in [(at("file"), far("there")), (far("there"), at("back"))] {
                succeeds(&world, "scp", &["-F", &config, &from, &to], Stdio::null()).await;
            }
            let is_whole = |name| std::fs::read(Path::new(&at(name))).unwrap() == bytes;
            assert!(is_whole("there") && is_whole("back"), "{family:?}");
        };
        tokio::join!(copy(91, Family::V4), copy(92, Family::V6));
        until_all_are_closed(&world).await;
    });
}

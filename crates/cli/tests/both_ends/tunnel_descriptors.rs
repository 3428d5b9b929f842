//! A tunnel's client that may have few descriptors: programs wait for their turn, and it goes on.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use rustix::process::{Pid, Resource, getrlimit, prlimit};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::network::TRANSPORTS;
use crate::stop::Talking;
use crate::support::run;
use crate::tunnel::tunnel;
use crate::tunnel_limits::babbler;

const LIMIT: Duration = Duration::from_secs(120);

/// Whether a program that connects to a babbler through `local` hears of it.
async fn is_served(local: SocketAddr) -> bool {
    match TcpStream::connect(local).await {
        Ok(mut program) => program.read_u8().await.is_ok(),
        Err(_) => false,
    }
}

#[test]
fn a_client_that_cannot_read_a_file_for_want_of_descriptors_goes_on_when_it_has_some_again() {
    for over in TRANSPORTS {
        run(async {
            let (target, _) = babbler().await;
            let options = format!("-L 0:{target}{over}");
            let start = move || tunnel("any", &options);
            let tunnel = tokio::task::spawn_blocking(start).await.unwrap();
            let local = tunnel.locals[0];
            assert!(is_served(local).await, "{over}");
            let mut limit = getrlimit(Resource::Nofile);
            limit.current = Some(50);
            prlimit(Some(Pid::from_child(&tunnel.client.0)), Resource::Nofile, limit).unwrap();
            let mut programs = Vec::new();
            for _ in 0..100 {
                programs.push(TcpStream::connect(local).await.unwrap());
            }
            tunnel.hears("Too many open files (os error 24); trying again");
            drop(programs);
            let again = async {
                while !is_served(local).await {
                    sleep(Duration::from_millis(10)).await;
                }
            };
            timeout(LIMIT, again).await.unwrap();
        });
    }
}

#[test]
fn programs_leave_a_client_the_descriptors_that_it_connects_with() {
    for over in TRANSPORTS {
        run(async {
            let (target, open) = babbler().await;
            let options = format!("-L 0:{target}{over}");
            let start = move || tunnel("any", &options);
            let tunnel = tokio::task::spawn_blocking(start).await.unwrap();
            let script = "ulimit -n 64 && exec \"$0\" \"$@\"";
            let mut shell = Command::new("sh");
            shell.args(["-c", script, env!("CARGO_BIN_EXE_tack"), "tunnel"]);
            shell.arg(format!("127.0.0.1:{}", tunnel.port));
            shell.args(format!("-L 0:{target}{over}").split(' '));
            shell.env("XDG_CONFIG_HOME", tunnel.home.path());
            let client = Talking::start({
                shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
                shell
            });
            let local: Option<SocketAddr> = client.err.iter().find_map(|line| {
                let at = line.strip_prefix("Port ")?.split(' ').next()?.parse().ok()?;
                SocketAddr::is_ipv4(&at).then_some(at)
            });
            let local = local.unwrap();
            let mut programs = Vec::new();
            for _ in 0..100 {
                programs.push(TcpStream::connect(local).await.unwrap());
            }
            // Half of what it may have is theirs; the others wait for their turn.
            let served = async {
                while open.load(Relaxed) < 30 {
                    sleep(Duration::from_millis(10)).await;
                }
            };
            timeout(LIMIT, served).await.unwrap();
            for mut program in programs {
                timeout(LIMIT, program.read_u8()).await.unwrap().unwrap();
            }
        });
    }
}

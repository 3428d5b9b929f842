//! The commands over `--tun`, in network namespaces, against the kernel's TCP and the kernel's nc.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use tack_device::{Netns, NetnsError, Tun, TunConfig};
use tempfile::tempdir;

use crate::support::{Listening, random_bytes, rng, succeeded, tack};

/// A namespace in which TUN devices can be made, or `None`: the test says so and passes.
fn namespace() -> Option<Netns> {
    let netns = match Netns::new() {
        Ok(netns) => netns,
        Err(e @ NetnsError::NotPermitted) => {
            assert!(std::env::var_os("TACK_INTEROP_REQUIRED").is_none(), "{e}");
            eprintln!("skipped: {e}");
            return None;
        }
        Err(e) => panic!("{e}"),
    };
    match netns.enter(|| Tun::open(&TunConfig::default())).unwrap() {
        Ok(_) => Some(netns),
        Err(e) => {
            assert!(std::env::var_os("TACK_INTEROP_REQUIRED").is_none(), "{e}");
            eprintln!("skipped: {e}");
            None
        }
    }
}

const ADDRESSES: &str = "--tun-addr 10.7.0.2/24 --tun-addr fd07::2/64";

/// The built command inside, fed with `input`.
fn start(netns: &Netns, home: &Path, line: &str, input: &[u8]) -> Child {
    let line = format!("{line} {ADDRESSES}");
    let mut child = netns.spawn(tack(home, &line).stdin(Stdio::piped())).unwrap();
    // A reader that has gone has its reasons, and says them.
    feed(&mut child, input, || {});
    child
}

/// Writes `input` to what the child reads, which ends when `then` has returned.
fn feed(child: &mut Child, input: &[u8], then: impl FnOnce() + Send + 'static) {
    let (mut stdin, input) = (child.stdin.take().unwrap(), input.to_vec());
    let feeding = move || {
        let written = stdin.write_all(&input);
        then();
        written
    };
    thread::Builder::new().spawn(feeding).unwrap();
}

/// Waits until it says that it listens.
fn heard_listening(child: &mut Listening) {
    let mut lines = BufReader::new(child.0.stderr.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    assert!(line.contains("(TCP, interface tack0)"), "{line}");
    child.0.stderr = Some(lines.into_inner());
}

/// The kernel's end: sends `bytes`, ends its direction, and reads to the end.
fn kernel_talks(mut stream: TcpStream, bytes: &[u8]) -> Vec<u8> {
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut writer = stream.try_clone().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            writer.write_all(bytes).unwrap();
            writer.shutdown(Shutdown::Write).unwrap();
        });
        let mut got = Vec::new();
        stream.read_to_end(&mut got).unwrap();
        got
    })
}

#[test]
fn nc_connects_to_a_kernel_server_over_both_families() {
    let Some(netns) = namespace() else { return };
    let home = tempdir().unwrap();
    let mut rng = rng(41);
    let (ours, theirs) = (random_bytes(&mut rng, 5_000_001), random_bytes(&mut rng, 4_000_003));
    for (host, flags) in [("10.7.0.1", ""), ("fd07::1", "--tun-no-offload")] {
        // Not bound to the address, which comes with the interface.
        let listener = netns.enter(|| TcpListener::bind("[::]:0").unwrap()).unwrap();
        let port = listener.local_addr().unwrap().port();
        let line = format!("nc --tun {flags} {host} {port}");
        let child = start(&netns, home.path(), &line, &ours);
        // Read from the start: what it cannot print, it does not take from the kernel either.
        let reading = thread::Builder::new().spawn(|| child.wait_with_output().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        let got = kernel_talks(stream, &theirs);
        let output = reading.join().unwrap();
        succeeded(&output);
        assert!(got == ours && output.stdout == theirs, "{host}");
    }
}

#[test]
fn nc_listens_for_a_kernel_client() {
    let Some(netns) = namespace() else { return };
    let home = tempdir().unwrap();
    let (ours, theirs) = (random_bytes(&mut rng(42), 3_000_001), b"short".to_vec());
    for to in ["10.7.0.2:7000", "[fd07::2]:7000"] {
        let to: SocketAddr = to.parse().unwrap();
        let mut child = Listening(start(&netns, home.path(), "nc --tun -l 7000", &ours));
        heard_listening(&mut child);
        let limit = Duration::from_secs(20);
        let stream = netns.enter(|| TcpStream::connect_timeout(&to, limit).unwrap()).unwrap();
        let mut out = child.0.stdout.take().unwrap();
        let reading = thread::Builder::new().spawn(move || {
            let mut got = Vec::new();
            out.read_to_end(&mut got).map(|_| got)
        });
        assert!(kernel_talks(stream, &theirs) == ours, "{to}");
        assert_eq!(reading.unwrap().join().unwrap().unwrap(), theirs);
        assert!(child.0.wait().unwrap().success());
    }
}

#[test]
fn nc_talks_with_the_kernels_nc() {
    let Some(netns) = namespace() else { return };
    let help = Command::new("nc").arg("-h").output();
    if !help.is_ok_and(|o| String::from_utf8_lossy(&o.stderr).contains("OpenBSD")) {
        assert!(std::env::var_os("TACK_INTEROP_REQUIRED").is_none(), "OpenBSD's nc is not here");
        return eprintln!("skipped: OpenBSD's nc is not here");
    }
    let home = tempdir().unwrap();
    let mut rng = rng(43);
    let (ours, theirs) = (random_bytes(&mut rng, 2_000_001), random_bytes(&mut rng, 1_000_003));
    // nc -N ends its direction with its input, as ours does.
    let mut command = Command::new("nc");
    command.args(["-l", "-N", "-p", "7001"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut kernels = netns.spawn(&mut command).unwrap();
    feed(&mut kernels, &theirs, || {});
    let reading = thread::Builder::new().spawn(|| kernels.wait_with_output().unwrap()).unwrap();
    let (mut output, mut came) = (None, Vec::new());
    // Nothing tells when nc listens; until then we are refused.
    for _ in 0..50 {
        let line = format!("nc --tun 10.7.0.1 7001 {ADDRESSES}");
        let mut child = netns.spawn(tack(home.path(), &line).stdin(Stdio::piped())).unwrap();
        // A listening nc that hears the end goes as soon as it has nothing at hand, whatever would follow.
        let (heard_all, hearing) = std::sync::mpsc::channel::<()>();
        feed(&mut child, &ours, move || {
            let _ = hearing.recv();
        });
        let mut out = child.stdout.take().unwrap();
        came = vec![0; theirs.len()];
        let heard = out.read_exact(&mut came);
        drop(heard_all);
        let tried = child.wait_with_output().unwrap();
        let refused = String::from_utf8_lossy(&tried.stderr).contains("refused");
        output = Some(tried);
        if !refused {
            heard.expect("all of it");
            assert_eq!(out.read_to_end(&mut came).unwrap(), 0, "more than was said");
            break;
        }
    }
    succeeded(&output.unwrap());
    let heard = reading.join().unwrap().stdout;
    assert!(came == theirs, "other bytes came");
    assert!(heard == ours, "{} of {} bytes arrived", heard.len(), ours.len());
}

#[test]
fn a_refusal_and_a_missing_address_are_told() {
    let Some(netns) = namespace() else { return };
    let home = tempdir().unwrap();
    let output = start(&netns, home.path(), "nc --tun 10.7.0.1 9", b"").wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("refused"), "{said}");
    assert_eq!(output.status.code(), Some(1), "{said}");
    let output = tack(home.path(), "nc --tun 10.7.0.1 9").output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let lonely = tack(home.path(), "nc --tun --tun-addr 10.7.0.2/32 10.7.0.1 9").output().unwrap();
    let said = String::from_utf8_lossy(&lonely.stderr).into_owned();
    assert!(said.contains("kernel's end") && lonely.status.code() == Some(2), "{said}");
}

/// The two sides of `tack perf`, each behind a kernel that forwards.
#[test]
fn perf_runs_between_two_interfaces() {
    let Some(netns) = namespace() else { return };
    let home = tempdir().unwrap();
    netns.sysctl("net.ipv4.ip_forward", "1").unwrap();
    let serve = "perf -s -1 -p 7002 --no-tls --tun=left --tun-addr 10.7.1.2/24";
    let mut server = Listening(netns.spawn(&mut tack(home.path(), serve)).unwrap());
    let mut lines = BufReader::new(server.0.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("(TCP, interface left)")));
    let ask = "perf -c 10.7.1.2 -p 7002 -n 20M --no-tls -J --tun=right --tun-addr 10.7.2.2/24";
    let asked = netns.spawn(&mut tack(home.path(), ask)).unwrap().wait_with_output().unwrap();
    succeeded(&asked);
    let document: serde_json::Value = serde_json::from_slice(&asked.stdout).unwrap();
    assert_eq!(document["end"]["sum_received"]["bytes"], 20 << 20);
    assert_eq!(document["start"]["test_start"]["protocol"], "TACK");
    drop(lines);
    assert!(server.0.wait().unwrap().success());
}

/// Encrypted, file by file, through the command that the receiver says to type.
#[test]
fn files_are_sent_between_two_interfaces() {
    let Some(netns) = namespace() else { return };
    let home = tempdir().unwrap();
    netns.sysctl("net.ipv4.ip_forward", "1").unwrap();
    let bytes = random_bytes(&mut rng(44), 3_000_001);
    std::fs::write(home.path().join("file"), &bytes).unwrap();
    let receive = "recv in -p 7003 --tun=left --tun-addr 10.7.1.2/24";
    let mut receiver = Listening(netns.spawn(&mut tack(home.path(), receive)).unwrap());
    let mut lines = BufReader::new(receiver.0.stderr.take().unwrap()).lines();
    let typed = lines.find_map(|line| {
        let line = line.unwrap();
        line.trim().strip_prefix("tack ").map(str::to_owned)
    });
    let typed = typed.unwrap().replace("PATH…", "file").replace("ADDRESS/BITS", "10.7.2.2/24");
    let typed = typed.replace("--tun ", "--tun=right ");
    let mut sender = tack(home.path(), &typed);
    succeeded(&netns.spawn(&mut sender).unwrap().wait_with_output().unwrap());
    // It still says what it received.
    let said: Vec<String> = lines.map_while(Result::ok).collect();
    assert!(receiver.0.wait().unwrap().success(), "{said:?}");
    assert!(std::fs::read(home.path().join("in/file")).unwrap() == bytes);
}

//! The servers that are attacked, and what a legitimate client does there.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tack_device::Clock;

use super::attack::Attack;
use super::{pause, timed};
use crate::process::Running;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fortress {
    Recv,
    RecvQuic,
    Perf,
    Tunnel,
}

impl Fortress {
    pub(super) const ALL: [Fortress; 4] =
        [Fortress::Recv, Fortress::RecvQuic, Fortress::Perf, Fortress::Tunnel];

    pub(super) fn name(self) -> &'static str {
        match self {
            Fortress::Recv => "recv",
            Fortress::RecvQuic => "recv --quic",
            Fortress::Perf => "perf -s",
            Fortress::Tunnel => "tunnel serve",
        }
    }

    pub(super) fn is_quic(self) -> bool {
        self == Fortress::RecvQuic
    }

    /// The line that starts it: open, so that attackers come as far as they can.
    pub(super) fn serves(self) -> &'static str {
        match self {
            Fortress::Recv => "recv in --keep --open -p 0 -B 0.0.0.0",
            Fortress::RecvQuic => "recv in --keep --open -p 0 -B 0.0.0.0 --quic",
            Fortress::Perf => "perf -s --open -p 0 -B 0.0.0.0",
            Fortress::Tunnel => "tunnel serve --open -p 0 -B 0.0.0.0 --allow 127.0.0.0/8",
        }
    }

    /// What applies to it.
    pub(super) fn attacks(self) -> &'static [Attack] {
        use Attack::{Garbage, Handshakes, Lists, Noops, Nothing, Silent, Streams, Syns};
        match self {
            Fortress::Recv => &[Nothing, Garbage, Syns, Silent, Handshakes, Lists, Noops],
            Fortress::RecvQuic => &[Nothing, Garbage, Silent, Handshakes, Lists, Noops],
            Fortress::Perf => &[Nothing, Garbage, Syns, Silent, Handshakes],
            Fortress::Tunnel => &[Nothing, Garbage, Syns, Silent, Handshakes, Streams],
        }
    }

    /// How long a transfer of so much takes, in seconds, from the start of the command that asks for it.
    pub(super) fn transfer(
        self,
        (server, key): (SocketAddr, &str),
        mib: usize,
        home: &Path,
        command: impl Fn(&str) -> Command,
    ) -> Result<f64> {
        let proof = format!("--fingerprint {key}");
        match self {
            Fortress::Recv | Fortress::RecvQuic => {
                fs::write(home.join("film"), vec![0x5a; mib << 20])?;
                let over = if self.is_quic() { " --quic" } else { "" };
                timed(&mut command(&format!("send film {server} -q {proof}{over}")))
            }
            Fortress::Perf => timed(&mut command(&format!("perf -c {server} -n {mib}M {proof}"))),
            Fortress::Tunnel => {
                let target = film(mib << 20)?;
                // A port that was free a moment ago.
                let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
                let line = format!("tunnel {server} -q -L 127.0.0.1:{port}:{target} {proof}");
                let clock = Clock::start();
                let _client = Running(command(&line).spawn()?);
                fetch((Ipv4Addr::LOCALHOST, port).into(), mib << 20)?;
                Ok(clock.now().as_nanos() as f64 / 1e9)
            }
        }
    }
}

/// A target that says so many bytes to whoever connects.
fn film(bytes: usize) -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let at = listener.local_addr()?;
    thread::Builder::new().spawn(move || {
        let (mut conn, _) = listener.accept()?;
        conn.write_all(&vec![0x5a; bytes])
    })?;
    Ok(at)
}

/// Reads so many bytes from there, as soon as somebody listens.
fn fetch(from: SocketAddr, bytes: usize) -> Result<()> {
    let connect = || {
        #[expect(clippy::disallowed_methods, reason = "a program that uses the tunnel")]
        TcpStream::connect(from)
    };
    let mut conn = connect();
    for _ in 0..600 {
        if conn.is_ok() {
            break;
        }
        pause(Duration::from_millis(50));
        conn = connect();
    }
    let mut conn = conn.context("the tunnel's client does not listen")?;
    conn.set_read_timeout(Some(Duration::from_secs(60)))?;
    let (mut buffer, mut had) = (vec![0; 64 << 10], 0);
    while had < bytes {
        let read = conn.read(&mut buffer).context("reading through the tunnel")?;
        ensure!(read > 0, "an end after {had} bytes");
        had += read;
    }
    Ok(())
}

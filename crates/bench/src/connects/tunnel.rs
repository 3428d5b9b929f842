//! Both ends of `tack tunnel`, as processes.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Child;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::siege::{Running, command, cpu_seconds, most_held_mb};

/// A tunnel from a port here to one target.
pub(super) struct Tunnel {
    /// Where programs connect to.
    pub(super) local: SocketAddr,
    ends: [End; 2],
    _home: TempDir,
}

struct End {
    name: &'static str,
    process: Running,
    /// What it held and had spent before anybody connected.
    before: (f64, f64),
}

impl Tunnel {
    pub(super) fn to(target: SocketAddr, tack: Option<&Path>, quic: bool) -> Result<Tunnel> {
        let tack = match tack {
            Some(tack) => std::path::absolute(tack)?,
            None => std::env::current_exe()?.with_file_name("tack"),
        };
        ensure!(tack.is_file(), "{} is not there: build it, or give --tack", tack.display());
        let home = tempfile::tempdir()?;
        let over = if quic { " --quic" } else { "" };
        // One home, so that the server's key is the client's own.
        let start = |line: &str| -> Result<Running> {
            Ok(Running(command(&tack, home.path(), &format!("{line}{over}")).spawn()?))
        };
        let serve = format!("tunnel serve -B 127.0.0.1 -p 0 --allow {target}");
        let mut server = start(&serve)?;
        let port = said(&mut server.0, "127.0.0.1:")?;
        let mut client = start(&format!("tunnel 127.0.0.1:{port} -L 127.0.0.1:0:{target}"))?;
        let local = said(&mut client.0, "Port 127.0.0.1:")?;
        let end = |name, process: Running| -> Result<End> {
            let pid = process.0.id();
            Ok(End { name, before: (most_held_mb(pid)?, cpu_seconds(pid)?), process })
        };
        let ends = [end("client", client)?, end("server", server)?];
        Ok(Tunnel { local: SocketAddr::from(([127, 0, 0, 1], local)), ends, _home: home })
    }

    /// What each end held at most and spent: for each of so many connections at once, or for one after the other.
    pub(super) fn show(&self, at_once: Option<usize>, opened: u64) -> Result<()> {
        for End { name, process, before: (held, spent) } in &self.ends {
            let pid = process.0.id();
            let (more, cpu) = (most_held_mb(pid)? - held, cpu_seconds(pid)? - spent);
            match at_once {
                Some(n) => println!(
                    "    tunnel's {name}: {held:.0} MB, and {:.1} kB for each of {n}; {cpu:.1} s of CPU",
                    1e3 * more / n as f64
                ),
                None => println!(
                    "    tunnel's {name}: {:.2} ms of CPU for each of {opened}",
                    1e3 * cpu / opened.max(1) as f64
                ),
            }
        }
        Ok(())
    }
}

/// The port that a process says behind these words. What it says from then on is not read, which is little.
fn said(of: &mut Child, before: &str) -> Result<u16> {
    let stream = of.stderr.as_mut().context("it is piped")?;
    for line in BufReader::new(stream).lines() {
        let line = line?;
        let found = line.split_once(before).map(|(_, rest)| rest);
        let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>();
        if let Some(port) = found.and_then(|rest| digits(rest).parse().ok()) {
            return Ok(port);
        }
    }
    anyhow::bail!("it did not say where it listens")
}

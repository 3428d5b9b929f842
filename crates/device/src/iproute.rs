//! Interfaces are configured by `ip`: addresses, routes and links change rarely, and iproute2 knows
//! every kernel's ways.

use std::io::{self, Write};
use std::net::{IpAddr, Ipv6Addr};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::prefix::Prefix;

/// How long the kernel may take to make an IPv6 address its own. It needs milliseconds, more where
/// the machine is busy.
const SETTLING_LIMIT: Duration = Duration::from_secs(5);

/// Why an interface could not be configured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigureError {
    /// There is no `ip` to run.
    #[error("cannot run ip (the package is called iproute2): {0}")]
    NoIproute(#[source] io::Error),
    /// `ip` refused. The lines it was given, and what it said.
    #[error("ip refused one of [{lines}]: {message}")]
    Refused {
        /// Its input, separated by semicolons.
        lines: String,
        /// Its error output.
        message: String,
    },
}

/// Runs `ip -batch` on lines without the word `ip`, in the network namespace of this thread.
pub(crate) fn run(lines: &[String]) -> Result<(), ConfigureError> {
    if lines.is_empty() {
        return Ok(());
    }
    let mut child = Command::new("ip")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(ConfigureError::NoIproute)?;
    if let Some(mut stdin) = child.stdin.take() {
        let mut script = lines.join("\n");
        script.push('\n');
        // If it stops reading it says why below.
        let _ = stdin.write_all(script.as_bytes());
    }
    let output = child.wait_with_output().map_err(ConfigureError::NoIproute)?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
    Err(ConfigureError::Refused { lines: lines.join("; "), message })
}

/// Gives the interface its addresses and takes it up, in the network namespace of this thread;
/// packets to the addresses are delivered when this returns.
pub(crate) fn bring_up(name: &str, addresses: &[Prefix]) -> Result<(), ConfigureError> {
    let mut lines = Vec::new();
    for address in addresses {
        // Nobody else is on this link to have a duplicate address.
        let nodad = if address.addr().is_ipv6() { " nodad" } else { "" };
        lines.push(format!("address add {address} dev {name}{nodad}"));
    }
    lines.push(format!("link set dev {name} up"));
    run(&lines)?;
    for address in addresses {
        if let IpAddr::V6(address) = address.addr() {
            settle(address);
        }
    }
    Ok(())
}

/// Waits until the kernel has its route to its own address.
///
/// It sends from a new IPv6 address at once, but delivers to it only after a worker of its own has
/// run, even without duplicate address detection: an early answer would be lost.
#[expect(clippy::disallowed_methods, reason = "the kernel's worker tells nobody when it is done")]
fn settle(address: Ipv6Addr) {
    let limit = Instant::now() + SETTLING_LIMIT;
    let is_local = |routes: String| routes.lines().any(|line| is_route_to_self(line, address));
    while !std::fs::read_to_string("/proc/thread-self/net/ipv6_route").is_ok_and(is_local) {
        if Instant::now() >= limit {
            // An early answer may be lost, as any packet; there is no reason to give up for that.
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Whether this line of the kernel's table of IPv6 routes delivers to the host itself.
fn is_route_to_self(line: &str, address: Ipv6Addr) -> bool {
    const RTF_LOCAL: u32 = 0x8000_0000;
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [destination, "80", _, _, _, _, _, _, flags, _] = fields[..] else { return false };
    u128::from_str_radix(destination, 16) == Ok(address.to_bits())
        && u32::from_str_radix(flags, 16).is_ok_and(|flags| flags & RTF_LOCAL != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
fd990000000000000000000000000000 40 00000000000000000000000000000000 00 \
00000000000000000000000000000000 00000100 00000001 00000000 00000001     tack0
fd990000000000000000000000000001 80 00000000000000000000000000000000 00 \
00000000000000000000000000000000 00000000 00000002 00000000 80200001     tack0
fd990000000000000000000000000002 80 00000000000000000000000000000000 00 \
00000000000000000000000000000000 00000000 00000002 00000000 00000001     tack0
";

    #[test]
    fn only_a_local_route_to_the_very_address_is_one_to_self() {
        let found = |address: &str| {
            let address = address.parse().unwrap();
            TABLE.lines().filter(|line| is_route_to_self(line, address)).count()
        };
        assert_eq!(found("fd99::1"), 1);
        assert_eq!(found("fd99::"), 0, "a prefix is no address");
        assert_eq!(found("fd99::2"), 0, "somebody else's");
        assert!(!is_route_to_self("", Ipv6Addr::LOCALHOST));
    }
}

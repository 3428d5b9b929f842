//! Two namespaces with nothing but a veth pair between them.

use std::fs;

use tack_device::{Netns, NetnsError};
use tack_link::End;

use crate::emulation::{EmulationError, INTERFACE, addresses, count_of, tune};
use crate::passed::index;

/// Where `/proc/net/dev` has the bytes and the packets that an interface sent.
const TX_BYTES: usize = 8;
const TX_PACKETS: usize = 9;

/// What an end of a cable has sent. What leaves as one with segmentation offload counts as one, with one header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Packets.
    pub packets: u64,
    /// Their bytes, those of the link's headers included.
    pub bytes: u64,
}

/// A client and a server as in [`Emulation`](crate::Emulation), with the same addresses, interface and
/// kernel parameters, and a veth pair instead of a modelled path.
#[derive(Debug)]
pub struct Cable {
    netns: [Netns; 2],
}

impl Cable {
    /// Makes both namespaces and joins them.
    ///
    /// # Errors
    /// [`EmulationError`]; see [`EmulationError::is_unavailable`].
    pub fn new() -> Result<Cable, EmulationError> {
        let netns = [Netns::new()?, Netns::new()?];
        netns.iter().try_for_each(tune)?;
        let [client, server] = &netns;
        client.link(server, INTERFACE, &addresses(End::A), &addresses(End::B))?;
        Ok(Cable { netns })
    }

    /// The namespace at `end`: the client's is A, the server's B.
    pub fn netns(&self, end: End) -> &Netns {
        &self.netns[index(end)]
    }

    /// What `end` has sent.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn sent(&self, end: End) -> Result<Sent, EmulationError> {
        // Which namespace it tells of depends on who reads it.
        let text = self.netns(end).enter(|| fs::read_to_string("/proc/thread-self/net/dev"))?;
        let text = text.map_err(NetnsError::System)?;
        let count = |at| count_of(&text, INTERFACE, at);
        let sent = count(TX_PACKETS).zip(count(TX_BYTES));
        let (packets, bytes) = sent.ok_or_else(|| {
            NetnsError::System(std::io::Error::other(format!("/proc/net/dev has no {INTERFACE}")))
        })?;
        Ok(Sent { packets, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_end_sends_over_the_cable_is_counted() {
        let cable = match Cable::new() {
            Ok(cable) => cable,
            Err(e) if e.is_unavailable() => {
                assert!(std::env::var_os("TACK_INTEROP_REQUIRED").is_none(), "{e}");
                return println!("skipped: {e}");
            }
            Err(e) => panic!("{e}"),
        };
        let before = cable.sent(End::A).unwrap();
        let datagrams = "for i in 1 2 3 4 5 6 7 8; do echo x >/dev/udp/10.77.0.2/9; done";
        let bash = &mut std::process::Command::new("bash");
        let ended =
            cable.netns(End::A).spawn(bash.args(["-c", datagrams])).unwrap().wait().unwrap();
        assert!(ended.success());
        let sent = || cable.sent(End::A).unwrap().packets - before.packets;
        // They wait until a neighbour has answered who it is.
        for _ in 0..200 {
            if sent() >= 8 {
                break;
            }
            std::process::Command::new("sleep").arg("0.1").status().unwrap();
        }
        // Beside the eight, a neighbour is asked for, and kernels greet new links.
        assert!((8..30).contains(&sent()), "{}", sent());
        let bytes = cable.sent(End::A).unwrap().bytes - before.bytes;
        assert!((8 * 44..3_000).contains(&bytes), "{bytes}");
    }
}

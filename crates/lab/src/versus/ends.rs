//! Two namespaces with a path between them: an emulated one, or a cable.

use std::fs;

use anyhow::Result;
use tack_device::Netns;
use tack_emu::{Cable, EmulationConfig, ipv4, ipv6};
use tack_link::{End, PacketKind};
use tack_tcp::wire::ip::IpPacket;

use super::rival::Ready;
use crate::emulate::{Emulated, EmulatedPath};
use crate::result::AirtimeShares;
use crate::scenario::Scenario;

/// TCP's LISTEN in /proc/net/tcp.
const LISTENS: &str = "0A";

/// The client's and the server's namespace.
pub(super) enum Ends {
    Emulated(Box<Emulated>),
    Veth(Cable),
}

/// What passed between them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Passage {
    /// Packets that the receiver's end sent: acknowledgments and requests.
    pub(super) acks: u64,
    /// Packets that the sender's end sent; `None` on a cable.
    pub(super) data: Option<u64>,
    /// Bytes that came to the receiver's end, or on a cable left the sender's, with all headers.
    pub(super) bytes: u64,
    /// Who used the air, and over how many seconds.
    pub(super) airtime: Option<(AirtimeShares, f64)>,
    /// 99.9 % and the greatest lateness of an emulated path, µs.
    pub(super) late_us: Option<(f64, f64)>,
    /// Why figures are worth nothing.
    pub(super) void: Option<String>,
}

impl Ends {
    /// Makes them.
    ///
    /// # Errors
    /// The machine or its privileges do not suffice; the message says what would.
    pub(super) fn of(scenario: &Scenario) -> Result<Ends> {
        if !scenario.veth {
            let config = EmulationConfig { classify: by_direction, ..Emulated::config() };
            let emulated = Emulated::start(&EmulatedPath::of(scenario), config)?;
            return Ok(Ends::Emulated(Box::new(emulated)));
        }
        Ok(Ends::Veth(Cable::new()?))
    }

    pub(super) fn netns(&self, end: End) -> &Netns {
        match self {
            Ends::Emulated(emulated) => emulated.netns(end),
            Ends::Veth(cable) => cable.netns(end),
        }
    }

    /// Whether the server's namespace shows that the server is ready.
    pub(super) fn is(&self, ready: &Ready) -> Result<bool> {
        let tables: &[&str] = match ready {
            Ready::Tcp(_) => &["tcp", "tcp6"],
            Ready::Udp(_) => &["udp", "udp6"],
            Ready::Device(_) => &["dev"],
        };
        let read = || -> String {
            // Which namespace these tell of depends on who reads them; without IPv6 one is missing.
            let read = |name| fs::read_to_string(format!("/proc/thread-self/net/{name}")).ok();
            tables.iter().filter_map(read).collect()
        };
        let text = self.netns(End::B).enter(read)?;
        Ok(match ready {
            Ready::Tcp(port) => has_port(&text, *port, Some(LISTENS)),
            Ready::Udp(port) => has_port(&text, *port, None),
            Ready::Device(name) => {
                let names = text.lines().filter_map(|line| line.split_once(':'));
                names.map(|(name, _)| name.trim()).any(|own| own == name)
            }
        })
    }

    /// Ends it and adds up.
    ///
    /// # Errors
    /// What ended it before.
    pub(super) fn finish(self) -> Result<Passage> {
        match self {
            Ends::Emulated(emulated) => {
                let account = emulated.finish()?;
                let late = &account.lateness_us;
                Ok(Passage {
                    acks: account.up.data_packets + account.up.ack_packets,
                    data: Some(account.down.data_packets + account.down.ack_packets),
                    bytes: (account.down.mbps * 1e6 / 8.0 * account.ran_s).round() as u64,
                    airtime: account.airtime.map(|shares| (shares, account.ran_s)),
                    late_us: Some((late.p999 as f64, late.max as f64)),
                    void: account.void,
                })
            }
            Ends::Veth(cable) => {
                // Data crosses it in super-packets, which nobody has counted.
                let (acks, bytes) = (cable.sent(End::A)?.packets, cable.sent(End::B)?.bytes);
                Ok(Passage { acks, bytes, ..Passage::default() })
            }
        }
    }
}

/// Data goes one way, so whatever comes back acknowledges, encrypted or not.
fn by_direction(bytes: &[u8]) -> PacketKind {
    match IpPacket::parse(bytes) {
        Ok(ip) if ip.src == ipv4(End::A) || ip.src == ipv6(End::A) => PacketKind::Ack,
        _ => PacketKind::Data,
    }
}

/// Whether /proc/net/{tcp,udp} has a socket on `port`, in `state` if that matters: after a number
/// come the local address with its port behind a colon, the remote one, and the state, all in hex.
fn has_port(table: &str, port: u16, state: Option<&str>) -> bool {
    table.lines().any(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let own = fields.get(1).and_then(|local| local.rsplit_once(':'));
        let own = own.and_then(|(_, hex)| u16::from_str_radix(hex, 16).ok());
        own == Some(port) && state.is_none_or(|state| fields.get(3) == Some(&state))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_open_once_somebody_listens_on_it() {
        let table = "  sl  local_address rem_address   st\n   \
                     0: 0100007F:1451 00000000:0000 0A 0\n   1: 0100007F:1452 0100007F:1451 01 0\n";
        assert!(has_port(table, 5_201, Some(LISTENS)));
        assert!(!has_port(table, 5_202, Some(LISTENS)));
        assert!(has_port(table, 5_202, None));
        assert!(!has_port("x\n\n: :\n", 0, None));
    }
}

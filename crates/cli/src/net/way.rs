//! What connections are made over: a UDP socket or a TUN interface.

use std::net::{IpAddr, SocketAddr};

use tack_net::{ConnConfig, Endpoint, HostConfig};

use crate::exit::{ExitCode, Failure};
use crate::observe;

/// Which way packets go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// In UDP datagrams.
    #[default]
    Udp,
    /// As IP packets through a TUN interface.
    #[cfg(target_os = "linux")]
    Tun(Box<tack_net::TunConfig>),
}

impl Way {
    /// An endpoint with this configuration; `local` is where a UDP socket is bound.
    pub(super) fn endpoint(
        &self,
        config: ConnConfig,
        local: SocketAddr,
    ) -> Result<Endpoint, Failure> {
        let builder = observe::tapped(Endpoint::builder().conn(config));
        let endpoint = match self {
            // Inside a socket of our own, all TCP ports are ours.
            Way::Udp => builder.host(all_ports()).bind(local).map_err(|e| {
                let hint = if local.port() == 0 { "" } else { "; choose another port with -p" };
                let why = format!("cannot open a UDP socket on {local}: {e}{hint}");
                Failure::new(ExitCode::Failed, why)
            }),
            #[cfg(target_os = "linux")]
            Way::Tun(tun) => {
                let failed = |e| Failure::new(ExitCode::Failed, format!("--tun: {e}"));
                let endpoint = builder.bind_tun(tun).map_err(failed)?;
                let name = endpoint.interface().unwrap_or_default();
                tracing::info!(name, ours = ?tun.local, kernels = ?tun.device.addresses, "interface");
                Ok(endpoint)
            }
        }?;
        observe::opened(&endpoint);
        Ok(endpoint)
    }

    /// Whether peers of this address's family can be reached.
    pub(super) fn reaches(&self, peer: IpAddr) -> bool {
        match self {
            Way::Udp => true,
            #[cfg(target_os = "linux")]
            Way::Tun(tun) => tun.local.iter().any(|ip| ip.is_ipv4() == peer.is_ipv4()),
        }
    }

    /// What to look at when nobody answers.
    pub(super) fn hint(&self) -> &'static str {
        match self {
            Way::Udp => "is the other side started, and does a firewall let UDP through?",
            #[cfg(target_os = "linux")]
            Way::Tun(_) => {
                "is the other side started? Beyond this machine the kernel must forward, and \
                 translate our address unless the other side knows the way back"
            }
        }
    }
}

fn all_ports() -> HostConfig {
    HostConfig::default().with(|it| it.ephemeral_ports = 1_024..=u16::MAX)
}

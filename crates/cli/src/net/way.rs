//! What connections are made over: TCP-TACK on a UDP socket or a TUN interface, or QUIC.

use std::net::{IpAddr, SocketAddr};

use tack_net::tls::Acceptor;
use tack_net::{ConnConfig, Endpoint, HostConfig, SocketConfig};

use super::carrier::{Carrier, no_socket};
use crate::exit::{ExitCode, Failure};
use crate::observe;

/// Which way packets go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// TCP-TACK in UDP datagrams.
    #[default]
    Udp,
    /// QUIC.
    Quic,
    /// TCP-TACK as IP packets through a TUN interface.
    #[cfg(target_os = "linux")]
    Tun(Box<tack_net::TunConfig>),
}

impl Way {
    /// An endpoint with this configuration; `local` is where a UDP socket is bound. `acceptor`: who we
    /// are to those who connect over QUIC.
    pub(super) fn open(
        &self,
        config: ConnConfig,
        local: SocketAddr,
        socket: SocketConfig,
        acceptor: Option<&Acceptor>,
    ) -> Result<Carrier, Failure> {
        if *self == Way::Quic {
            return Carrier::quic(&config, local, socket, acceptor);
        }
        let builder = observe::tapped(Endpoint::builder().conn(config).socket(socket));
        let endpoint = match self {
            // Inside a socket of our own, all TCP ports are ours.
            Way::Udp | Way::Quic => {
                builder.host(all_ports()).bind(local).map_err(|e| no_socket(local, &e))
            }
            #[cfg(target_os = "linux")]
            Way::Tun(tun) => {
                let failed = |e| Failure::new(ExitCode::Failed, format!("--tun: {e}"));
                let endpoint = builder.bind_tun(tun).map_err(failed)?;
                let name = endpoint.interface().unwrap_or_default();
                tracing::info!(name, ours = ?tun.local, kernels = ?tun.device.addresses, "interface");
                Ok(endpoint)
            }
        }?;
        observe::opened(|| endpoint.gauge());
        Ok(Carrier::Tack(endpoint))
    }

    /// The TCP port to listen on at an endpoint of this way.
    pub(super) fn tcp_port(&self, endpoint: &Endpoint, local: SocketAddr) -> Result<u16, Failure> {
        match self {
            Way::Udp | Way::Quic => Ok(endpoint.local_addr().port()),
            #[cfg(target_os = "linux")]
            Way::Tun(_) if local.port() == 0 => {
                Err(Failure::usage("over --tun, choose a port to listen on"))
            }
            #[cfg(target_os = "linux")]
            Way::Tun(_) => Ok(local.port()),
        }
    }

    /// Whether connections can be had so, encrypted or not.
    pub(super) fn protects(&self, encrypted: bool) -> Result<(), Failure> {
        if *self == Way::Quic && !encrypted {
            let why = "--quic: QUIC is always encrypted; leave out what turns that off";
            return Err(Failure::usage(why));
        }
        Ok(())
    }

    /// Whether packets are IP packets of our own, for which other things can be chosen.
    pub fn is_ip(&self) -> bool {
        match self {
            Way::Udp | Way::Quic => false,
            #[cfg(target_os = "linux")]
            Way::Tun(_) => true,
        }
    }

    /// What the other side has to be told, with a space before it.
    pub fn flags(&self) -> &'static str {
        match self {
            Way::Udp => "",
            Way::Quic => " --quic",
            #[cfg(target_os = "linux")]
            Way::Tun(_) => " --tun --tun-addr ADDRESS/BITS",
        }
    }

    /// Whether peers of this address's family can be reached.
    pub(super) fn reaches(&self, peer: IpAddr) -> bool {
        match self {
            Way::Udp | Way::Quic => true,
            #[cfg(target_os = "linux")]
            Way::Tun(tun) => tun.local.iter().any(|ip| ip.is_ipv4() == peer.is_ipv4()),
        }
    }

    /// What to look at when nobody answers.
    pub(super) fn hint(&self) -> &'static str {
        match self {
            Way::Udp => {
                "is the other side started, without --quic as this one, and does a firewall let UDP through?"
            }
            Way::Quic => {
                "is the other side started, with --quic as well, and does a firewall let UDP through?"
            }
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

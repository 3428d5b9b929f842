//! `--tun`: real IP packets instead of UDP.

use clap::Args;
use tack_device::Prefix;

use crate::exit::Failure;
use crate::net::Way;

/// Which way packets go.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Real IP (Linux; needs root or an unprivileged user namespace)")]
pub struct TunArgs {
    /// Speak TCP over IP through a TUN interface of this name instead of UDP; peers may be any
    /// TCP, such as the kernel's [default name: tackN]
    #[arg(long, value_name = "NAME", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "tack%d", requires = "tun_addr")]
    pub tun: Option<String>,
    /// Our address and its network; the kernel's end of the interface gets the first other address
    /// of it. Once for IPv4, once for IPv6
    #[arg(long, value_name = "ADDRESS/BITS", requires = "tun")]
    pub tun_addr: Vec<Prefix>,
    /// Further networks that the kernel is to send through the interface
    #[arg(long, value_name = "ADDRESS/BITS", requires = "tun")]
    pub tun_route: Vec<Prefix>,
    /// Largest packet in bytes [default: 1500]
    #[arg(long, value_name = "BYTES", requires = "tun")]
    #[arg(value_parser = clap::value_parser!(u16).range(576..))]
    pub tun_mtu: Option<u16>,
    /// Let the kernel cut no segments and fill no checksums
    #[arg(long, requires = "tun")]
    pub tun_no_offload: bool,
}

impl TunArgs {
    /// What the user meant.
    #[cfg(target_os = "linux")]
    pub fn way(&self) -> Result<Way, Failure> {
        const MIN_IPV6_MTU: u16 = 1_280;

        let Some(name) = &self.tun else { return Ok(Way::Udp) };
        let usage = |e: &dyn std::fmt::Display| Failure::usage(format!("--tun-addr: {e}"));
        let mut config = tack_net::TunConfig::new(&self.tun_addr).map_err(|e| usage(&e))?;
        let device = &mut config.device;
        device.name.clone_from(name);
        device.routes.clone_from(&self.tun_route);
        device.mtu = self.tun_mtu.unwrap_or(device.mtu);
        device.offload = !self.tun_no_offload;
        if device.mtu < MIN_IPV6_MTU && config.local.iter().any(|ip| ip.is_ipv6()) {
            return Err(Failure::usage(format!("--tun-mtu: IPv6 needs {MIN_IPV6_MTU} or more")));
        }
        Ok(Way::Tun(Box::new(config)))
    }

    /// What the user meant.
    #[cfg(not(target_os = "linux"))]
    pub fn way(&self) -> Result<Way, Failure> {
        match self.tun {
            None => Ok(Way::Udp),
            Some(_) => Err(Failure::usage("--tun needs Linux")),
        }
    }
}

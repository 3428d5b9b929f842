//! One end of a transfer.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result};
use tack_cc::Algorithm;
use tack_device::Tun;
use tack_net::{ConnConfig, Endpoint, ListenConfig, TunConfig};
use tokio::net::{TcpListener, TcpStream};

use super::load::Load;
use super::stage::{CABLE, OURS, RELAYED, network, side};
use super::{Contestant, Share, raw};
use crate::contestant::Role;
use crate::tack::{note, receive, transmit};

/// A server says so when a client may come.
pub(super) const READY: &str = "ready";

const PORT: u16 = 7_000;

/// Runs one end and prints its share as a line of JSON.
pub(super) fn run(contestant: Contestant, role: Role, seconds: f64) -> Result<()> {
    let duration = Duration::from_secs_f64(seconds);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let share = match (contestant, role) {
        (Contestant::Raw, _) => raw_end(role, duration),
        (_, Role::Server) if serves_by_kernel(contestant) => {
            runtime.block_on(kernel_server(contestant))
        }
        (_, Role::Client) if asks_by_kernel(contestant) => {
            runtime.block_on(kernel_client(contestant, duration))
        }
        (_, Role::Server) => runtime.block_on(our_server(contestant)),
        (_, Role::Client) => runtime.block_on(our_client(contestant, duration)),
    }?;
    println!("{}", serde_json::to_string(&share).context("shares are plain data")?);
    Ok(())
}

fn asks_by_kernel(contestant: Contestant) -> bool {
    use Contestant::{Kernel, KernelRelay, KernelToPlain};
    matches!(contestant, Kernel | KernelRelay | KernelToPlain)
}

fn serves_by_kernel(contestant: Contestant) -> bool {
    use Contestant::{Kernel, KernelRelay, PlainToKernel};
    matches!(contestant, Kernel | KernelRelay | PlainToKernel)
}

/// Where the server is.
fn server_at(contestant: Contestant) -> SocketAddr {
    let addresses = match contestant {
        Contestant::KernelRelay => RELAYED,
        _ if serves_by_kernel(contestant) => CABLE,
        _ => OURS,
    };
    (addresses[side(Role::Server)], PORT).into()
}

fn tun_config(role: Role, offload: bool) -> Result<TunConfig> {
    let mut config = TunConfig::new(&[network(OURS[side(role)])])?;
    config.device.offload = offload;
    Ok(config)
}

fn endpoint(contestant: Contestant, role: Role) -> Result<(Endpoint, ConnConfig)> {
    let conn = match contestant {
        Contestant::Tack => ConnConfig::default(),
        // As the kernel's in this comparison.
        _ => ConnConfig::plain().with(|it| it.congestion = Some(Algorithm::Cubic)),
    };
    let tun = tun_config(role, contestant != Contestant::PlainNoOffload)?;
    Ok((Endpoint::builder().conn(conn.clone()).bind_tun(&tun)?, conn))
}

fn share(bytes: u64, elapsed: Duration, note: String) -> Result<Share> {
    let load = Load::of_this_process()?;
    Ok(Share { bytes, seconds: elapsed.as_secs_f64(), load, note })
}

async fn our_server(contestant: Contestant) -> Result<Share> {
    let (endpoint, conn) = endpoint(contestant, Role::Server)?;
    let listen = ListenConfig::default().with(|it| it.conn = conn);
    let listener = endpoint.listen_plain_with(PORT, listen)?;
    println!("{READY}");
    let (mut stream, _peer) = listener.accept().await?;
    let (bytes, elapsed) = receive(&mut stream).await?;
    let share = share(bytes, elapsed, note(&stream.info(), endpoint.io_counters()))?;
    drop(stream);
    endpoint.wait_idle().await;
    Ok(share)
}

async fn our_client(contestant: Contestant, duration: Duration) -> Result<Share> {
    let (endpoint, _) = endpoint(contestant, Role::Client)?;
    let mut stream = endpoint.connect_plain(server_at(contestant)).await?;
    let (bytes, elapsed) = transmit(&mut stream, duration).await?;
    let share = share(bytes, elapsed, note(&stream.info(), endpoint.io_counters()))?;
    drop(stream);
    endpoint.wait_idle().await;
    Ok(share)
}

async fn kernel_server(contestant: Contestant) -> Result<Share> {
    let listener = TcpListener::bind(server_at(contestant)).await?;
    println!("{READY}");
    let (mut stream, _peer) = listener.accept().await?;
    let (bytes, elapsed) = receive(&mut stream).await?;
    share(bytes, elapsed, String::new())
}

async fn kernel_client(contestant: Contestant, duration: Duration) -> Result<Share> {
    let mut stream = TcpStream::connect(server_at(contestant)).await?;
    // Whatever the machine's default: BBR would pace, and this is about processor time.
    rustix::net::sockopt::set_tcp_congestion(&stream, "cubic")?;
    let (bytes, elapsed) = transmit(&mut stream, duration).await?;
    share(bytes, elapsed, String::new())
}

fn raw_end(role: Role, duration: Duration) -> Result<Share> {
    let tun = Tun::open(&tun_config(role, true)?.device)?;
    let (here, there): (Ipv4Addr, Ipv4Addr) = (OURS[side(role)], OURS[1 - side(role)]);
    let (bytes, elapsed) = match role {
        Role::Server => {
            println!("{READY}");
            raw::receive(&tun, here, there)?
        }
        Role::Client => raw::send(&tun, here, there, duration)?,
    };
    share(bytes, elapsed, String::new())
}

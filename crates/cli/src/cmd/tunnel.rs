//! `tack tunnel`.

use std::net::SocketAddr;

use tokio::net::TcpListener;

use crate::args::transport::ServerSecurity;
use crate::args::tunnel::{ClientConfig, ServeConfig, TunnelConfig};
use crate::cmd::invite::Invitation;
use crate::exit::{ExitCode, Failure};
use crate::net::NetAccept;
use crate::stop::Stop;
use crate::task::task;
use crate::terminal::say;
use crate::tunnel::client::{Service, Streams};
use crate::tunnel::forward::Local;
use crate::tunnel::limits::{Limits, handshakes};
use crate::tunnel::link::{Keeper, Server, keepalive};
use crate::tunnel::{raise_descriptor_limit, server};
use tack_net::HostPort;

/// Either end, until it is told to end.
pub async fn run(config: TunnelConfig, stop: Stop) -> Result<ExitCode, Failure> {
    raise_descriptor_limit();
    match config {
        TunnelConfig::Client(config) => connect(*config, stop).await,
        TunnelConfig::Server(config) => serve(*config, stop).await,
    }
}

async fn serve(config: ServeConfig, stop: Stop) -> Result<ExitCode, Failure> {
    let admitting = |s: &ServerSecurity| s.admitting(true);
    let identity = config.security.as_ref().map(admitting).transpose()?;
    let mut transport = config.transport.conn_config();
    transport.keepalive = Some(keepalive());
    let server = NetAccept::listen(&config.way, config.local, transport, identity)?;
    let mut server = server.within(handshakes());
    if !config.quiet {
        let invitation =
            Invitation { doing: "Serving a tunnel", what: "what passes", may: "use it" };
        let way = config.way.flags();
        let command =
            |host: &HostPort, proof: &str| format!("tack tunnel {host} {proof} -D 1080{way}");
        invitation.tell(&server, command).await;
    }
    let served = server::serve(&mut server, config.allow, &Limits::default(), &stop).await;
    server.settle(&stop).await;
    served
}

async fn connect(config: ClientConfig, stop: Stop) -> Result<ExitCode, Failure> {
    // What is wrong with the ports should show before anything is connected.
    let mut listeners = Vec::new();
    for forward in &config.forwards {
        let service = Service::Forward(forward.target.clone());
        listeners.extend(listen(&forward.local, &service)?);
    }
    for proxy in &config.proxies {
        listeners.extend(listen(proxy, &Service::Proxy { eager: config.eager })?);
    }
    if let Some(port) = config.transparent {
        listeners.extend(listen(&Local::everywhere(port), &Service::Intercepted)?);
    }
    let server = Server {
        host: (&config.host).into(),
        way: config.way.clone(),
        transport: config.transport.conn_config(),
        connector: config.security.connector()?,
        code: config.security.code.clone(),
    };
    let started = stop.or(Keeper::start(server)).await;
    let (keeper, link) = started.unwrap_or_else(|| Err(Failure::interrupted()))?;
    let rules = redirect(&config, keeper.peer())?;
    let (streams, mut gone) = Streams::new(link, stop.clone());
    for (listener, service) in listeners {
        if !config.quiet {
            announce(&listener, &service, &config.host);
        }
        tokio::spawn(task(streams.clone().take_in(listener, service)));
    }
    drop(streams);
    let kept = keeper.run(&stop).await;
    // Nothing should be redirected to a port that nobody listens on.
    drop(rules);
    let _ = stop.or_soon(std::time::Duration::ZERO, gone.recv()).await;
    kept.map(|()| ExitCode::Interrupted)
}

fn listen(local: &Local, service: &Service) -> Result<Vec<(TcpListener, Service)>, Failure> {
    let listening = local
        .listen()
        .map_err(|e| Failure::new(ExitCode::Failed, format!("cannot listen on {local}: {e}")))?;
    Ok(listening.into_iter().map(|listener| (listener, service.clone())).collect())
}

fn announce(listener: &TcpListener, service: &Service, host: &HostPort) {
    let Ok(local) = listener.local_addr() else { return };
    match service {
        Service::Forward(target) => say(format_args!("Port {local} leads to {target} at {host}.")),
        Service::Proxy { .. } => {
            say(format_args!("Proxy on {local} (SOCKS5, HTTP CONNECT) leads to {host}."));
        }
        Service::Intercepted => say(format_args!("What is redirected to {local} leads to {host}.")),
    }
}

/// The kernel's rules, installed as long as what is returned lives, or printed.
#[cfg(target_os = "linux")]
fn redirect(
    config: &ClientConfig,
    server: SocketAddr,
) -> Result<Option<crate::tunnel::intercept::Installed>, Failure> {
    let Some(port) = config.transparent else { return Ok(None) };
    let server = server.ip().to_canonical();
    let networks = config.networks.clone();
    let redirect = crate::tunnel::intercept::Redirect::of(port, networks, server)?;
    if config.install_rules {
        return redirect.install().map(Some);
    }
    crate::terminal::print(redirect.rules().as_bytes())?;
    if !config.quiet {
        say(format_args!("Above are rules for `nft -f -`; `{}` removes them.", redirect.removal()));
    }
    Ok(None)
}

#[cfg(not(target_os = "linux"))]
fn redirect(config: &ClientConfig, _: SocketAddr) -> Result<Option<()>, Failure> {
    match config.transparent {
        None => Ok(None),
        Some(_) => Err(Failure::usage("--transparent needs Linux")),
    }
}

//! Both ends of each command in one process. One binary, a module per topic: it links once.

mod again;
mod args;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod clock;
mod continued;
mod course;
#[cfg(target_os = "linux")]
mod dissector;
mod doctor;
mod faults;
mod hostile;
mod kills;
mod lasting;
mod left_out;
mod nc;
mod network;
mod patience;
mod perf;
#[cfg(target_os = "linux")]
mod perf_flags;
#[cfg(target_os = "linux")]
mod qlog_schema;
mod rebinding;
#[cfg(target_os = "linux")]
mod round_trips;
mod signals;
#[cfg(target_os = "linux")]
mod small_disk;
#[cfg(target_os = "linux")]
mod ssh;
mod starting;
#[cfg(target_os = "linux")]
mod stop;
mod strangers;
mod support;
mod takeover;
#[cfg(target_os = "linux")]
mod told;
#[cfg(target_os = "linux")]
mod top;
mod transfer;
#[cfg(target_os = "linux")]
mod tun;
mod tunnel;
#[cfg(target_os = "linux")]
mod tunnel_descriptors;
mod tunnel_limits;
#[cfg(target_os = "linux")]
mod tunnel_programs;
mod tunnel_proxy;
mod tunnel_roaming;
#[cfg(target_os = "linux")]
#[cfg(target_os = "linux")]
mod tunnel_stopped;
#[cfg(target_os = "linux")]
mod unheard;

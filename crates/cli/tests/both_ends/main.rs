//! Both ends of each command in one process. One binary, a module per topic: it links once.

mod args;
mod hostile;
mod kills;
mod nc;
mod network;
mod patience;
mod perf;
mod rebinding;
#[cfg(target_os = "linux")]
mod ssh;
#[cfg(target_os = "linux")]
mod stop;
mod strangers;
mod support;
mod takeover;
mod transfer;
#[cfg(target_os = "linux")]
mod tun;

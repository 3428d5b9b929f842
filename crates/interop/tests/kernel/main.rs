//! Our TCP against the kernel's. One binary: its tests share two test threads, and wait a lot.
#![cfg(target_os = "linux")]

mod again;
mod asleep;
mod bulk;
mod closing;
mod controllers;
mod direct;
mod forward;
mod http;
mod icmp;
mod iperf;
mod many;
mod options;
mod router;
mod shell;
mod strategies;
mod support;
mod tack;

//! Two hosts, a virtual clock and a path between them, all from one seed.

mod app;
mod bulk;
mod compact;
mod conversation;
mod conversations;
mod damage;
mod device;
mod direct;
mod ecn;
mod endings;
mod handshake;
mod hostile;
mod icmp;
mod ip;
mod kernel_ways;
mod many;
mod measures;
mod path_mtu;
mod pipe;
mod ports;
mod raw;
mod recovery;
mod strategies;
mod streams;
mod two_way;
mod world;

//! The one crate that touches the kernel: clock, timers and sockets.

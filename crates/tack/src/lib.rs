//! The TACK acknowledgment mechanism, independent of TCP, sockets and clocks.

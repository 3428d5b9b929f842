//! Arrivals that wake nobody for a while.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

/// Readable while its descriptor is, unless it is shut.
///
/// An event loop is told of each packet that arrives at a socket it watches, whether or not it has
/// read the one before, and a wake-up costs several times as much as the packet. One that watches the
/// gate instead, an epoll instance of one descriptor, can shut it and come back by a
/// [`Timer`](crate::Timer) for all that has gathered.
#[derive(Debug)]
pub struct Gate {
    epoll: OwnedFd,
}

impl Gate {
    /// An open gate before `descriptor`, which has to outlive it.
    ///
    /// # Errors
    /// No file descriptor is left.
    pub fn new(descriptor: impl AsFd) -> io::Result<Gate> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, descriptor, EventData::new_u64(0), EventFlags::IN)?;
        Ok(Gate { epoll })
    }

    /// Opens or shuts it. Whoever waits is woken as it opens if something is there to read.
    ///
    /// # Errors
    /// `descriptor` is not the one it was made for.
    pub fn set_open(&self, descriptor: impl AsFd, open: bool) -> io::Result<()> {
        let events = if open { EventFlags::IN } else { EventFlags::empty() };
        Ok(epoll::modify(&self.epoll, descriptor, EventData::new_u64(0), events)?)
    }
}

impl AsFd for Gate {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

impl AsRawFd for Gate {
    fn as_raw_fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn is_readable(gate: &Gate) -> bool {
        let mut fds = [PollFd::new(gate, PollFlags::IN)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut fds, Some(&at_once)).unwrap() == 1
    }

    #[test]
    fn what_arrives_at_a_shut_gate_is_told_when_it_opens() {
        let (peer, socket) = UnixDatagram::pair().unwrap();
        let gate = Gate::new(&socket).unwrap();
        assert!(!is_readable(&gate));
        peer.send(b"one").unwrap();
        assert!(is_readable(&gate));
        gate.set_open(&socket, false).unwrap();
        peer.send(b"two").unwrap();
        assert!(!is_readable(&gate));
        gate.set_open(&socket, true).unwrap();
        assert!(is_readable(&gate));
        let mut buf = [0; 8];
        for _ in 0..2 {
            socket.recv(&mut buf).unwrap();
        }
        assert!(!is_readable(&gate));
    }

    #[test]
    fn a_gate_knows_its_own_descriptor_only() {
        let (ours, another) = UnixDatagram::pair().unwrap();
        let gate = Gate::new(&ours).unwrap();
        assert!(gate.set_open(&another, false).is_err());
    }
}

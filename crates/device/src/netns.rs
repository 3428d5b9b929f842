//! Network namespaces: a machine of one's own for a test or an emulator.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command};
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::iproute::{self, ConfigureError};
use crate::prefix::Prefix;
use crate::sys;

/// A network namespace without a name: interfaces, addresses, routes and ports of its own, and a
/// loopback interface that is up. Gone with the last handle, process and socket in it.
#[derive(Debug)]
pub struct Netns {
    file: File,
}

/// Which namespace it is, among those that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetnsId {
    device: u64,
    inode: u64,
}

impl NetnsId {
    fn of(file: &Metadata) -> NetnsId {
        NetnsId { device: file.dev(), inode: file.ino() }
    }

    /// That of a process, which is its first thread's; `None`: it has ended, or is somebody else's.
    pub fn of_process(process: u32) -> Option<NetnsId> {
        fs::metadata(format!("/proc/{process}/ns/net")).ok().map(|file| NetnsId::of(&file))
    }
}

/// Why there is no namespace, or it cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetnsError {
    /// Making one takes `CAP_SYS_ADMIN`.
    #[error(
        "making a network namespace needs root (CAP_SYS_ADMIN), or an unprivileged user namespace: \
         try `unshare -Urn COMMAND`"
    )]
    NotPermitted,
    /// The kernel refused otherwise.
    #[error("cannot make or enter a network namespace: {0}")]
    System(#[from] io::Error),
    /// It is there, but not as it was to be.
    #[error(transparent)]
    Configure(#[from] ConfigureError),
}

impl From<NetnsError> for io::Error {
    fn from(e: NetnsError) -> io::Error {
        match e {
            NetnsError::System(e) => e,
            NetnsError::NotPermitted => io::Error::new(io::ErrorKind::PermissionDenied, e),
            NetnsError::Configure(_) => io::Error::other(e),
        }
    }
}

impl Netns {
    /// Makes one. The calling thread stays where it is.
    ///
    /// # Errors
    /// [`NetnsError`].
    pub fn new() -> Result<Netns, NetnsError> {
        let make = || -> io::Result<File> {
            sys::unshare_network()?;
            File::open("/proc/thread-self/ns/net")
        };
        let file = on_a_thread(make)?.map_err(|e| match e.kind() {
            io::ErrorKind::PermissionDenied => NetnsError::NotPermitted,
            _ => NetnsError::System(e),
        })?;
        let netns = Netns { file };
        netns.ip(&["link set dev lo up"])?;
        Ok(netns)
    }

    /// Runs `f` on a thread inside and returns what it returns. What `f` opens there (sockets, a
    /// TUN) stays inside and can be used from anywhere; threads and processes it starts are inside.
    ///
    /// # Errors
    /// The namespace cannot be entered, or there is no thread.
    ///
    /// # Panics
    /// When `f` does.
    pub fn enter<T: Send>(&self, f: impl FnOnce() -> T + Send) -> Result<T, NetnsError> {
        let inside = || -> io::Result<T> {
            move_into_link_name_space(self.file.as_fd(), Some(LinkNameSpaceType::Network))?;
            Ok(f())
        };
        Ok(on_a_thread(inside)??)
    }

    /// Which one it is.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn id(&self) -> io::Result<NetnsId> {
        Ok(NetnsId::of(&self.file.metadata()?))
    }

    /// Starts a process inside. Dropping the [`Child`] does not end it.
    ///
    /// # Errors
    /// As [`Netns::enter`], and as [`Command::spawn`].
    pub fn spawn(&self, command: &mut Command) -> Result<Child, NetnsError> {
        Ok(self.enter(|| command.spawn())??)
    }

    /// Configures it with iproute2: each line is a command of `ip` without that word, split at
    /// blanks: `link set dev lo up`.
    ///
    /// # Errors
    /// [`NetnsError::Configure`] with what `ip` said; lines before the refused one are done.
    pub fn ip<S: AsRef<str>>(&self, lines: &[S]) -> Result<(), NetnsError> {
        let lines: Vec<String> = lines.iter().map(|l| l.as_ref().to_owned()).collect();
        Ok(self.enter(|| iproute::run(&lines))??)
    }

    /// A cable to `other`: an interface pair called `name` at both ends, up, with these addresses.
    ///
    /// # Errors
    /// As [`Netns::ip`].
    pub fn link(
        &self,
        other: &Netns,
        name: &str,
        here: &[Prefix],
        there: &[Prefix],
    ) -> Result<(), NetnsError> {
        let (process, fd) = (std::process::id(), other.file.as_raw_fd());
        let peer = format!("peer name {name} netns /proc/{process}/fd/{fd}");
        self.ip(&[format!("link add name {name} type veth {peer}")])?;
        for (netns, addresses) in [(self, here), (other, there)] {
            netns.enter(|| iproute::bring_up(name, addresses))??;
        }
        Ok(())
    }

    /// Sets a kernel parameter that belongs to the namespace, such as `net.ipv4.tcp_ecn`.
    ///
    /// # Errors
    /// There is no such parameter here, or it refuses the value.
    pub fn sysctl(&self, name: &str, value: impl AsRef<OsStr> + Sync) -> Result<(), NetnsError> {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        let value = value.as_ref().as_encoded_bytes();
        // Which namespace's parameter a path names depends on who opens it.
        Ok(self.enter(|| fs::write(path, value))??)
    }
}

impl AsFd for Netns {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Namespaces belong to threads: one of its own keeps the caller's as it is.
fn on_a_thread<T: Send>(f: impl FnOnce() -> T + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("netns".to_owned()).spawn_scoped(scope, f)?;
        thread.join().map_err(|panic| std::panic::resume_unwind(panic))
    })
}

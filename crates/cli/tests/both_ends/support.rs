//! Random trees, connections that break, and comparing what arrived.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::pin::Pin;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64;
use tack_cli::conn::Connection;
use tack_cli::progress::Progress;
use tack_cli::stop::Stop;
use tack_cli::transfer::TransferError;
use tack_cli::transfer::frame::SenderId;
use tack_cli::transfer::received::Received;
use tack_cli::transfer::recv::{Intake, receive_tree};
use tack_cli::transfer::scan::scan;
use tack_cli::transfer::send::{Sent, send_tree};
use tack_cli::transfer::store::{Durability, Store};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf, duplex};

/// Who sends, where it does not matter.
pub(crate) const ME: SenderId = [7; 32];

pub(crate) fn rng(seed: u64) -> Pcg64 {
    Pcg64::seed_from_u64(seed)
}

pub(crate) fn random_bytes(rng: &mut Pcg64, n: usize) -> Vec<u8> {
    let mut bytes = vec![0; n];
    rng.fill_bytes(&mut bytes);
    bytes
}

/// Files of sizes around the chunk's edges, empty ones, folders, links, odd names and modes.
pub(crate) fn random_tree(root: &Path, rng: &mut Pcg64) {
    let mut dirs = vec![root.to_owned()];
    fs::create_dir_all(root).unwrap();
    for i in 0..rng.random_range(5..25) {
        let dir = dirs[rng.random_range(0..dirs.len())].clone();
        let odd = ["a", "ü ", "-x", "\u{1f980}", "\x01", ".hidden"];
        let path = dir.join(format!("{}{i}", odd[rng.random_range(0..odd.len())]));
        match rng.random_range(0..10) {
            0..3 => {
                fs::create_dir(&path).unwrap();
                dirs.push(path);
            }
            3 => symlink(format!("gone{i}"), &path).unwrap(),
            4 => drop(fs::write(&path, b"")),
            _ => {
                let edge = 256 * 1024;
                let n = [1, 100, edge - 1, edge, edge + 1, 700_000][rng.random_range(0..6)];
                fs::write(&path, random_bytes(rng, n)).unwrap();
                let mode = [0o644, 0o600, 0o755, 0o444][rng.random_range(0..4)];
                fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            }
        }
    }
}

/// What must arrive: mode, modification time and contents by path.
pub(crate) fn snapshot(root: &Path) -> BTreeMap<String, (u32, i64, i64, Vec<u8>)> {
    let mut all = BTreeMap::new();
    let mut todo = vec![root.to_owned()];
    while let Some(at) = todo.pop() {
        for entry in fs::read_dir(&at).unwrap() {
            let path = entry.unwrap().path();
            let meta = fs::symlink_metadata(&path).unwrap();
            let bytes = if meta.is_dir() {
                todo.push(path.clone());
                Vec::new()
            } else if meta.is_symlink() {
                fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
            } else {
                fs::read(&path).unwrap()
            };
            let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
            all.insert(name, (meta.mode(), meta.mtime(), meta.mtime_nsec(), bytes));
        }
    }
    all
}

/// Far more than any test takes on however busy a machine: one that hangs says so, by its name.
const HANGS: Duration = Duration::from_secs(600);

/// Runs on the runtime that the command uses.
pub(crate) fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(HANGS, work).await.expect("an end") })
}

pub(crate) async fn transfer_over(
    (to_receiver, to_sender): (impl Connection, impl Connection),
    from: &Path,
    into: &Path,
    overwrite: bool,
) -> (Result<Sent, TransferError>, Result<Received, TransferError>) {
    let (quiet, never) = (Progress::hidden(), Stop::never());
    let found = scan(&[from.to_owned()], false).unwrap();
    let mut intake = Intake::alone(Store::open(into, Durability::Synced).unwrap());
    intake.overwrite = overwrite;
    let receiving = receive_tree(to_sender, &intake, &quiet, &never);
    let done = tokio::join!(send_tree(to_receiver, ME, found, &quiet, &never), receiving);
    drop(intake);
    tidied(into);
    done
}

/// Removes the place for partial files, as a command does at its end. A child of another test holds a
/// copy of our lock between its fork and its exec: a moment later it does not.
pub(crate) fn tidied(into: &Path) {
    for _ in 0..100 {
        Store::open(into, Durability::Lazy).unwrap().tidy();
        if !into.join(".tack-partial").exists() {
            return;
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "a child between fork and exec has no event"
        )]
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) async fn transfer(
    from: &Path,
    into: &Path,
    overwrite: bool,
) -> (Result<Sent, TransferError>, Result<Received, TransferError>) {
    transfer_over(duplex(64 * 1024), from, into, overwrite).await
}

/// How a connection ends before its time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Death {
    /// Both ends see it.
    Cut,
    /// Nobody hears anything any more.
    Silence,
}

/// A connection that dies after so many bytes written, or read.
pub(crate) struct Mortal {
    pub(crate) inner: DuplexStream,
    pub(crate) bytes_left: usize,
    pub(crate) death: Death,
    /// Told, when it is let go of, whether it was cut: its other end is an end in order otherwise.
    pub(crate) is_cut: Option<Arc<AtomicBool>>,
}

impl Connection for Mortal {}

impl Drop for Mortal {
    fn drop(&mut self) {
        if let Some(is_cut) = &self.is_cut {
            is_cut.store(self.bytes_left == 0, Relaxed);
        }
    }
}

impl Mortal {
    fn dead<T>(&self) -> Poll<std::io::Result<T>> {
        match self.death {
            Death::Cut => Poll::Ready(Err(std::io::ErrorKind::ConnectionReset.into())),
            Death::Silence => Poll::Pending,
        }
    }
}

impl AsyncRead for Mortal {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        if self.bytes_left == 0 {
            return self.dead();
        }
        let before = buf.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(cx, buf);
        self.bytes_left = self.bytes_left.saturating_sub(buf.filled().len() - before);
        read
    }
}

impl AsyncWrite for Mortal {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let n = buf.len().min(self.bytes_left);
        if n == 0 {
            return self.dead();
        }
        let written = Pin::new(&mut self.inner).poll_write(cx, &buf[..n]);
        if let Poll::Ready(Ok(n)) = written {
            self.bytes_left -= n;
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        if self.bytes_left == 0 {
            return self.dead();
        }
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// The built command, with a home of its own.
pub(crate) fn tack(home: &Path, line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tack"));
    command.args(line.split_whitespace()).env("XDG_CONFIG_HOME", home).current_dir(home);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A listening command, ended with the test whatever happens.
pub(crate) struct Listening(pub(crate) Child);

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn succeeded(output: &Output) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
}

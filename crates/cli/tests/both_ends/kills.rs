//! Real processes, killed at random: several senders of one name, a receiver, a disk that fills.
//!
//! `script/kills` runs a thousand of them on a small file system of its own.

#![allow(clippy::disallowed_methods, reason = "processes are killed in real time")]

use std::fs::{self, File};
use std::net::UdpSocket;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Output};
use std::thread;
use std::time::{Duration, Instant};

use rand::RngExt;
use rand_pcg::Pcg64;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::tempdir;

use crate::support::{Listening, random_bytes, random_tree, rng, snapshot, tack};

/// How often to kill, unless `TACK_KILLS` says otherwise.
const KILLS: usize = 12;

/// A file system of no more than this may be filled.
const SMALL: u64 = 1 << 30;

fn setting<T: std::str::FromStr>(name: &str, default: T) -> T {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

fn free_port() -> u16 {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Somebody who sends a tree of the same name as the others', which differs in one file.
struct Sender {
    home: PathBuf,
    running: Option<Listening>,
}

struct Bedlam {
    home: PathBuf,
    /// Where the inbox is: perhaps on another file system.
    disk: PathBuf,
    port: u16,
    receiver: Option<Listening>,
    senders: Vec<Sender>,
    rng: Pcg64,
    /// Who ended well, and has not been looked at.
    complete: Vec<usize>,
    kills: usize,
    verified: usize,
    refused: usize,
    fills: usize,
    sleeps: usize,
    slowest: Duration,
}

impl Bedlam {
    fn new(home: &Path, disk: &Path, seed: u64) -> Bedlam {
        let mut rng = rng(seed);
        let common = home.join("common");
        random_tree(&common, &mut rng);
        let senders = (0..rng.random_range(2..=4))
            .map(|number| {
                let home = home.join(format!("sender{number}"));
                fs::create_dir(&home).unwrap();
                copy_tree(&common, &home.join("tree"));
                fs::write(home.join("tree/late"), random_bytes(&mut rng, 4_000_000)).unwrap();
                Sender { home, running: None }
            })
            .collect();
        let (home, disk, port) = (home.to_owned(), disk.to_owned(), free_port());
        let (kills, verified, refused, fills, sleeps) = (0, 0, 0, 0, 0);
        let (receiver, slowest, complete) = (None, Duration::ZERO, Vec::new());
        Bedlam {
            home,
            disk,
            port,
            receiver,
            senders,
            rng,
            complete,
            kills,
            verified,
            refused,
            fills,
            sleeps,
            slowest,
        }
    }

    fn inbox(&self) -> PathBuf {
        self.disk.join("in")
    }

    fn listen(&mut self) {
        let line = format!("recv --keep -q --open -p {} -B 127.0.0.1", self.port);
        let start = || Listening(tack(&self.home, &line).arg(self.inbox()).spawn().unwrap());
        let mut receiver = start();
        // It listens once nobody else can, unless whoever tries was there first.
        while UdpSocket::bind(("127.0.0.1", self.port)).is_ok() {
            if receiver.0.try_wait().unwrap().is_some() {
                receiver = start();
            }
            thread::sleep(Duration::from_millis(5));
        }
        // Whom everybody has met before, so that nobody has to be asked.
        let known = self.home.join("key");
        if !known.exists() {
            let key = tack(&self.home, "key").output().unwrap();
            fs::write(known, key.stdout).unwrap();
        }
        self.receiver = Some(receiver);
    }

    fn send(&self, number: usize) -> std::process::Command {
        let key = fs::read_to_string(self.home.join("key")).unwrap();
        let key = key.split_whitespace().next().unwrap();
        let line = format!("send tree 127.0.0.1:{} -q --fingerprint {key}", self.port);
        tack(&self.senders[number].home, &line)
    }

    /// Some who do not send do, something is killed, and who has ended is looked at.
    fn round(&mut self) {
        for number in 0..self.senders.len() {
            if self.senders[number].running.is_none() && self.rng.random_bool(0.7) {
                let started = self.send(number).spawn().unwrap();
                self.senders[number].running = Some(Listening(started));
            }
        }
        let filler = self.rng.random_bool(0.2).then(|| self.fill()).flatten();
        thread::sleep(Duration::from_millis(self.rng.random_range(0..400)));
        if self.rng.random_bool(0.1) {
            self.sleep();
        }
        if self.rng.random_bool(0.5) {
            // Dropped, it is killed.
            self.receiver = None;
            self.kills += 1;
        }
        for number in 0..self.senders.len() {
            if self.rng.random_bool(0.3) {
                self.kill(number);
            }
        }
        drop(filler);
        if self.receiver.is_none() {
            self.listen();
        }
        self.look();
    }

    /// Either end does not run for a while, and its clock makes a jump.
    fn sleep(&mut self) {
        let which = self.rng.random_range(0..=self.senders.len());
        let child = match which {
            0 => self.receiver.as_ref(),
            n => self.senders[n - 1].running.as_ref(),
        };
        let Some(pid) = child.and_then(|child| Pid::from_raw(child.0.id() as i32)) else { return };
        let _ = kill_process(pid, Signal::STOP);
        thread::sleep(Duration::from_millis(self.rng.random_range(100..2_500)));
        let _ = kill_process(pid, Signal::CONT);
        self.sleeps += 1;
    }

    /// Takes what the disk has left, in bytes or in files.
    fn fill(&mut self) -> Option<Filler> {
        let room = rustix::fs::statvfs(&self.disk).unwrap();
        if room.f_blocks * room.f_frsize > SMALL {
            return None;
        }
        self.fills += 1;
        let folder = self.disk.join("filler");
        fs::create_dir(&folder).ok()?;
        if self.rng.random_bool(0.5) {
            let leave = self.rng.random_range(0..3_000_000);
            let bytes = (room.f_bavail * room.f_frsize).saturating_sub(leave);
            let file = File::create(folder.join("bytes")).ok()?;
            let _ = rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes);
        } else {
            let leave = self.rng.random_range(0..10);
            for number in 0..room.f_favail.saturating_sub(leave) {
                if File::create(folder.join(number.to_string())).is_err() {
                    break;
                }
            }
        }
        Some(Filler(folder))
    }

    /// Kills a sender; it may have been faster, and ended by itself.
    fn kill(&mut self, number: usize) {
        let Some(mut running) = self.senders[number].running.take() else { return };
        let _ = running.0.kill();
        let status = running.0.wait().unwrap();
        self.ended(number, status);
    }

    fn ended(&mut self, number: usize, status: ExitStatus) {
        match (status.success(), status.signal()) {
            (true, _) => self.complete.push(number),
            (false, Some(_)) => self.kills += 1,
            (false, None) => self.refused += 1,
        }
    }

    /// Whoever ended well finds what it sent, and then the name is anybody's again.
    fn look(&mut self) {
        for number in 0..self.senders.len() {
            let Some(running) = &mut self.senders[number].running else { continue };
            let Some(status) = running.0.try_wait().unwrap() else { continue };
            self.senders[number].running = None;
            self.ended(number, status);
        }
        if !self.complete.is_empty() {
            self.clear();
        }
    }

    /// Each of them: their trees differ, so that no two of one name can be there.
    fn check_complete(&mut self) {
        for number in std::mem::take(&mut self.complete) {
            self.check(number);
        }
    }

    fn check(&mut self, number: usize) {
        self.verified += 1;
        let (sent, arrived) = (self.senders[number].home.join("tree"), self.inbox().join("tree"));
        assert!(snapshot(&arrived) == snapshot(&sent), "sender {number}, kill {}", self.kills);
    }

    /// Nobody sends any more, and what arrived is taken away.
    fn clear(&mut self) {
        (0..self.senders.len()).for_each(|number| self.kill(number));
        self.check_complete();
        // What a session still writes, it has written when the next one takes over.
        while fs::remove_dir_all(self.inbox().join("tree")).is_err() {
            if !self.inbox().join("tree").exists() {
                break;
            }
        }
    }

    /// After all that, an attempt without a disturbance, by whoever may.
    fn settle(&mut self) {
        (0..self.senders.len()).for_each(|number| self.kill(number));
        self.check_complete();
        let mut tried: Vec<Output> = Vec::new();
        for number in 0..self.senders.len() {
            let since = Instant::now();
            let output = self.send(number).output().unwrap();
            if output.status.success() {
                self.slowest = self.slowest.max(since.elapsed());
                self.check(number);
                return self.clear();
            }
            tried.push(output);
        }
        // Files of several senders lie there: for each of them, those of the others are in the way.
        let exist = |o: &Output| String::from_utf8_lossy(&o.stderr).contains("already there");
        assert!(tried.iter().all(exist), "kill {}: {tried:?}", self.kills);
        self.clear();
        let since = Instant::now();
        let output = self.send(0).output().unwrap();
        assert!(output.status.success(), "kill {}: {output:?}", self.kills);
        self.slowest = self.slowest.max(since.elapsed());
        self.check(0);
        self.clear();
    }
}

struct Filler(PathBuf);

impl Drop for Filler {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Files, folders and links with their times and modes.
fn copy_tree(from: &Path, to: &Path) {
    let mut copying = std::process::Command::new("cp");
    assert!(copying.arg("-a").arg(from).arg(to).status().unwrap().success());
}

#[test]
fn whoever_is_killed_and_whatever_is_full_nothing_wrong_is_verified_and_the_next_attempt_completes()
{
    let kills = setting("TACK_KILLS", KILLS);
    let limit = Duration::from_secs(setting("TACK_KILLS_SECONDS", 120));
    let seed = setting("TACK_KILLS_SEED", 0x0dead);
    let home = tempdir().unwrap();
    let disk = setting("TACK_KILLS_DISK", home.path().to_owned());
    let mut bedlam = Bedlam::new(home.path(), &disk, seed);
    bedlam.listen();
    while bedlam.kills < kills {
        for _ in 0..bedlam.rng.random_range(1..4) {
            bedlam.round();
        }
        bedlam.settle();
        assert!(bedlam.slowest < limit, "an attempt took {:?}, seed {seed}", bedlam.slowest);
    }
    let Bedlam { kills, verified, refused, fills, sleeps, slowest, senders, .. } = &bedlam;
    println!(
        "{kills} kills, {} senders of one name, {fills} times a full disk, {sleeps} times a machine \
         asleep: {verified} transfers verified and all of them right, {refused} refused or failed; \
         the slowest undisturbed attempt took {slowest:?}",
        senders.len()
    );
}

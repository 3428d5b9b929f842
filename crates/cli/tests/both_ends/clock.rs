//! A system clock that jumps, years back and forth, under both ends of a transfer.
//!
//! A library put before the C library's answers for the wall clock; the machine's own is left alone.

#![allow(clippy::disallowed_methods, reason = "the clock of real processes is what is tested")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tempfile::tempdir;

use crate::rebinding::{Course, STEADY, send_under, went_on};

/// The wall clock is another one every quarter of a second: right, ten years late, an hour early, and
/// nearly at its beginning. Time that only passes stays what it is.
const SHIM: &str = r"
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static time_t jumped(time_t now) {
    struct timespec passed;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &passed);
    switch (passed.tv_sec * 4 + passed.tv_nsec / 250000000 & 3) {
        case 1: return now + 315360000;
        case 2: return now - 3600;
        case 3: return 1;
    }
    return now;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int failed = syscall(SYS_clock_gettime, clock, time);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        time->tv_sec = jumped(time->tv_sec);
    return failed;
}

int gettimeofday(struct timeval *time, void *zone) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}
";

/// `None`, with a word, where there is no C compiler.
fn jumping_clock(dir: &Path) -> Option<PathBuf> {
    let (source, library) = (dir.join("clock.c"), dir.join("clock.so"));
    fs::write(&source, SHIM).unwrap();
    let built =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status();
    if built.is_ok_and(|status| status.success()) {
        return Some(library);
    }
    assert!(std::env::var_os("TACK_INTEROP_REQUIRED").is_none(), "no C compiler");
    eprintln!("skipped: no C compiler");
    None
}

/// Whether a program that is dated under it says a day that is not today.
fn jumps(library: &Path) -> bool {
    (0..20).any(|_| {
        std::thread::sleep(Duration::from_millis(60));
        let mut date = Command::new("date");
        let said = date.arg("+%s").env("LD_PRELOAD", library).output().unwrap().stdout;
        let said: u64 = String::from_utf8(said).unwrap().trim().parse().unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        now.abs_diff(said) > 86_400
    })
}

#[test]
fn a_clock_that_jumps_by_years_ends_no_transfer_nor_its_coming_back() {
    let dir = tempdir().unwrap();
    let Some(library) = jumping_clock(dir.path()) else { return };
    assert!(jumps(&library), "the shim is in place");
    let under = |command: &mut Command| {
        command.env("LD_PRELOAD", &library).args(["-v"]);
    };
    // Each handshake is dated, and so is each line that is logged.
    went_on(&send_under("", Course { rebinds_after: 10_000, ..STEADY }, 30_000_000, under));
}

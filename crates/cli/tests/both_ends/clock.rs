//! A system clock that jumps, years back and forth, under both ends of a transfer.
//!
//! A library put before the C library's answers for the wall clock; the machine's own is left alone.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::tempdir;

use crate::course::{Course, STEADY};
use crate::rebinding::{send_under, went_on};

/// The wall clock is another one every quarter of a second, and never right: one year late, ten, forty
/// days early, and nearly at its beginning. Time that only passes stays what it is.
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
        case 0: return now + 31536000;
        case 1: return now + 315360000;
        case 2: return now - 3456000;
    }
    return 1;
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

#[test]
fn a_clock_that_jumps_by_years_ends_no_transfer_nor_its_coming_back() {
    let dir = tempdir().unwrap();
    let Some(library) = jumping_clock(dir.path()) else { return };
    let under = |command: &mut Command| {
        command.env("LD_PRELOAD", &library).args(["-v"]);
    };
    // Each handshake is dated, and so is each line that is logged.
    let path = Course { rebinds_after: 10_000, ..STEADY };
    let (sent, said) = send_under("", path, 30_000_000, under);
    went_on(&sent);
    // Each connection that came in is dated by the command itself, and none of today.
    let (dates, today) = (dates(&said), Command::new("date").args(["-u", "+%F"]).output().unwrap());
    let today = String::from_utf8(today.stdout).unwrap();
    assert!(!dates.is_empty() && !dates.contains(today.trim()), "{dates:?} in {said}");
}

/// Year and day of lines that have them.
fn dates(said: &str) -> BTreeSet<&str> {
    let lines = said.lines().map(|line| line.trim_start_matches("\x1b[2m"));
    lines
        .filter(|line| line.get(4..5) == Some("-") && line.get(10..11) == Some("T"))
        .filter_map(|line| line.get(..10))
        .collect()
}

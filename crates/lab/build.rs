//! Packs the files of the repository that go along in the program: deflated, they take a fifth.

use std::path::Path;
use std::{env, fs, io};

/// Names them, below the same directory.
const LIST: &str = "experiments/bundle.txt";

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    let list = read(LIST)?;
    let mut all = String::new();
    for path in list.lines().filter(|line| !line.starts_with('#')) {
        // What no text has keeps them apart.
        all += &format!("{path}\0{}\0", read(&format!("experiments/{path}"))?);
    }
    let dir = env::var("OUT_DIR").map_err(io::Error::other)?;
    let packed = miniz_oxide::deflate::compress_to_vec(all.as_bytes(), 10);
    fs::write(Path::new(&dir).join("files"), packed)
}

fn read(path: &str) -> io::Result<String> {
    println!("cargo::rerun-if-changed={path}");
    fs::read_to_string(path).map_err(|e| io::Error::new(e.kind(), format!("{path}: {e}")))
}

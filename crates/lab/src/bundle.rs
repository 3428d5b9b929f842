//! The experiments of the repository, and what they name, in the binary.

use std::sync::LazyLock;

use miniz_oxide::inflate::decompress_to_vec;

/// A path or a name, and the text.
pub type File = (&'static str, &'static str);

/// What `build.rs` packed: paths under `experiments/`, and texts.
static ALL: LazyLock<Vec<File>> = LazyLock::new(|| {
    let packed = include_bytes!(concat!(env!("OUT_DIR"), "/files"));
    let all = decompress_to_vec(packed).expect("was packed by build.rs");
    let all = String::from_utf8(all).expect("was text").leak();
    let mut parts = all.split_terminator('\0');
    std::iter::from_fn(|| Some((parts.next()?, parts.next()?))).collect()
});

/// The experiments: paths under `experiments/`, and texts.
pub static FILES: LazyLock<Vec<File>> = LazyLock::new(|| {
    let is_other = |path: &str| path.starts_with("rivals/") || path.starts_with("video/");
    ALL.iter().filter(|(path, _)| !is_other(path)).copied().collect()
});

/// Traces of videos, by name: what `app = { kind = "video", trace = NAME }` may say.
pub static VIDEOS: LazyLock<Vec<File>> = LazyLock::new(|| under("video/"));

/// The rivals of the repository, by name.
pub static RIVALS: LazyLock<Vec<File>> = LazyLock::new(|| under("rivals/"));

/// What lies in `dir`, by name.
fn under(dir: &str) -> Vec<File> {
    let name = |path: &'static str| Some(path.strip_prefix(dir)?.rsplit_once('.')?.0);
    ALL.iter().filter_map(|(path, text)| Some((name(path)?, *text))).collect()
}

/// Whose figures they are: directories, and what they are of.
pub const PAPERS: &[(&str, &str)] = &[
    ("tack", "Li et al., TACK (SIGCOMM 2020, ToN 2021)"),
    ("landstrom", "Landström & Larzon, Reducing the TCP Acknowledgment Frequency (2007)"),
    ("custura", "Custura, Jones & Fairhurst, Rethinking ACKs at the Transport Layer (2020)"),
    ("measures", "What we hold ourselves to beside the papers"),
];

/// The name of a file without directory and ending.
pub fn stem(path: &str) -> &str {
    let name = path.rsplit_once('/').map_or(path, |parts| parts.1);
    name.strip_suffix(".toml").unwrap_or(name)
}

/// The files that `which` names: a paper's, or the one with that id (in any case of letters).
pub fn find(which: &str) -> Vec<File> {
    let fits = |path: &str| {
        let dir = path.split_once('/').map_or("", |parts| parts.0);
        dir.eq_ignore_ascii_case(which) || stem(path).eq_ignore_ascii_case(which)
    };
    FILES.iter().filter(|(path, _)| fits(path)).copied().collect()
}

/// Every figure of the papers, and the measures.
pub fn figures() -> Vec<File> {
    PAPERS.iter().flat_map(|(dir, _)| find(dir)).collect()
}

/// Everything there is to name, for messages.
pub fn names() -> String {
    let ids = FILES.iter().map(|(path, _)| stem(path));
    PAPERS.iter().map(|(dir, _)| *dir).chain(ids).collect::<Vec<_>>().join(", ")
}

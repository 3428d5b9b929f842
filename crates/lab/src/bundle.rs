//! The experiments of the repository, in the binary.

macro_rules! files {
    ($($path:literal,)*) => {
        /// Paths under `experiments/`, and texts.
        pub const FILES: &[(&str, &str)] = &[
            $(($path, include_str!(concat!("../experiments/", $path))),)*
        ];
    };
}

files! {
    "custura/C2.toml",
    "custura/C3.toml",
    "custura/C4.toml",
    "custura/C5.toml",
    "lab/acks.toml",
    "lab/compare.toml",
    "lab/controllers.toml",
    "lab/fairness.toml",
    "lab/pairs.toml",
    "lab/response.toml",
    "live/fairness-live.toml",
    "live/T-6b-kernel.toml",
    "live/kernel.toml",
    "live/kernel-heavy.toml",
    "landstrom/L1.toml",
    "landstrom/L3.toml",
    "landstrom/L4.toml",
    "landstrom/L5.toml",
    "landstrom/L6.toml",
    "landstrom/L6-100.toml",
    "landstrom/L8.toml",
    "landstrom/L10.toml",
    "measures/beta-buffer.toml",
    "measures/beta-rates.toml",
    "measures/company.toml",
    "measures/company-load.toml",
    "measures/dialogues.toml",
    "measures/files.toml",
    "measures/limits.toml",
    "measures/links.toml",
    "measures/neighbours.toml",
    "measures/quic.toml",
    "measures/whole-file.toml",
    "tack/T-1.toml",
    "tack/T-3.toml",
    "tack/T-6a.toml",
    "tack/T-6b.toml",
    "tack/T-6b-rate.toml",
    "tack/T-7a.toml",
    "tack/T-7b.toml",
    "tack/T-12.toml",
    "tack/T-13a.toml",
    "tack/T-13b.toml",
    "tack/T-14b.toml",
    "tack/T-16.toml",
    "tack/T-16c.toml",
    "tack/T-18.toml",
    "tack/A2.toml",
    "tack/S14.toml",
    "tack/S14-shallow.toml",
    "tack/S15.toml",
    "tack/S15-buffer.toml",
    "versus/versus-bulk.toml",
    "versus/versus-files.toml",
    "versus/versus-latency.toml",
    "versus/versus-many.toml",
    "versus/versus-paced.toml",
}

/// Traces of videos, by name: what `app = { kind = "video", trace = NAME }` may say.
pub const VIDEOS: &[(&str, &str)] =
    &[("1080p60", include_str!("../experiments/video/1080p60.txt"))];

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
pub fn find(which: &str) -> Vec<(&'static str, &'static str)> {
    let fits = |path: &str| {
        let dir = path.split_once('/').map_or("", |parts| parts.0);
        dir.eq_ignore_ascii_case(which) || stem(path).eq_ignore_ascii_case(which)
    };
    FILES.iter().filter(|(path, _)| fits(path)).copied().collect()
}

/// Every figure of the papers, and the measures.
pub fn figures() -> Vec<(&'static str, &'static str)> {
    PAPERS.iter().flat_map(|(dir, _)| find(dir)).collect()
}

/// Everything there is to name, for messages.
pub fn names() -> String {
    let ids = FILES.iter().map(|(path, _)| stem(path));
    PAPERS.iter().map(|(dir, _)| *dir).chain(ids).collect::<Vec<_>>().join(", ")
}

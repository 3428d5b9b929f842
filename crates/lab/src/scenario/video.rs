//! Traces of videos: a line per frame.
//!
//! ```text
//! # how it was made
//! fps 60
//! I 183746       a key frame and its bytes
//! P 20412        one that needs the frame before
//! ```

use tack_sim::{Frame, Video};

use crate::bundle;

/// Most frames of a trace: an hour and a half at 60 per second.
const MAX_FRAMES: usize = 324_000;
/// Largest frame, bytes: a raw one of 8K.
const MAX_FRAME_BYTES: u32 = 100_000_000;
/// Fastest video, frames per second.
const MAX_FPS: u32 = 1_000;

/// The trace that `said` names, or that it is.
///
/// # Errors
/// What is wrong, a sentence that goes on from the key.
pub(crate) fn read(said: &str) -> Result<Video, String> {
    if said.contains('\n') {
        return parse(said);
    }
    let (_, text) = bundle::VIDEOS.iter().find(|(name, _)| *name == said).ok_or_else(|| {
        let names: Vec<&str> = bundle::VIDEOS.iter().map(|(name, _)| *name).collect();
        format!("is `{said}`: {}, or a trace's own lines", names.join(", "))
    })?;
    parse(text)
}

/// Reads a trace.
fn parse(text: &str) -> Result<Video, String> {
    let mut fps = None;
    let mut frames = Vec::new();
    let lines = text.lines().map(str::trim).enumerate();
    for (n, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
        let wrong = |what: &str| {
            let shown: String = line.chars().take(40).collect();
            format!("has `{shown}` in line {} of the trace: {what}", n + 1)
        };
        let (kind, number) = line.split_once(' ').unwrap_or((line, ""));
        let number: Option<u32> = number.trim().parse().ok();
        if fps.is_none() {
            let rate = number.filter(|n| kind == "fps" && (1..=MAX_FPS).contains(n));
            fps = Some(rate.ok_or_else(|| wrong("`fps 60` must come first, 1 to 1000"))?);
            continue;
        }
        let is_key = kind == "I";
        let bytes = number.filter(|n| (is_key || kind == "P") && (1..=MAX_FRAME_BYTES).contains(n));
        let bytes = bytes.ok_or_else(|| wrong("a frame is `I` or `P` and its bytes"))?;
        if frames.is_empty() && !is_key {
            return Err(wrong("the first frame must be an I frame"));
        }
        if frames.len() == MAX_FRAMES {
            return Err(wrong("a trace has at most 324000 frames"));
        }
        frames.push(Frame { bytes, is_key });
    }
    let none = || "has no frames".to_owned();
    Video::new(&frames, fps.ok_or_else(none)?).ok_or_else(none)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_read_as_it_was_written() {
        let mut text = "# made by hand\nfps 25\n".to_owned();
        let sizes = [90_000, 4_000, 1, 70_001];
        for (n, bytes) in sizes.iter().enumerate() {
            text += &format!("{} {bytes}\n", if n % 2 == 0 { "I" } else { "P" });
        }
        let video = read(&text).unwrap();
        for (n, bytes) in sizes.iter().enumerate() {
            assert_eq!(video.frame(n as u64), Frame { bytes: *bytes, is_key: n % 2 == 0 });
        }
        assert_eq!(video.interval().as_millis(), 40);
    }

    #[test]
    fn mistakes_in_a_trace_are_named_with_their_line() {
        for (text, words) in [
            ("\n", "no frames"),
            ("fps 60\n", "no frames"),
            ("I 1000\n", "line 1"),
            ("fps 0\nI 1\n", "1 to 1000"),
            ("fps 60\nP 1000\n", "line 2 of the trace: the first frame"),
            ("fps 60\nI 1000\n\nB 200\n", "line 4"),
            ("fps 60\nI 0\n", "its bytes"),
            ("fps 60\nI 100000001\n", "its bytes"),
            ("fps 60\nI\n", "its bytes"),
            ("fps 60\nI -5\n", "its bytes"),
            ("1080p61", "1080p60"),
        ] {
            let message = read(text).unwrap_err();
            assert!(message.contains(words), "{text:?}: `{message}` lacks {words}");
        }
    }

    #[test]
    fn every_trace_of_the_repository_can_be_read_and_says_how_it_was_made() {
        for (name, text) in bundle::VIDEOS.iter() {
            let video = read(name).unwrap_or_else(|e| panic!("{name} {e}"));
            assert!(text.starts_with("# ") && text.contains("# ffmpeg "), "{name}");
            assert!((5e6..60e6).contains(&video.mean_bps()), "{name}: {}", video.mean_bps());
        }
    }
}

//! What is known of a test before its end: all that the document of one that fails has.

use serde_json::{Value, json};

use super::start::unconnected;

/// The beginning of a test, and its intervals so far.
#[derive(Clone, Debug, Default)]
pub struct Partial {
    start: Option<Value>,
    intervals: Vec<Value>,
}

impl Partial {
    /// All streams are connected. Of an earlier test there is nothing any more.
    pub fn begin(&mut self, start: Value) {
        *self = Partial { start: Some(start), intervals: Vec::new() };
    }

    /// An interval is over.
    pub fn push(&mut self, interval: Value) {
        self.intervals.push(interval);
    }

    /// The document of a test that failed: iperf3 puts the reason under `error`.
    pub fn document(&self, reason: &str) -> Value {
        let start = self.start.clone().unwrap_or_else(unconnected);
        json!({ "start": start, "intervals": self.intervals, "end": {}, "error": reason })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_fails_keeps_what_was_measured_before() {
        let mut partial = Partial::default();
        let before = partial.document("no");
        assert_eq!(before["start"]["connected"], json!([]));
        assert!(before["start"]["version"].as_str().unwrap().starts_with("tack "), "{before}");
        partial.begin(json!({ "cookie": "1" }));
        partial.push(json!({ "sum": 1 }));
        let failed = partial.document("it stands still");
        let expected = json!({
            "start": { "cookie": "1" }, "intervals": [{ "sum": 1 }], "end": {},
            "error": "it stands still",
        });
        assert_eq!(failed, expected);
        partial.begin(json!({}));
        assert_eq!(partial.document("no")["intervals"], json!([]));
    }
}

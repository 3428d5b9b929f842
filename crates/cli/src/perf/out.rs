//! Where lines go: standard output or a file, with what each begins with.

use std::cell::RefCell;
use std::io::{self, ErrorKind, Write};
use std::rc::Rc;

use jiff::Zoned;
use jiff::fmt::strtime::{BrokenDownTime, Config, PosixCustom};

/// Most bytes that are kept of what was said, for a client that wants to see it.
const MAX_HEARD: usize = 256 << 10;

/// What lines begin with.
#[derive(Clone, Debug, Default)]
pub struct Prefix {
    /// The time in this format of strftime(3).
    pub timestamps: Option<String>,
    /// A title.
    pub title: Option<String>,
}

/// A place for lines. Clones are the same place.
#[derive(Clone)]
pub struct Out(Rc<RefCell<Sink>>);

struct Sink {
    to: Box<dyn Write>,
    prefix: Prefix,
    /// What was said since it was last asked for.
    heard: String,
    /// What first kept lines from getting there, since it was last asked for.
    failed: Option<io::Error>,
}

impl Out {
    /// Writes there.
    pub fn new(to: impl Write + 'static, prefix: Prefix) -> Self {
        let (to, heard) = (Box::new(to), String::new());
        Self(Rc::new(RefCell::new(Sink { to, prefix, heard, failed: None })))
    }

    /// Writes elsewhere from now on.
    pub fn redirect(&self, to: impl Write + 'static) {
        self.0.borrow_mut().to = Box::new(to);
    }

    /// A line, behind what lines begin with.
    pub fn line(&self, line: &str) {
        let mut sink = self.0.borrow_mut();
        if sink.heard.len() + line.len() < MAX_HEARD {
            sink.heard.push_str(line);
            sink.heard.push('\n');
        }
        let time = sink.prefix.timestamps.as_deref().map_or(String::new(), now);
        let title = sink.prefix.title.as_ref().map_or(String::new(), |title| format!("{title}:  "));
        sink.write(&format!("{time}{title}{line}"));
    }

    /// A line as it is, for programs.
    pub fn bare(&self, line: &str) {
        self.0.borrow_mut().write(line);
    }

    /// The lines since the last call.
    pub fn take_heard(&self) -> String {
        std::mem::take(&mut self.0.borrow_mut().heard)
    }

    /// What kept lines from being written since the last call. A reader that has seen enough did not.
    pub fn take_failure(&self) -> Option<io::Error> {
        self.0.borrow_mut().failed.take()
    }
}

impl Sink {
    /// Lines that nobody gets are no reason to stop measuring.
    fn write(&mut self, line: &str) {
        match writeln!(self.to, "{line}").and_then(|()| self.to.flush()) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                self.failed.get_or_insert(error);
            }
            _ => {}
        }
    }
}

fn now(format: &str) -> String {
    #[allow(clippy::disallowed_methods, reason = "lines are dated; nothing is decided by it")]
    let now = Zoned::now();
    // The format was tried before the test began.
    dated(format, &now).unwrap_or_default()
}

/// This moment in this format of strftime(3), in which `%c` and its like are those of the locale `C`.
///
/// # Errors
/// There is no such format.
pub fn dated(format: &str, moment: &Zoned) -> Result<String, jiff::Error> {
    let config = Config::new().custom(PosixCustom::new());
    BrokenDownTime::from(moment).to_string_with_config(&config, format)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Default)]
    struct Written(Rc<RefCell<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.borrow_mut().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_begin_with_the_time_and_the_title_and_are_kept_without() {
        let written = Written::default();
        let prefix =
            Prefix { timestamps: Some("<%Y> ".to_owned()), title: Some("run 7".to_owned()) };
        let out = Out::new(written.clone(), prefix);
        out.line("hello");
        out.bare("{}");
        let text = String::from_utf8(written.0.borrow().clone()).unwrap();
        let (year, rest) = text.strip_prefix('<').unwrap().split_once("> ").unwrap();
        assert!(year.parse::<u16>().unwrap() > 2_000);
        assert_eq!(rest, "run 7:  hello\n{}\n");
        assert_eq!(out.take_heard(), "hello\n");
        assert_eq!(out.take_heard(), "");
    }

    #[test]
    fn dates_and_times_are_as_strftime_has_them() {
        let moment = "2026-11-03T04:05:06[UTC]".parse().unwrap();
        for (format, written) in
            [("%c ", "Tue Nov  3 04:05:06 2026 "), ("%x %X", "11/03/26 04:05:06"), ("[%H]", "[04]")]
        {
            assert_eq!(dated(format, &moment).unwrap(), written);
        }
    }

    struct Failing(ErrorKind);

    impl Write for Failing {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_is_told_of_and_a_reader_that_has_seen_enough_is_not() {
        for (kind, told) in
            [(ErrorKind::StorageFull, Some(ErrorKind::StorageFull)), (ErrorKind::BrokenPipe, None)]
        {
            let out = Out::new(Failing(kind), Prefix::default());
            out.line("hello");
            out.bare("{}");
            assert_eq!(out.take_failure().map(|error| error.kind()), told);
            assert!(out.take_failure().is_none());
        }
    }

    #[test]
    fn what_is_kept_for_the_client_is_bounded() {
        let out = Out::new(std::io::sink(), Prefix::default());
        let line = "x".repeat(1_000);
        (0..1_000).for_each(|_| out.line(&line));
        assert!(out.take_heard().len() <= MAX_HEARD);
    }
}

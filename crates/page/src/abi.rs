//! What JavaScript calls: text in, text out, through two buffers in the module's memory.
//!
//! A call writes its text where [`tack_page_input`] says, then calls a function, which returns the
//! length of its answer in bytes; [`tack_page_output`] says where that is. Answers are JSON.
#![allow(unsafe_code, reason = "an exported name is unsafe to give; nothing else here is")]

use std::cell::RefCell;

use serde::Serialize;
use serde_json::json;

use crate::choices::CHOICES;
use crate::session::Session;
use crate::settings::Settings;

/// Longest text that is taken, bytes.
const MAX_INPUT_BYTES: usize = 1 << 20;

/// What the calls share. A module has one caller, its worker.
#[derive(Default)]
struct Shared {
    input: Vec<u8>,
    output: Vec<u8>,
    session: Option<Session>,
}

thread_local! {
    static SHARED: RefCell<Shared> = RefCell::default();
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Nothing is borrowed while `work` goes on: after a panic the buffers can still be used.
fn call(work: impl FnOnce(&mut Option<Session>, &str) -> String) -> usize {
    let (input, mut session) = SHARED.with_borrow_mut(|shared| {
        (std::mem::take(&mut shared.input), std::mem::take(&mut shared.session))
    });
    let answer = work(&mut session, &String::from_utf8_lossy(&input));
    SHARED.with_borrow_mut(|shared| {
        (shared.output, shared.session) = (answer.into_bytes(), session);
        shared.output.len()
    })
}

fn text(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|e| json!({ "error": e.to_string() }).to_string())
}

fn answer<T: Serialize>(result: Result<T, String>) -> String {
    match result {
        Ok(value) => text(&value),
        Err(error) => text(&json!({ "error": error })),
    }
}

/// Room for a text of `len` bytes; null if that is too long.
#[unsafe(no_mangle)]
pub extern "C" fn tack_page_input(len: usize) -> *mut u8 {
    if len > MAX_INPUT_BYTES {
        return std::ptr::null_mut();
    }
    SHARED.with_borrow_mut(|shared| {
        shared.input = vec![0; len];
        shared.input.as_mut_ptr()
    })
}

/// Where the last answer is, until the next call.
#[unsafe(no_mangle)]
pub extern "C" fn tack_page_output() -> *const u8 {
    SHARED.with_borrow(|shared| shared.output.as_ptr())
}

/// Every question of the form, and the version.
#[unsafe(no_mangle)]
pub extern "C" fn tack_page_choices() -> usize {
    call(|_, _| text(&json!({ "choices": CHOICES, "version": env!("CARGO_PKG_VERSION") })))
}

/// Of a link: its answers, what of it cannot be used, the link with every answer, and the file.
#[unsafe(no_mangle)]
pub extern "C" fn tack_page_settings() -> usize {
    call(|_, link| {
        let (settings, problems) = Settings::from_link(link);
        text(&json!({
            "answers": settings.answers(),
            "problems": problems,
            "link": settings.to_string(),
            "file": settings.experiment(),
        }))
    })
}

/// Sets up the runs of a file, in place of those before.
#[unsafe(no_mangle)]
pub extern "C" fn tack_page_open() -> usize {
    std::panic::set_hook(Box::new(|info| PANIC.set(info.to_string())));
    call(|session, file| {
        // Its memory is free before the next one takes its own.
        *session = None;
        answer(Session::open(file).map(|opened| session.insert(opened).opening()))
    })
}

/// Goes on by a slice; `null` at the end.
#[unsafe(no_mangle)]
pub extern "C" fn tack_page_step() -> usize {
    call(|session, _| {
        let session = session.as_mut().ok_or_else(|| "nothing was set up".to_owned());
        answer(session.map(Session::step))
    })
}

/// The result's text, after which nothing is set up: `{ "text": … }`.
#[unsafe(no_mangle)]
pub extern "C" fn tack_page_finish() -> usize {
    call(|session, _| {
        let session = session.take().ok_or_else(|| "nothing was set up".to_owned());
        answer(session.and_then(Session::finish).map(|text| json!({ "text": text })))
    })
}

/// What the last panic said, after which nothing is set up any more.
#[unsafe(no_mangle)]
pub extern "C" fn tack_page_panic() -> usize {
    call(|_, _| text(&PANIC.take()))
}

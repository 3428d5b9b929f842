//! The lab in a browser, as a user meets it: `script/page` makes it, and it gives what the command
//! gives.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::browser::Browser;
use super::run;

/// Of short runs: what is random, what has logarithms, powers and roots in it, and every PHY.
const LINKS: [&str; 8] = [
    "phy=n&rtt=40&seconds=2&stations=2",
    "phy=g&preset=paper-a&rtt=20&loss=1&seconds=2&a_cc=cubic&b=tcp-l8&b_cc=cubic-linux",
    "phy=ac&queue=fq-codel&stations=2&traffic=both&rtt=10&seconds=1&b=linux&b_cc=cubic",
    "phy=n&rate=20&rtt=40&ack_loss=0.1&seconds=2&a_cc=vivace&b=ae&b_cc=allegro",
    "phy=b&rate=4&rtt=100&traffic=on-off&seconds=3&a_cc=sprout&b=udp",
    "phy=ax&preset=paper-b&rtt=6&rate=200&loss=0.3&traffic=upload&seconds=1&seed=7&a_cc=copa&b_cc=bbr3",
    "phy=n&traffic=requests&rtt=30&stations=4&seconds=2&a_cc=vegas&b=picoquic&b_cc=newreno",
    "phy=g&traffic=file&loss=2&rtt=10&seconds=5&seed=3&a_cc=verus&b=ae&b_cc=bbr-interactive",
];

/// A run with a flow that gets next to nothing: whether it stalls takes longer to say than to run.
const STANDS_STILL: &str = "phy=ac&queue=fq-codel&stations=3&traffic=both&rtt=10&seconds=1&a_cc=vivace&b=linux&b_cc=allegro";

/// Waits for the end of a run, three minutes at most.
const ENDED: &str = "new Promise((done, fail) => {
    const status = document.getElementById('status');
    const late = setTimeout(() => fail(new Error(status.textContent)), 180000);
    const look = () => {
        if (document.body.dataset.state !== 'ended') return setTimeout(look, 10);
        clearTimeout(late);
        done();
    };
    look();
})";

/// Waits until the link has a setting.
const HASH_HAS: &str = "new Promise(done => { const look = () =>
    location.hash.includes('KEY') ? done() : setTimeout(look, 1); look(); })";

/// The brightest opaque point of a chart, of 255, and how much of the file is out of sight, pixels.
const SEEN: &str = "new Promise(drawn => requestAnimationFrame(() => setTimeout(() => {
    const canvas = document.getElementById('chart-0');
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    let brightest = 0;
    for (let i = 0; i < data.length; i += 4)
        if (data[i + 3] > 250) brightest = Math.max(brightest, Math.min(...data.slice(i, i + 3)));
    const file = document.getElementById('file');
    drawn([brightest, file.scrollHeight - file.clientHeight]);
}, 100)))";

/// What is too wide, and which pictures are blank.
const LOOK: &str = "(() => {
    const room = document.documentElement.clientWidth + 1;
    const wide = [...document.querySelectorAll('body *')].filter(e =>
        !e.closest('.scroll, pre, script, option') && e.getBoundingClientRect().right > room);
    const blank = [...document.querySelectorAll('canvas')].filter(c => {
        const image = c.getContext('2d').getImageData(0, 0, c.width, c.height);
        return new Set(new Uint32Array(image.data.buffer)).size < 2;
    });
    const nameless = [...document.querySelectorAll('input, select')].filter(e => !e.labels.length);
    // A word without end is wider than what it stands in.
    const page = document.documentElement.scrollWidth > room ? [document.body] : [];
    return [...page, ...wide, ...blank, ...nameless].map(e => e.tagName + '#' + e.id);
})()";

fn made() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    // What the linker would optimise once more takes a minute, and changes no result.
    let mut script = Command::new(root.join("script/page"));
    script.envs([("CARGO_PROFILE_DIST_LTO", "off"), ("CARGO_PROFILE_DIST_CODEGEN_UNITS", "16")]);
    let out = script.output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    if !out.status.success() && said.contains("script/setup --tests") {
        eprintln!("skipped: {said}");
        assert!(std::env::var_os("TACK_INTEROP_REQUIRED").is_none(), "it is required here");
        return None;
    }
    assert!(out.status.success(), "{said}");
    let path = String::from_utf8(out.stdout).unwrap();
    Some(root.join(path.trim_end()).canonicalize().unwrap())
}

/// Waits until the status begins with `words`, three minutes at most.
fn says(words: &str) -> String {
    format!(
        "new Promise((done, fail) => {{
            const status = document.getElementById('status');
            const late = setTimeout(() => fail(new Error(status.textContent)), 180000);
            const look = () => {{
                if (!status.textContent.startsWith('{words}')) return setTimeout(look, 1);
                clearTimeout(late);
                done();
            }};
            look();
        }})"
    )
}

/// Puts an answer into a field, as who types it and goes on.
fn answers(key: &str, answer: &str) -> String {
    format!(
        "{{ const field = document.getElementById('set-{key}'); field.value = '{answer}';
            field.dispatchEvent(new Event('change', {{ bubbles: true }})); }}"
    )
}

fn text(browser: &mut Browser, id: &str) -> String {
    let found = browser.eval(&format!("document.getElementById('{id}').textContent"));
    found.as_str().unwrap().to_owned()
}

/// The two numbers of [`SEEN`].
fn seen(browser: &mut Browser) -> (i64, i64) {
    let found = browser.eval(SEEN);
    (found[0].as_i64().unwrap(), found[1].as_i64().unwrap())
}

#[test]
fn the_page_gives_the_commands_bytes_on_screens_of_any_width() {
    let Some(page) = made() else { return };
    let dir = tempfile::tempdir().unwrap();
    let Some(mut browser) = Browser::start(dir.path()) else { return };
    let url = format!("file://{}", page.display());
    for (n, link) in LINKS.iter().enumerate() {
        let width = if n % 2 == 0 { 360 } else { 1_280 };
        browser.open(&format!("{url}#{link}"), (width, 900));
        browser.eval(ENDED);
        let status = text(&mut browser, "status");
        assert!(status.starts_with("Done"), "{link}: {status}");
        let looked = browser.eval(LOOK);
        assert_eq!(looked, Value::Array(Vec::new()), "{link}, {width} px");
        std::fs::write(dir.path().join("page.toml"), text(&mut browser, "file")).unwrap();
        let command = text(&mut browser, "command");
        let line = command.strip_prefix("tack lab ").unwrap();
        let told = run(dir.path(), line);
        assert!(told.status.success(), "{link}: {}", String::from_utf8_lossy(&told.stderr));
        let (shown, told) = (text(&mut browser, "json"), String::from_utf8(told.stdout).unwrap());
        let differs = shown.lines().zip(told.lines()).find(|(shown, told)| shown != told);
        assert!(shown == told, "{link}: on the page and by the command {differs:?}");
        // The whole link gives the same file: whoever gets it sees the same.
        let (whole, file) = (browser.eval("location.hash"), text(&mut browser, "file"));
        browser.open(&format!("{url}{}", whole.as_str().unwrap()), (width, 900));
        browser.eval(ENDED);
        assert_eq!((browser.eval("location.hash"), text(&mut browser, "file")), (whole, file));
    }
    assert!(browser.console().is_empty(), "{:?}", browser.console());
}

#[test]
fn the_form_the_slider_and_the_keyboard_do_what_they_say() {
    let Some(page) = made() else { return };
    let dir = tempfile::tempdir().unwrap();
    let Some(mut browser) = Browser::start(dir.path()) else { return };
    let without_end = "x".repeat(2_000);
    let link = format!("phy=g&seconds=1&rtt=5&colour=red&{without_end}");
    browser.open(&format!("file://{}#{link}", page.display()), (360, 800));
    browser.eval(ENDED);
    assert!(text(&mut browser, "problems").contains("`colour`, which is not on this page"));
    assert_eq!(browser.eval(LOOK), Value::Array(Vec::new()), "a word that is too long");
    let before = text(&mut browser, "json");
    browser.eval(
        "{ const phy = document.getElementById('set-phy'); phy.value = 'n';
           phy.dispatchEvent(new Event('change', { bubbles: true }));
           document.getElementById('run').click(); }",
    );
    // The run begins as the link changes.
    browser.eval(&HASH_HAS.replace("KEY", "phy=n&"));
    browser.eval(ENDED);
    assert!(text(&mut browser, "json") != before && text(&mut browser, "file").contains("\"n\""));
    assert_eq!(text(&mut browser, "problems"), "", "what was wrong with the link is history");
    let rows = browser.eval("document.querySelectorAll('#table tbody tr').length");
    assert!(rows.as_u64().unwrap() >= 8, "{rows}");
    // The slider looks back.
    browser.eval(
        "{ const at = document.getElementById('at'); at.focus(); at.value = 50;
           at.dispatchEvent(new Event('input', { bubbles: true })); }",
    );
    assert_eq!(text(&mut browser, "at-text"), "0.25");
    // A long run ends when it is told to.
    browser.eval("location.hash = '#phy=ac&seconds=60&stations=16&traffic=both'");
    browser.eval(&says("Both are running"));
    browser.eval("document.getElementById('stop').click()");
    browser.eval(ENDED);
    assert_eq!(text(&mut browser, "status"), "Stopped.");
    // What is typed into one field while the answer to another is on its way stays.
    browser.eval("location.hash = '#phy=ac&seconds=60&stations=16&traffic=both'");
    browser.eval(&says("Both are running"));
    browser.eval(
        "{ const [rtt, rate] = ['rtt', 'rate'].map(key => document.getElementById('set-' + key));
           rtt.value = 30; rtt.dispatchEvent(new Event('change', { bubbles: true }));
           rate.value = 250; }",
    );
    browser.eval(&HASH_HAS.replace("KEY", "rtt=30&"));
    assert_eq!(browser.eval("document.getElementById('set-rate').value"), "250");
    // Who stops while an answer is on its way stops what would run then, too.
    browser.eval(&format!("{} document.getElementById('stop').click();", answers("rtt", "31")));
    browser.eval(&HASH_HAS.replace("KEY", "rtt=31&"));
    assert_eq!(text(&mut browser, "status"), "Stopped.");
    // So does one that waits for a flow that stands still, and the next one runs.
    browser.eval(&format!("location.hash = '#{STANDS_STILL}'"));
    browser.eval(&says("All has run"));
    browser.eval("document.getElementById('stop').click()");
    assert_eq!(text(&mut browser, "status"), "Stopped.");
    browser.eval("location.hash = '#phy=g&seconds=1&rtt=5'");
    browser.eval(&says("Done"));
    assert!(browser.console().is_empty(), "{:?}", browser.console());
}

#[test]
fn a_field_that_cannot_be_used_is_named_and_the_keyboard_alone_is_enough() {
    let Some(page) = made() else { return };
    let dir = tempfile::tempdir().unwrap();
    let Some(mut browser) = Browser::start(dir.path()) else { return };
    browser.open(&format!("file://{}#phy=g&seconds=1&rtt=5&a=red", page.display()), (320, 800));
    browser.eval(ENDED);
    assert!(text(&mut browser, "problems").starts_with("A, Acknowledgments: there is no `red`"));
    let nameless: Vec<Value> =
        browser.accessible().into_iter().filter(|it| it["name"] == "").collect();
    assert!(nameless.is_empty(), "{nameless:?}");
    let spoken = browser.eval("document.getElementById('at').ariaValueText");
    assert_eq!(spoken, "1.00 s", "what the slider's place stands for");
    // The figures stay those of the last setting that could run, and that is said.
    for typed in ["", "-5", "1001", "0.5"] {
        browser.eval(&answers("rtt", typed));
        let problems = text(&mut browser, "problems");
        let expected = "Path, Round trip of the wire, ms: no number from 0 to 1000, in steps of 1";
        assert!(problems.starts_with(expected), "`{typed}`: {problems}");
        assert!(browser.eval("location.hash").as_str().unwrap().contains("rtt=5&"), "`{typed}`");
    }
    // The answer to what was asked before it comes later.
    let asked = ["rtt=6", "seconds=60", "rtt=-1"].map(|it| it.split_once('=').unwrap());
    browser.eval(&asked.map(|(key, answer)| answers(key, answer)).join("\n"));
    browser.eval(&HASH_HAS.replace("KEY", "seconds=60&"));
    assert!(text(&mut browser, "problems").contains("Round trip"), "it is wrong still");
    browser.eval(&answers("rtt", "7"));
    browser.eval(&HASH_HAS.replace("KEY", "rtt=7&"));
    assert_eq!(text(&mut browser, "problems"), "");
    browser.eval(&says("Both are running"));
    // A button that can no longer be pressed leaves the next key to the other one.
    browser.eval("document.getElementById('stop').focus(); document.activeElement.click()");
    assert_eq!(browser.eval("document.activeElement.id"), "run");
    assert!(browser.console().is_empty(), "{:?}", browser.console());
}

#[test]
fn what_a_large_run_took_of_memory_is_given_back_with_the_next_one() {
    let Some(page) = made() else { return };
    let dir = tempfile::tempdir().unwrap();
    let Some(mut browser) = Browser::start(dir.path()) else { return };
    browser.attach_to_workers();
    let large = "phy=ax&stations=16&seconds=60&rtt=1000&traffic=both";
    browser.open(&format!("file://{}#{large}", page.display()), (1_280, 900));
    browser.eval(&says("Both are running"));
    let taken = "module.memory.buffer.byteLength / (1 << 20)";
    let is_large = (0..3_000).any(|_| {
        browser.eval("new Promise(done => setTimeout(done, 20))");
        browser.eval_in_worker(taken).as_f64().unwrap() > 256.0
    });
    assert!(is_large, "what is to be given back was never taken");
    browser.eval("location.hash = '#phy=g&seconds=1&rtt=5'");
    browser.eval(&says("Done"));
    let kept = browser.eval_in_worker(taken).as_f64().unwrap();
    assert!(kept < 64.0, "{kept} MiB are kept");
    assert!(browser.console().is_empty(), "{:?}", browser.console());
}

#[test]
fn a_browser_that_lacks_what_the_simulator_needs_is_told_what() {
    let Some(page) = made() else { return };
    let dir = tempfile::tempdir().unwrap();
    let Some(mut browser) = Browser::start(dir.path()) else { return };
    for part in ["Worker", "WebAssembly", "DecompressionStream"] {
        browser.prepare(&format!("delete window.{part}"));
        browser.open(&format!("file://{}", page.display()), (360, 800));
        browser.eval("new Promise(done => { addEventListener('hashchange', done); location.hash = '#phy=g'; })");
        let status = text(&mut browser, "status");
        assert!(status.starts_with(&format!("This browser has no {part}, which")), "{status}");
        let left =
            browser.eval("[...document.querySelectorAll('button:enabled')].map(it => it.id)");
        assert_eq!(left, serde_json::json!(["copy"]), "what can be pressed");
    }
    assert!(browser.console().is_empty(), "{:?}", browser.console());
}

#[test]
fn paper_has_dark_ink_and_the_whole_setting_whatever_the_screen_has() {
    let Some(page) = made() else { return };
    let dir = tempfile::tempdir().unwrap();
    let Some(mut browser) = Browser::start(dir.path()) else { return };
    browser.media("screen", "dark");
    browser.open(&format!("file://{}#phy=g&seconds=1&rtt=5", page.display()), (1_280, 900));
    browser.eval(ENDED);
    let (ink, hidden) = seen(&mut browser);
    assert!(ink > 200 && hidden > 0, "of a dark screen: ink {ink}, {hidden} px of the file hidden");
    browser.media("print", "dark");
    let (ink, hidden) = seen(&mut browser);
    assert!(ink < 200 && hidden <= 0, "of paper: ink {ink}, {hidden} px of the file hidden");
}

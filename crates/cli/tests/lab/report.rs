//! The report of figures, as a browser shows it.

use super::browser::Browser;
use super::run;

/// Looked at by a browser as a person would: every picture is drawn, with words in it and nothing
/// beyond its frame, in a phone's width too, and the console has nothing to say.
#[test]
fn the_report_is_drawn_by_a_browser_without_a_word_on_its_console() {
    let dir = tempfile::tempdir().unwrap();
    let Some(mut browser) = Browser::start(dir.path()) else { return };
    let out = run(dir.path(), "reproduce T-7a T-12 C5 --short --report page.html");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let page = dir.path().join("page.html");
    let plots = std::fs::read_to_string(&page).unwrap().matches("<figure>").count();
    assert!(plots >= 4, "{plots} plots");
    let look = "(() => {
        const within = (a, b) => a.left >= b.left - 1 && a.right <= b.right + 1
            && a.top >= b.top - 1 && a.bottom <= b.bottom + 1;
        const drawn = [...document.querySelectorAll('figure svg')].filter(svg => {
            const own = svg.getBoundingClientRect(), words = [...svg.querySelectorAll('text')];
            return own.width > 200 && own.height > 100 && words.length > 4
                && words.every(w => within(w.getBoundingClientRect(), own));
        });
        const fits = document.documentElement.scrollWidth <= innerWidth + 1;
        return `${drawn.length} drawn, ${fits}`;
    })()";
    for width in [1_200, 360] {
        browser.open(&format!("file://{}", page.display()), (width, 900));
        assert_eq!(browser.eval(look), format!("{plots} drawn, true"), "{width} px");
    }
    assert!(browser.console().is_empty(), "{:?}", browser.console());
}

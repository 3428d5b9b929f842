//! Files that would run, and not as they were meant.

use crate::experiments::refused;

#[test]
fn a_key_is_said_once_whether_it_is_written_as_one_or_as_a_table() {
    let all: [(&str, &str, &[&str]); 5] = [
        (
            "set = { \"wan.delay_ms\" = 50.0 }",
            "set.wan.up.loss = 0.5",
            &["case.1.set", "`wan.up.loss`, which [sweep] has, too"],
        ),
        (
            "set = { \"flow.0.strategy\" = \"tcp-l2\" }",
            "set = { \"wan.delay_ms\" = 1.0 }",
            &["variant.1.set", "`wan.delay_ms`, which case `far` has, too"],
        ),
        (
            "[extent.short]",
            "[draw]\n\"wan.delay_ms\" = { uniform = [1, 2] }\n[extent.short]",
            &["draw.wan.delay_ms", "`wan.delay_ms`, which case `far` has, too"],
        ),
        (
            "[sweep]",
            "[sweep]\n\"flow.0.app.bytes\" = [9]\n\"flow.0.app\" = [{ kind = \"bulk\" }]",
            &["sweep.flow.0.app", "`flow.0.app`, which [sweep] has twice"],
        ),
        ("[sweep]", "[sweep]\n\"flow.00.cc\" = [\"bbr\"]", &["flow.00.cc", "entry 00 of 1"]),
    ];
    for (from, to, words) in all {
        refused(from, to, words);
    }
}

#[test]
fn what_is_shown_or_judged_in_no_unit_of_no_run_or_in_no_order_is_refused() {
    let all: [(&str, &str, &[&str]); 6] = [
        (
            "[[claim]]",
            "[[view]]\nmetrics = [\"goodput_bps\"]\nscale = 1e-9\n[[claim]]",
            &["view.0.scale", "needs `unit`"],
        ),
        (
            "[[claim]]",
            "[[view]]\nkind = \"series\"\nmetric = \"cwnd_bytes\"\nlines = \"case\"\n\
             panels = [\"variant\"]\n[[claim]]",
            &["view.0.lines", "`wan.up.loss`, which has 2 values", "of one run"],
        ),
        (
            "[[claim]]",
            "[[view]]\nkind = \"series\"\nmetric = \"cwnd_bytes\"\n\
             versus = { variant = \"tcp\" }\n[[claim]]",
            &["view.0.versus", "over time"],
        ),
        (
            "[[claim]]",
            "[[view]]\nkind = \"cdf\"\nmetric = \"blocked\"\nx = \"case\"\n[[claim]]",
            &["view.0.x", "\"bars\""],
        ),
        (
            "form = \"at-least\", value = 1.5 }",
            "form = \"order\", groups = [[\"near\", \"far\"]] }\nalong = \"case\"",
            &["claim.0.expect.groups", "two groups"],
        ),
        (
            "form = \"at-least\", value = 1.5 }",
            "form = \"order\", groups = [[\"near\"], [\"near\"]] }\nalong = \"case\"",
            &["claim.0.expect.groups", "`near` twice"],
        ),
    ];
    for (from, to, words) in all {
        refused(from, to, words);
    }
}

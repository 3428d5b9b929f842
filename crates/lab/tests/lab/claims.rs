//! Claims and their verdicts.

use tack_lab::claim::{Finding, Verdict};
use tack_lab::html;
use tack_lab::item::Item;

use crate::experiments::{FILE, text};
use crate::plans::{load, records};

/// The findings of claims `text` on figures as `value` has them.
fn findings(claim: &str, value: impl Fn(&Item) -> f64) -> Vec<Finding> {
    let start = FILE.find("[[claim]]").unwrap();
    let loaded = load(&format!("{}{claim}", &FILE[..start]));
    let records = records(&loaded, "goodput_bps", value);
    loaded.report(&records).unwrap().findings
}

/// The verdict of a claim of goodput with these words, on figures as `value` has them.
fn verdict(rest: &str, value: impl Fn(&Item) -> f64) -> Verdict {
    let claim = "[[claim]]\nwhat = \"x\"\npaper = \"y\"\nmetric = \"goodput_bps\"\n";
    let findings = findings(&format!("{claim}{rest}\n"), value);
    assert_eq!(findings.len(), 1, "{rest}");
    findings[0].verdict
}

/// Each form holds for figures that are as it says, and fails for the same with one value changed.
#[test]
fn a_claim_that_must_fail_does_fail() {
    let by = |near: f64, far: f64| {
        move |item: &Item| if text(item, "case") == "near" { near * 1e6 } else { far * 1e6 }
    };
    let along = "along = \"case\"\n";
    for (rest, good, bad) in [
        (
            "at = { case = \"near\" }\nexpect = { form = \"within\", value = 5, relative = 0.1 }",
            (5.4, 0.0),
            (5.6, 0.0),
        ),
        (
            "at = { case = \"near\" }\nexpect = { form = \"within\", value = 5, absolute = 1 }",
            (4.1, 0.0),
            (3.9, 0.0),
        ),
        (
            "at = { case = \"near\" }\nexpect = { form = \"at-least\", value = 5 }",
            (5.0, 0.0),
            (4.9, 0.0),
        ),
        (
            "at = { case = \"near\" }\nexpect = { form = \"at-most\", value = 5 }",
            (5.0, 0.0),
            (5.1, 0.0),
        ),
        (&format!("{along}expect = {{ form = \"rising\" }}"), (1.0, 2.0), (2.0, 1.0)),
        (&format!("{along}expect = {{ form = \"falling\", slack = 0.1 }}"), (2.0, 2.1), (2.0, 2.3)),
        (
            &format!("{along}expect = {{ form = \"drop-at-most\", value = 1 }}"),
            (2.0, 3.0),
            (2.0, 3.1),
        ),
        (
            &format!("{along}expect = {{ form = \"order\", groups = [[\"far\"], [\"near\"]] }}"),
            (2.0, 1.0),
            (1.0, 2.0),
        ),
        (
            // Level is not in order.
            &format!("{along}expect = {{ form = \"order\", groups = [[\"far\"], [\"near\"]] }}"),
            (1.1, 1.0),
            (1.0, 1.0),
        ),
        (
            &format!(
                "{along}expect = {{ form = \"order\", slack = 1, groups = [[\"far\"], [\"near\"]] }}"
            ),
            (1.0, 2.0),
            (1.0, 2.1),
        ),
        (
            "at = { case = \"near\" }\nversus = { case = \"far\" }\nexpect = { form = \"at-least\", value = 2 }",
            (4.0, 2.0),
            (3.9, 2.0),
        ),
        (
            "at = { case = \"near\" }\nversus = { case = \"far\" }\nhow = \"change\"\nexpect = { form = \"within\", value = 50, absolute = 1 }",
            (3.0, 2.0),
            (3.1, 2.0),
        ),
        (
            "at = { case = \"near\" }\nversus = { case = \"far\" }\nhow = \"difference\"\nexpect = { form = \"at-most\", value = 1 }",
            (3.0, 2.0),
            (3.1, 2.0),
        ),
    ] {
        assert_eq!(verdict(rest, by(good.0, good.1)), Verdict::Agrees, "{rest}");
        assert_eq!(verdict(rest, by(bad.0, bad.1)), Verdict::Differs, "{rest}");
    }
}

/// Two seeds, half a unit to either side of the mean: an interval of 6.35 either way.
#[test]
fn a_claim_whose_interval_holds_the_bar_is_open_and_one_whose_interval_does_not_is_none() {
    let spread = |mean: f64| {
        move |item: &Item| {
            let side = if item.scenario.seed.is_multiple_of(2) { 0.5 } else { -0.5 };
            let near = text(item, "case") == "near";
            if near { (mean + side) * 1e6 } else { 1e6 }
        }
    };
    let near = "at = { case = \"near\" }\n";
    for (rest, agrees, open, differs) in [
        (format!("{near}expect = {{ form = \"at-least\", value = 20 }}"), 27.0, [14.0, 26.0], 13.0),
        (format!("{near}expect = {{ form = \"at-most\", value = 20 }}"), 13.0, [14.0, 26.0], 27.0),
        (
            format!("{near}expect = {{ form = \"within\", value = 20, absolute = 7 }}"),
            20.0,
            [21.0, 33.0],
            34.0,
        ),
        (
            // The goal lies in the interval, no end of the interval within reach of the goal.
            format!("{near}expect = {{ form = \"within\", value = 20, relative = 0.5 }}"),
            20.0,
            [5.0, 35.0],
            37.0,
        ),
        ("along = \"case\"\nexpect = { form = \"rising\" }".to_owned(), -6.0, [-5.0, 7.0], 8.0),
        (
            "along = \"case\"\nexpect = { form = \"order\", groups = [[\"far\"], [\"near\"]] }"
                .to_owned(),
            8.0,
            [7.0, -5.0],
            -6.0,
        ),
        (
            "along = \"case\"\nexpect = { form = \"drop-at-most\", value = 10 }".to_owned(),
            4.0,
            [5.0, 17.0],
            18.0,
        ),
    ] {
        assert_eq!(verdict(&rest, spread(agrees)), Verdict::Agrees, "{rest}");
        assert_eq!(verdict(&rest, spread(differs)), Verdict::Differs, "{rest}");
        for mean in open {
            assert_eq!(verdict(&rest, spread(mean)), Verdict::Open, "{rest}: {mean}");
        }
    }
}

#[test]
fn an_order_is_judged_seed_by_seed() {
    let order = "along = \"case\"\nexpect = { form = \"order\", groups = [[\"near\"], [\"far\"]] }";
    // Seeds differ by far more than cases do, which no interval of either shows.
    let value = |item: &Item| {
        let more = if text(item, "case") == "far" { 0.1 } else { 0.0 };
        (item.scenario.seed as f64 + more) * 1e6
    };
    assert_eq!(verdict(order, value), Verdict::Agrees);
}

#[test]
fn intervals_are_of_seeds_and_not_of_what_a_plan_varies() {
    let claim = "[[claim]]\nwhat = \"x\"\npaper = \"y\"\nmetric = \"goodput_bps\"\n\
                 expect = { form = \"at-least\", value = 1 }\n";
    let value = |item: &Item| if text(item, "case") == "near" { 1e6 } else { 9e6 };
    assert_eq!(findings(claim, value)[0].ours, "5.00 Mbit/s");
}

#[test]
fn one_run_is_judged_by_itself_and_said_to_be_one() {
    let one = FILE.replace("seeds = 2", "seeds = 1");
    let loaded = load(&one);
    let value = |item: &Item| if text(item, "variant") == "tack" { 1.6 } else { 1.0 };
    let report = loaded.report(&records(&loaded, "goodput_bps", value)).unwrap();
    assert!(report.findings.iter().all(|f| f.verdict == Verdict::Agrees && f.is_single()));
    assert_eq!(report.findings[0].ours, "1.60 times, 1 run");
    assert!(report.text().contains("2 of 2 agree, 0 open, 0 differ; 2 stand on one run"));
    let page = html::page(&[(loaded, report)], "x");
    assert!(page.contains("2 of 2 agree, 0 open, 0 differ; 2 stand on one run"));
}

#[test]
fn what_is_open_is_counted_apart_and_says_why_it_is_unsure() {
    let loaded = load(FILE);
    let value = |item: &Item| {
        let side = if item.scenario.seed.is_multiple_of(2) { 0.1 } else { -0.1 };
        if text(item, "variant") == "tack" { 1.4 + side } else { 1.0 }
    };
    let report = loaded.report(&records(&loaded, "goodput_bps", value)).unwrap();
    assert!(report.text().contains("0 of 2 agree, 2 open, 0 differ; 0 stand on one run"));
    let first = &report.findings[0].what;
    assert_eq!(report.reasons(), [format!("test is open ({first} and 1 more): they differ")]);
    assert!(html::page(&[(loaded, report)], "x").contains("<td class=\"open\">open</td>"));
}

/// Of figures without an interval: where the least is found.
#[test]
fn a_judgment_by_a_function_is_open_if_one_seed_less_turns_it() {
    let turn = "at = { case = \"near\" }\nversus = { case = \"far\" }\nalong = \"wan.up.loss\"\n\
                expect = { form = \"rust\", name = \"turns-first\" }";
    let least = |near: [f64; 2]| {
        move |item: &Item| {
            let first = text(item, "wan.up.loss") == "0";
            let second = item.scenario.seed.is_multiple_of(2);
            match text(item, "case").as_str() {
                // Least with more loss, always.
                "far" => {
                    if first {
                        5e6
                    } else {
                        1e6
                    }
                }
                _ if first => 2e6,
                _ => near[usize::from(second)] * 1e6,
            }
        }
    };
    assert_eq!(verdict(turn, least([3.0, 3.0])), Verdict::Agrees);
    assert_eq!(verdict(turn, least([1.0, 1.0])), Verdict::Differs, "both at the same place");
    assert_eq!(verdict(turn, least([1.0, 4.0])), Verdict::Open);
}

#[test]
fn pairs_share_a_seed_and_every_value_of_each_has_its_row_and_reason() {
    let loaded = load(FILE);
    // Seeds differ by far more than variants do: only pairs show that.
    let value = |item: &Item| {
        let seed = item.scenario.seed as f64 * 1e6;
        if text(item, "variant") == "tack" { 2.0 * seed } else { seed }
    };
    let report = loaded.report(&records(&loaded, "goodput_bps", value)).unwrap();
    let ours: Vec<&str> = report.findings.iter().map(|f| f.ours.as_str()).collect();
    assert_eq!(ours, ["2.00 times", "2.00 times"]);
    assert_eq!(report.findings[1].what, "goodput at far");
    assert!(report.findings.iter().all(|f| f.verdict == Verdict::Agrees && f.why.is_none()));
    let report = loaded.report(&records(&loaded, "goodput_bps", |_| 1.0)).unwrap();
    assert!(report.findings.iter().all(|f| f.verdict == Verdict::Differs && f.why.is_some()));
    assert_eq!(report.reasons().len(), 1, "a reason is told once");
}

/// The time at which a file was complete says nothing of a run in which it never was.
#[test]
fn what_some_runs_lack_is_open_and_what_all_runs_at_a_value_lack_differs() {
    let start = FILE.find("[[claim]]").unwrap();
    let rest = "[[claim]]\nwhat = \"x\"\npaper = \"y\"\nmetric = \"completion\"\n\
                at = { variant = \"tack\" }\nalong = \"case\"\n\
                expect = { form = \"at-most\", value = 5 }\n\
                [[view]]\nmetrics = [\"completion\"]\npanels = [\"case\"]\n\
                [[view]]\nkind = \"bars\"\nmetric = \"completion\"\nx = \"case\"\n\
                [[view]]\nkind = \"cdf\"\nmetric = \"completion\"\nlines = \"case\"\n";
    let loaded = load(&format!("{}{rest}", &FILE[..start]));
    let report = |lacks: fn(&Item) -> bool| {
        let mut all = records(&loaded, "completion", |_| 2.0);
        for item in loaded.plan.items.iter().filter(|item| lacks(item)) {
            all.get_mut(&item.id).unwrap().metrics.clear();
        }
        loaded.report(&all).unwrap()
    };
    fn is_far(item: &Item) -> bool {
        text(item, "case") == "far" && text(item, "variant") == "tack"
    }
    let said = |lacks: fn(&Item) -> bool| {
        let finding = report(lacks).findings.swap_remove(0);
        (finding.ours, finding.verdict)
    };
    assert_eq!(said(|_| false), ("2.00, 2.00 s".to_owned(), Verdict::Agrees));
    let one: fn(&Item) -> bool = |item| is_far(item) && item.scenario.seed == 2;
    assert_eq!(said(one), ("2.00, 2.00 (2 of 4) s".to_owned(), Verdict::Open));
    assert_eq!(said(is_far), ("2.00, none s".to_owned(), Verdict::Differs));
    let shown = report(one).shown;
    assert_eq!(shown[0].table.rows[0][1], "2.00");
    assert_eq!(shown[0].table.rows[1][1], "2.00 (6 of 8)");
    assert_eq!(shown[1].table.rows[0][1..], ["2.00", "2.00 (6 of 8)"]);
    assert_eq!(shown[2].table.rows[1][0], "far (6 of 8)");
    assert_eq!(shown[2].plots[0].lines[1].name, "far (6 of 8)");
}

#[test]
fn a_form_along_an_axis_has_no_row_where_one_value_of_it_ran() {
    let claim = "[[claim]]\nwhat = \"x\"\npaper = \"y\"\nmetric = \"goodput_bps\"\n";
    for form in [
        "form = \"rising\"",
        "form = \"falling\"",
        "form = \"drop-at-most\", value = 1",
        "form = \"order\", groups = [[\"near\"], [\"far\"]]",
    ] {
        let along = format!("{claim}along = \"case\"\nexpect = {{ {form} }}\n");
        assert_eq!(findings(&along, |_| 1.0).len(), 1, "{form}");
        let one = format!("{along}at = {{ case = \"near\" }}\n");
        assert_eq!(findings(&one, |_| 1.0), [], "{form}");
    }
}

#[test]
fn seeds_that_change_nothing_are_one_run() {
    let loaded = load(FILE);
    let value = |item: &Item| if text(item, "variant") == "tack" { 1.6 } else { 1.0 };
    let mut records = records(&loaded, "goodput_bps", value);
    for record in records.values_mut() {
        record.metrics.remove("position");
    }
    let report = loaded.report(&records).unwrap();
    assert!(report.findings.iter().all(|f| f.is_single() && f.runs == 2), "{report:?}");
}

#[test]
fn a_run_without_figures_is_no_agreement() {
    let loaded = load(FILE);
    let mut records = records(&loaded, "goodput_bps", |_| 1.0);
    for record in records.values_mut() {
        record.metrics.clear();
        record.void = Some("a flow stalled".to_owned());
    }
    let report = loaded.report(&records).unwrap();
    assert!(
        report.findings.iter().all(|f| f.verdict == Verdict::Differs && f.ours.contains("stalled"))
    );
    assert_eq!(report.void.len(), 16);
    records.clear();
    assert!(loaded.report(&records).is_none(), "a part is no whole");
}

#[test]
fn what_a_machine_spoiled_is_left_out_or_leaves_the_row_open() {
    let loaded = load(&format!("backend = \"live\"\n{FILE}"));
    let figure = |item: &Item| if text(item, "variant") == "tack" { 2.0 } else { 1.0 };
    // The verdict at `near` where of the runs of a variant without loss so many of two are spoiled.
    let near = |variant: &str, spoiled: usize| {
        let mut records = records(&loaded, "goodput_bps", figure);
        let of = |item: &&Item| {
            text(item, "variant") == variant
                && text(item, "case") == "near"
                && text(item, "wan.up.loss") == "0"
        };
        for item in loaded.plan.items.iter().filter(of).take(spoiled) {
            let record = records.get_mut(&item.id).unwrap();
            record.metrics.clear();
            record.void = Some("the machine was busy".to_owned());
        }
        loaded.report(&records).unwrap().findings.swap_remove(0)
    };
    for variant in ["tack", "tcp"] {
        assert_eq!(near(variant, 0).verdict, Verdict::Agrees);
        let one = near(variant, 1);
        assert_eq!(one.verdict, Verdict::Agrees, "{variant}: {one:?}");
        let all = near(variant, 2);
        assert_eq!(all.verdict, Verdict::Open, "{variant}: {}", all.ours);
        assert!(all.ours.contains("the machine was busy"), "{}", all.ours);
    }
}

//! Figures of a user's own.

use super::{run, tack};

const FIGURE: &str = r#"
id = "mine"
title = "Two on a wire"
[base]
duration_s = 1.0
wan = { rate_mbps = 5.0, delay_ms = 5.0 }
flow = [{ strategy = "tack" }]
[[variant]]
name = "TACK"
set = { "flow.0.strategy" = "tack" }
[[variant]]
name = "TCP, as it comes"
set = { "flow.0.strategy" = "tcp-l2" }
[[view]]
kind = "bars"
metric = "goodput_bps"
x = "variant"
"#;

#[test]
fn a_file_of_ones_own_is_reproduced_with_pictures_and_never_blessed() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("my figure.toml"), FIGURE).unwrap();
    let own = ["my figure.toml", "--only", "TCP, as it comes"];
    let out = tack(dir.path(), "reproduce --out figures").args(own).output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert!(text.contains("TCP, as it comes") && !text.contains("TACK"), "{text}");
    let figures = dir.path().join("figures");
    for name in ["mine.svg", "mine.csv", "mine.json", "report.html", "findings.txt"] {
        let bytes = std::fs::read(figures.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(bytes.len() > 20, "{name} is {} bytes", bytes.len());
    }
    let page = std::fs::read_to_string(figures.join("report.html")).unwrap();
    let command = "tack lab reproduce 'my figure.toml' --only 'TCP, as it comes'";
    assert!(page.contains(&format!("<code>{command}</code>")), "what makes it again stands in it");
    let refused = tack(dir.path(), "reproduce --short --bless .").arg(own[0]).output().unwrap();
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && why.contains("my figure.toml"), "{why}");
}

#[test]
fn the_table_and_the_pictures_of_a_view_have_its_number() {
    let dir = tempfile::tempdir().unwrap();
    let panels = "[[view]]\nkind = \"cdf\"\nmetric = \"goodput_bps\"\npanels = [\"variant\"]\n";
    let last = "[[view]]\nmetrics = [\"goodput_bps\"]\n";
    std::fs::write(dir.path().join("mine.toml"), format!("{FIGURE}{panels}{last}")).unwrap();
    let out = run(dir.path(), "reproduce mine.toml --short --out figures");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let names = std::fs::read_dir(dir.path().join("figures")).unwrap();
    let mut names: Vec<String> =
        names.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name.ends_with(".svg") || name.ends_with(".csv"));
    names.sort_unstable();
    let expected =
        ["mine-1.csv", "mine-1.svg", "mine-2-1.svg", "mine-2-2.svg", "mine-2.csv", "mine-3.csv"];
    assert_eq!(names, expected);
}

#[test]
fn a_wrong_file_of_ones_own_is_refused_with_its_name_line_and_key() {
    let dir = tempfile::tempdir().unwrap();
    let wrong = FIGURE.replace("\"tcp-l2\"", "\"tcp-l3000\"");
    std::fs::write(dir.path().join("mine.toml"), wrong).unwrap();
    for (line, words) in [
        ("reproduce mine.toml", ["mine.toml, line", "tcp-l3000", "variant = TCP"]),
        ("run mine.toml", ["mine.toml, line", "tcp-l3000", "variant = TCP"]),
        ("reproduce other.toml", ["other.toml", "No such file", ""]),
        ("reproduce nothing", ["`nothing`", "T-6b", "custura"]),
    ] {
        let out = run(dir.path(), line);
        let why = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(!out.status.success());
        for word in words {
            assert!(why.contains(word), "{line}: `{why}` lacks {word}");
        }
    }
}

/// Words that would be taken in vain, or only be missed when the work is done.
#[test]
fn what_cannot_be_kept_or_has_no_effect_is_refused_before_anything_runs() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    write("mine.toml", FIGURE);
    write("twin.toml", &FIGURE.replace("5.0 }", "6.0 }"));
    write("own.toml", &FIGURE.replace("{ strategy", "{ controller = \"mine\", strategy"));
    for (line, words) in [
        ("reproduce mine.toml --shard 1/2", ["--shard", "--out"]),
        ("reproduce mine.toml twin.toml", ["mine.toml and twin.toml", "`id`"]),
        ("reproduce mine.toml --report twin.toml/x.html", ["twin.toml/x.html", "directory"]),
        ("run mine.toml --report twin.toml/x.html", ["twin.toml/x.html", "directory"]),
        ("run mine.toml --set draws=3", ["draws", "no [draw]"]),
        ("run own.toml", ["`controller` is \"mine\"", "python.md"]),
    ] {
        let out = run(dir.path(), line);
        let why = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(!out.status.success(), "{line}");
        for word in words {
            assert!(why.contains(word), "{line}: `{why}` lacks {word}");
        }
    }
    assert!(!dir.path().join("mine.jsonl").exists(), "nothing ran");
}

#[test]
fn files_of_a_scenario_lie_where_they_were_asked_for_whatever_it_is_called() {
    let dir = tempfile::tempdir().unwrap();
    let scenario = "name = \"../80 ms / n\"\nduration_s = 0.5\n[wan]\nrate_mbps = 5.0\n[[flow]]\n\
                    strategy = \"tack\"\n";
    std::fs::write(dir.path().join("odd.toml"), scenario).unwrap();
    let out = run(dir.path(), "reproduce odd.toml --out figures/odd");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert!(String::from_utf8_lossy(&out.stdout).contains("../80 ms / n"));
    let names = std::fs::read_dir(dir.path().join("figures/odd")).unwrap();
    let mut names: Vec<_> = names.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    let own =
        ["..-80-ms---n.csv", "..-80-ms---n.json", "findings.txt", "report.html", "runs.jsonl"];
    assert_eq!(names, own);
}

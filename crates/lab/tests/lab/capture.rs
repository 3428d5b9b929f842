//! Captures: what Wireshark thinks of them, and that they change nothing.

use std::path::Path;
use std::process::{Command, Stdio};

use tack_lab::scenario::Scenario;
use tack_lab::{Recordings, simulate, simulate_recorded};

fn scenario(strategy: &str, wifi: &str) -> Scenario {
    let text = format!(
        "duration_s = 0.4\n{wifi}\n[wan]\nrate_mbps = 20.0\ndelay_ms = 10.0\nloss = 0.01\n\
         [[flow]]\nstrategy = \"{strategy}\"\n"
    );
    Scenario::parse(&text).unwrap()
}

/// What tshark prints for the packets of `file` that `filter` selects.
fn tshark(file: &Path, filter: &str, fields: &[&str]) -> Vec<String> {
    let mut command = Command::new("tshark");
    command.arg("-n").arg("-r").arg(file).args(["-o", "tcp.check_checksum:TRUE", "-Y", filter]);
    command.args(["-T", "fields"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let out = command.output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn tshark_reads_captures_of_tack_and_of_plain_tcp() {
    let here = Command::new("tshark").arg("--version").stdout(Stdio::null()).status();
    if here.is_err() {
        assert!(std::env::var_os("TACK_INTEROP_REQUIRED").is_none(), "tshark is required");
        eprintln!("skipped: tshark is not installed (script/setup --tests installs it on Debian)");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for (strategy, wifi) in
        [("tack", "[wifi]\nphy = \"n\""), ("tcp-l2", "[wifi]\nphy = \"n\""), ("tack", "")]
    {
        let file = dir.path().join(format!("{strategy}.pcapng"));
        let out = std::fs::File::create(&file).unwrap();
        let scenario = scenario(strategy, wifi);
        let recordings = Recordings { packets: Some(Box::new(out)), ..Recordings::default() };
        let result = simulate_recorded(&scenario, recordings).unwrap();
        assert_eq!(result, simulate(&scenario).unwrap(), "the capture changed the run");
        let all = tshark(&file, "tcp", &["frame.number"]).len();
        assert!(all > 200, "{all} packets of {strategy}");
        let wrong = "_ws.malformed || _ws.short || tcp.checksum.status == 0 \
                     || ip.checksum.status == 0 || !tcp";
        let wrong = tshark(&file, wrong, &["frame.number", "_ws.col.Info"]);
        assert!(wrong.is_empty(), "{strategy}: {wrong:?}");
        // Both ends, both ways, and a handshake that Wireshark sees as one.
        let interfaces = tshark(&file, "tcp.flags.syn == 1", &["frame.interface_name"]);
        assert!(interfaces.iter().any(|i| i.ends_with("-a")), "{interfaces:?}");
        assert!(interfaces.iter().any(|i| i.ends_with("-b")), "{interfaces:?}");
    }
}

#[test]
fn time_series_have_a_row_per_sample_and_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    for strategy in ["tack", "quic-tack", "quinn"] {
        let file = dir.path().join(format!("{strategy}.csv"));
        let out = std::fs::File::create(&file).unwrap();
        let recordings = Recordings { series: Some(Box::new(out)), ..Recordings::default() };
        let scenario = scenario(strategy, "[wifi]\nphy = \"n\"");
        let result = simulate_recorded(&scenario, recordings).unwrap();
        assert_eq!(result, simulate(&scenario).unwrap());
        let text = std::fs::read_to_string(&file).unwrap();
        let rows: Vec<Vec<&str>> = text.lines().map(|l| l.split(',').collect()).collect();
        // 0.4 s in steps of 10 ms, both ends included.
        assert_eq!(rows.len(), 1 + 41);
        assert!(rows.iter().all(|r| r.len() == 9), "{text}");
        let column = |n: usize| -> Vec<Option<u64>> {
            rows[1..].iter().map(|r| r[n].parse().ok()).collect()
        };
        let delivered = column(7);
        assert!(delivered.is_sorted() && delivered[40] > Some(50_000), "{delivered:?}");
        // What a stack does not tell is nothing, and not 0.
        let (pacing, in_flight) = (column(3)[40], column(4)[40]);
        let told = pacing > Some(1_000_000) && in_flight > Some(10_000);
        let silent = (pacing, in_flight) == (None, None);
        assert!(if strategy == "quinn" { silent } else { told }, "{strategy}: {:?}", rows[41]);
    }
}

#[test]
fn a_run_that_fails_leaves_its_time_series_which_shows_why() {
    let text = include_str!(
        "../../../../scenarios/envelope/stall-the-repair-is-the-first-of-each-burst.toml"
    );
    // Through two packets plain TCP still does.
    let (down, up) = text.split_once("[wan.up]").unwrap();
    let narrow = up.replacen("buffer_packets = 4", "buffer_packets = 2", 1);
    let plain = format!("{down}[wan.up]{narrow}")
        .replace("\"sprout\"", "\"cubic\"")
        .replace("strategy = \"tack\"", "strategy = \"tcp-l2\"");
    let scenario = Scenario::parse(plain.split("[sweep]").next().unwrap()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("stalled.csv");
    let out = std::fs::File::create(&file).unwrap();
    let recordings = Recordings { series: Some(Box::new(out)), ..Recordings::default() };
    let error = simulate_recorded(&scenario, recordings).unwrap_err();
    assert!(error.to_string().contains("stalled"), "{error:#}");
    let rows = std::fs::read_to_string(&file).unwrap().lines().count();
    assert!(rows > 1_000, "{rows} rows");
}

/// A writer that is full after a number of bytes.
struct Full(usize);

impl std::io::Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(std::io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_disk_that_fills_up_is_an_error_not_a_short_file() {
    let scenario = scenario("tack", "");
    for room in [0, 10_000] {
        let packets = Recordings { packets: Some(Box::new(Full(room))), ..Recordings::default() };
        assert!(simulate_recorded(&scenario, packets).is_err());
    }
    let series = Recordings { series: Some(Box::new(Full(500))), ..Recordings::default() };
    assert!(simulate_recorded(&scenario, series).is_err());
}

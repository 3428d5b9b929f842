//! Commands that cannot begin for what is wrong on their own machine: they say it, and end with status 1.

use std::fs;
use std::process::Command;

use tempfile::tempdir;

use crate::support::tack;

const SCENARIO: &str = "duration_s = 0.1\nwifi.phy = \"g\"\nflow = [{ strategy = \"tack\" }]\n";

/// How a command ended, and what it said.
fn told(mut command: Command) -> (Option<i32>, String) {
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
#[cfg(target_os = "linux")]
fn too_few_descriptors_to_start_with_are_an_error_however_few_they_are() {
    for (line, enough) in [("recv in -p 0 -B 127.0.0.1 --open", 11), ("lab run s.toml", 9)] {
        for few in 4..enough {
            let home = tempdir().unwrap();
            fs::write(home.path().join("s.toml"), SCENARIO).unwrap();
            let mut shell = Command::new("sh");
            shell.args(["-c", &format!("ulimit -n {few} && exec \"$0\" \"$@\"")]);
            shell.arg(env!("CARGO_BIN_EXE_tack")).args(line.split_whitespace());
            shell.env("XDG_CONFIG_HOME", home.path()).current_dir(home.path());
            let (code, said) = told(shell);
            assert_eq!(code, Some(1), "{line}, {few}: {said}");
            assert!(said.starts_with("tack: ") && said.contains("Too many open"), "{few}: {said}");
        }
    }
}

#[test]
fn an_own_key_that_cannot_be_had_is_no_peer_that_is_not_who_it_should_be() {
    let home = tempdir().unwrap();
    fs::write(home.path().join("file"), "contents").unwrap();
    fs::create_dir_all(home.path().join("tack/identity.pem")).unwrap();
    for line in ["send file 127.0.0.1:9", "recv in -p 0 -B 127.0.0.1 --open", "key"] {
        let (code, said) = told(tack(home.path(), line));
        assert_eq!(code, Some(1), "{line}: {said}");
        assert!(said.contains("identity.pem: "), "{line}: {said}");
        let mut homeless = tack(home.path(), line);
        homeless.env_remove("XDG_CONFIG_HOME").env_remove("HOME");
        let (code, said) = told(homeless);
        assert_eq!(code, Some(1), "{line}: {said}");
        assert!(said.contains("no home directory"), "{line}: {said}");
    }
}

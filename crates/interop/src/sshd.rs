//! An ssh server for one user, who is nobody's: it takes no privileges but a user namespace, and
//! leaves the machine as it was.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tack_device::Netns;
use tempfile::TempDir;

use crate::program::{Program, is_installed, path_of};
use crate::world::{say_skipped, within};

/// Whom it serves.
const USER: &str = "guest";
/// The number under which the server and its user are the same. Any but root's.
const UID: u32 = 1_000;
/// More than a start takes on a busy machine.
const START_LIMIT: Duration = Duration::from_secs(20);

/// A server inside a namespace, and the key of its only client.
pub struct Sshd {
    _server: Program,
    dir: TempDir,
    port: u16,
}

impl Sshd {
    /// Starts it and waits until it listens, on every address inside. `None` where that cannot be,
    /// and says why.
    ///
    /// # Panics
    /// When it ends, or does not listen in time.
    pub async fn start(netns: &Netns, port: u16) -> Option<Sshd> {
        if !["ssh", "sshd", "ssh-keygen"].into_iter().all(is_installed) || !may_be_a_user() {
            return None;
        }
        let dir = tempfile::tempdir().expect("a directory");
        configure(dir.path(), port);
        // It serves the user it runs as, whom only this process and what it starts know.
        let sshd = path_of("sshd").expect("it is installed");
        let script = r#"mount --bind "$0/passwd" /etc/passwd
            exec unshare --user --map-user="$1" --map-group="$1" "$2" -D -e -f "$0/config""#;
        let (at, sshd) = (dir.path().display().to_string(), sshd.display().to_string());
        let args = ["--mount", "sh", "-ec", script, &at, &UID.to_string(), &sshd];
        let mut server = Program::start(netns, "unshare", &args, Stdio::null()).expect("unshare");
        let listening = async {
            while !server.stderr().expect("its errors").contains("Server listening on") {
                let running = server.is_running().expect("its state");
                assert!(running, "sshd: {}", server.stderr().expect("its errors"));
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        within(START_LIMIT, "sshd's start", listening).await;
        Some(Sshd { _server: server, dir, port })
    }

    /// A file for `ssh -F`: its user's name and key, and `lines` of the caller's.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn client_config(&self, name: &str, lines: &str) -> PathBuf {
        let config = format!(
            "IdentityFile {}\nUser {USER}\nIdentitiesOnly yes\nStrictHostKeyChecking no\n\
             UserKnownHostsFile /dev/null\nLogLevel ERROR\nConnectTimeout 20\n{lines}\n",
            self.dir.path().join("client").display(),
        );
        let path = self.dir.path().join(name);
        fs::write(&path, config).expect("a file");
        path
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }
}

/// Whether there may be a user namespace with another user in it.
fn may_be_a_user() -> bool {
    let uid = UID.to_string();
    let users = [format!("--map-user={uid}"), format!("--map-group={uid}")];
    let tried = Command::new("unshare").arg("--user").args(users).args(["id", "-u"]).output();
    let tried = tried.expect("unshare, which every program here is started by");
    let is_user = tried.stdout.trim_ascii() == uid.as_bytes();
    if !is_user {
        let said = String::from_utf8_lossy(&tried.stderr);
        say_skipped(&format!("sshd needs a user namespace to be a user in: {}", said.trim()));
    }
    is_user
}

/// Keys and configuration of the server and its only client.
fn configure(dir: &Path, port: u16) {
    generate_key(&dir.join("host"));
    generate_key(&dir.join("client"));
    let passwd = format!("{USER}:x:{UID}:{UID}::/:/bin/sh\n");
    fs::write(dir.join("passwd"), passwd).expect("a file");
    let at = dir.display();
    let config = format!(
        "Port {port}\nHostKey {at}/host\nAuthorizedKeysFile {at}/client.pub\nPidFile none\n\
         StrictModes no\nUsePAM no\nPasswordAuthentication no\n\
         ClientAliveInterval 5\nClientAliveCountMax 2\n\
         Subsystem sftp internal-sftp\n"
    );
    fs::write(dir.join("config"), config).expect("a file");
}

fn generate_key(path: &Path) {
    let mut keygen = Command::new("ssh-keygen");
    keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path);
    assert!(keygen.status().expect("ssh-keygen").success());
}

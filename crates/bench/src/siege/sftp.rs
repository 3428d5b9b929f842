//! OpenSSH's server with a key of its own, for comparison.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use super::pause;
use crate::process::Running;

const PROGRAM: &str = "/usr/sbin/sshd";

/// Lives as long as this.
pub(super) struct Server {
    home: TempDir,
    port: u16,
    running: Running,
}

impl Server {
    pub(super) fn start() -> Result<Server> {
        ensure!(Path::new(PROGRAM).exists(), "{PROGRAM} is not there");
        let home = tempfile::tempdir()?;
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o700))?;
        for key in ["host", "user"] {
            let mut make = Command::new("ssh-keygen");
            make.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(home.path().join(key));
            ensure!(make.status().context("ssh-keygen is needed")?.success());
        }
        fs::copy(home.path().join("user.pub"), home.path().join("keys"))?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let place = home.path().display();
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {place}/host\nPidFile none\n\
             AuthorizedKeysFile {place}/keys\nStrictModes no\nUsePAM no\n\
             PasswordAuthentication no\nSubsystem sftp internal-sftp\n"
        );
        fs::write(home.path().join("config"), config)?;
        fs::create_dir_all("/run/sshd").context("sshd wants /run/sshd")?;
        let mut server = Command::new(PROGRAM);
        server.args(["-D", "-e", "-f"]).arg(home.path().join("config"));
        let running = Running(server.stdin(Stdio::null()).stderr(Stdio::null()).spawn()?);
        let server = Server { home, port, running };
        for _ in 0..100 {
            if TcpListener::bind(server.address()).is_err() {
                return Ok(server);
            }
            pause(Duration::from_millis(50));
        }
        anyhow::bail!("sshd does not listen")
    }

    pub(super) fn home(&self) -> &Path {
        self.home.path()
    }

    pub(super) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    pub(super) fn pid(&self) -> u32 {
        self.running.0.id()
    }

    /// Puts `file` beside itself under another name.
    pub(super) fn put(&self, file: &Path) -> Result<Command> {
        let batch = self.home().join("batch");
        fs::write(&batch, format!("put {} {}.arrived\n", file.display(), file.display()))?;
        let mut put = Command::new("sftp");
        put.arg("-q").arg("-b").arg(batch).arg("-i").arg(self.home().join("user"));
        for option in
            ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "ConnectTimeout=20"]
        {
            put.args(["-o", option]);
        }
        put.arg("-P").arg(self.port.to_string()).arg("127.0.0.1");
        put.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        Ok(put)
    }
}

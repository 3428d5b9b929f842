//! Secrets of connections, told to whoever captures them.

use std::fmt;
use std::sync::Arc;

use rustls::KeyLog;

/// Is told the secrets of each connection, a line each as in a file that `SSLKEYLOGFILE` names.
/// Whoever knows them reads everything.
pub trait Secrets: fmt::Debug + Send + Sync {
    /// One secret: its label, the client's random and itself, in hexadecimal.
    fn told(&self, line: &str);
}

/// Tells them beside another log.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) also: Arc<dyn KeyLog>,
    pub(super) secrets: Arc<dyn Secrets>,
}

impl KeyLog for Told {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        self.also.log(label, client_random, secret);
        self.secrets.told(&format!("{label} {} {}", hex(client_random), hex(secret)));
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use rustls::NoKeyLog;

    use super::*;

    #[derive(Debug, Default)]
    struct Lines(Mutex<Vec<String>>);

    impl Secrets for Lines {
        fn told(&self, line: &str) {
            self.0.lock().unwrap().push(line.to_owned());
        }
    }

    #[test]
    fn a_secret_is_told_as_a_line_of_a_key_log() {
        let lines = Arc::new(Lines::default());
        let told = Told { also: Arc::new(NoKeyLog {}), secrets: lines.clone() };
        assert!(told.will_log("CLIENT_TRAFFIC_SECRET_0"));
        told.log("CLIENT_TRAFFIC_SECRET_0", &[1, 0xab], &[0, 0xff]);
        assert_eq!(*lines.0.lock().unwrap(), ["CLIENT_TRAFFIC_SECRET_0 01ab 00ff"]);
    }
}

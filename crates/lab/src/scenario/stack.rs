//! Whose TCP a run in real time has, and what cannot be had there.
//!
//! ```toml
//! stack = "kernel"       # ours (if left out), kernel, simulated, or two shell commands:
//! stack = { command = { server = "iperf3 -s -1", client = "iperf3 -c $TACK_SERVER -t 10" } }
//! stack = { rival = "quinn" }     # a file of `versus::rival` that carries the flows
//! veth = true                     # with a rival, instead of a modelled path
//! ```

use serde::{Deserialize, Serialize};
use tack_cc::Algorithm;
use tack_sim::AckStrategy;

use super::Scenario;
use super::error::Problem;
use super::flow::{App, Detection, Flow, Strategy};

/// Whose TCP carries the flows of an experiment with `backend = "live"`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Stack {
    /// Ours in virtual time after all: what the others are held against.
    Simulated,
    /// Ours, on a TUN device behind the kernel of each end.
    Ours,
    /// The running kernel's sockets.
    Kernel,
    /// Whatever these programs do; all their TCP counts as the first flow.
    Command {
        /// A shell command in the server's namespace, ended with the run.
        server: String,
        /// One in the client's, begun when the run begins.
        client: String,
    },
    /// The programs that this rival's file names, each flow being a workload of theirs.
    Rival(String),
}

/// Most flows of a run in real time: sockets, and a thread that serves them.
const MAX_FLOWS: usize = 1_000;

impl Flow {
    /// The kernel's name of its controller; `None` where the kernel has none that is ours.
    pub(crate) fn kernel_cc(&self) -> Option<&'static str> {
        match self.cc {
            Algorithm::NewReno => Some("reno"),
            Algorithm::Cubic | Algorithm::CubicLinux => Some("cubic"),
            Algorithm::Bbr => Some("bbr"),
            _ => None,
        }
    }

    /// Whether the kernel acknowledges its every segment; `None`: it cannot acknowledge as this
    /// flow says.
    pub(crate) fn kernel_acks_every(&self) -> Option<bool> {
        if self.strategy == Strategy::every_segment() {
            return Some(true);
        }
        (self.strategy == Strategy::Tcp(AckStrategy::PLAIN)).then_some(false)
    }
}

impl Scenario {
    /// Checks what real time cannot do.
    ///
    /// # Errors
    /// The dotted key, and what is wrong with it.
    pub(crate) fn check_live(&self) -> Result<(), Problem> {
        let stack = self.stack.as_ref().unwrap_or(&Stack::Ours);
        if self.hosts.is_some() && *stack != Stack::Simulated {
            let what = "cannot be had in real time, where hosts are as they are";
            return Err(Problem::new("hosts", what));
        }
        if let Stack::Rival(name) = stack {
            return self.check_rival(name);
        }
        if self.veth {
            let what = "is for rivals: say stack = { rival = \"NAME\" }";
            return Err(Problem::new("veth", what));
        }
        if *stack == Stack::Simulated {
            return Ok(());
        }
        let flows: usize = self.flow.iter().map(|f| f.count as usize).sum();
        if flows > MAX_FLOWS {
            let what = format!("asks for {flows}, in real time at most {MAX_FLOWS} run");
            return Err(Problem::new("flow", what));
        }
        if matches!(stack, Stack::Command { .. }) && self.flow.len() != 1 {
            let what = "must be one entry: what commands send is not told apart";
            return Err(Problem::new("flow", what));
        }
        for (i, flow) in self.flow.iter().enumerate() {
            let bad = |key: &str, what: &str| {
                let what = format!("{what}: leave it out, or say stack = \"simulated\"");
                Err(Problem::new(format!("flow.{i}.{key}"), what))
            };
            match flow.strategy {
                Strategy::Udp => return bad("strategy", "is udp, which does not run in real time"),
                Strategy::Quic(_) => {
                    return bad("strategy", "is a stock QUIC stack, which is simulated alone");
                }
                Strategy::Tcp(_) => {}
            }
            if flow.app != App::Bulk {
                return bad("app", "does not run in real time, only bulk does");
            }
            if flow.delay_ms > 0.0 {
                return bad("delay_ms", "cannot be had in real time, where all share one path");
            }
            if *stack != Stack::Kernel {
                continue;
            }
            if flow.kernel_acks_every().is_none() {
                return bad("strategy", "must be ae or tcp-l2: the kernel knows no other");
            }
            if flow.kernel_cc().is_none() {
                return bad("cc", "must be newreno, cubic, cubic-linux or bbr with this stack");
            }
            if flow.initial_window_segments.is_some() {
                return bad("initial_window_segments", "cannot be had of the kernel");
            }
            if flow.loss_detection != Detection::default() {
                return bad("loss_detection", "cannot be had of the kernel");
            }
            if flow.segment_bytes != self.flow[0].segment_bytes {
                return bad("segment_bytes", "must be the same for all flows of the kernel");
            }
        }
        Ok(())
    }

    #[cfg(target_os = "linux")]
    fn check_rival(&self, name: &str) -> Result<(), Problem> {
        crate::versus::rival::Rival::find(name)
            .map_err(|what| Problem::new("stack.rival", what))?;
        crate::versus::load::Asked::of(self).map(drop)
    }

    #[cfg(not(target_os = "linux"))]
    fn check_rival(&self, _: &str) -> Result<(), Problem> {
        Err(Problem::new("stack.rival", "needs Linux"))
    }
}

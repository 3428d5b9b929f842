//! What a connection tells about itself.

use crate::conn::Connection;
use crate::conn::send_half::RestOfInfo;
use crate::stats::{Glance, Info};

impl Connection {
    /// See [`Info`].
    pub(crate) fn info(&self) -> Info {
        let rest = RestOfInfo {
            state: self.state.get(),
            path_error: self.path.last(),
            recv_buffered: self.rcv.buffer.len(),
            recv_blocked: self.rcv.buffer.queued().covered(),
            recv_memory: self.rcv.buffer.memory(),
            counters: self.counters,
            owd: self.owd.clone(),
        };
        self.send.info(&self.config, rest)
    }

    /// See [`Glance`].
    pub(crate) fn glance(&self) -> Glance {
        self.send.glance(self.rcv.buffer.queued().covered())
    }
}

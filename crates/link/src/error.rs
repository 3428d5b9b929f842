//! Why a wired link or a queue cannot run as it is configured.

/// Why a configuration cannot run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Not in `0..=1`.
    #[error("{0} is a probability and must lie between 0 and 1")]
    Probability(&'static str),
    /// Zero where only more makes sense.
    #[error("{0} must be positive")]
    NotPositive(&'static str),
    /// A list of times out of order.
    #[error("{0} must be in ascending order and must not overlap")]
    Unsorted(&'static str),
    /// A range whose minimum exceeds its maximum.
    #[error("{0}: the minimum exceeds the maximum")]
    EmptyRange(&'static str),
    /// Periodic outages longer than their period.
    #[error("outages must be shorter than their period")]
    OutagePeriod,
    /// Gilbert–Elliott without a way back.
    #[error("the bad state is entered but never left (leave_bad is 0)")]
    BadForever,
    /// RED thresholds.
    #[error("RED thresholds must be finite and ascending")]
    RedThresholds,
    /// No queues for flows, or too many.
    #[error("FQ-CoDel has 1 to 65536 queues")]
    FlowQueues,
    /// An ACK filter over queues per flow.
    #[error("the ACK filter thins one queue: it cannot be had with a queue per flow")]
    AckFilterPerFlow,
}

impl ConfigError {
    pub(crate) fn check_probability(name: &'static str, p: f64) -> Result<(), ConfigError> {
        if (0.0..=1.0).contains(&p) { Ok(()) } else { Err(ConfigError::Probability(name)) }
    }
}

//! Why a network cannot run as it is configured.

/// Why a configuration is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct ConfigError {
    /// The field, as a path from [`super::WlanConfig`].
    pub field: String,
    /// What is wrong with it.
    pub problem: &'static str,
}

//! Wired paths.

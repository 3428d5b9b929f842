//! Deterministic simulator: real tack-tcp hosts over tack-link under a virtual clock.

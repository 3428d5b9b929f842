//! A user-space, sans-IO TCP that speaks TACK and falls back to plain TCP.

//! The command `tack`.

fn main() {}

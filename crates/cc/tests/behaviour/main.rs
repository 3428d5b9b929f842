//! Controllers on a simulated path: they do what their papers and RFCs say.

mod bbr_path;
mod hostile;
mod opponents;
mod pipe;
mod probe_rtt_path;
mod window_path;

//! Controllers on a simulated path: they do what their papers and RFCs say.

mod bbr_path;
mod hostile;
mod pipe;
mod window_path;

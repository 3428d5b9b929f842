//! What every transport here needs beside the mechanism and a controller, once: the buffers of a
//! stream, the round trip, the delivery rate, the congestion state of a connection, the search for the
//! largest packets of its path, and the trait by which whoever has a socket drives it.
//!
//! All of it is plain state without a clock, and knows neither headers nor packet formats.

mod autotune;
mod congestion;
mod endpoint;
mod figures;
mod rate;
mod recv_buffer;
mod ring;
mod rtt;
mod send_buffer;
mod size_search;

pub use autotune::{RecvWindow, allowed_for_tacks};
pub use congestion::{Congestion, Limit, LimitedTime, PathState};
pub use endpoint::{Ecn, Endpoint, Incoming, Leeway, Offload, Transmit};
pub use figures::Figures;
pub use rate::{Departure, RateEstimator, Sample, Snapshot};
pub use recv_buffer::{Inserted, RecvBuffer};
pub use rtt::RttEstimator;
pub use send_buffer::SendBuffer;
pub use size_search::SizeSearch;

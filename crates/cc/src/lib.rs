//! Congestion controllers and a pacer behind one small interface.
//!
//! A transport owns one [`CongestionControl`], tells it of every transmission, acknowledgment and
//! congestion event through [`Controller`], and asks it for a window and a rate; a [`Pacer`] turns
//! the rate into departure times. Which controller runs is an [`Algorithm`]; nothing else in a
//! transport depends on the choice.
//!
//! ```text
//! by loss         NewReno, CUBIC, CUBIC as Linux has it
//! by a model      BBR (by sender or receiver), BBR for video, BBRv3, Sprout
//! by delay        Vegas, Copa, Verus
//! by experiment   PCC Allegro, PCC Vivace
//! ```
//!
//! A controller of your own implements [`Controller`] and [`Inspect`]; a [`Factory`] makes one for
//! each connection. It is fed and asked like those here, and nothing else is needed.

mod arrivals;
mod bbr;
mod bbr3;
mod burst;
mod config;
mod control;
mod controller;
mod copa;
mod cubic;
mod cubic_linux;
mod delivered;
mod flight;
mod growth;
mod hystart;
mod inspect;
mod overload;
mod own;
mod pacer;
mod pcc;
mod prr;
mod reno;
mod sample;
mod sprout;
mod train;
mod vegas;
mod verus;
mod window;
mod withheld;

pub use burst::BurstFit;
pub use config::{AfterRto, Config, MIN_MAX_WINDOW_MSS, Pacing, WindowRules, initial_window};
pub use control::{Algorithm, CongestionControl, UnknownAlgorithm};
pub use controller::Controller;
pub use inspect::{Inspect, Snapshot};
pub use own::Factory;
pub use pacer::{Pacer, PacerConfig};
pub use sample::{AckSample, LossKind, LossSample, RateSample, RateSource};

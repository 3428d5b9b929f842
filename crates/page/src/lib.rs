//! The lab in a browser: what one page offers, the experiment that a choice stands for, and its runs
//! in slices, so that the page stays live.
//!
//! Nothing here knows of a browser but [`abi`], through which `web/worker.js` calls. The page's text
//! is an experiment file as `tack lab run` reads it, and what it gives is that command's JSON, byte
//! for byte.
//! `script/page` builds all of it into one file.

pub mod abi;
mod choices;
mod experiment;
mod session;
mod settings;

pub use choices::{CHOICES, Choice, Kind};
pub use session::{Opening, STEPS, Session, Slice, Step};
pub use settings::Settings;

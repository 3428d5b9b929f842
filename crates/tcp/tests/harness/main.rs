//! Two hosts, a virtual clock and a path between them, all from one seed.

mod app;
mod bulk;
mod measures;
mod pipe;
mod world;

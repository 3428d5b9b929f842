//! Experiments from their settings to their files.

mod blessed;
mod capture;
mod claims;
mod controllers;
mod course;
mod envelope;
mod envelope_cases;
mod experiments;
mod figures;
mod files;
mod fuzz;
mod mutations;
mod numbers;
mod opponents;
mod plans;
mod quic;
mod refused;
mod scenarios;
mod shown;
mod signs;
mod stock;
mod strategies;
mod sweeps;
mod video;
mod words;

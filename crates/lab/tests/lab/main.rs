//! Experiments from their settings to their files.

mod airtime;
mod capture;
mod controllers;
mod envelope;
mod envelope_cases;
mod experiments;
mod files;
mod fuzz;
mod opponents;
mod plans;
mod scenarios;
mod strategies;
mod sweeps;

//! Experiments from their settings to their files.

mod airtime;
mod capture;
mod compare;
mod controllers;
mod envelope;
mod files;
mod fuzz;
mod opponents;
mod plans;
mod scenarios;
mod strategies;
mod sweeps;

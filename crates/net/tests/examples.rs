//! The examples run, and do what they say.
#![cfg(feature = "tls")]

#[path = "../examples/controller.rs"]
mod controller;
#[path = "../examples/echo.rs"]
mod echo;
#[path = "../examples/file.rs"]
mod file;
#[path = "../examples/statistics.rs"]
mod statistics;
#[path = "../examples/thousand.rs"]
mod thousand;

#[test]
fn an_echo_answers() {
    echo::main().unwrap();
}

#[test]
fn a_file_arrives() {
    file::main().unwrap();
}

#[test]
fn statistics_are_told() {
    statistics::main().unwrap();
}

#[test]
fn a_thousand_connections_are_served() {
    thousand::main().unwrap();
}

#[test]
fn a_controller_of_one_s_own_decides_how_fast() {
    controller::main().unwrap();
}

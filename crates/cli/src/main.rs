//! The command `tack`.

fn main() -> std::process::ExitCode {
    match tack_cli::args::Cli::read(std::env::args_os()) {
        Ok(cli) => tack_cli::cmd::run(cli).into(),
        Err(error) => tack_cli::exit::of_clap(&error),
    }
}

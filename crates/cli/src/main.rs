//! The command `tack`.

fn main() -> std::process::ExitCode {
    let cli = tack_cli::args::Cli::read(std::env::args_os()).unwrap_or_else(|e| e.exit());
    tack_cli::cmd::run(cli).into()
}

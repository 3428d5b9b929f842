//! Cases of QUIC between our stack and others, each by name: `script/quic-interop`.
//!
//! ```text
//! quic-interop run --bin DIR --document FILE [--only NAME,...]     all cases, and a table
//! quic-interop server|client ADDRESS PORT ...                      our stack, as every peer's program
//! ```

mod cases;
mod ours;
mod peers;
mod relay;
mod run;
mod table;

use anyhow::Result;

fn main() -> Result<()> {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|first| first == "run") {
        args.remove(0);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        return runtime.block_on(run::all(&args));
    }
    tack_quic_interop::run("tack", ours::serve, ours::ask)
}

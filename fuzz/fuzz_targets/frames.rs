#![no_main]

// Not in the library of the transport's targets: it needs the commands, they need the wire alone.
#[allow(dead_code, reason = "each target uses a part of it")]
#[path = "../src/commands.rs"]
mod commands;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    commands::frames(data);
});

#![no_main]

// Not in the library of the other targets: it needs the whole lab, they need the wire alone.
#[path = "../src/scenario.rs"]
mod scenario;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    scenario::scenario(data);
});

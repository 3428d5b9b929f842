#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    tack_cli::tunnel::fuzz(data);
});

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    tack_fuzz::peers(data);
});

#![no_main]

// Not in the library of the other targets: it needs QUIC, they need TCP.
#[path = "../src/quic.rs"]
mod quic;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    quic::quic(data);
});

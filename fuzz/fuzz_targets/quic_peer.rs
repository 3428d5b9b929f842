#![no_main]

// Not in the library of the other targets: it needs QUIC, they need TCP.
#[path = "../src/quic_peer.rs"]
mod quic_peer;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    quic_peer::quic_peer(data);
});

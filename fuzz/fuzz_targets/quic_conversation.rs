#![no_main]

// Not in the library of the other targets: it needs QUIC, they need TCP.
#[path = "../src/input.rs"]
mod input;
#[path = "../src/quic_conversation.rs"]
mod quic_conversation;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    quic_conversation::quic_conversation(data);
});

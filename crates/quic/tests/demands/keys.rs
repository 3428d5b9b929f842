//! Keys: their updates, and what old ones may still do.

use tack_quic::wire::Frame;
use tack_quic::{Config, code};

use super::met::Met;
use super::puppet::DATA;

#[test]
fn a_peer_s_update_is_followed() {
    let mut met = Met::server(Config::default());
    met.say(DATA, &[Frame::Ping]);
    met.puppet.update_keys();
    let before = met.ours.info().counters.packets_received;
    met.say(DATA, &[Frame::Ping]);
    let after = met.ours.info().counters;
    assert_eq!((after.packets_received - before, after.key_updates), (1, 1));
}

#[test]
fn a_second_update_before_the_first_was_followed_is_a_breach() {
    let mut met = Met::server(Config::default());
    met.say(DATA, &[Frame::Ping]);
    met.puppet.update_keys();
    // Ours says nothing in between.
    let packet = met.puppet.packet(DATA, vec![1]);
    met.deliver(packet);
    met.puppet.update_keys();
    let packet = met.puppet.packet(DATA, vec![1]);
    met.deliver(packet);
    assert_eq!(met.breach(), Some(code::KEY_UPDATE_ERROR));
}

#[test]
fn a_packet_with_the_last_key_is_taken_if_it_is_late_and_a_breach_if_it_is_newer() {
    let mut met = Met::server(Config::default());
    let (dcid, next) = (met.puppet.dcid, met.puppet.next(DATA));
    let late = met.puppet.numbered(dcid, DATA, next, &[1], &[]);
    // Ours begins the update: the peer may not know yet, and what it says has the last key.
    met.say_at(DATA, next + 1);
    assert!(met.settle_and_update());
    let newer = met.puppet.numbered(dcid, DATA, next + 20, &[1], &[]);
    met.deliver(late);
    met.deliver(newer);
    assert_eq!(met.breach(), None, "it has not followed");
    met.puppet.update_keys();
    let older_with_new = met.puppet.numbered(dcid, DATA, next + 10, &[1], &[]);
    met.deliver(older_with_new);
    assert_eq!(met.breach(), Some(code::KEY_UPDATE_ERROR));
}

#[test]
fn keys_are_not_updated_before_the_peer_has_acknowledged_the_last_ones() {
    let mut met = Met::server(Config::default());
    assert!(met.settle_and_update());
    assert!(!met.ours.update_keys(), "nothing left under it that was acknowledged");
}

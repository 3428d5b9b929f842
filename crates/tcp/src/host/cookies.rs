//! SYN cookies [RFC 4987 §3.6]: a handshake that holds no state.
//!
//! ```text
//! ISN of the SYN/ACK      |<------- MAC 24 ------->|< minute 5 >|< MSS 3 >|
//! low bits of its TSval   |<- ... ->|< TACK 1 >|< SACK 1 >|< window scale 4 >|
//! ```
//!
//! The MAC covers the 4-tuple, the client's ISN and the minute. Without timestamps, window scale,
//! SACK and TACK are lost; scale 15 stands for "none".

use tack_units::Instant;

use crate::host::demux::Key;
use crate::host::secret::{Secret, Use};
use crate::seq::SeqNum;
use crate::wire::{Options, Timestamps};

/// MSS values a cookie can name: the commonest on real paths, each a floor for what was asked.
const MSS_TABLE: [u16; 8] = [88, 536, 1_220, 1_380, 1_432, 1_440, 1_452, 1_460];
/// Bits of TSval that carry options.
const STAMP_BITS: u32 = 6;
const NO_SCALE: u32 = 15;

fn minute(now: Instant) -> u64 {
    now.as_nanos() / 60_000_000_000
}

fn mac(secret: &Secret, key: &Key, client_isn: SeqNum, minute: u64, mss: u32) -> u32 {
    let extra = u64::from(client_isn.0) ^ (minute << 32) ^ (u64::from(mss) << 60);
    (secret.hash(Use::Cookie, key, extra) & 0x00ff_ffff) as u32
}

/// The ISN that stands for a handshake.
pub(crate) fn make(
    secret: &Secret,
    key: &Key,
    client_isn: SeqNum,
    mss: u16,
    now: Instant,
) -> SeqNum {
    let index = MSS_TABLE.iter().rposition(|&m| m <= mss).unwrap_or(0) as u32;
    let t = minute(now);
    SeqNum(mac(secret, key, client_isn, t, index) << 8 | (t as u32 & 31) << 3 | index)
}

/// The MSS a cookie stands for; `None` if we did not make it within the last two minutes.
pub(crate) fn check(
    secret: &Secret,
    key: &Key,
    client_isn: SeqNum,
    cookie: SeqNum,
    now: Instant,
) -> Option<u16> {
    let index = cookie.0 & 7;
    let stamp = cookie.0 >> 3 & 31;
    let t = minute(now);
    let made = (0..2).filter_map(|age| t.checked_sub(age)).find(|t| *t as u32 & 31 == stamp)?;
    let genuine = mac(secret, key, client_isn, made, index) == cookie.0 >> 8;
    genuine.then(|| MSS_TABLE[index as usize])
}

/// TSval with the SYN's options in its low bits; never ahead of the clock, or the connection's
/// later stamps would look old.
pub(crate) fn stamp(clock: u32, answer: &Options) -> u32 {
    let scale = answer.window_scale.map_or(NO_SCALE, u32::from);
    let bits =
        scale | u32::from(answer.sack_permitted) << 4 | u32::from(answer.tack_permitted) << 5;
    (clock & !((1 << STAMP_BITS) - 1)).wrapping_sub(1 << STAMP_BITS) | bits
}

/// The options of the SYN a returned cookie stands for.
pub(crate) fn options(mss: u16, echoed: Option<Timestamps>) -> Options {
    let mut options = Options { mss: Some(mss), ..Options::default() };
    if let Some(ts) = echoed {
        let scale = ts.ecr & 15;
        options.window_scale = (scale != NO_SCALE).then_some(scale as u8);
        options.sack_permitted = ts.ecr >> 4 & 1 == 1;
        options.tack_permitted = ts.ecr >> 5 & 1 == 1;
        options.timestamps = Some(Timestamps { val: ts.val, ecr: 0 });
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_names_its_mss_for_two_minutes_to_its_own_handshake_only() {
        let secret = Secret::new([3; 32]);
        let isn = SeqNum(77);
        for (mss, named) in [(1_460, 1_460), (1_459, 1_452), (600, 536), (90, 88), (9_000, 1_460)] {
            let cookie = make(&secret, &Key::of_port(1), isn, mss, Instant::from_secs(100));
            let check = |k, i, s| check(&secret, &k, i, cookie, Instant::from_secs(s));
            assert_eq!(check(Key::of_port(1), isn, 110), Some(named));
            assert_eq!(check(Key::of_port(1), isn, 179), Some(named));
            assert_eq!(check(Key::of_port(1), isn, 240), None);
            assert_eq!(check(Key::of_port(2), isn, 110), None);
            assert_eq!(check(Key::of_port(1), SeqNum(78), 110), None);
        }
    }

    #[test]
    fn options_travel_in_a_stamp_that_is_not_ahead_of_the_clock() {
        for clock in [0u32, 63, 64, 1_000_000, u32::MAX] {
            let answer = Options {
                window_scale: Some(10),
                sack_permitted: true,
                tack_permitted: true,
                ..Options::default()
            };
            let ecr = stamp(clock, &answer);
            let ahead = ecr.wrapping_sub(clock) as i32;
            assert!((-128..=0).contains(&ahead), "{ahead}");
            let back = options(1_460, Some(Timestamps { val: 5, ecr }));
            assert_eq!(back.window_scale, Some(10));
            assert!(back.sack_permitted && back.tack_permitted);
            let none =
                options(1_460, Some(Timestamps { val: 5, ecr: stamp(clock, &Options::default()) }));
            assert_eq!((none.window_scale, none.sack_permitted), (None, false));
        }
    }
}

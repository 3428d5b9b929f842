use tack_net::tls::ServerIdentity;
use tokio::io::duplex;

use super::*;

fn key() -> Fingerprint {
    ServerIdentity::generate(&["localhost"]).unwrap().fingerprint()
}

fn peer(last: u8) -> Peer {
    Peer::of(Some(([10, 0, 0, last], 1).into()))
}

/// Both ends; `seen` is the server's key as the client sees it.
fn meet(
    door: &Door,
    (own, seen): (Fingerprint, Fingerprint),
    client: Fingerprint,
    code: Option<&Code>,
    from: Peer,
) -> (Result<Welcome, Failure>, Admission) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let (mut here, mut there) = duplex(100);
        let (asked, admitted) = tokio::join!(
            ask(&mut here, Some(client), seen, code),
            door.admit(&mut there, own, Some(client), from)
        );
        (asked, admitted.unwrap())
    })
}

#[test]
fn a_code_lets_one_key_in_and_no_other_and_that_one_again() {
    let (own, alice, mallory) = (key(), key(), key());
    let door = Door::for_code(own, false).unwrap();
    let code = door.code().unwrap();
    let (asked, admitted) = meet(&door, (own, own), alice, Some(&code), peer(1));
    assert!(matches!(asked, Ok(Welcome::ByCode)), "{asked:?}");
    assert!(matches!(admitted, Admission::ByCode(None)), "{admitted:?}");
    // What was said aloud is of no use to whoever heard it.
    let (asked, admitted) = meet(&door, (own, own), mallory, Some(&code), peer(2));
    assert_eq!(asked.unwrap_err().code, ExitCode::Untrusted);
    assert!(matches!(admitted, Admission::Refused(..)), "{admitted:?}");
    for code in [None, Some(&code)] {
        let (asked, _) = meet(&door, (own, own), alice, code, peer(1));
        assert!(matches!(asked, Ok(Welcome::ByKey)), "{asked:?}");
    }
}

#[test]
fn whoever_is_in_between_comes_in_nowhere_with_the_right_code_typed() {
    let (own, alice, mallory) = (key(), key(), key());
    let door = Door::for_code(own, false).unwrap();
    let code = door.code().unwrap();
    // The client sees another key than the server has: what it types is the right code.
    let (asked, admitted) = meet(&door, (own, mallory), alice, Some(&code), peer(1));
    assert_eq!(asked.unwrap_err().code, ExitCode::Untrusted);
    assert!(matches!(admitted, Admission::Refused(..)), "{admitted:?}");
    assert_eq!(door.code(), Some(code), "the code stays good");
}

#[test]
fn guessing_is_stopped_for_one_address_and_in_all() {
    let (own, mallory) = (key(), key());
    let door = Door::for_code(own, false).unwrap();
    let code = door.code().unwrap();
    let wrong = if code == Code::new(1) { Code::new(2) } else { Code::new(1) };
    let mut voids = 0;
    for host in 0..20 {
        for _ in 0..MAX_TRIES_OF_PEER {
            let (_, admitted) = meet(&door, (own, own), mallory, Some(&wrong), peer(host));
            if let Admission::Refused(_, Some(next)) = admitted {
                assert_eq!(door.code(), Some(next));
                voids += 1;
            }
        }
        if host == 0 {
            // Even the right one is not listened to from there, and is from elsewhere.
            let (asked, _) = meet(&door, (own, own), mallory, Some(&code), peer(0));
            assert!(asked.is_err());
        }
    }
    assert_eq!(voids, 1, "after {MAX_TRIES} tries the code is void");
    assert_ne!(door.code(), Some(code));
}

#[test]
fn tries_that_run_beside_each_other_are_as_few_as_one_after_the_other() {
    let (own, mallory) = (key(), key());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for broken_off in [false, true] {
        let door = Door::for_code(own, false).unwrap();
        let code = door.code().unwrap();
        let tries = if broken_off { 130 } else { 32 };
        let listened_to: usize = runtime.block_on(async {
            let mut all = Vec::new();
            for number in 0..tries {
                // All have asked before the first one confirms.
                let (mut here, mut there) = duplex(100);
                let host = if broken_off { number / 5 } else { 0 };
                let at = door.clone();
                let admitting = tokio::spawn(async move {
                    at.admit(&mut there, own, Some(mallory), peer(host)).await
                });
                here.write_all(&[&[BY_CODE], &[7; MESSAGE][..]].concat()).await.unwrap();
                let verdict = here.read_u8().await.unwrap();
                all.push((here, verdict, admitting));
            }
            let count = all.iter().filter(|(_, verdict, _)| *verdict == GO_ON).count();
            for (here, _, admitting) in all {
                drop(here);
                let _ = admitting.await.unwrap();
            }
            count
        });
        match broken_off {
            false => assert_eq!(listened_to, MAX_TRIES_OF_PEER),
            // The code is void by then, and another one is good.
            true => assert!(door.code().is_some_and(|now| now != code)),
        }
    }
}

#[test]
fn keys_that_are_authorized_come_in_and_others_are_told_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let (file, own, alice) = (dir.path().join("keys"), key(), key());
    std::fs::write(&file, format!("# mine\n\n{alice} alice@laptop\n")).unwrap();
    let door = Door::for_keys(authorized_keys(&file).unwrap());
    assert!(matches!(meet(&door, (own, own), alice, None, peer(1)).0, Ok(Welcome::ByKey)));
    let refused = meet(&door, (own, own), key(), None, peer(1)).0.unwrap_err();
    assert!(refused.message.contains("tack key"), "{refused}");
    assert!(matches!(meet(&Door::open(), (own, own), key(), None, peer(1)).0, Ok(Welcome::ByKey)));
    std::fs::write(&file, format!("{alice}\nSHA256:short\n")).unwrap();
    let refused = authorized_keys(&file).unwrap_err();
    assert!(refused.message.contains("line 2"), "{refused}");
}

#[test]
fn keys_are_read_past_comments_in_any_spelling_and_from_no_file_that_anybody_may_write() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let (file, alice, bob) = (dir.path().join("keys"), key(), key());
    let keys = BTreeSet::from([alice, bob]);
    let second = format!("\r\n{bob}\r\n").into_bytes();
    let text = [format!("{alice} Ren").into_bytes(), vec![0xe9], second].concat();
    for mark in [&b""[..], b"\xef\xbb\xbf"] {
        std::fs::write(&file, [mark, &text].concat()).unwrap();
        assert_eq!(authorized_keys(&file).unwrap(), keys);
    }
    let modes = |mode| std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).unwrap();
    modes(0o666);
    let refused = authorized_keys(&file).unwrap_err();
    assert!(refused.message.contains("chmod o-w"), "{refused}");
    assert_eq!(refused.code, ExitCode::Untrusted);
    modes(0o664);
    assert_eq!(authorized_keys(&file).unwrap(), keys);
}

#[test]
fn codes_survive_being_spoken_and_typed() {
    for bits in [0, 1, 0x7fff_ffff, u32::MAX, 0x1234_5678] {
        let code = Code::new(bits);
        let spoken = code.to_string().to_uppercase().replace('-', " ");
        assert_eq!(spoken.parse(), Ok(code.clone()));
        assert_eq!(code.to_string().parse(), Ok(code));
    }
    assert_eq!(Code::new(0x7f00_0001).to_string(), "lusab-babad", "as proquints have it");
    for bad in ["", "lusab", "lusab-babae", "lusab-babad-babad", "1234567890", "ab"] {
        assert_eq!(bad.parse::<Code>(), Err(ParseCodeError), "{bad}");
    }
}

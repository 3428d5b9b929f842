use super::*;
use crate::wire::Frame;

/// One that asks for acknowledgment, stamped as it arrives.
fn packet(number: u64, bytes: u64, now: Instant) -> Packet {
    Packet {
        number,
        eliciting: true,
        bytes,
        stamp: Some(now.as_micros() as u32),
        immediate: false,
        is_early: false,
        ecn: 0,
        lay: Duration::ZERO,
    }
}

/// Packet numbers of a peer that leaves out nearly as many as it may between two.
fn with_hostile_gaps(mut acks: Acks, packets: u64) -> Acks {
    for i in 0..packets {
        let number = i * ((1 << 31) - 1);
        let stamp = matches!(acks.policy, Policy::Tack(_)).then_some(i as u32);
        let (now, ecn) = (Instant::from_secs(1), [2, 3][i as usize % 2]);
        acks.on_packet(&Packet { stamp, ecn, ..packet(number, 40, now) }, now);
    }
    acks
}

fn len(told: &Told) -> usize {
    let mut bytes = Vec::new();
    Frame::Ack(told.ack.clone()).emit(&mut bytes);
    told.report.iter().for_each(|report| Frame::Report(*report).emit(&mut bytes));
    bytes.len()
}

#[test]
fn an_acknowledgment_fits_the_room_whatever_numbers_the_peer_leaves_out() {
    let (now, later) = (Instant::from_secs(1), Instant::from_secs(3));
    let delay = Duration::from_millis(25);
    for room in (LEAST_ROOM..1_400).step_by(7) {
        for packets in [1, 2, 5, 31, 40, 200] {
            let kinds = [Acks::at_once(now), Acks::plain(delay, now)];
            for acks in kinds {
                let mut acks = with_hostile_gaps(acks, packets);
                let told = acks.poll(room, 0, later).expect("it is due");
                assert!(len(&told) <= room, "{} of {room}", len(&told));
            }
            let mut acks = with_hostile_gaps(Acks::plain(delay, now), packets);
            let told = acks.piggyback(room, 3, true, later).expect("there is something to tell");
            assert!(len(&told) <= room, "{} of {room}", len(&told));
        }
    }
}

#[test]
fn a_tack_fits_the_room_whatever_numbers_the_peer_leaves_out() {
    let (now, later) = (Instant::from_secs(1), Instant::from_secs(3));
    for room in (LEAST_DATA_ROOM..1_400).step_by(7) {
        for packets in [1, 2, 5, 40, 200] {
            let mut acks = Acks::tack(tack::Params::DEFAULT, now);
            acks.on_handshake(Duration::from_millis(40));
            let mut acks = with_hostile_gaps(acks, packets);
            while let Some(told) = acks.poll(room, 3, later) {
                assert!(len(&told) < room, "{} of {room}", len(&told));
            }
        }
    }
}

#[test]
fn of_more_holes_than_a_tack_has_room_for_some_are_forgotten_each_time_it_is_heard() {
    let (mut now, rtt) = (Instant::from_secs(1), Duration::from_millis(40));
    let mut acks = Acks::tack(tack::Params::DEFAULT, now);
    acks.on_handshake(rtt);
    let arrive = |acks: &mut Acks, number, now| acks.on_packet(&packet(number, 1_400, now), now);
    // Every second one is lost.
    (0..500).for_each(|i| arrive(&mut acks, 2 * i, now));
    let room = 600;
    for number in 1_000..1_012 {
        now += rtt;
        arrive(&mut acks, number, now);
        while let Some(told) = acks.poll(room, 3, now) {
            assert!(len(&told) < room && told.ack.ranges[0].contains(&number));
            if told.report.is_some() && told.ack.ranges.len() > 1 {
                // All that has come since the losses, not the last packet alone.
                assert_eq!(told.ack.ranges[0], 1_000..number + 1);
            }
            if told.below > 0 {
                acks.on_told(told.below);
            }
        }
    }
    assert!(acks.arrived.len() <= 2, "{} ranges are told yet", acks.arrived.len());
}

#[test]
fn what_does_not_fit_a_tack_is_told_at_once_after_it_and_each_range_once() {
    let (mut now, rtt) = (Instant::from_secs(1), Duration::from_millis(40));
    let mut acks = Acks::tack(tack::Params::DEFAULT, now);
    acks.on_handshake(rtt);
    let arrived = |number: u64| number.is_multiple_of(2);
    for number in (0..2_000).filter(|number| arrived(*number)) {
        acks.on_packet(&packet(number, 1_400, now), now);
    }
    let mut times = [0; 2_000];
    for number in 2_000..2_004 {
        now += rtt;
        acks.on_packet(&packet(number, 1_400, now), now);
        let mut frames = 0;
        while let Some(told) = acks.poll(600, 3, now) {
            frames += 1;
            assert!(len(&told) < 600 && told.ack.ranges[0].contains(&number));
            let news = told.ack.ranges.iter().flat_map(|range| range.clone());
            for at in news.filter(|number| *number < 2_000) {
                assert!(arrived(at), "{at} is lost");
                times[at as usize] += usize::from(told.report.is_none());
            }
        }
        let first = number == 2_000;
        assert!(if first { frames > 3 } else { frames <= 1 }, "{frames} at {number}");
    }
    let tack = times.iter().step_by(2).take_while(|times| **times == 0).count();
    assert!(tack > 100, "{tack} fitted the TACK");
    assert!(times[2 * tack..].iter().step_by(2).all(|times| *times == 1));
}

#[test]
fn a_tack_of_some_ranges_asks_to_be_heard_once_per_round_trip_and_one_of_many_each_time() {
    let (mut now, rtt) = (Instant::from_secs(1), Duration::from_millis(40));
    for (lost, least, most) in [(4, 0, 0), (20, 1, 3), (60, 12, 99)] {
        let mut acks = Acks::tack(tack::Params::DEFAULT, now);
        acks.on_handshake(rtt);
        let (mut tacks, mut asked) = (0, 0);
        for number in (0..lost).map(|i| 2 * i).chain(2 * lost..2 * lost + 12) {
            let immediate = number >= 2 * lost;
            now += rtt / 8 * u32::from(immediate);
            acks.on_packet(&Packet { immediate, ..packet(number, 1_400, now) }, now);
            while let Some(told) = acks.poll(1_300, 3, now).filter(|_| immediate) {
                tacks += 1;
                asked += usize::from(told.ping);
            }
        }
        assert!((least..=most).contains(&asked), "{asked} of {tacks} with {lost} lost");
        assert!(lost < 60 || asked == tacks, "{asked} of {tacks}");
    }
}

#[test]
fn full_packets_are_as_long_as_the_longest_once_two_were_longer_than_before() {
    let now = Instant::from_secs(1);
    let params = tack::Params { mss: BASE.into(), ..tack::Params::DEFAULT };
    let mut acks = Acks::tack(params, now);
    let mut next = 0;
    let mut arrive = |bytes: u64| {
        acks.on_packet(&packet(next, bytes, now), now);
        next += 1;
        acks.poll(1_000, 3, now + Duration::from_micros(1)).is_some()
    };
    // Two of 1 200 bytes, and the one long packet is a probe.
    assert_eq!([1_250; 2].map(&mut arrive), [false, true]);
    assert_eq!([1_452, 1_250].map(&mut arrive), [false, true]);
    assert_eq!([1_452; 2].map(&mut arrive), [false, true]);
    assert_eq!([1_250; 3].map(&mut arrive), [false, false, true]);
    // The probe was as long as any can be, and what an application writes is not.
    assert_eq!([1_500, 1_460].map(&mut arrive), [false, true]);
    assert_eq!([1_460; 3].map(&mut arrive), [false, false, true]);
}

#[test]
fn tacks_wait_for_data_that_carries_acknowledgments_and_not_for_what_goes_once() {
    let (now, rtt) = (Instant::from_secs(1), Duration::from_millis(40));
    for is_data in [false, true] {
        let mut acks = Acks::tack(tack::Params { mss: 1_200, ..tack::Params::DEFAULT }, now);
        acks.on_handshake(rtt);
        let arrive = |acks: &mut Acks, number| acks.on_packet(&packet(number, 1_200, now), now);
        arrive(&mut acks, 0);
        // As HANDSHAKE_DONE does.
        assert!(acks.piggyback(500, 3, is_data, now).is_some());
        (1..3).for_each(|number| arrive(&mut acks, number));
        let due = acks.deadline().unwrap();
        assert_eq!(due > now + Duration::from_millis(1), is_data, "{:?}", due - now);
    }
}

use super::*;
use tokio::time::{sleep, timeout};

const MIB: usize = 1 << 20;

fn gate(slots: usize) -> Arc<Gate> {
    Gate::new(slots, MIB, Arc::new(Pressure::new(Some(u64::MAX))))
}

fn from(n: u8) -> IpAddr {
    [10, 0, 0, n].into()
}

/// Waits until so many wait.
async fn queued(gate: &Gate, wanted: usize) {
    while gate.waiting() != wanted {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_called_by_rank_and_late_samples_leave_half_of_the_turns() {
    let gate = gate(2);
    let mut turns = vec![gate.turn(Rank::Late).await.unwrap(), gate.turn(Rank::Live).await.unwrap()];
    let (order, waits) = (Arc::new(Mutex::new(Vec::new())), gate.clone());
    for (n, rank) in [Rank::Late, Rank::Live, Rank::Signals, Rank::Live].into_iter().enumerate() {
        let (gate, order) = (gate.clone(), order.clone());
        tokio::spawn(async move {
            let turn = gate.turn(rank).await.unwrap();
            order.lock().push(rank);
            // The last ones must not hold up the late one.
            sleep(Duration::from_millis(10)).await;
            drop(turn);
        });
        queued(&waits, n + 1).await;
    }
    turns.clear();
    sleep(Duration::from_millis(100)).await;
    assert_eq!(*order.lock(), [Rank::Signals, Rank::Live, Rank::Live, Rank::Late]);
    let one = gate.turn(Rank::Late).await.unwrap();
    assert_eq!(gate.turn(Rank::Late).await.err().unwrap().reason, Reason::Turns, "half of two turns");
    let two = gate.turn(Rank::Signals).await.unwrap();
    drop((one, two));
    assert_eq!(gate.waiting(), 0);
    assert_eq!(gate.state.lock().free, 2);
}

#[tokio::test(start_paused = true)]
async fn patience_ends_and_nothing_of_who_gave_up_is_left() {
    let gate = gate(1);
    let turn = gate.turn(Rank::Signals).await.unwrap();
    let away = gate.turn(Rank::Signals).await.err().unwrap();
    assert_eq!(away.reason, Reason::Turns);
    // A sender that goes away while it waits.
    assert!(timeout(Duration::from_millis(1), gate.turn(Rank::Live)).await.is_err());
    drop(turn);
    assert_eq!(gate.state.lock().free, 1, "those who gave up are passed over");
    drop(timeout(Duration::from_secs(1), gate.turn(Rank::Live)).await.unwrap().unwrap());
}

#[tokio::test]
async fn bodies_have_a_bounded_room_and_late_ones_half_of_it() {
    let gate = gate(4);
    let mut bodies: Vec<Body> = (0..64).map(|n| gate.body(from(n % 4)).unwrap()).collect();
    bodies[..33].iter_mut().for_each(|b| b.take(MIB).unwrap());
    assert_eq!(gate.turn(Rank::Late).await.err().unwrap().reason, Reason::Room);
    drop(gate.turn(Rank::Live).await.unwrap());
    bodies[33..].iter_mut().for_each(|b| b.take(MIB).unwrap());
    assert_eq!(gate.body(from(9)).unwrap().take(1).unwrap_err().reason, Reason::Room);
    bodies.pop();
    gate.body(from(9)).unwrap().take(MIB).unwrap();
    bodies.truncate(20);
    assert!(!gate.room.is_short());
    let mut one = gate.body(from(9)).unwrap();
    one.take(32 * MIB).unwrap();
    assert_eq!(one.take(1).unwrap_err().reason, Reason::Room, "others have the other half");
    one.keep(MIB).unwrap();
    one.take(MIB).unwrap();
    drop((bodies, one));
    gate.body(from(9)).unwrap().take(32 * MIB).unwrap();
}

#[tokio::test]
async fn little_memory_turns_away_by_rank() {
    let used = Pressure::new(None).used();
    let at = |percent: u64| {
        let gate = Gate::new(1, MIB, Arc::new(Pressure::new(Some(used * 100 / percent))));
        async move {
            let mut taken = Vec::new();
            for rank in [&Rank::ALL[..], &[Rank::Late]].concat() {
                taken.push(gate.body(from(1)).and(gate.turn(rank).await.map(drop)).is_ok());
            }
            taken
        }
    };
    assert_eq!(at(50).await, [true, true, true, true]);
    assert_eq!(at(87).await, [true, true, true, false], "what is late trickles");
    assert_eq!(at(92).await, [true, false, false, false]);
    assert_eq!(at(100).await, [false, false, false, false]);
}

#[tokio::test]
async fn thousands_are_asked_back_one_after_the_other_and_none_too_late() {
    let gate = gate(1);
    // It answers one in 5 ms.
    gate.state.lock().pace = Duration::from_millis(5);
    let away =
        |n, rank| -> Vec<Duration> { (0..n).map(|_| gate.state.lock().away(Reason::Turns, rank).after).collect() };
    let first = away(2000, Rank::Live);
    let mean = |of: &[Duration]| of.iter().sum::<Duration>() / of.len() as u32;
    assert!(first.iter().all(|a| *a >= SOONEST && *a <= Duration::from_secs(12)), "{first:?}");
    let spread = mean(&first[1500..]).saturating_sub(mean(&first[..500]));
    assert!(spread > Duration::from_secs(6), "the backlog shows in what they are told: {spread:?}");
    // Twenty times as many: no more than a minute and a bit, and not all at its end.
    let mut more = away(40_000, Rank::Live);
    more.sort();
    assert!(*more.last().unwrap() <= LATEST + SOONEST * 2);
    assert!(more[more.len() / 2] < LATEST * 9 / 10 && more[0] < more[more.len() - 1] / 2, "spread");
    let late = self::gate(1).state.lock().away(Reason::Memory, Rank::Late).after;
    assert!(late >= LATE_SOONEST, "{late:?}");
}

#[tokio::test]
async fn a_gate_that_is_closed_says_so_and_lets_out_who_is_in() {
    let gate = gate(1);
    let turn = gate.turn(Rank::Live).await.unwrap();
    gate.close();
    let away = gate.body(from(1)).err().unwrap();
    assert_eq!(away.reason, Reason::Stopping);
    assert!(away.after >= SOONEST && away.after <= SOONEST + RESTART, "{away:?}");
    drop(turn);
    assert_eq!(gate.state.lock().free, 1);
}

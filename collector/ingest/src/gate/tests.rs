use super::*;
use tokio::time::{sleep, timeout};

const MIB: usize = 1 << 20;

fn gate(slots: usize) -> Arc<Gate> {
    Gate::new(slots, MIB, Arc::new(Pressure::new(Some(u64::MAX))))
}

fn from(n: u8) -> IpAddr {
    [10, 0, 0, n].into()
}

/// Waits until `wanted` requests wait.
async fn queued(gate: &Gate, wanted: usize) {
    while gate.waiting() != wanted {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn permits_go_by_class_and_late_samples_leave_half() {
    let gate = gate(2);
    let mut turns =
        vec![gate.permit(PriorityClass::Late).await.unwrap(), gate.permit(PriorityClass::Live).await.unwrap()];
    let (order, waits) = (Arc::new(Mutex::new(Vec::new())), gate.clone());
    for (n, rank) in
        [PriorityClass::Late, PriorityClass::Live, PriorityClass::Signals, PriorityClass::Live].into_iter().enumerate()
    {
        let (gate, order) = (gate.clone(), order.clone());
        tokio::spawn(async move {
            let permit = gate.permit(rank).await.unwrap();
            order.lock().push(rank);
            // The last ones must not hold up the late one.
            sleep(Duration::from_millis(10)).await;
            drop(permit);
        });
        queued(&waits, n + 1).await;
    }
    turns.clear();
    sleep(Duration::from_millis(100)).await;
    assert_eq!(*order.lock(), [PriorityClass::Signals, PriorityClass::Live, PriorityClass::Live, PriorityClass::Late]);
    let one = gate.permit(PriorityClass::Late).await.unwrap();
    assert_eq!(
        gate.permit(PriorityClass::Late).await.err().unwrap().reason,
        Reason::Permits,
        "late requests use half of two permits"
    );
    let two = gate.permit(PriorityClass::Signals).await.unwrap();
    drop((one, two));
    assert_eq!(gate.waiting(), 0);
    assert_eq!(gate.state.lock().free, 2);
}

#[tokio::test(start_paused = true)]
async fn waits_end_and_leave_nothing_behind() {
    let gate = gate(1);
    let permit = gate.permit(PriorityClass::Signals).await.unwrap();
    let rejection = gate.permit(PriorityClass::Signals).await.err().unwrap();
    assert_eq!(rejection.reason, Reason::Permits);
    // A sender that disconnects while it waits.
    assert!(timeout(Duration::from_millis(1), gate.permit(PriorityClass::Live)).await.is_err());
    drop(permit);
    assert_eq!(gate.state.lock().free, 1, "requests whose client left are skipped");
    drop(timeout(Duration::from_secs(1), gate.permit(PriorityClass::Live)).await.unwrap().unwrap());
}

#[tokio::test]
async fn bodies_are_bounded_and_late_ones_to_half() {
    let gate = gate(4);
    let mut bodies: Vec<BodyLease> = (0..64).map(|n| gate.body(from(n % 4)).unwrap()).collect();
    bodies[..33].iter_mut().for_each(|b| b.take(MIB).unwrap());
    assert_eq!(gate.permit(PriorityClass::Late).await.err().unwrap().reason, Reason::Bodies);
    drop(gate.permit(PriorityClass::Live).await.unwrap());
    bodies[33..].iter_mut().for_each(|b| b.take(MIB).unwrap());
    assert_eq!(gate.body(from(9)).unwrap().take(1).unwrap_err().reason, Reason::Bodies);
    bodies.pop();
    gate.body(from(9)).unwrap().take(MIB).unwrap();
    bodies.truncate(20);
    assert!(!gate.bodies.is_short());
    let mut one = gate.body(from(9)).unwrap();
    one.take(32 * MIB).unwrap();
    assert_eq!(one.take(1).unwrap_err().reason, Reason::Bodies, "other requests use the other half");
    one.keep(MIB).unwrap();
    one.take(MIB).unwrap();
    drop((bodies, one));
    gate.body(from(9)).unwrap().take(32 * MIB).unwrap();
}

#[tokio::test]
async fn short_memory_rejects_by_class() {
    let at = |percent: u64| {
        let gate = Gate::new(1, MIB, Arc::new(Pressure::fixed(percent << 30, 100 << 30)));
        async move {
            let mut taken = Vec::new();
            for rank in [&PriorityClass::ALL[..], &[PriorityClass::Late]].concat() {
                taken.push(gate.body(from(1)).and(gate.permit(rank).await.map(drop)).is_ok());
            }
            taken
        }
    };
    assert_eq!(at(50).await, [true, true, true, true]);
    assert_eq!(at(87).await, [true, true, true, false], "late requests pass at a low rate");
    assert_eq!(at(92).await, [true, false, false, false]);
    assert_eq!(at(100).await, [false, false, false, false]);
}

#[tokio::test]
async fn retries_of_thousands_are_spread() {
    let gate = gate(1);
    // One request is answered every 5 ms.
    gate.state.lock().pace = Duration::from_millis(5);
    let rejection =
        |n, rank| -> Vec<Duration> { (0..n).map(|_| gate.state.lock().reject(Reason::Permits, rank).after).collect() };
    let first = rejection(2000, PriorityClass::Live);
    let mean = |of: &[Duration]| of.iter().sum::<Duration>() / of.len() as u32;
    assert!(first.iter().all(|a| *a >= MIN_RETRY && *a <= Duration::from_secs(12)), "{first:?}");
    let spread = mean(&first[1500..]).saturating_sub(mean(&first[..500]));
    assert!(spread > Duration::from_secs(6), "retry delays grow with the backlog: {spread:?}");
    // Twenty times as many retry within little more than a minute, and not all at its end.
    let mut more = rejection(40_000, PriorityClass::Live);
    more.sort();
    assert!(*more.last().unwrap() <= MAX_RETRY + MIN_RETRY * 2);
    assert!(more[more.len() / 2] < MAX_RETRY * 9 / 10 && more[0] < more[more.len() - 1] / 2, "spread");
    let late = self::gate(1).state.lock().reject(Reason::Memory, PriorityClass::Late).after;
    assert!(late >= LATE_MIN_RETRY, "{late:?}");
}

#[tokio::test]
async fn closed_gate_rejects_and_keeps_permits() {
    let gate = gate(1);
    let permit = gate.permit(PriorityClass::Live).await.unwrap();
    gate.close();
    let rejection = gate.body(from(1)).err().unwrap();
    assert_eq!(rejection.reason, Reason::Stopping);
    assert!(rejection.after >= MIN_RETRY && rejection.after <= MIN_RETRY + RESTART_DELAY, "{rejection:?}");
    drop(permit);
    assert_eq!(gate.state.lock().free, 1);
}

//! The uplink with a spool, and with several collectors: nothing is lost, nothing is counted twice.

use crate::support::otlp::{Act, Fake, Run, config, section, sorted, spool, start, start_with, until};
use fabriclens_agent_host::clock::Clock;
use fabriclens_agent_uplink::config::{Collector, Mode, Spool};
use fabriclens_agent_uplink::ring::Ring;
use fabriclens_agent_uplink::spool::{Limits, Now, Spool as Opened};
use fabriclens_agent_uplink::{State, Uplink};
use fabriclens_wire::Section;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tonic::Code;
use tonic::codec::CompressionEncoding;

const ZSTD: Option<CompressionEncoding> = Some(CompressionEncoding::Zstd);

/// An address without a listener until the test starts one.
fn nobody() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], fabriclens_testing::free_port().unwrap()))
}

async fn push(run: &Run, numbers: std::ops::Range<u64>) {
    for n in numbers {
        run.ring.push(section(n, true, 1));
        // The pace of a sampler, so that sections are sent one by one.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn numbers(range: std::ops::Range<u64>) -> Vec<f64> {
    range.map(|n| (n + 1) as f64).collect()
}

#[tokio::test]
async fn spooled_samples_arrive_once_after_live_ones() {
    let (dir, fake, address) = (tempfile::tempdir().unwrap(), Fake::default(), nobody());
    // Requests of the spool are larger: more than a second apart.
    let slow = Spool { rate: 400, ..spool(dir.path()) };
    let run = start_with(config(address), Some(&slow));
    push(&run, 0..20).await;
    until("all to be kept", || run.counters.accounts().spooled >= 20 && run.ring.is_empty()).await;
    assert!(run.counters.disk().held.bytes > 0);
    let health = fabriclens_agent::http::health(&[], &[Arc::clone(&run.counters)]);
    assert!(health.status() == "degraded" && health.reasons[0].starts_with("the collector has been away for"));
    let told = &health.json((0, 0), None)["uplinks"][0];
    assert_eq!(told["spool"]["points"], run.counters.accounts().spooled);
    assert_eq!((&told["dropped"], &told["unaccounted"]), (&0.into(), &0.into()));
    let _server = fake.serve(&address.to_string(), ZSTD, 64 << 20).await;
    // Only live samples detect that the collector is back.
    push(&run, 20..21).await;
    until("it to be back", || run.counters.state() == State::Up).await;
    let back = std::time::Instant::now();
    push(&run, 21..24).await;
    until("the live ones", || sorted(&fake).ends_with(&numbers(21..24))).await;
    assert!(run.counters.accounts().spooled > 0, "live samples do not wait for those of before");
    until("the rest", || run.counters.accounts().spooled == 0).await;
    assert!(back.elapsed() > Duration::from_secs(1), "the spool has its pace");
    let counters = run.end().await;
    assert_eq!(sorted(&fake), numbers(0..24));
    assert!(fake.seen.lock().values().all(|n| *n == 1));
    assert_eq!((counters.accounts().dropped, counters.disk().held.bytes), (0, 0));
}

#[tokio::test]
async fn short_outage_writes_no_spool() {
    let dir = tempfile::tempdir().unwrap();
    let fake = Fake::with([Code::Unavailable, Code::Unavailable].map(Act::Refuse));
    let patient = Spool { after: Duration::from_secs(600), ..spool(dir.path()) };
    let run = start_with(config(fake.zstd().await), Some(&patient));
    push(&run, 0..10).await;
    until("all", || fake.got.lock().len() == 10).await;
    let counters = run.end().await;
    assert_eq!(counters.retries(), 2);
    let files = std::fs::read_dir(dir.path().join("samples")).unwrap().map(|e| e.unwrap().file_name());
    let mut files: Vec<_> = files.collect();
    files.sort();
    assert_eq!(files, ["cursor", "lock"]);
}

#[tokio::test]
async fn full_queue_spools_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let patient = Spool { after: Duration::from_secs(600), ..spool(dir.path()) };
    let run = start_with(config(nobody()), Some(&patient));
    // The ring has room for 1,000.
    for n in 0..900 {
        run.ring.push(section(n, false, 1));
    }
    until("it to be kept", || run.counters.accounts().spooled > 0).await;
    assert_eq!(run.ring.dropped(), 0);
    run.end().await;
}

#[tokio::test]
async fn next_agent_sends_what_shutdown_kept() {
    let (dir, address) = (tempfile::tempdir().unwrap(), nobody());
    let patient = Spool { after: Duration::from_secs(600), ..spool(dir.path()) };
    let run = start_with(config(address), Some(&patient));
    push(&run, 0..10).await;
    until("the state", || matches!(run.counters.state(), State::Down { .. })).await;
    let ended = run.end().await.accounts();
    assert!(ended.spooled >= 10 && ended.dropped == 0, "{ended:?}");

    let fake = Fake::default();
    let _server = fake.serve(&address.to_string(), ZSTD, 64 << 20).await;
    let run = start_with(config(address), Some(&patient));
    assert_eq!(run.counters.accounts().found, ended.spooled, "the next one knows what it took over");
    push(&run, 10..11).await;
    until("all", || run.counters.accounts().spooled == 0).await;
    run.end().await;
    assert_eq!(sorted(&fake), numbers(0..11));
}

#[tokio::test]
async fn retry_after_is_respected() {
    let dir = tempfile::tempdir().unwrap();
    let asks = Duration::from_secs(2);
    let fake = Fake::with([Act::Busy(asks)]);
    let run = start_with(config(fake.zstd().await), Some(&spool(dir.path())));
    let begin = std::time::Instant::now();
    push(&run, 0..50).await;
    assert!(run.counters.accounts().spooled > 0, "what was refused is kept");
    assert_eq!(
        (*fake.requests.lock(), begin.elapsed() < asks),
        (1, true),
        "it was asked once, and no more until it said"
    );
    until("all", || sorted(&fake) == numbers(0..50)).await;
    assert!(begin.elapsed() >= asks);
    run.end().await;
}

#[tokio::test]
async fn spool_follows_the_compression() {
    let (dir, fake, address) = (tempfile::tempdir().unwrap(), Fake::default(), nobody());
    let run = start_with(config(address), Some(&spool(dir.path())));
    push(&run, 0..5).await;
    until("all to be kept", || run.counters.accounts().spooled >= 5 && run.ring.is_empty()).await;
    let _server = fake.serve(&address.to_string(), Some(CompressionEncoding::Gzip), 64 << 20).await;
    push(&run, 5..6).await;
    until("all", || sorted(&fake) == numbers(0..6)).await;
    assert_eq!(run.end().await.accounts().dropped, 0);
}

/// The spool may be locked for a moment while a new agent replaces the old one.
#[tokio::test(start_paused = true)]
async fn unopenable_spool_is_retried() {
    let dir = tempfile::tempdir().unwrap();
    let spool = spool(dir.path());
    let folder = dir.path().join("samples");
    let mut other = Opened::open(&folder, spool.limits, Now::of(&Clock::new())).unwrap();
    other.append(b"x", 0, 7, Now::of(&Clock::new())).1.unwrap();
    let run = start_with(config(nobody()), Some(&spool));
    let reasons = || fabriclens_agent::http::health(&[], &[Arc::clone(&run.counters)]).reasons;
    let told =
        |reason: &String| reason.starts_with("the spool cannot be written") && reason.contains("another process");
    push(&run, 0..10).await;
    assert!(reasons().iter().any(told), "{:?}", reasons());
    drop(other);
    until("it to be opened", || run.counters.accounts().found == 7).await;
    until("samples to be kept", || run.counters.accounts().spooled > 7).await;
    assert!(!reasons().iter().any(told), "{:?}", reasons());
    run.end().await;
}

#[tokio::test]
async fn spool_is_split_for_small_limits() {
    let (dir, fake, address) = (tempfile::tempdir().unwrap(), Fake::default(), nobody());
    let run = start_with(config(address), Some(&spool(dir.path())));
    for n in 0..50_u64 {
        let noise: Vec<u64> = (0..100).map(|i| (n * 100 + i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        run.ring.push(Section { starts: noise.into(), ..section(n, n == 49, 100) });
    }
    until("all to be kept", || run.counters.accounts().spooled >= 5000 && run.ring.is_empty()).await;
    let _server = fake.serve(&address.to_string(), ZSTD, 32 << 10).await;
    push(&run, 50..51).await;
    until("all", || run.counters.state() == State::Up && run.counters.accounts().spooled == 0).await;
    assert_eq!((run.end().await.accounts().dropped, fake.got.lock().len()), (0, 5001));
}

#[tokio::test]
async fn full_spool_drops_and_counts_the_oldest() {
    let dir = tempfile::tempdir().unwrap();
    let limits = Limits { bytes: 1 << 20, age: Duration::from_secs(3600) };
    let small = Spool { limits, ..spool(dir.path()) };
    let run = start_with(Collector { batch: 16, ..config(nobody()) }, Some(&small));
    for n in 0..400_u64 {
        // Incompressible.
        let noise: Vec<u64> = (0..1500).map(|i| (n * 1500 + i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        let mut one = section(n, true, noise.len());
        one.starts = noise.into();
        run.ring.push(one);
        until("room", || run.ring.len() < 100).await;
    }
    until("the bound", || run.counters.dropped_for("spool_size") > 0).await;
    let counters = run.end().await;
    assert!(counters.disk().held.bytes <= 1 << 20);
}

#[tokio::test]
async fn dead_collector_delays_no_other() {
    let (dir, fake, dead) = (tempfile::tempdir().unwrap(), Fake::default(), nobody());
    let ring = Arc::new(Ring::new(200, 2));
    let (stop, stopped) = watch::channel(false);
    let mut ways = Vec::new();
    for (i, address) in [dead, fake.zstd().await].into_iter().enumerate() {
        let uplink = Uplink::new(config(address), "h", ring.reader(i), Some(&address.to_string())).unwrap();
        let folder = dir.path().join(i.to_string());
        let uplink = uplink.with_spool(&folder, &Spool { after: Duration::from_secs(1), ..spool(dir.path()) });
        ways.push((uplink.counters(), tokio::spawn(uplink.run(stopped.clone()))));
    }
    for n in 0..1000 {
        ring.push(section(n, true, 1));
        // The pace of a sampler: the ring holds 200 sections, and must be emptied meanwhile.
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    until("all at the one that lives", || fake.got.lock().len() == 1000).await;
    until("all in the other's spool", || ring.is_empty() && ways[0].0.accounts().in_flight == 0).await;
    assert_eq!(sorted(&fake), numbers(0..1000));
    assert_eq!(ring.dropped(), 0, "the ring is shared, and much smaller than what came");
    stop.send(true).unwrap();
    for (counters, task) in ways {
        task.await.unwrap();
        let a = counters.accounts();
        assert_eq!((a.taken, a.unaccounted), (a.acked + a.spooled, 0), "{a:?}");
        assert_eq!(a.acked == 0, counters.name() == Some(&dead.to_string()));
    }
}

#[tokio::test]
async fn failover_returns_to_the_first_collector() {
    let (first, second, address) = (Fake::default(), Fake::default(), nobody());
    let others = vec![format!("http://{}", second.zstd().await)];
    let steady = Duration::from_millis(300);
    let run = start(Collector { others, steady, mode: Mode::Failover, ..config(address) });
    push(&run, 0..10).await;
    until("the second", || second.got.lock().len() == 10).await;
    let (_, server) = first.serve(&address.to_string(), ZSTD, 64 << 20).await;
    let mut n = 10;
    until("the first", || {
        run.ring.push(section(n, true, 1));
        n += 1;
        !first.got.lock().is_empty()
    })
    .await;
    server.abort();
    _ = server.await;
    for _ in 0..10 {
        run.ring.push(section(n, true, 1));
        n += 1;
    }
    until("all", || first.got.lock().len() + second.got.lock().len() == n as usize).await;
    assert_eq!(run.end().await.accounts().dropped, 0);
    let mut all = [sorted(&first), sorted(&second)].concat();
    all.sort_by(f64::total_cmp);
    assert_eq!(all, numbers(0..n), "each went to one of them");
}

#[tokio::test]
async fn failover_returns_to_the_second_of_three_collectors() {
    let (second, third, address) = (Fake::default(), Fake::default(), nobody());
    let others = vec![format!("http://{address}"), format!("http://{}", third.zstd().await)];
    let steady = Duration::from_millis(300);
    let run = start(Collector { others, steady, mode: Mode::Failover, ..config(nobody()) });
    push(&run, 0..10).await;
    until("the third", || third.got.lock().len() == 10).await;
    let (_, server) = second.serve(&address.to_string(), ZSTD, 64 << 20).await;
    let mut n = 10;
    until("the second", || {
        run.ring.push(section(n, true, 1));
        n += 1;
        !second.got.lock().is_empty()
    })
    .await;
    assert_eq!(run.end().await.accounts().dropped, 0);
    server.abort();
}

/// For any answers in any order and over two restarts, each point is delivered or counted with a reason.
#[tokio::test]
async fn accounts_balance_for_every_answer() {
    let acts = |seed: u64| {
        let mut state = seed;
        let mut next = move |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % n
        };
        let act = move |_| match next(9) {
            0 => Act::Refuse(Code::InvalidArgument),
            1 => Act::Refuse(Code::OutOfRange),
            2 => Act::Partial(1 + next(3) as i64),
            3 => Act::Busy(Duration::from_millis(next(80))),
            4 => Act::Sleep(Duration::from_millis(next(80))),
            5 | 6 => Act::Refuse([Code::Unavailable, Code::ResourceExhausted, Code::DataLoss][next(3) as usize]),
            _ => Act::Sleep(Duration::ZERO),
        };
        (0..30).map(act).collect::<Vec<_>>()
    };
    for seed in 0..6 {
        let (dir, fake) = (tempfile::tempdir().unwrap(), Fake::with(acts(seed)));
        let address = fake.zstd().await;
        let hasty =
            Collector { timeout: Duration::from_millis(40), drain: Duration::from_millis(20), ..config(address) };
        let (mut given_up, mut found, mut pushed) = (0, 0, 0);
        for life in 0..3 {
            let run = start_with(hasty.clone(), Some(&spool(dir.path())));
            assert_eq!(run.counters.accounts().found, found, "seed {seed}");
            push(&run, pushed..pushed + 20).await;
            pushed += 20;
            while life == 2 && run.counters.accounts().spooled > 0 {
                push(&run, pushed..pushed + 1).await;
                pushed += 1;
            }
            let a = run.end().await.accounts();
            found = a.spooled;
            given_up += a.dropped + a.rejected;
        }
        let got: std::collections::BTreeSet<u64> = sorted(&fake).iter().map(|n| *n as u64).collect();
        let missing = (1..=pushed).filter(|n| !got.contains(n)).count() as u64;
        assert!(found == 0 && missing <= given_up, "seed {seed}: {missing} did not come, {given_up} were counted");
    }
}

//! Clients that attack the collector, and what health checks, the fleet and another sender notice meanwhile.

use super::faults::{Outcome, wait_for};
use super::otlp;
use super::testbed::{TIMEOUT, TestBed, get, lag, sum_of};
use anyhow::{Result, ensure};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Attackers that query at a time (four queries run at once by default), and that send: they share the processor with the
/// collector, and each sends as fast as it can.
pub const QUERY: usize = 16;
pub const SEND: usize = 3;
/// Memory limit of the collector while it is attacked, MiB. All other bounds are the defaults.
const MEMORY: u64 = 512;
/// Most seconds that a host of the fleet is behind meanwhile.
const BEHIND: f64 = 20.0;
/// Samples that another sender sends at least, so that one that a busy disk holds back is not the 99th percentile; and the pause between
/// them.
const SAMPLES: usize = 100;
const PAUSE: Duration = Duration::from_millis(20);

/// A request of an attacker.
pub struct Request {
    /// Index of the collector's port.
    pub port: usize,
    pub path: &'static str,
    pub content_type: &'static str,
    /// The body is compressed with gzip.
    pub gzip: bool,
    pub body: Vec<u8>,
}

impl Request {
    /// A form.
    pub fn form(path: &'static str, body: String) -> Self {
        let content_type = "application/x-www-form-urlencoded";
        Self { port: 0, path, content_type, gzip: false, body: body.into() }
    }

    /// Samples in OTLP.
    pub fn samples(body: Vec<u8>) -> Self {
        Self { port: 2, path: "/v1/metrics", content_type: "application/x-protobuf", gzip: false, body }
    }

    /// JSON, or lines of it.
    pub fn json(path: &'static str, body: String) -> Self {
        Self { port: 0, path, content_type: "application/json", gzip: false, body: body.into() }
    }
}

/// Percent-encoded text of a form.
pub fn encoded(text: &str) -> String {
    text.bytes()
        .map(|b| if b.is_ascii_alphanumeric() { char::from(b).to_string() } else { format!("%{b:02X}") })
        .collect()
}

/// Restarts the collector with bounded memory for an attack, and checks that it stayed within.
pub fn bounded(bed: &mut TestBed, inject: impl Fn(&mut TestBed) -> Result<String>) -> Result<Outcome> {
    let before = bed.collector.env.len();
    bed.collector.env.push(format!("FABRICLENS_LIMITS_MEMORY={MEMORY}MiB"));
    let seen = bed.restart_collector().and_then(|()| {
        let seen = inject(bed)?;
        let peak = bed.collector.process()?.size()?.peak;
        ensure!(peak <= (MEMORY << 20) / 10 * 11, "the collector took {} MiB of {MEMORY}; {seen}", peak >> 20);
        Ok(format!("{seen}; {} of {MEMORY} MiB", peak >> 20))
    });
    bed.collector.env.truncate(before);
    bed.restart_collector()?;
    Outcome::of(seen?)
}

/// Sends requests, one after the other from each attacker, and watches meanwhile.
pub fn attack(bed: &TestBed, hold: Duration, attackers: usize, request: fn(usize) -> Request) -> Result<String> {
    let client = client();
    attack_by(bed, hold, attackers, &|n| {
        let Request { port, path, content_type, gzip, body } = request(n);
        let url = format!("http://127.0.0.1:{}{path}", bed.ports[port]);
        let encoding = if gzip { "gzip" } else { "identity" };
        // What it answers does not matter here.
        _ = client.post(url).header("content-type", content_type).header("content-encoding", encoding).send(&body[..]);
    })
}

/// Calls `send` with the number of the request, one after the other from each attacker, and watches meanwhile.
pub fn attack_by(bed: &TestBed, hold: Duration, attackers: usize, send: &(dyn Fn(usize) + Sync)) -> Result<String> {
    let (over, sent) = (AtomicBool::new(false), AtomicUsize::new(0));
    let attacker = || {
        while !over.load(Ordering::Relaxed) {
            send(sent.fetch_add(1, Ordering::Relaxed));
        }
    };
    let seen = std::thread::scope(|scope| {
        (0..attackers).for_each(|_| _ = scope.spawn(attacker));
        let seen = watch(bed, hold);
        over.store(true, Ordering::Relaxed);
        seen
    })?;
    Ok(format!("{} requests; {seen}", sent.into_inner()))
}

/// Watches health, the fleet, the memory of queries and the delay of another sender's samples for a time.
pub fn watch(bed: &TestBed, hold: Duration) -> Result<String> {
    let (begin, mut most, mut latest) = (Instant::now(), 0.0_f64, 0.0_f64);
    let (over, sent) = (AtomicBool::new(false), AtomicUsize::new(0));
    let delays = std::thread::scope(|scope| {
        let sender = scope.spawn(|| delays(bed, &over, &sent));
        let mut look = || -> Result<()> {
            let (status, _) = get(&format!("{}/healthz", bed.url))?;
            ensure!(status == 200, "/healthz says {status}");
            let page = get(&format!("{}/metrics", bed.url))?.1;
            most = most.max(sum_of(&page, "fabriclens_query_memory_bytes"));
            let asked = Instant::now();
            let behind = wait_for(TIMEOUT, || lag(&bed.url, bed.agents.len()))?;
            // The query itself may wait for those of the attackers.
            latest = latest.max(behind - asked.elapsed().as_secs_f64());
            Ok(())
        };
        let mut seen = Ok(());
        let enough = || begin.elapsed() >= hold && sent.load(Ordering::Relaxed) >= SAMPLES;
        while seen.is_ok() && !enough() && begin.elapsed() < hold + TIMEOUT {
            seen = look();
            std::thread::sleep(Duration::from_millis(250));
        }
        over.store(true, Ordering::Relaxed);
        let delays = sender.join().unwrap_or_else(|_| Err(anyhow::anyhow!("the sender panicked")));
        seen.and(delays)
    })?;
    ensure!(latest < BEHIND, "a host of the fleet was {latest:.1} s behind");
    let p99 = delays.get(delays.len() * 99 / 100).copied().unwrap_or(Duration::MAX);
    ensure!(p99 < bed.delay, "another sender's samples waited {p99:?} (p99 of {})", delays.len());
    Ok(format!(
        "queries held {:.0} MB at most; the fleet at most {latest:.1} s behind; p99 of another sender {} ms",
        most / 1e6,
        p99.as_millis()
    ))
}

/// Times until the samples of another sender were acknowledged, in order of length; counts them in `sent`. A refused one is sent again.
fn delays(bed: &TestBed, over: &AtomicBool, sent: &AtomicUsize) -> Result<Vec<Duration>> {
    let (client, mut delays) = (client(), Vec::new());
    while !over.load(Ordering::Relaxed) {
        let begin = Instant::now();
        let body = otlp::gauge("innocent", "chaos_probe", 1.0);
        while !over.load(Ordering::Relaxed) {
            let url = format!("http://127.0.0.1:{}/v1/metrics", bed.ports[2]);
            let answer = client.post(url).header("content-type", "application/x-protobuf").send(&body[..]);
            if answer.is_ok_and(|answer| answer.status() == 200) {
                break;
            }
            std::thread::sleep(PAUSE);
        }
        delays.push(begin.elapsed());
        sent.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(PAUSE);
    }
    delays.sort_unstable();
    Ok(delays)
}

pub fn client() -> ureq::Agent {
    ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(TIMEOUT)).build().new_agent()
}

//! Attacks by somebody who may read: queries that are short and cost much, answers that are not read, half requests.
//! The fleet must not notice, and memory stays within its bounds.

use super::{Fault, Outcome, wait_for};
use crate::chaos::testbed::{TIMEOUT, TestBed, get, lag, sum_of};
use anyhow::{Context as _, Result, ensure};
use std::io::Write as _;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Attackers at a time; four more queries run at once by default.
const ATTACKERS: usize = 16;
/// Memory for queries while they attack, MiB.
const QUERY_MEMORY: usize = 128;
/// Most seconds that a host of the fleet is behind meanwhile.
const BEHIND: f64 = 10.0;
/// Connections with half a request: more than a listener has places.
const HALF_REQUESTS: usize = 4500;

pub const FAULTS: &[Fault] = &[
    Fault {
        name: "hostile-queries",
        expected: "they are refused or end in time; memory of queries is bounded, no sample waits",
        inject: |bed, _, hold| with_query_memory(bed, |bed| hostile_queries(bed, hold)),
    },
    Fault {
        name: "slow-readers",
        expected: "answers that nobody reads hold no more than their share",
        inject: |bed, _, hold| with_query_memory(bed, |bed| slow_readers(bed, hold)),
    },
    Fault {
        name: "half-requests",
        expected: "the oldest make way; health checks and queries are answered",
        inject: |bed, _, hold| {
            let mut half = Vec::new();
            for _ in 0..HALF_REQUESTS {
                half.push(sent(bed, "GET /api/v1/query HTTP/1.1\r\nX:")?);
            }
            let seen = watch(bed, hold)?;
            Outcome::of(format!("{HALF_REQUESTS} half requests; {seen}"))
        },
    },
];

/// Restarts the collector with less memory for queries, so that what they take beyond it shows.
fn with_query_memory(bed: &mut TestBed, inject: impl Fn(&mut TestBed) -> Result<Outcome>) -> Result<Outcome> {
    let restart = |bed: &mut TestBed| -> Result<()> {
        bed.collector.end(TIMEOUT)?;
        bed.collector.start()?;
        bed.wait_ready()?;
        bed.wait_fresh()?;
        Ok(())
    };
    bed.collector.env.push(format!("FABRICLENS_QUERY_MEMORY={QUERY_MEMORY}MiB"));
    let seen = restart(bed).and_then(|()| inject(bed));
    bed.collector.env.pop();
    restart(bed)?;
    seen
}

/// A query or selector with many different patterns.
fn matchers(matchers: usize, pattern: &str, n: usize) -> String {
    let all: Vec<String> = (0..matchers).map(|i| format!("l{i}=~\"{pattern}{n}x{i}\"")).collect();
    format!("m{{{}}}", all.join(","))
}

/// Path and body of the n-th request.
fn hostile(n: usize) -> (&'static str, String) {
    let query = |text: String| ("/api/v1/query", format!("query={}", encoded(&text)));
    match n % 7 {
        0 => query(matchers(300, r"\\pL{150}", n)),
        1 => query(matchers(100, "[a-z]{999}", n)),
        2 => query(matchers(100, &r"\\pL".repeat(900), n)),
        3 => query(vec!["m{a=\"b\"}"; 4900].join("+")),
        4 => query(format!("{{host=~\"{}\"}}", "(?:.*a?){200}z")),
        5 => ("/api/v1/series", "match[]=%7Ba%3D~%22b.%2B%22%7D&".repeat(600)),
        _ => ("/api/v1/query", "a&".repeat(1_000_000)),
    }
}

fn encoded(text: &str) -> String {
    text.bytes()
        .map(|b| if b.is_ascii_alphanumeric() { char::from(b).to_string() } else { format!("%{b:02X}") })
        .collect()
}

fn hostile_queries(bed: &TestBed, hold: Duration) -> Result<Outcome> {
    let (over, sent) = (AtomicBool::new(false), AtomicUsize::new(0));
    let attack = || {
        let agent = ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(TIMEOUT));
        let agent = agent.build().new_agent();
        while !over.load(Ordering::Relaxed) {
            let (path, body) = hostile(sent.fetch_add(1, Ordering::Relaxed));
            let form = "application/x-www-form-urlencoded";
            // What it answers does not matter here.
            _ = agent.post(format!("{}{path}", bed.url)).header("content-type", form).send(body);
        }
    };
    let seen = std::thread::scope(|scope| {
        (0..ATTACKERS).for_each(|_| _ = scope.spawn(attack));
        let seen = watch(bed, hold);
        over.store(true, Ordering::Relaxed);
        seen
    })?;
    Outcome::of(format!("{} requests; {seen}", sent.into_inner()))
}

fn slow_readers(bed: &TestBed, hold: Duration) -> Result<Outcome> {
    let ask = "GET /api/v1/series?match[]=%7Bhost%3D~%22.%2B%22%7D HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let readers = (0..200).map(|_| sent(bed, ask)).collect::<Result<Vec<_>>>()?;
    let seen = watch(bed, hold)?;
    Outcome::of(format!("{} readers; {seen}", readers.len()))
}

/// A connection with these bytes sent.
fn sent(bed: &TestBed, text: &str) -> Result<TcpStream> {
    let mut client = TcpStream::connect(("127.0.0.1", bed.ports[0])).context("connect as an attacker")?;
    client.write_all(text.as_bytes())?;
    Ok(client)
}

/// Watches health, the fleet and the memory of queries for a time.
fn watch(bed: &TestBed, hold: Duration) -> Result<String> {
    let (begin, mut most, mut latest) = (Instant::now(), 0.0_f64, 0.0_f64);
    while begin.elapsed() < hold {
        let (status, _) = get(&format!("{}/healthz", bed.url))?;
        ensure!(status == 200, "/healthz says {status}");
        let page = get(&format!("{}/metrics", bed.url))?.1;
        most = most.max(sum_of(&page, "fabriclens_query_memory_bytes"));
        let asked = Instant::now();
        let behind = wait_for(TIMEOUT, || lag(&bed.url, bed.agents.len()))?;
        // The query itself may wait for those of the attackers.
        latest = latest.max(behind - asked.elapsed().as_secs_f64());
        std::thread::sleep(Duration::from_millis(250));
    }
    ensure!(latest < BEHIND, "a host of the fleet was {latest:.1} s behind");
    Ok(format!("queries held {:.0} MB at most; the fleet at most {latest:.1} s behind", most / 1e6))
}

//! Attacks by clients that may read or send: short requests that cost much, answers that are not read, half requests. The
//! fleet must not notice, and memory stays within its bounds.

use super::{Fault, Outcome, wait_for};
use crate::chaos::attackers::{QUERY, Request, SEND, attack, bounded, client, encoded, watch};
use crate::chaos::otlp;
use crate::chaos::receiver::{ODD, Receiver};
use crate::chaos::testbed::{TIMEOUT, TestBed, get, now, sum_of};
use anyhow::{Context as _, Result, ensure};
use flate2::{Compression, write::GzEncoder};
use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::sync::LazyLock;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Connections with half a request: more than a listener has places.
const HALF_REQUESTS: usize = 4500;

pub const FAULTS: &[Fault] = &[
    Fault {
        name: "hostile-queries",
        often: true,
        expected: "they are refused or end in time; memory of queries is bounded, no sample waits",
        inject: |bed, _, hold| bounded(bed, |bed| attack(bed, hold, QUERY, query)),
    },
    Fault {
        name: "selector-lists",
        often: false,
        expected: "lists of `match[]` are refused or end in time, no sample waits",
        inject: |bed, _, hold| bounded(bed, |bed| attack(bed, hold, QUERY, selectors)),
    },
    Fault {
        name: "host-lists",
        often: false,
        expected: "jobs with long lists of hosts take their share of memory; after their deletion others are reported",
        inject: |bed, _, hold| bounded(bed, |bed| host_lists(bed, hold)),
    },
    Fault {
        name: "wide-histograms",
        often: true,
        expected: "histograms with too many bounds are refused, other samples do not wait",
        inject: |bed, _, hold| bounded(bed, |bed| attack(bed, hold, SEND, histograms)),
    },
    Fault {
        name: "wide-labels",
        often: false,
        expected: "series of one host with long labels take its share of memory, other hosts' are stored",
        inject: |bed, _, hold| bounded(bed, |bed| wide_labels(bed, hold)),
    },
    Fault {
        name: "blank-imports",
        often: false,
        expected: "imports that decompress to gigabytes of blank lines make no sample wait",
        inject: |bed, _, hold| bounded(bed, |bed| attack(bed, hold, QUERY, blank_lines)),
    },
    Fault {
        name: "shuffled-samples",
        often: true,
        expected: "samples of a series in random order are refused, other samples do not wait",
        inject: |bed, _, hold| bounded(bed, |bed| shuffled_samples(bed, hold)),
    },
    Fault {
        name: "forwarded-names",
        often: false,
        expected: "names of one host that the receiver refuses cost no other host's samples",
        inject: |bed, _, hold| bounded(bed, |bed| forwarded_names(bed, hold)),
    },
    Fault {
        name: "slow-readers",
        often: true,
        expected: "answers that nobody reads hold no more than their share",
        inject: |bed, _, hold| bounded(bed, |bed| slow_readers(bed, hold)),
    },
    Fault {
        name: "half-requests",
        often: true,
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

/// A query or selector with many different patterns.
fn matchers(matchers: usize, pattern: &str, n: usize) -> String {
    let all: Vec<String> = (0..matchers).map(|i| format!("l{i}=~\"{pattern}{n}x{i}\"")).collect();
    format!("m{{{}}}", all.join(","))
}

fn query(n: usize) -> Request {
    let query = |text: String| Request::form("/api/v1/query", format!("query={}", encoded(&text)));
    match n % 8 {
        0 => query(matchers(300, r"\\pL{150}", n)),
        1 => query(matchers(100, "[a-z]{999}", n)),
        2 => query(matchers(100, &r"\\pL".repeat(900), n)),
        3 => query(vec!["m{a=\"b\"}"; 4900].join("+")),
        4 => query(format!("{{host=~\"{}\"}}", "(?:.*a?){200}z")),
        5 => query(format!(
            r#"count_values("a", label_replace({{host!=""}}, "z", "{}", "host", ".*"))"#,
            "y".repeat(16_000)
        )),
        6 => Request::form("/api/v1/series", "match[]=%7Ba%3D~%22b.%2B%22%7D&".repeat(600)),
        _ => Request::form("/api/v1/query", "a&".repeat(1_000_000)),
    }
}

/// Lists of selectors, each with patterns of its own.
fn selectors(n: usize) -> Request {
    let list = |selectors: usize, patterns: usize, pattern: &str| -> String {
        let one = |s: usize| format!("match[]={}", encoded(&matchers(patterns, pattern, n * 1000 + s)));
        (0..selectors).map(one).collect::<Vec<_>>().join("&")
    };
    let path = ["/api/v1/series", "/federate", "/api/v1/labels", "/api/v1/export"][n % 4];
    let body = match n / 4 % 3 {
        0 => list(100, 5, r"\\pL{20}"),
        1 => list(90, 128, "x"),
        _ => (0..100).map(|_| "match[]=%7Bhost%3D~%22.%2A.%2A.%2A%22%7D&").collect(),
    };
    Request::form(path, body)
}

/// Histograms with too many bounds, and many with the most that are allowed.
fn histograms(n: usize) -> Request {
    let bounds = if n.is_multiple_of(2) { 400_000 } else { 1000 };
    Request::samples(otlp::histogram("attacker", &format!("wide_{n}"), bounds))
}

/// Two hundred megabytes of lines without text, compressed a thousand times.
fn blank_lines(_: usize) -> Request {
    static BODY: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        let blank = [[b' '; 63].as_slice(), b"\n"].concat().repeat(1 << 14);
        // Memory takes all that is written.
        (0..200).for_each(|_| _ = gzip.write_all(&blank));
        gzip.finish().unwrap_or_default()
    });
    Request { gzip: true, body: BODY.clone(), ..Request::json("/api/v1/import", String::new()) }
}

/// Samples of the last half hour in an order that jumps.
fn shuffled_samples(bed: &TestBed, hold: Duration) -> Result<String> {
    let seen = attack(bed, hold, SEND, |n| {
        let (count, now) = (20_000, (now() * 1e3) as u64);
        let times: Vec<String> =
            (0..count).map(|i| (now - i * 7919 % count * 90 - n as u64 % 90).to_string()).collect();
        let values = vec!["1"; times.len()].join(",");
        let labels = "{\"__name__\": \"shuffled\", \"host\": \"attacker\"}";
        let times = times.join(",");
        Request::json(
            "/api/v1/import",
            format!("{{\"metric\": {labels}, \"values\": [{values}], \"timestamps\": [{times}]}}\n"),
        )
    })?;
    let page = get(&format!("{}/metrics", bed.url))?.1;
    let refused = sum_of(&page, "fabriclens_ingest_rejected_total");
    ensure!(refused > 0.0, "no sample was refused; {seen}");
    Ok(format!("{seen}; {refused:.0} samples refused"))
}

fn host_lists(bed: &TestBed, hold: Duration) -> Result<String> {
    let job = |n: usize| {
        let hosts = match n % 3 {
            0 => format!("x{n}-[1-65536]"),
            1 => format!("x{n}-[1-256]y[1-256]"),
            _ => vec!["x[1-65536]"; 100].join(","),
        };
        let body = format!("{{\"id\": {}, \"hosts\": \"{hosts}\"}}", n + 1);
        Request::json("/api/v1/jobs", body)
    };
    let seen = attack(bed, hold, QUERY, job)?;
    let client = client();
    let mut deleted = 0;
    // An administrator deletes what each sender reported, as a page of the list names it.
    while let Some(sender) = attacking_sender(bed)? {
        let url = format!("{}/api/v1/jobs?sender={}", bed.url, encoded(&sender));
        let mut answer = client.delete(url).call()?;
        ensure!(answer.status() == 200, "the deletion of the jobs of {sender} says {}", answer.status());
        let text = answer.body_mut().read_to_string()?;
        let runs = serde_json::from_str::<serde_json::Value>(&text)?["data"]["deleted"].as_u64();
        deleted += runs.filter(|runs| *runs > 0).with_context(|| format!("nothing is deleted: {text}"))?;
    }
    let honest = r#"{"id": "honest", "hosts": ["gpu-00"]}"#;
    let status = client.post(format!("{}/api/v1/jobs", bed.url)).send(honest)?.status();
    ensure!(status.is_success(), "an honest job is refused with {status}");
    Ok(format!("{seen}; {deleted} jobs were kept until their deletion"))
}

/// A sender of jobs with the hosts of the attack, if there are any.
fn attacking_sender(bed: &TestBed) -> Result<Option<String>> {
    let request = client().get(format!("{}/api/v1/jobs?limit=1", bed.url));
    let text = request.call()?.body_mut().with_config().limit(64 << 20).read_to_string()?;
    let page: serde_json::Value = serde_json::from_str(&text)?;
    let job = &page["data"][0];
    let attacks = job["hosts"].as_object().is_some_and(|hosts| hosts.keys().any(|host| host.starts_with('x')));
    Ok(job["reported_by"][0].as_str().filter(|_| attacks).map(str::to_owned))
}

fn wide_labels(bed: &TestBed, hold: Duration) -> Result<String> {
    let seen = attack(bed, hold, SEND, |n| {
        let metric = format!("wide_{n}_{}", "x".repeat(900));
        Request::samples(otlp::gauges("attacker", &metric, &"v".repeat(4000), 200))
    })?;
    let page = get(&format!("{}/metrics", bed.url))?.1;
    let refused = sum_of(&page, "fabriclens_ingest_rejected_total");
    ensure!(refused > 0.0, "no series was refused; {seen}");
    Ok(format!("{seen}; {refused:.0} points refused"))
}

fn forwarded_names(bed: &mut TestBed, hold: Duration) -> Result<String> {
    let receiver = Receiver::start()?;
    let config = bed.dir.join("forward.toml");
    fs::write(&config, format!("[[forward]]\nname = \"strict\"\nurl = \"http://127.0.0.1:{}/\"\n", receiver.port))?;
    bed.collector.args.extend(["--config".to_owned(), config.display().to_string()]);
    let seen = forward(bed, hold);
    bed.collector.args.truncate(bed.collector.args.len() - 2);
    let counts = [0, 1].map(|n| receiver.counts[n].load(Ordering::Relaxed));
    Ok(format!("{}; the receiver accepted {} requests and refused {}", seen?, counts[0], counts[1]))
}

fn forward(bed: &mut TestBed, hold: Duration) -> Result<String> {
    bed.restart_collector()?;
    let seen = attack(bed, hold, SEND, |n| {
        let (labels, at) = (format!("{{\"__name__\": \"{ODD} {n}\", \"host\": \"attacker\"}}"), (now() * 1e3) as u64);
        let body = format!("{{\"metric\": {labels}, \"values\": [1], \"timestamps\": [{at}]}}\n");
        Request::json("/api/v1/import", body)
    })?;
    let read = |name: &str| Ok::<_, anyhow::Error>(sum_of(&get(&format!("{}/metrics", bed.url))?.1, name));
    wait_for(TIMEOUT, || {
        let waiting = read("fabriclens_forward_pending_samples")?;
        ensure!(waiting < 10_000.0, "{waiting} samples wait to be forwarded");
        Ok(())
    })?;
    let dropped = read("fabriclens_forward_dropped_total")?;
    let odd = bed.ask(&format!("count({{__name__=~\"{ODD}.*\"}})"))?;
    let odd: f64 = odd.first().and_then(|one| one["value"][1].as_str()?.parse().ok()).unwrap_or(0.0);
    ensure!(dropped > 0.0 && dropped <= odd, "{dropped} samples were not forwarded, but {odd} have a refused name");
    Ok(format!("{seen}; {dropped} of {odd} samples with refused names dropped"))
}

fn slow_readers(bed: &TestBed, hold: Duration) -> Result<String> {
    let ask = "GET /api/v1/series?match[]=%7Bhost%3D~%22.%2B%22%7D HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let readers = (0..200).map(|_| sent(bed, ask)).collect::<Result<Vec<_>>>()?;
    let seen = watch(bed, hold)?;
    Ok(format!("{} readers; {seen}", readers.len()))
}

/// A connection with these bytes sent.
fn sent(bed: &TestBed, text: &str) -> Result<TcpStream> {
    let mut client = TcpStream::connect(("127.0.0.1", bed.ports[0])).context("connect as an attacker")?;
    client.write_all(text.as_bytes())?;
    Ok(client)
}

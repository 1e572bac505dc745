//! Crash recovery: after a kill or bit flips on disk, the next collector starts, has all acknowledged data that is undamaged, and
//! reports the damage.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::common::now_ms;
use crate::common::process::{Server, agent};

/// Starts a collector with a forward target that never answers, so that its queue fills.
fn start(dir: &Path) -> Server {
    let config = dir.join("collector.toml");
    std::fs::write(&config, "[[forward]]\nname = \"far\"\nurl = \"http://127.0.0.1:9/api/v1/write\"\n").unwrap();
    Server::start(&dir.join("data"), &["--config", config.to_str().unwrap()])
}

fn post(server: &Server, path: &str, body: &str) -> u16 {
    let request = agent().post(format!("{}{path}", server.url)).header("content-type", "application/json");
    request.send(body).map_or(0, |r| r.status().as_u16())
}

fn get(server: &Server, path: &str) -> String {
    agent().get(format!("{}{path}", server.url)).call().unwrap().body_mut().read_to_string().unwrap()
}

/// Deterministic pseudo-random numbers.
fn spread(n: u64) -> u64 {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33
}

fn samples(server: &Server) -> String {
    let text = get(server, "/api/v1/query?query=count_over_time(durable[30m])");
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    json["data"]["result"][0]["value"][1].as_str().unwrap_or("0").to_owned()
}

#[test]
fn kills_keep_acknowledged_data() {
    let dir = tempfile::tempdir().unwrap();
    let rounds = std::env::var("FABRICLENS_KILLS").map_or(6, |n| n.parse().unwrap());
    let begin = now_ms() - 1_500_000;
    let (mut samples_sent, mut jobs, mut tried) = (0, Vec::new(), 0);
    for round in 0..rounds {
        let server = start(dir.path());
        // During start, during writes, and in between.
        let life = Instant::now() + Duration::from_millis(spread(round) % 400);
        let killer = {
            let pid = server.child.id();
            std::thread::spawn(move || {
                std::thread::sleep(life.saturating_duration_since(Instant::now()));
                let kill = std::process::Command::new("sh").args(["-c", &format!("kill -9 {pid}")]).status();
                assert!(kill.unwrap().success());
            })
        };
        loop {
            tried += 1;
            let job = format!("j{tried}");
            let body = format!(r#"{{"cluster":"c","id":"{job}","hosts":["h1"]}}"#);
            // Unacknowledged samples are sent again, as senders do.
            if server.write(&[(begin + samples_sent * 10, samples_sent as f64)]) != 204 {
                break;
            }
            samples_sent += 1;
            match post(&server, "/api/v1/jobs", &body) {
                200..300 => jobs.push(job),
                0 => break,
                other => panic!("{other}: {}", get(&server, "/readyz")),
            }
        }
        killer.join().unwrap();
    }
    let server = start(dir.path());
    let text = samples(&server);
    let found: i64 = text.parse().unwrap();
    assert!(found == samples_sent || found == samples_sent + 1, "{found} of {samples_sent}, or one more");
    let told = get(&server, "/api/v1/jobs?limit=10000");
    for job in &jobs {
        assert!(told.contains(&format!("\"{job}\"")), "{job} of {} is gone", jobs.len());
    }
    assert_eq!(get(&server, "/readyz"), "Fabriclens is ready.\n");
    let (code, log) = server.end(15);
    assert_eq!(code, Some(0), "{log}");
    eprintln!("{rounds} kills, {samples_sent} samples and {} jobs acknowledged", jobs.len());
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        match entry.file_type().unwrap().is_dir() {
            true => all.extend(files(&entry.path())),
            false => all.push(entry.path()),
        }
    }
    all
}

fn copy(from: &Path, to: &Path) {
    for file in files(from) {
        let target = to.join(file.strip_prefix(from).unwrap());
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        std::fs::copy(&file, &target).unwrap();
    }
}

#[test]
fn flipped_bits_are_reported_at_start() {
    let dir = tempfile::tempdir().unwrap();
    let whole = dir.path().join("whole");
    std::fs::create_dir(&whole).unwrap();
    let server = start(&whole);
    let begin = now_ms() - 1_000_000;
    for i in 0..50 {
        assert_eq!(server.write(&[(begin + i * 1000, i as f64)]), 204);
    }
    for i in 0..20 {
        assert_eq!(post(&server, "/api/v1/jobs", &format!(r#"{{"cluster":"c","id":"j{i}","hosts":["h1"]}}"#)) / 100, 2);
    }
    // A snapshot writes a block, so that there is one of each kind of file.
    assert_eq!(post(&server, "/api/v1/admin/tsdb/snapshot", ""), 200);
    std::fs::remove_dir_all(whole.join("data/snapshots")).unwrap();
    for i in 50..60 {
        assert_eq!(server.write(&[(begin + i * 1000, i as f64)]), 204);
    }
    server.end(9);
    let (mut tried, mut silent) = (0, Vec::new());
    for file in files(&whole.join("data")) {
        let name = file.strip_prefix(whole.join("data")).unwrap().to_owned();
        let good = std::fs::read(&file).unwrap();
        let used = good.iter().rposition(|b| *b != 0).unwrap_or(0) as u64;
        for n in 0..if good.is_empty() { 0 } else { 3 } {
            let at = (used * (2 * n + 1) / 6) as usize;
            tried += 1;
            let broken = dir.path().join(format!("broken-{tried}"));
            copy(&whole, &broken);
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            std::fs::write(broken.join("data").join(&name), bad).unwrap();
            let server = start(&broken);
            let ready = get(&server, "/readyz");
            assert!(ready.starts_with("Fabriclens is ready."), "{name:?} byte {at}: {ready}");
            let (left, jobs) =
                (samples(&server), get(&server, "/api/v1/jobs?limit=1000").matches("\"id\":\"j").count());
            assert_eq!(server.write(&[(now_ms(), 1.0)]), 204, "{name:?} byte {at}: it goes on");
            let (_, log) = server.end(9);
            let told = ready.contains("damage") || log.contains("damaged");
            if !told && (left != "60" || jobs != 20) {
                silent.push(format!("{} byte {at} of {used}: {left} samples, {jobs} jobs", name.display()));
            }
            std::fs::remove_dir_all(&broken).unwrap();
        }
    }
    assert!(tried > 15, "{tried}");
    assert!(silent.is_empty(), "lost without a word: {silent:#?}");
}

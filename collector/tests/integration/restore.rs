//! Backup and restore: a snapshot under load, copied and opened elsewhere, has all samples acknowledged before it.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use crate::common::{Collector, incident, now_ms, now_ns, post, process, remote_write, series};
use serde_json::Value;

const TOPOLOGY: &str = "Switch\t8 \"S-00000000000000a1\"\t\t# \"MF0;leaf1:MQM9700/U1\" enhanced port 0 lid 100 lmc 0\n\
[1]\t\"H-0000000000000010\"[1](11) \t\t# \"h1 HCA-1\" lid 1 4xHDR\n";

async fn say(c: &Collector, path: &str, body: &str) -> Value {
    let url = format!("http://{}{path}", c.running.http);
    let (status, answer) = post(url, &[("content-type", "application/json")], body.as_bytes().to_vec()).await;
    assert_eq!(status / 100, 2, "{path}: {answer}");
    serde_json::from_str(&answer).unwrap()
}

/// Answers of the API; the topology at that time, Unix s.
async fn told(c: &Collector, at: i64) -> Vec<Value> {
    let mut all = vec![say(c, "/api/v1/annotations", ASKED).await];
    let topology = format!("/api/v1/topology?time={at}");
    for path in ["/api/v1/jobs?limit=1000", "/api/v1/incidents", "/api/v1/silences", &topology] {
        let (status, mut answer) = c.json(path).await;
        assert_eq!(status, 200, "{path}: {answer}");
        if path == topology {
            answer = answer["data"]["links"].take();
        }
        all.push(answer);
    }
    all
}

const ASKED: &str = r#"{"range": {"from": "2020-01-01T00:00:00.000Z", "to": "2100-01-01T00:00:00.000Z", "raw": {"from": "now-1h"}},
    "annotation": {"name": "fabric", "enable": true, "query": "node=h3"}}"#;

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => _ = std::fs::copy(entry.path(), target).unwrap(),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn snapshot_under_load_restores_everything() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("ibnetdiscover.txt");
    std::fs::write(&file, TOPOLOGY).unwrap();
    let c = Collector::over(dir, |config| config.topology = vec![file.clone()]).await;
    for job in 0..30 {
        say(&c, "/api/v1/jobs", &format!(r#"{{"cluster":"c","id":"{job}","user":"ann","hosts":["h3"]}}"#)).await;
    }
    say(&c, "/api/v1/jobs/7/end?cluster=c", "").await;
    // An ended incident, because open ones are still evaluated.
    let now = now_ns() as i64;
    let over = |id: &str| fabriclens_correlate::Incident { end_ns: Some(now), ..incident(id, now - 60_000_000_000) };
    c.running.incidents().update(now, &[over("kept")]);
    say(&c, "/api/v1/incidents/kept/acknowledge", r#"{"by": "ann", "note": "on it"}"#).await;
    say(&c, "/api/v1/silences", r#"{"match": {"kind": "incast"}, "until": "2100-01-01T00:00:00Z"}"#).await;

    let (acked, stop) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicBool::new(false)));
    let writers: Vec<_> = (0..3)
        .map(|w| {
            let (acked, stop) = (acked.clone(), stop.clone());
            let url = format!("http://{}/api/v1/write", c.running.http);
            tokio::spawn(async move {
                let (begin, writer) = (now_ms() - 600_000, w.to_string());
                for n in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        return n;
                    }
                    let labels = [("__name__", "durable"), ("writer", writer.as_str())];
                    assert_eq!(remote_write(&url, vec![series(&labels, &[(begin + n * 10, n as f64)])]).await.0, 204);
                    acked.fetch_add(1, Ordering::SeqCst);
                }
                0
            })
        })
        .collect();
    while acked.load(Ordering::SeqCst) < 60 {
        tokio::task::yield_now().await;
    }
    let before = acked.load(Ordering::SeqCst);
    let name = say(&c, "/api/v1/admin/tsdb/snapshot", "").await["data"]["name"].as_str().unwrap().to_owned();
    stop.store(true, Ordering::Relaxed);
    let mut sent = 0;
    for writer in writers {
        sent += writer.await.unwrap();
    }
    assert!(sent > before, "samples came in meanwhile");
    let at = now_ms() / 1000;
    let wanted = told(&c, at).await;
    assert!(wanted.iter().all(|v| v.to_string().len() > 40), "{wanted:?}");

    let elsewhere = tempfile::tempdir().unwrap();
    copy(&c.dir.path().join("data/snapshots").join(name), &elsewhere.path().join("data"));
    c.running.stop().await;
    let restored = Collector::over(elsewhere, |_| {}).await;
    let held = restored.value("sum(count_over_time(durable[20m]))").await.unwrap() as i64;
    assert!(held >= before && held <= sent, "{before} were acknowledged, {held} are there, {sent} were sent");
    // Of each writer, every sample up to some number, without gaps.
    let gaps = "count(count_over_time(durable[20m]) != max_over_time(durable[20m]) + 1)";
    assert_eq!(restored.value(gaps).await, None);
    assert!(told(&restored, at).await == wanted, "jobs, incidents, silences, topology or annotations differ");
    let (_, metadata) = restored.json("/api/v1/status/runtimeinfo").await;
    assert_eq!(metadata["data"]["corruptionCount"], 0);
    restored.running.stop().await;

    // Data of a later release is not reported as damage.
    let data = restored.dir.path().join("data");
    std::fs::write(data.join("FABRICLENS"), "fabriclens store\nversion 9\n").unwrap();
    let output = process::serve(&data, &[]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    let last = text.lines().last().unwrap();
    assert!(last.contains("has format version 9") && last.contains("use a newer release"), "{text}");
}

/// Commands of the page's code block with these words.
fn block(words: &str) -> String {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/redundancy.md")).unwrap();
    let (_, section) = page.split_once("## Backup and restore").unwrap();
    let blocks = section.split("```sh").skip(1).map(|b| b.split_once("```").unwrap().0);
    let found: Vec<&str> = blocks.filter(|b| b.contains(words)).collect();
    let [one] = found[..] else { panic!("{words} is in {} blocks", found.len()) };
    one.to_owned()
}

/// The page's own commands, with directories below a temporary one, this build for the service, and `cp` where there is no
/// rsync.
#[test]
#[ignore = "needs: curl"]
fn documented_backup_commands_work() {
    const HARNESS: &str = r#"set -euo pipefail
        command -v rsync > /dev/null || rsync() { mkdir -p "$3" && cp --archive "$2." "$3"; }
        systemctl() {
            case "$1 $2" in
            "stop fabriclens")
                kill "$SERVICE"
                while [ -e "/proc/$SERVICE" ] && [ "$(cut -d' ' -f3 "/proc/$SERVICE/stat")" != Z ]; do sleep 0.05; done ;;
            "start fabriclens")
                "$BIN" serve --data "$DATA" --http "$HTTP" --otlp-grpc 127.0.0.1:0 --otlp-http 127.0.0.1:0 2> log &
                SERVICE=$!
                trap 'kill "$SERVICE"' EXIT
                until grep -q ' page=' log; do sleep 0.05; done ;;
            *) exit 9 ;;
            esac
        }
"#;
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("var/lib/private/fabriclens");
    std::fs::create_dir_all(&data).unwrap();
    std::fs::create_dir_all(dir.path().join("fabriclens")).unwrap();
    std::os::unix::fs::symlink(&data, dir.path().join("var/lib/fabriclens")).unwrap();
    let server = process::Server::start(&data, &[]);
    let http = server.url.trim_start_matches("http://").to_owned();
    let bash = |commands: &str| {
        let local = commands.replace("127.0.0.1:7470", &http).replace("backup:/", "./");
        let local = local.replace("/var/lib/", "./var/lib/");
        let output = Command::new("bash")
            .args([
                "-c",
                &format!("{HARNESS}{local}\necho\n\"$BIN\" query --url \"http://$HTTP\" 'sum_over_time(durable[5m])'"),
            ])
            .envs([("BIN", process::BIN), ("HTTP", &http), ("SERVICE", &server.child.id().to_string())])
            .env("DATA", &data)
            .current_dir(dir.path())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{local}: {text} {}", String::from_utf8_lossy(&output.stderr));
        text
    };
    let now = now_ms();
    assert_eq!(server.write(&[(now - 2000, 3.0), (now - 1000, 4.0)]), 204);
    let told = bash(&(block("/api/v1/admin/tsdb/snapshot") + "echo \"$name\""));
    let name = told.lines().next().unwrap();
    assert!(dir.path().join("fabriclens").join(name).is_dir(), "{told}");
    assert!(!data.join("snapshots").join(name).exists(), "it is copied and gone");
    // Later samples are not in the snapshot.
    assert_eq!(server.write(&[(now, 100.0)]), 204);
    let told = bash(&format!("name={name}{}", block("systemctl start")));
    let value = told.lines().last().unwrap().split_whitespace().last().unwrap();
    assert!(told.contains("Fabriclens is ready") && value == "7", "{told}");
    assert!(dir.path().join("var/lib/private/fabriclens.before/FABRICLENS").exists(), "what was there is kept");
}

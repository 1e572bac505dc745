//! The committed dashboards and alert rules against real engines: with a simulated fleet under every fault, every query of
//! every panel has a result, every variable has values, and vmalert over our own API fires the expected alerts.

mod story;

use crate::common;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::engine::{Engine, Kind};
use crate::common::{Collector, fetch, forward, now_ms};
use fabriclens_testing::eventually_async;
use serde_json::Value;
use story::Story;

/// Panels without data here: there are no notifications, and the store is undamaged.
const LEFT_OUT: [&str; 1] = ["Messages about incidents"];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

fn dashboards() -> Vec<Value> {
    let files = std::fs::read_dir(repository().join("dashboards/grafana")).unwrap().map(|f| f.unwrap().path());
    let mut files: Vec<PathBuf> = files.filter(|f| f.extension().is_some_and(|e| e == "json")).collect();
    files.sort();
    files.iter().map(|f| serde_json::from_str(&std::fs::read_to_string(f).unwrap()).unwrap()).collect()
}

/// Two collectors with the simulated fleet; see [`told`].
struct Told {
    base: String,
    end: i64,
    _collectors: [Collector; 2],
}

/// A collector with the simulated fleet that forwards to `url`. A second one sends its own metrics afterwards, because
/// Prometheus rejects samples older than its newest.
async fn told(url: &str) -> Told {
    let to = |url: &str| {
        let mut target = forward(&format!("{url}/api/v1/write"));
        target.batch = 20_000;
        vec![target]
    };
    let near = Collector::with(|c| c.forward = to(url)).await;
    let end = now_ms() / 1000 * 1000;
    for request in Story::new().requests(end) {
        let (status, text) = near.forwarded_write(request).await;
        assert_eq!(status, 204, "{text}");
    }
    settled(&near).await;
    let base = format!("http://{}", near.running.http);
    let other = Collector::with(|c| {
        c.forward = to(&base);
        c.self_metrics_interval = Duration::from_millis(500);
    })
    .await;
    for _ in 0..4 {
        // Accepted and rejected samples and a query, so that the panels have data.
        let of = |at: i64| common::series(&[("__name__", "fabric_port_up"), ("host", "self")], &[(at, 1.0)]);
        other.remote_write(vec![of(now_ms()), of(now_ms() + 86_400_000)]).await;
        other.get("/api/v1/query?query=fabric_port_up").await;
        // Rates need samples apart in time: own metrics are stored every 500 ms.
        tokio::time::sleep(Duration::from_millis(700)).await;
    }
    settled(&other).await;
    settled(&near).await;
    Told { base, end, _collectors: [near, other] }
}

async fn settled(collector: &Collector) {
    let pending = "fabriclens_forward_pending_samples{queue=\"far\"} 0\n";
    eventually_async("everything is forwarded", Duration::from_secs(120), async || {
        collector.get("/metrics").await.1.contains(pending)
    })
    .await;
}

/// The expression with every variable filled in.
fn filled(expr: &str) -> String {
    let mut out = expr.replace("$__rate_interval", "1m").replace("$__range", "40m").replace("$job", "4711");
    for name in ["$leaf", "$host", "$device", "$incident", "$switch"] {
        out = out.replace(name, ".*");
    }
    out
}

async fn ask(base: &str, path: &str, query: &[(&str, String)]) -> Result<Vec<Value>, String> {
    // VictoriaMetrics aligns a range to whole steps and leaves out new samples, unless a parameter prevents it.
    let query = serde_urlencoded::to_string(query).unwrap() + "&nocache=1";
    let (status, _, body) = fetch(base, &format!("{path}?{query}")).await;
    let answer: Value = serde_json::from_str(&body).map_err(|e| format!("{status}: {e}: {body:.200}"))?;
    if answer["status"] != "success" {
        return Err(format!("{status}: {}", answer["error"]));
    }
    let data = if answer["data"].is_array() { &answer["data"] } else { &answer["data"]["result"] };
    Ok(data.as_array().unwrap().clone())
}

/// Errors in the answers of one engine.
async fn judge(base: &str, end: i64) -> Vec<String> {
    let mut wrong = Vec::new();
    // The last step is now.
    let to = now_ms() / 1000;
    let from = to - (to - end / 1000 + story::LASTS) / 15 * 15;
    let mut panels = 0;
    for board in dashboards() {
        let title = board["title"].as_str().unwrap();
        for var in board["templating"]["list"].as_array().unwrap() {
            let Some(question) = var["query"]["query"].as_str() else { continue };
            let inner = question.strip_prefix("label_values(").unwrap().strip_suffix(')').unwrap();
            let (selector, label) = inner.rsplit_once(", ").unwrap();
            let time = [("start", from.to_string()), ("end", to.to_string())];
            let query = [&[("match[]", filled(selector))], &time[..]].concat();
            match ask(base, &format!("/api/v1/label/{label}/values"), &query).await {
                Ok(values) if values.is_empty() => wrong.push(format!("{title}: {question} gives nothing")),
                Ok(_) => {}
                Err(error) => wrong.push(format!("{title}: {question}: {error}")),
            }
        }
        let annotations = &board["annotations"]["list"][1]["expr"];
        for panel in board["panels"].as_array().unwrap().iter().filter(|p| p["type"] != "row") {
            panels += 1;
            let named = format!("{title}: {}", panel["title"].as_str().unwrap());
            for target in panel["targets"].as_array().unwrap() {
                let query = ("query", filled(target["expr"].as_str().unwrap()));
                let answer = if target["instant"] == true {
                    // The story ended then; however long the machine took since.
                    ask(base, "/api/v1/query", &[query, ("time", (end / 1000).to_string())]).await
                } else {
                    let time = [("start", from.to_string()), ("end", to.to_string()), ("step", "15".to_owned())];
                    ask(base, "/api/v1/query_range", &[&[query], &time[..]].concat()).await
                };
                match answer {
                    Ok(found) if found.is_empty() && !LEFT_OUT.iter().any(|p| named.ends_with(p)) => {
                        wrong.push(format!("{named} {}: nothing to show\n      {}", target["refId"], target["expr"]));
                    }
                    Ok(_) => {}
                    Err(error) => wrong.push(format!("{named}: {error}\n      {}", target["expr"])),
                }
            }
        }
        let time = [("start", from.to_string()), ("end", to.to_string()), ("step", "15".to_owned())];
        let query = [&[("query", annotations.as_str().unwrap().to_owned())], &time[..]].concat();
        assert!(ask(base, "/api/v1/query_range", &query).await.unwrap().len() >= 2, "{title}: annotations");
    }
    assert!(panels > 100, "{panels} panels");
    wrong
}

async fn held(whose: &str, base: &str, end: i64) {
    let mut wrong = judge(base, end).await;
    // Engines show new samples with a delay.
    for _ in 0..30 {
        if wrong.is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        wrong = judge(base, end).await;
    }
    panic!("{whose}: {} wrong\n{}", wrong.len(), wrong.join("\n"));
}

#[tokio::test]
async fn dashboards_work_on_our_store() {
    let far = Collector::start().await;
    let Told { base, end, .. } = &told(&format!("http://{}", far.running.http)).await;
    held("fabriclens", base, *end).await;
    if let Ok(out) = std::env::var("FABRICLENS_DRAW") {
        // tests/lab/dashboards/README.md
        let to = (end / 1000).to_string();
        let mut draw = Command::new(repository().join("tests/lab/dashboards/draw"));
        draw.args([base, &out])
            .env("TO", to)
            .env("BACK", story::LASTS.to_string())
            .env("VARS", "job=4711")
            .env("SCRAPE", "15");
        assert!(tokio::task::spawn_blocking(move || draw.status().unwrap()).await.unwrap().success());
    }
}

async fn over(kind: Kind) {
    let engine = Engine::start(kind).await;
    let told = told(&engine.base).await;
    if kind == Kind::Victoria {
        fetch(&engine.base, "/internal/force_flush").await;
    }
    held(&format!("{kind:?}"), &engine.base, told.end).await;
}

#[tokio::test]
#[ignore = "needs: prometheus"]
async fn dashboards_work_on_prometheus() {
    over(Kind::Prometheus).await;
}

#[tokio::test]
#[ignore = "needs: victoria-metrics"]
async fn dashboards_work_on_victoria_metrics() {
    over(Kind::Victoria).await;
}

/// Alerts that the fleet cannot raise: its collector writes without error and has no certificate, and none of its agents reads an
/// InfiniBand subnet; it has no roles.
const SILENT: [&str; 4] = [
    "FabriclensStoreFailing",
    "FabriclensCertificateExpires",
    "FabriclensSubnetReaderMissing",
    "FabriclensJudgeMissing",
];

#[tokio::test]
#[ignore = "needs: victoria-metrics"]
async fn vmalert_fires_exactly_the_expected_alerts() {
    let rules = repository().join("dashboards/alerts/fabriclens.rules.yml");
    let far = Collector::start().await;
    let Told { base, end, .. } = &told(&format!("http://{}", far.running.http)).await;
    let time = |ms: i64| {
        let out = Command::new("date").args(["-u", "-d", &format!("@{}", ms / 1000), "+%Y-%m-%dT%H:%M:%SZ"]).output();
        String::from_utf8(out.unwrap().stdout).unwrap().trim().to_owned()
    };
    let started = Command::new("vmalert")
        .arg(format!("-rule={}", rules.display()))
        .arg(format!("-datasource.url={base}"))
        .arg(format!("-remoteWrite.url={base}"))
        .arg(format!("-replay.timeFrom={}", time(end - story::LASTS * 1000)))
        .arg(format!("-replay.timeTo={}", time(now_ms())))
        .args([
            // The default interval is five minutes.
            "-datasource.queryStep=0s",
            "-replay.rulesDelay=0s",
            "-replay.disableProgressBar",
            "-loggerLevel=ERROR",
            "-httpListenAddr=127.0.0.1:0",
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let child = started.expect("vmalert is installed");
    let out = tokio::task::spawn_blocking(move || child.wait_with_output().unwrap()).await.unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let fired: BTreeSet<String> = {
        let query = ("query", "count by (alertname) (max_over_time(ALERTS{alertstate=\"firing\"}[50m]))".to_owned());
        let found = ask(base, "/api/v1/query", &[query, ("time", (now_ms() / 1000 + 1).to_string())]).await.unwrap();
        found.iter().map(|s| s["metric"]["alertname"].as_str().unwrap().to_owned()).collect()
    };
    let text = std::fs::read_to_string(&rules).unwrap();
    let all: BTreeSet<String> =
        text.lines().filter_map(|l| l.trim().strip_prefix("- alert: ")).map(str::to_owned).collect();
    let want: BTreeSet<String> = all.into_iter().filter(|a| !SILENT.contains(&a.as_str())).collect();
    assert_eq!(fired, want);
}

/// A process that is killed when dropped.
struct Daemon(std::process::Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// vmalert over our API with live samples, evaluated each second; its API lists the firing alerts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs: victoria-metrics"]
async fn vmalert_reports_clock_skew() {
    let collector = Collector::start().await;
    let base = format!("http://{}", collector.running.http);
    let begin = now_ms() / 1000;
    // Samples of one second: two hosts are half a minute off.
    let told = async |from: i64, to: i64| {
        let of = |host: &str, off: i64| {
            let samples: Vec<_> = (from..to).map(|t| ((t + off) * 1000, 1.7e9)).collect();
            common::series(&[("__name__", "fabriclens_agent_start_time_seconds"), ("host", host)], &samples)
        };
        let (status, text) = collector.remote_write(vec![of("ahead", 30), of("behind", -30), of("right", 0)]).await;
        assert_eq!(status, 204, "{text}");
    };
    told(begin - 400, begin).await;

    let dir = tempfile::tempdir().unwrap();
    let rules = dir.path().join("rules.yml");
    let shipped = std::fs::read_to_string(repository().join("dashboards/alerts/fabriclens.rules.yml")).unwrap();
    let soon = [("interval: 15s", "interval: 1s"), ("interval: 30s", "interval: 1s"), ("for: 2m", "for: 5s")];
    let shipped = soon.iter().fold(shipped, |text, (from, to)| text.replace(from, to));
    std::fs::write(&rules, shipped).unwrap();
    let listen = format!("127.0.0.1:{}", fabriclens_testing::free_port().unwrap());
    let started = Command::new("vmalert")
        .arg(format!("-rule={}", rules.display()))
        .arg(format!("-datasource.url={base}"))
        .arg(format!("-httpListenAddr={listen}"))
        // No notifier: the test reads vmalert's own list.
        .args(["-notifier.url=http://127.0.0.1:9", "-datasource.queryStep=0s", "-loggerLevel=FATAL"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let _vmalert = Daemon(started.expect("vmalert is installed"));
    let (mut from, mut firing) = (begin, BTreeSet::new());
    let want = ["ahead", "behind"].map(|host| ("FabriclensClockSkew".to_owned(), host.to_owned()));
    for _ in 0..60 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let now = now_ms() / 1000;
        told(from, now).await;
        from = now;
        let Ok(answer) = ureq::get(format!("http://{listen}/api/v1/alerts")).call() else { continue };
        let answer: Value = serde_json::from_str(&answer.into_body().read_to_string().unwrap()).unwrap();
        let alerts = answer["data"]["alerts"].as_array().cloned().unwrap_or_default();
        let text = |alert: &Value, key: &str| alert["labels"][key].as_str().unwrap_or_default().to_owned();
        let fires = alerts.iter().filter(|a| a["state"] == "firing");
        firing.extend(fires.map(|a| (text(a, "alertname"), text(a, "host"))));
        if want.iter().all(|w| firing.contains(w)) {
            break;
        }
    }
    assert_eq!(firing, want.into_iter().collect());
}

//! The report of a job over HTTP and by the client: formats, errors, and agreement with the series.

use crate::common;
use crate::common::Collector;
use serde_json::Value;

async fn told(c: &Collector, job: &str) {
    let url = format!("http://{}/api/v1/jobs", c.running.http);
    let (status, answer) = common::post(url, &[("content-type", "application/json")], job.as_bytes().to_vec()).await;
    assert!(status < 300, "{answer}");
}

#[tokio::test]
async fn report_formats_and_errors() {
    let c = Collector::start().await;
    let now = common::now_ms();
    let sent = |host: &'static str| {
        let labels = [
            ("__name__", "fabric_port_io_bytes_total"),
            ("host", host),
            ("device", "mlx5_0"),
            ("port", "1"),
            ("direction", "transmit"),
        ];
        let points: Vec<(i64, f64)> = (0..=30).map(|n| (now - 320_000 + n * 10_000, n as f64 * 1e9)).collect();
        common::series(&labels, &points)
    };
    assert_eq!(c.remote_write(vec![sent("n1"), sent("n2")]).await.0, 204);
    let (start, end) = ((now - 300_000) / 1000, (now - 100_000) / 1000);
    told(
        &c,
        &format!(
            r#"{{"id": "ml/a b", "user": "ann", "name": "<b>", "hosts": ["n1", "n2"], "start": {start}, "end": {end}}}"#
        ),
    )
    .await;
    told(&c, &format!(r#"{{"id": "ml/a b", "cluster": "west", "hosts": ["n1"], "start": {start}}}"#)).await;

    let at = "/api/v1/jobs/ml%2Fa%20b/report";
    let (status, kind, page) = common::fetch(&format!("http://{}", c.running.http), at).await;
    assert_eq!((status, kind.as_str()), (200, "text/html; charset=utf-8"));
    assert!(page.starts_with("<!doctype html>") && page.contains("ml/a b &lt;b&gt;"), "{}", &page[..200]);
    let (status, report) = c.json(&format!("{at}?format=json")).await;
    let bytes = &report["traffic"]["transmitted"]["parts"];
    assert_eq!((status, bytes.as_array().unwrap().len()), (200, 2), "n2 its own, n1 shared with the other: {bytes}");
    let of = |grade: &str| {
        bytes.as_array().unwrap().iter().find(|p| p["grade"] == grade).unwrap()["value"].as_f64().unwrap()
    };
    // Starts and ends are whole seconds.
    assert!((of("exclusive") - 20e9).abs() < 0.2e9 && (of("shared") - 20e9).abs() < 0.2e9, "{bytes}");
    assert_eq!(report["neighbours"][0]["cluster"], "west");
    let (_, kind, text) =
        common::fetch(&format!("http://{}", c.running.http), &format!("{at}?format=md&cluster=west")).await;
    assert!(
        kind.starts_with("text/markdown") && text.starts_with("# Communication report: west/ml/a b\n"),
        "{kind} {text}"
    );

    // Slurm names its cluster, and who asks need not where there is one.
    for cluster in ["lab", "east"] {
        let job = format!(r#"{{"id": "5", "cluster": "{cluster}", "hosts": ["n9"], "start": {start}}}"#);
        told(&c, &job).await;
        let (status, answer) = c.json("/api/v1/jobs/5/report?format=json").await;
        match cluster {
            "lab" => assert_eq!((status, &answer["job"]["cluster"]), (200, &"lab".into())),
            _ => {
                assert_eq!(
                    (status, &answer["error"]),
                    (400, &"clusters east and lab each have a job 5; name one (cluster)".into())
                );
                assert_eq!(c.json("/api/v1/jobs/5?cluster=lab").await.1["data"]["cluster"], "lab");
            }
        }
    }

    let error = |answer: (u16, Value)| (answer.0, answer.1["error"].as_str().unwrap().to_owned());
    let (status, message) = error(c.json("/api/v1/jobs/9/report").await);
    assert!(status == 404 && message.starts_with("there is no job 9; GET /api/v1/jobs"), "{status} {message}");
    let (status, message) = error(c.json(&format!("{at}?run=2")).await);
    assert!(status == 404 && message == "job ml/a b has no run 2; its last is run 1", "{status} {message}");
    let (status, message) = error(c.json(&format!("{at}?format=pdf")).await);
    assert!(status == 400 && message.contains("\"pdf\" is not html, md or json"), "{status} {message}");
    let (status, message) = error(c.json(&format!("{at}?run=0")).await);
    assert!(status == 400 && message.contains("counted from 1"), "{status} {message}");

    // The client, to a file by its ending, and its errors.
    let program = env!("CARGO_BIN_EXE_fabriclens");
    let file = c.dir.path().join("r.json");
    let (url, path) = (format!("http://{}", c.running.http), file.display().to_string());
    let run = move |args: &[&str]| {
        let out = std::process::Command::new(program).args(["report", "--url", &url]).args(args).output().unwrap();
        (out.status.success(), String::from_utf8(out.stdout).unwrap() + &String::from_utf8(out.stderr).unwrap())
    };
    let asked = tokio::task::spawn_blocking(move || {
        [
            run(&["ml/a b", "-o", &path]),
            run(&["ml/a b", "--cluster", "west"]),
            run(&["9"]),
            run(&["ml/a b", "-o", "/nowhere/r.html"]),
        ]
    });
    let [json, md, unknown, nowhere] = asked.await.unwrap();
    assert_eq!(json, (true, String::new()));
    assert_eq!(serde_json::from_slice::<Value>(&std::fs::read(&file).unwrap()).unwrap()["job"]["id"], "ml/a b");
    assert!(md.0 && md.1.starts_with("# Communication report"), "{md:?}");
    assert!(!unknown.0 && unknown.1.starts_with("fabriclens: there is no job 9"), "{unknown:?}");
    assert!(!nowhere.0 && nowhere.1.contains("cannot write /nowhere/r.html"), "{nowhere:?}");
}

#[tokio::test]
async fn two_jobs_are_compared() {
    let c = Collector::start().await;
    let now = common::now_ms();
    let sent = |host: &'static str, rate: f64| {
        let labels = [
            ("__name__", "fabric_port_io_bytes_total"),
            ("host", host),
            ("device", "mlx5_0"),
            ("port", "1"),
            ("direction", "transmit"),
        ];
        let points: Vec<(i64, f64)> = (0..=60).map(|n| (now - 620_000 + n * 10_000, n as f64 * 10.0 * rate)).collect();
        common::series(&labels, &points)
    };
    let series = vec![sent("n1", 1e9), sent("n2", 1e9), sent("n3", 0.5e9)];
    assert_eq!(c.remote_write(series).await.0, 204);
    let [start, end] = [600_000, 100_000].map(|ago| (now - ago) / 1000);
    let job = |id: &str, hosts: &str| {
        format!(r#"{{"id": "{id}", "user": "ann", "hosts": {hosts}, "start": {start}, "end": {end}}}"#)
    };
    told(&c, &job("ml/a b", r#"["n1", "n2"]"#)).await;
    told(&c, &job("slow", r#"["n3"]"#)).await;

    let program = env!("CARGO_BIN_EXE_fabriclens");
    let url = format!("http://{}", c.running.http);
    let run = move |args: &[&str]| {
        let out = std::process::Command::new(program).args(["compare", "--url", &url]).args(args).output().unwrap();
        (out.status.success(), String::from_utf8(out.stdout).unwrap() + &String::from_utf8(out.stderr).unwrap())
    };
    let asked = tokio::task::spawn_blocking(move || {
        [
            run(&["ml/a b", "slow"]),
            run(&["ml/a b", "slow", "--format", "json"]),
            run(&["slow", "slow"]),
            run(&["slow", "9"]),
            run(&["slow", "slow", "--run-b", "3"]),
        ]
    });
    let [text, json, same, unknown, no_run] = asked.await.unwrap();
    assert!(
        text.0 && text.1.starts_with("Lost time is not compared: it was not measured in ml/a b and slow.\n"),
        "{text:?}"
    );
    assert!(
        text.1.contains("Worse in slow: rate of a port") && text.1.contains("\nNote: ml/a b has 2 hosts"),
        "{text:?}"
    );
    let json: Value = serde_json::from_str(&json.1).unwrap();
    let row = |key: &str| json["quantities"].as_array().unwrap().iter().find(|row| row["key"] == key);
    let rate = row("port_rate").unwrap();
    assert!((rate["change"].as_f64().unwrap() + 0.5).abs() < 0.01 && rate["verdict"] == "worse", "{rate}");
    assert_eq!(row("bytes_sent").unwrap()["verdict"], "not_compared");
    assert!(row("paused").is_none(), "measured in neither");
    assert_eq!(
        same,
        (false, "fabriclens: both are run 1 of job slow; name another run with --run-a or --run-b\n".to_owned())
    );
    assert!(!unknown.0 && unknown.1.starts_with("fabriclens: there is no job 9"), "{unknown:?}");
    assert!(!no_run.0 && no_run.1.contains("job slow has no run 3"), "{no_run:?}");
}

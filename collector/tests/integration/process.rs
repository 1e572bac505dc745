//! The collector's binary: SIGKILL, clean stops, start-up errors, help and client.

use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::common::now_ms;
use crate::common::process::{BIN, Server, agent, serve, stdout, wait};
use fabriclens_testing::eventually;

/// Runs it where it cannot start: exit code 1, and one line with cause and remedy.
fn refusal(command: &mut Command) -> String {
    let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let code = wait(&mut child);
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(code, Some(1), "{text}");
    let last = text.lines().last().unwrap_or_default().to_owned();
    assert!(last.starts_with("fabriclens: "), "{text}");
    last
}

#[test]
fn acknowledged_samples_survive_kill_9() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let begin = now_ms() - 60_000;
    let mut acknowledged = 0;
    // Killed at three moments: right after an answer, while requests run, and again after a replay.
    for round in 0..3 {
        let server = Server::start(&data, &[]);
        for i in 0..20 {
            let at = acknowledged + i;
            assert_eq!(server.write(&[(begin + at * 100, at as f64)]), 204, "round {round}");
        }
        acknowledged += 20;
        if round == 1 {
            let url = server.url.clone();
            std::thread::spawn(move || while agent().get(format!("{url}/metrics")).call().is_ok() {});
        }
        assert_eq!(server.end(9).0, None, "killed by a signal");
    }
    let server = Server::start(&data, &[]);
    let at = ["--time", &format!("{}", (begin + 60_000) / 1000), "--format", "csv"];
    let text = stdout(&server.query("count_over_time(durable[2m]) + 1000 * max_over_time(durable[2m])", &at));
    assert!(text.lines().nth(1).unwrap().ends_with(",h,59060"), "60 samples up to 59: {text}");
    assert_eq!(server.end(15).0, Some(0));
}

#[test]
fn signals_end_cleanly_and_restart_works() {
    let dir = tempfile::tempdir().unwrap();
    for signal in [2, 15] {
        let server = Server::start(dir.path().join("data").as_path(), &[]);
        assert_eq!(server.write(&[(now_ms(), 1.0)]), 204);
        let (code, log) = server.end(signal);
        assert_eq!(code, Some(0), "{log}");
        let last = log.lines().last().unwrap();
        assert!(last.ends_with("stopped"), "{log}");
    }
}

#[test]
fn unusable_directory_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = Server::start(&data, &[]);
    let line = refusal(&mut serve(&data, &[]));
    assert!(line.contains(&format!("is in use by process {}", server.child.id())), "{line}");
    assert_eq!(server.write(&[(now_ms(), 1.0)]), 204, "the first one goes on");
    server.end(15);

    let foreign = dir.path().join("foreign");
    std::fs::create_dir(&foreign).unwrap();
    std::fs::write(foreign.join("thesis.tex"), "\\title{}").unwrap();
    let line = refusal(&mut serve(&foreign, &[]));
    assert!(line.contains("is not empty and holds no store") && line.contains("choose an empty"), "{line}");
    assert_eq!(std::fs::read_dir(&foreign).unwrap().count(), 1, "nothing was added to it");

    // Nobody can create files in sysfs, root included.
    let line = refusal(&mut serve(Path::new("/sys/fabriclens"), &[]));
    assert!(line.contains("cannot be written") || line.contains("cannot"), "{line}");
}

#[test]
#[ignore = "needs: mount"]
fn full_disk_rejects_samples_and_recovers() {
    let dir = tempfile::tempdir().unwrap();
    let mount = dir.path().join("small");
    std::fs::create_dir(&mount).unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"]).arg(&mount).output();
    assert!(mounted.unwrap().status.success(), "a tmpfs can be mounted");
    struct Unmount<'a>(&'a Path);
    impl Drop for Unmount<'_> {
        fn drop(&mut self) {
            _ = Command::new("umount").arg("-l").arg(self.0).status();
        }
    }
    let _unmount = Unmount(&mount);
    let server = Server::start(&mount.join("data"), &[]);
    let begin = now_ms() - 100_000;
    assert_eq!(server.write(&[(begin, 1.0)]), 204);
    let ballast = mount.join("ballast");
    // Fills the file system; the write fails when it is full.
    _ = std::fs::write(&ballast, vec![1; 8 << 20]);
    let samples: Vec<(i64, f64)> = (1..2000).map(|i| (begin + i, i as f64 / 3.0)).collect();
    assert_eq!(server.write(&samples), 503, "temporary: the sender tries again");
    let ready = agent().get(format!("{}/readyz", server.url)).call().unwrap();
    assert_eq!(ready.status().as_u16(), 503, "and it says so");
    let text = stdout(&server.query("min_over_time(durable[5m] @ end())", &["--format", "csv"]));
    assert_eq!(text.lines().count(), 2, "reads go on: {text}");

    std::fs::remove_file(&ballast).unwrap();
    eventually("samples are accepted again", Duration::from_secs(20), || server.write(&samples) == 204);
    let text = stdout(&server.query("count_over_time(durable[5m])", &["--format", "csv"]));
    assert!(text.lines().nth(1).unwrap().ends_with(",h,2000"), "nothing twice, nothing missing: {text}");
    assert_eq!(server.end(15).0, Some(0));
}

#[test]
fn port_in_use_names_the_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let data = dir.path().join("data");
    let address = format!("127.0.0.1:{port}");
    let mut command = Command::new(BIN);
    command.args(["serve", "--http", "127.0.0.1:0", "--otlp-http", "127.0.0.1:0", "--otlp-grpc", &address]);
    let line = refusal(command.arg("--data").arg(&data));
    assert!(line.contains(&format!("listen.otlp_grpc: port {port} of 127.0.0.1 is in use")), "{line}");
    assert!(line.contains("set another address"), "{line}");
    assert!(!data.exists(), "a start that fails leaves nothing behind");
}

#[test]
fn client_prints_every_format() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("data"), &["--retention", "100y"]);
    assert_eq!(server.write(&[(1_000_000, 1.5), (1_010_000, 2.5)]), 204, "samples of 1970 are kept");
    let text = stdout(&server.query("durable", &["--time", "1010"]));
    assert_eq!(text, "1970-01-01T00:16:50Z\nMETRIC   HOST  VALUE\ndurable  h       2.5\n");
    let range = ["--start", "1000", "--end", "1010", "--step", "5s"];
    let text = stdout(&server.query("durable * 2", &range));
    assert!(text.starts_with("1970-01-01T00:16:40Z to 1970-01-01T00:16:50Z\nHOST  COURSE  MIN  MAX  LAST\n"), "{text}");
    let csv: Vec<&str> = range.iter().copied().chain(["--format", "csv"]).collect();
    let text = stdout(&server.query("durable", &csv));
    assert_eq!(text.lines().count(), 4, "{text}");
    assert_eq!(text.lines().nth(1), Some("1970-01-01T00:16:40Z,durable,h,1.5"));
    let text = stdout(&server.query("durable", &["--time", "1970-01-01T00:16:50Z", "--format", "json"]));
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["data"]["result"][0]["value"], serde_json::json!([1010, "2.5"]));

    assert_eq!(server.write(&[(now_ms() - 120_000, 7.0)]), 204);
    let text = stdout(&server.query("durable", &["--start", "-5m", "--end", "-1m", "--step", "1m", "--format", "csv"]));
    assert!(text.lines().nth(1).unwrap().ends_with(",durable,h,7"), "times may be how long ago: {text}");

    let fails = |output: &Output| {
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let text = fails(&server.query("sum(", &[]));
    assert!(text.starts_with("fabriclens: invalid parameter \"query\": "), "{text}");
    let text = fails(&server.query("up", &["--time", "noon"]));
    assert!(text.contains("--time \"noon\" is not a time; write Unix seconds, RFC 3339"), "{text}");
    let nobody = Command::new(BIN).args(["query", "--url", "http://127.0.0.1:9", "up"]).output().unwrap();
    assert!(fails(&nobody).contains("is the collector running there?"));
    assert_eq!(server.end(15).0, Some(0));
}

#[test]
fn config_check_does_not_start() {
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/config/collector.toml");
    let check = |file: &str| Command::new(BIN).args(["serve", "--check-config", "--config", file]).output().unwrap();
    assert_eq!(stdout(&check(shipped)), "config is valid\n");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("c.toml");
    std::fs::write(&file, "[listen]\nhtttp = '127.0.0.1:1'\n").unwrap();
    let output = check(file.to_str().unwrap());
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("unknown key \"listen.htttp\"; did you mean \"listen.http\"?"), "{text}");
}

#[test]
fn help_matches_golden() {
    let mut all = String::new();
    for args in [
        &["--help"][..],
        &["serve", "--help"],
        &["query", "--help"],
        &["jobs", "--help"],
        &["report", "--help"],
        &["compare", "--help"],
        &["incidents", "--help"],
        &["incidents", "silence", "--help"],
        &["topology", "--help"],
        &["topology", "path", "--help"],
        &["switches", "--help"],
    ] {
        let output = Command::new(BIN).args(args).env_remove("FABRICLENS_URL").output().unwrap();
        all.push_str(&format!("$ fabriclens {}\n{}\n", args.join(" "), stdout(&output)));
    }
    let pinned = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/output/help.txt");
    fabriclens_testing::golden(pinned, &all);
}

//! Active judge and standby as processes: hand-over, take-over, a judge that was stopped for a while, and bad leases.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Instant;

use super::site::{Node, judge_config};
use crate::common::process::serve;
use crate::common::{post, until};

const ENGINE: &str = "http://127.0.0.1:9";

/// Two judges that share a data directory and a lease.
struct Pair {
    dir: tempfile::TempDir,
    judges: [Node; 2],
}

impl Pair {
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let lease = dir.path().join("judge.lease");
        let judges = ["judge-a", "judge-b"]
            .map(|name| Node::new(dir.path(), name, &dir.path().join("data"), &judge_config(ENGINE, &lease, name)));
        let mut pair = Self { dir, judges };
        pair.judges[0].start();
        pair.judges[0].until_ready().await;
        pair.judges[1].start();
        pair.judges[1].until_standby_of("judge-a").await;
        pair
    }

    fn lease(&self) -> PathBuf {
        self.dir.path().join("judge.lease")
    }
}

#[tokio::test]
async fn a_standby_refuses_samples_and_takes_over_from_a_judge_that_ends() {
    let mut pair = Pair::start().await;
    let standby = &pair.judges[1];
    let (status, text) = post(format!("{}/api/v1/judge/write", standby.url()), &[], vec![]).await;
    assert_eq!((status, text.as_str()), (503, "standby of judge-a\n"));
    // A judge that stops gives its lease back.
    pair.judges[0].signal(15);
    assert_eq!(pair.judges[0].ended().await, Some(0), "{}", pair.judges[0].log());
    let began = Instant::now();
    pair.judges[1].until_ready().await;
    println!("hand-over took {:.1} s", began.elapsed().as_secs_f64());
    assert!(pair.judges[1].log().contains("epoch=2"), "{}", pair.judges[1].log());
    // A standby ends at once when it is told to.
    pair.judges[0].start();
    pair.judges[0].until_standby_of("judge-b").await;
    pair.judges[0].signal(15);
    assert_eq!(pair.judges[0].ended().await, Some(0));
}

#[tokio::test]
async fn a_standby_takes_over_from_a_judge_that_is_killed() {
    let mut pair = Pair::start().await;
    let began = Instant::now();
    pair.judges[0].kill();
    pair.judges[1].until_ready().await;
    println!("take-over took {:.1} s", began.elapsed().as_secs_f64());
    pair.judges[0].start();
    pair.judges[0].until_standby_of("judge-b").await;
}

#[tokio::test]
async fn a_judge_that_was_stopped_for_a_while_ends_and_never_judges_beside_its_successor() {
    let mut pair = Pair::start().await;
    pair.judges[0].signal(19);
    // The standby claims the lease, but the data directory is still locked: nobody judges twice.
    until("the standby takes over", async || pair.judges[1].ready().await.1.starts_with("takes over: ")).await;
    assert_eq!(pair.judges[1].ready().await.0, 503);
    pair.judges[0].signal(18);
    assert_eq!(pair.judges[0].ended().await, Some(1));
    assert!(pair.judges[0].log().contains("no longer the active judge"), "{}", pair.judges[0].log());
    pair.judges[1].until_ready().await;
}

#[tokio::test]
async fn a_judge_that_cannot_renew_its_lease_ends() {
    let mut pair = Pair::start().await;
    // Storage that fails: the file cannot be read or written any more.
    std::fs::remove_file(pair.lease()).unwrap();
    std::fs::create_dir(pair.lease()).unwrap();
    assert_eq!(pair.judges[0].ended().await, Some(1));
    let log = pair.judges[0].log();
    assert!(log.contains("no longer the active judge") && log.contains("renew"), "{log}");
    assert_eq!(pair.judges[1].ready().await.1, "standby of judge-a\n", "what cannot be read is no free lease");
    std::fs::remove_dir(pair.lease()).unwrap();
    pair.judges[1].until_ready().await;
}

/// What a judge with this lease and data directory says before it ends.
async fn refusal(dir: &std::path::Path, lease: &std::path::Path, data: &str) -> String {
    let config = dir.join("bad.toml");
    std::fs::write(&config, judge_config(ENGINE, lease, "judge-a")).unwrap();
    let mut command = serve(&dir.join(data), &["--config", config.to_str().unwrap()]);
    let child = command.stderr(Stdio::piped()).spawn().unwrap();
    let output = tokio::task::spawn_blocking(move || child.wait_with_output().unwrap()).await.unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    text.lines().last().unwrap().to_owned()
}

#[tokio::test]
async fn bad_leases_are_refused_with_a_remedy() {
    let pair = Pair::start().await;
    let dir = pair.dir.path();
    // The same lease and name, another data directory.
    let text = refusal(dir, &pair.lease(), "other-data").await;
    assert!(text.contains("other-data is not the data directory of judge \"judge-a\""), "{text}");
    assert!(!dir.join("other-data").join("FABRICLENS").exists(), "it is not touched");
    let garbage = dir.join("garbage");
    std::fs::write(&garbage, "\0garbage").unwrap();
    let text = refusal(dir, &garbage, "data-2").await;
    assert!(text.contains("judge.lease: ") && text.contains("is not a lease of this version"), "{text}");
    let text = refusal(dir, &dir.join("missing/lease"), "data-2").await;
    assert!(text.contains("name a file in an existing directory that this user can write"), "{text}");
    // A directory that nobody can write, not even root.
    let text = refusal(dir, std::path::Path::new("/proc/judge.lease"), "data-2").await;
    assert!(text.contains("cannot use /proc/judge.lease: ") && text.contains("this user can write"), "{text}");
    assert_eq!(pair.judges[1].ready().await.1, "standby of judge-a\n", "the others go on");
}

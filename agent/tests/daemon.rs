//! The agent's binary on a recorded host: serves metrics, reports its own state, and exits on SIGTERM. A test program of its
//! own, because a test lowers the limit of open files, which all threads share.

#![allow(clippy::unwrap_used, reason = "a failure is a failed test")]

#[path = "support/agent.rs"]
mod agent;

use agent::{Agent, command};
use fabriclens_testing::eventually;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

const HOST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/hosts/mlx5-roce");

/// Series about itself that a running agent always has.
const OWN: &[&str] = &[
    "fabriclens_agent_sampler_reads_total",
    "fabriclens_agent_sampler_state",
    "fabriclens_agent_ring_depth",
    "fabriclens_agent_process_cpu_seconds_total",
    "fabriclens_agent_process_memory_bytes",
    "fabriclens_agent_http_requests_total",
];

/// CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_NET_ADMIN, CAP_NET_RAW, CAP_SYS_PTRACE, CAP_SYSLOG, CAP_BPF, numbered as in
/// `capabilities(7)`.
const KEPT: u64 = 1 << 1 | 1 << 2 | 1 << 12 | 1 << 13 | PTRACE | SYSLOG | BPF;
const PTRACE: u64 = 1 << 19;
const SYSLOG: u64 = 1 << 34;
const BPF: u64 = 1 << 39;

/// A field of the status of each thread of a process, with its name.
fn threads(pid: u32, name: &str) -> Vec<(String, String)> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let of = |thread: std::fs::DirEntry| {
        // A thread that has just ended has no status.
        let status = std::fs::read_to_string(thread.path().join("status")).ok()?;
        let field = |name: &str| Some(status.lines().find_map(|l| l.strip_prefix(name))?.trim().to_owned());
        Some((field("Name:")?, field(name)?))
    };
    threads.filter_map(|thread| of(thread.unwrap())).collect()
}

/// Permitted capabilities.
fn capabilities(pid: u32) -> Vec<(String, u64)> {
    let number = |(thread, text): (String, String)| (thread, u64::from_str_radix(&text, 16).unwrap());
    threads(pid, "CapPrm:").into_iter().map(number).collect()
}

/// Mode of seccomp; 2 is a filter.
fn shut_in(pid: u32) -> Vec<(String, String)> {
    threads(pid, "Seccomp:")
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("connected");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    answer
}

#[test]
fn serves_and_exits_on_sigterm() {
    let mut run = command();
    run.args(["run", "--root", HOST, "--http", "127.0.0.1:0"]).stderr(Stdio::piped());
    // A soft limit that the agent must raise; it is inherited, so the test itself has it while the agent starts.
    let own = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(64), maximum: own.maximum }).unwrap();
    let mut agent = Agent(run.spawn().unwrap());
    setrlimit(Resource::Nofile, own).unwrap();
    let log = BufReader::new(agent.0.stderr.take().unwrap());
    let mut lines = log.lines().map_while(Result::ok);
    let serving = lines.find(|l| l.contains("serving http://")).expect("it says where it serves");
    let address = serving.split("http://").nth(1).unwrap().trim_end_matches("/metrics").to_owned();
    // The log must be read, or the agent blocks on the full pipe.
    let rest = std::thread::spawn(move || lines.collect::<Vec<String>>());

    let begin = Instant::now();
    let mut missing;
    loop {
        let text = get(&address, "/metrics");
        missing = OWN.iter().filter(|row| !text.contains(&format!("\n{row}{{"))).collect::<Vec<_>>();
        if missing.is_empty() && text.contains("\nfabric_pfc_frames_total{") {
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(30), "still missing after 30 s: {missing:?}");
        std::thread::sleep(Duration::from_millis(200));
    }
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", agent.0.id())).unwrap();
    let open = limits.lines().find_map(|l| l.strip_prefix("Max open files")).unwrap();
    let [soft, hard, ..] = open.split_ascii_whitespace().collect::<Vec<_>>()[..] else { panic!("{open}") };
    assert!(soft == hard && soft != "64", "open files: {open}");
    for (thread, permitted) in capabilities(agent.0.id()) {
        assert_eq!(permitted & !KEPT, 0, "{thread} may do more than it needs: {permitted:x}");
        assert!(permitted & BPF == 0 || thread == "host", "{thread} may load programs into the kernel");
        assert!(permitted & PTRACE == 0 || thread == "host", "{thread} may look into processes");
        assert!(permitted & SYSLOG == 0 || thread == "host", "{thread} may read the kernel log");
    }
    assert!(get(&address, "/readyz").starts_with("HTTP/1.1 200"));
    let health = get(&address, "/healthz");
    assert!(health.contains("\"status\":\"ok\"") && health.contains("system calls restricted by seccomp"), "{health}");
    while shut_in(agent.0.id()).iter().any(|(_, mode)| mode != "2") {
        let threads = shut_in(agent.0.id());
        assert!(begin.elapsed() < Duration::from_secs(60), "not every thread is shut in: {threads:?}");
        std::thread::sleep(Duration::from_millis(100));
    }

    let pid = rustix::process::Pid::from_child(&agent.0);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let mut ended = None;
    eventually("the agent ends", Duration::from_secs(20), || {
        ended = agent.0.try_wait().unwrap();
        ended.is_some()
    });
    let status = ended.unwrap();
    assert!(status.success(), "{status}");
    let log = rest.join().unwrap().join("\n");
    assert!(log.contains("stopping") && !log.contains("ERROR"), "{log}");
}

#[test]
fn config_errors_precede_start() {
    for (args, says) in [
        (&["once", "--root", "/nonexistent"][..], "--root /nonexistent"),
        (&["run", "--http", "0.0.0.0:1"][..], "http.insecure = true"),
        (&["run", "--collector", "nowhere"][..], "http://127.0.0.1:4317"),
        (&["run", "--config", "/nonexistent.toml"][..], "/nonexistent.toml"),
    ] {
        let done = command().args(args).output().unwrap();
        let error = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{args:?}: {error}");
        assert!(error.starts_with("fabriclens-agent: ") && error.contains(says), "{args:?}: {error}");
    }
    let checked = command().args(["run", "--check-config"]).output().unwrap();
    assert!(checked.status.success() && checked.stdout == b"config is valid\n");
}

/// While no file can be opened, discovery fails, and known devices are still read from open files.
#[test]
fn devices_survive_the_open_file_limit() {
    let root = tempfile::tempdir().unwrap();
    assert!(agent::program("cp").arg("-a").arg(format!("{HOST}/.")).arg(root.path()).status().unwrap().success());
    let mut run = command();
    run.arg("run").arg("--root").arg(root.path()).args(["--http", "127.0.0.1:0"]).stderr(Stdio::piped());
    let mut agent = Agent(run.spawn().unwrap());
    let mut log = BufReader::new(agent.0.stderr.take().unwrap()).lines().map_while(Result::ok);
    log.find(|l| l.contains("sampling")).expect("it has a device");
    let pid = rustix::process::Pid::from_child(&agent.0);
    let limit = |current| {
        let maximum = getrlimit(Resource::Nofile).maximum;
        rustix::process::prlimit(Some(pid), Resource::Nofile, Rlimit { current, maximum }).unwrap()
    };
    // Discovery at start opens files too; nothing shows its end.
    std::thread::sleep(Duration::from_secs(2));
    let usual = limit(Some(3)).current;
    // A new name triggers discovery at once.
    let new = root.path().join("sys/class/net/eth9");
    std::fs::create_dir(&new).unwrap();
    let told = log.find(|l| l.contains("gone or replaced") || l.contains("known devices are sampled as usual"));
    limit(usual);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(told.as_ref().is_some_and(|l| l.contains("sampled as usual")), "{told:?}");
    let rest: Vec<String> = log.collect();
    assert!(!rest.iter().any(|l| l.contains("gone or replaced")), "{rest:#?}");
}

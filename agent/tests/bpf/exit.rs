//! A killed agent leaves no program in the kernel.

use crate::net::Pair;
use crate::turn;
use aya::programs::loaded_programs;
use fabriclens_testing::eventually;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Killed when a test fails.
struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Programs of the probes `tcp_traffic` and `microburst` in the kernel.
fn programs() -> usize {
    let ours = |name: Option<&str>| matches!(name, Some("received" | "sent" | "both"));
    loaded_programs().flatten().filter(|program| ours(program.name_as_str())).count()
}

fn until(what: &str, done: impl FnMut() -> bool) {
    eventually(what, Duration::from_secs(60), done);
}

#[test]
#[ignore = "needs: bpf"]
#[expect(clippy::disallowed_methods, reason = "the test starts the agent; the agent itself starts nothing")]
fn killed_agent_leaves_no_program() {
    let _turn = turn();
    let pair = Pair::new("fl-exit", "10.205.1");
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("agent.toml");
    let text = "state_dir = \"\"\n[samplers]\ntcp_traffic = true\n\
                [microburst]\nnetdevs = [\"fl-exit\"]\nbytes = \"2KB\"\n";
    std::fs::write(&config, text).unwrap();
    let before = programs();
    let mut run = Command::new(env!("CARGO_BIN_EXE_fabriclens-agent"));
    run.args(["run", "--http", "127.0.0.1:0", "--config"]).arg(&config).env_clear().stderr(Stdio::piped());
    let mut agent = Agent(run.spawn().unwrap());
    let mut lines = BufReader::new(agent.0.stderr.take().unwrap()).lines().map_while(Result::ok);
    let serving = lines.find(|line| line.contains("serving http://")).unwrap();
    let address = serving.split("http://").nth(1).unwrap().trim_end_matches("/metrics").to_owned();
    let rest = std::thread::spawn(move || lines.collect::<Vec<String>>());

    let wanted = ["fabric_tcp_io_unplaced_total{", "fabric_microburst_io_peak_bytes_per_second{"];
    until("series", || {
        let text = get(&address, "/metrics");
        wanted.iter().all(|row| text.contains(&format!("\n{row}")))
    });
    assert!(programs() >= before + 3, "{} programs, {before} before", programs());
    let here = UdpSocket::bind((pair.here(), 0)).unwrap();
    for _ in 0..200 {
        here.send_to(&[0; 1000], (pair.there(), 9)).unwrap();
    }
    until("a recording", || get(&address, "/debug/microburst?netdev=fl-exit").contains("\"netdev\":\"fl-exit\""));
    assert!(get(&address, "/debug/microburst?netdev=eth9").ends_with("{\"dumps\":[]}"));
    println!("{} programs with the agent, {before} without", programs());

    agent.0.kill().unwrap();
    agent.0.wait().unwrap();
    rest.join().unwrap();
    // The kernel takes them out in its own time.
    until("programs are gone", || programs() == before);
}

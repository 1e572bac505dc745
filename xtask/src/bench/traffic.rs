//! Traffic for `bench ebpf`: two network namespaces joined by a veth pair, and connections over loopback.

use anyhow::{Context, Result, bail};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const A: &str = "fabriclens-bench-a";
const B: &str = "fabriclens-bench-b";
/// Of documentation networks, so that no route of this host is hidden.
const ADDRESSES: [&str; 2] = ["192.0.2.1", "192.0.2.2"];

/// Two namespaces with a link; gone when it goes out of scope.
pub struct Link {
    server: Child,
}

impl Link {
    /// Makes it, with an iperf3 server at its far end. Leftovers of a killed run are removed first.
    pub fn new() -> Result<Self> {
        remove();
        for name in [A, B] {
            ip(&["netns", "add", name])?;
        }
        ip(&["-n", A, "link", "add", "bench", "type", "veth", "peer", "name", "bench", "netns", B])?;
        for (name, address) in [A, B].into_iter().zip(ADDRESSES) {
            ip(&["-n", name, "address", "add", &format!("{address}/24"), "dev", "bench"])?;
            ip(&["-n", name, "link", "set", "bench", "up"])?;
        }
        let mut server = Command::new("ip");
        server.args(["netns", "exec", B, "iperf3", "--server"]);
        let server = server.stdin(Stdio::null()).stdout(Stdio::null()).spawn().context("start iperf3")?;
        let link = Self { server };
        std::thread::sleep(Duration::from_millis(500));
        Ok(link)
    }

    /// Bits a second of one stream that lasts so long, as fast as it goes (`"0"`) or at a pace, for instance `"10G"`.
    pub fn stream(&self, seconds: u32, pace: &str) -> Result<f64> {
        let time = seconds.to_string();
        let client = ["iperf3", "--json", "--client", ADDRESSES[1], "--time", &time, "--bitrate", pace];
        let args = [&["netns", "exec", A][..], &client].concat();
        let done = Command::new("ip").args(args).output().context("start iperf3")?;
        let told: serde_json::Value = serde_json::from_slice(&done.stdout).context("read what iperf3 tells")?;
        let bits = told["end"]["sum_received"]["bits_per_second"].as_f64();
        bits.with_context(|| format!("iperf3: {}", told["error"].as_str().unwrap_or("no result")))
    }

    /// From now on the far end loses one packet in a hundred, or none.
    pub fn lossy(&self, on: bool) -> Result<()> {
        let rules = "add table inet bench; \
                     add chain inet bench lose { type filter hook input priority 0; }; \
                     add rule inet bench lose numgen inc mod 100 == 0 drop";
        let script = if on { rules } else { "delete table inet bench" };
        ip(&["netns", "exec", B, "nft", script])
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
        remove();
    }
}

fn remove() {
    for name in [A, B] {
        let quiet = Command::new("ip").args(["netns", "pids", name]).output();
        for pid in quiet.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default().split_whitespace()
        {
            let _ = Command::new("kill").args(["-9", pid]).stderr(Stdio::null()).status();
        }
        let _ = Command::new("ip").args(["netns", "del", name]).stderr(Stdio::null()).status();
    }
}

fn ip(args: &[&str]) -> Result<()> {
    let done = Command::new("ip").args(args).output().context("start ip")?;
    if !done.status.success() {
        bail!("ip {}: {}", args.join(" "), String::from_utf8_lossy(&done.stderr).trim());
    }
    Ok(())
}

/// Makes and closes connections over loopback for so long.
pub fn connections(seconds: u32) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").context("listen on loopback")?;
    let address = listener.local_addr()?;
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(u64::from(seconds)) {
        let client = TcpStream::connect(address).context("connect over loopback")?;
        let (server, _) = listener.accept()?;
        // The client closes first, so that ports in TIME_WAIT are spread over many.
        drop(client);
        drop(server);
    }
    Ok(())
}

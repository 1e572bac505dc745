//! Traffic for `bench ebpf`: two network namespaces joined by a veth pair, and connections over loopback.

use anyhow::{Context, Result, bail};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const A: &str = "fabriclens-bench-a";
const B: &str = "fabriclens-bench-b";
/// Documentation addresses, which hide no route of this host.
const ADDRESSES: [&str; 2] = ["192.0.2.1", "192.0.2.2"];

/// Two namespaces with a link, removed on drop.
pub struct Link {
    server: Child,
}

impl Link {
    /// Creates the link with an iperf3 server at its far end; removes leftovers of a killed run first.
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

    /// Bits per second of one stream, unlimited (`"0"`) or at a bit rate such as `"10G"`.
    pub fn stream(&self, seconds: u32, pace: &str) -> Result<f64> {
        let time = seconds.to_string();
        let client = ["iperf3", "--json", "--client", ADDRESSES[1], "--time", &time, "--bitrate", pace];
        let args = [&["netns", "exec", A][..], &client].concat();
        let done = Command::new("ip").args(args).output().context("start iperf3")?;
        let report: serde_json::Value = serde_json::from_slice(&done.stdout).context("read the report of iperf3")?;
        let bits = report["end"]["sum_received"]["bits_per_second"].as_f64();
        bits.with_context(|| format!("iperf3: {}", report["error"].as_str().unwrap_or("no result")))
    }

    /// Drops one packet in a hundred at the far end, or none.
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

/// Opens and closes loopback connections for a number of seconds.
pub fn connections(seconds: u32) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").context("listen on loopback")?;
    let address = listener.local_addr()?;
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(u64::from(seconds)) {
        let client = TcpStream::connect(address).context("connect over loopback")?;
        let (server, _) = listener.accept()?;
        // The client closes first, so that TIME_WAIT is spread over many ports.
        drop(client);
        drop(server);
    }
    Ok(())
}

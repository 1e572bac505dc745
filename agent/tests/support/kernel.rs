//! Set-up of the running kernel for tests of probes, undone when dropped: two network namespaces with a cable between them, a
//! view of the kernel without BTF, and the kernel's statistics of BPF programs. Needs root, `ip` and `nft`.

use crate::namespace;
use crate::namespace::run;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

/// Network that is reserved for benchmarks, so nothing else uses its addresses.
pub const NETWORK: &str = "198.18.0.0/16";

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// One end of the cable.
#[derive(Clone)]
pub struct End {
    name: String,
    pub address: String,
}

/// Two network namespaces joined by a veth pair, deleted when dropped.
pub struct Cable {
    pub near: End,
    pub far: End,
}

impl Cable {
    /// Creates both namespaces and the cable.
    pub fn new() -> Self {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let end = |side: &str, host: u32| End {
            name: format!("fl-{}-{number}-{side}", std::process::id()),
            address: format!("198.18.{number}.{host}"),
        };
        let cable = Self { near: end("a", 1), far: end("b", 2) };
        let (a, b) = (&cable.near.name, &cable.far.name);
        ip(&format!("netns add {a}"));
        ip(&format!("netns add {b}"));
        ip(&format!("link add veth0 netns {a} type veth peer name veth0 netns {b}"));
        for end in [&cable.near, &cable.far] {
            ip(&format!("-n {} address add {}/24 dev veth0", end.name, end.address));
            ip(&format!("-n {} link set lo up", end.name));
            ip(&format!("-n {} link set veth0 up", end.name));
        }
        cable
    }

    /// A connection from the near to the far end.
    pub fn connection(&self) -> (TcpStream, TcpStream) {
        let listener = self.far.listen();
        let client = self.near.connect(listener.local_addr().unwrap().port()).unwrap();
        (client, listener.accept().unwrap().0)
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        for end in [&self.near, &self.far] {
            command("ip", &["netns", "del", &end.name]);
        }
    }
}

impl End {
    /// Runs `body` in the namespace. Sockets that it opens stay in the namespace.
    pub fn inside<T: Send>(&self, body: impl FnOnce() -> T + Send) -> T {
        namespace::inside(&self.name, body)
    }

    pub fn listen(&self) -> TcpListener {
        self.inside(|| TcpListener::bind((self.address.as_str(), 0)).unwrap())
    }

    /// Connects to the other end of the cable.
    pub fn connect(&self, port: u16) -> std::io::Result<TcpStream> {
        let (network, host) = self.address.rsplit_once('.').unwrap();
        let other = if host == "1" { "2" } else { "1" };
        self.inside(|| TcpStream::connect((format!("{network}.{other}").as_str(), port)))
    }

    /// Adds an `nft` rule for TCP segments that arrive here.
    pub fn rule(&self, rule: &str) {
        let nft = ["netns", "exec", self.name.as_str(), "nft"];
        let table = "add table inet t; add chain inet t c { type filter hook input priority 0; }";
        command("ip", &[&nft[..], &[&format!("{table}; add rule inet t c {rule}")]].concat());
    }

    /// Sets `net/<key>`.
    pub fn set(&self, key: &str, value: &str) {
        self.inside(|| std::fs::write(format!("/proc/sys/net/{key}"), value).unwrap());
    }

    /// The kernel's counter `Tcp/RetransSegs`.
    pub fn count(&self, name: &str) -> u64 {
        let (group, name) = name.split_once('/').unwrap();
        let files = ["snmp", "netstat"].map(|file| format!("/proc/thread-self/net/{file}"));
        let texts = self.inside(|| files.map(|file| std::fs::read_to_string(file).unwrap()));
        let lines: Vec<&str> = texts.iter().flat_map(|text| text.lines()).collect();
        let mut pairs = lines.chunks(2).filter(|pair| pair[0].starts_with(&format!("{group}:")));
        pairs
            .find_map(|pair| {
                let at = pair[0].split_whitespace().position(|word| word == name)?;
                pair[1].split_whitespace().nth(at)?.parse().ok()
            })
            .unwrap_or_else(|| panic!("the kernel has no {group}/{name}"))
    }
}

/// A root for reading a live kernel as if it had no BTF.
pub struct Undescribed(tempfile::TempDir);

impl Undescribed {
    pub fn new() -> Self {
        let made = Self(tempfile::tempdir().unwrap());
        let sys = made.path().join("sys");
        std::fs::create_dir(&sys).unwrap();
        std::os::unix::fs::symlink("/proc", made.path().join("proc")).unwrap();
        for (kind, place) in [("sysfs", ""), ("tmpfs", "kernel/btf"), ("tracefs", "kernel/tracing")] {
            command("mount", &["-t", kind, kind, sys.join(place).to_str().unwrap()]);
        }
        made
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Undescribed {
    fn drop(&mut self) {
        command("umount", &["-R", self.path().join("sys").to_str().unwrap()]);
    }
}

/// An additional address on `lo` of this host.
pub struct OwnAddress(String);

impl OwnAddress {
    pub fn new(address: &str) -> Self {
        ip(&format!("address add {address}/32 dev lo"));
        Self(address.to_owned())
    }
}

impl Drop for OwnAddress {
    fn drop(&mut self) {
        ip(&format!("address del {}/32 dev lo", self.0));
    }
}

const STATISTICS: &str = "/proc/sys/kernel/bpf_stats_enabled";

/// Setting of the kernel's statistics of BPF programs; the earlier setting is restored when dropped.
pub struct Statistics(String);

impl Statistics {
    pub fn set(on: bool) -> Self {
        let had = std::fs::read_to_string(STATISTICS).unwrap();
        std::fs::write(STATISTICS, if on { "1" } else { "0" }).unwrap();
        Self(had)
    }
}

impl Drop for Statistics {
    fn drop(&mut self) {
        _ = std::fs::write(STATISTICS, self.0.trim());
    }
}

fn ip(arguments: &str) {
    command("ip", &arguments.split(' ').collect::<Vec<_>>());
}

fn command(program: &str, arguments: &[&str]) {
    let done = run(program, arguments);
    // A panic while another one unwinds would hide the first.
    assert!(done.is_ok() || std::thread::panicking(), "{}", done.unwrap_err());
}

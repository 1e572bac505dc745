//! A simulated InfiniBand subnet for tests: `ibsim` with a fat tree, and `opensm`, which assigns LIDs and routes.
//!
//! A test that uses it is ignored with the reason `needs: ibsim`.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Library by which programs of infiniband-diags talk to ibsim.
const PRELOAD: &str = "/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so";
/// Programs that a subnet and its second opinions need.
pub const PROGRAMS: &[&str] = &["ibsim", "opensm", "ibtracert", "perfquery"];
/// Packages that have them.
pub const PACKAGES: &str = "ibsim-utils opensm infiniband-diags";

/// A two-level fat tree: each leaf has `hosts` hosts and `uplinks` links to each spine.
#[derive(Clone, Copy, Debug)]
pub struct FatTree {
    /// Hosts of a leaf.
    pub hosts: u32,
    /// Leaf switches.
    pub leaves: u32,
    /// Spine switches.
    pub spines: u32,
    /// Links between a leaf and a spine.
    pub uplinks: u32,
}

impl FatTree {
    /// Node id of a host, from 0.
    pub fn host(host: u32) -> String {
        format!("H-0002c90300c{:05x}", (host + 1) * 16)
    }

    /// Node id of a leaf, from 0.
    pub fn leaf(leaf: u32) -> String {
        format!("S-0002c90300a{:05x}", leaf + 1)
    }

    /// Node id of a spine, from 0.
    pub fn spine(spine: u32) -> String {
        format!("S-0002c90300b{:05x}", spine + 1)
    }

    /// Number of switches and hosts.
    pub fn nodes(self) -> u32 {
        self.leaves * (self.hosts + 1) + self.spines
    }

    /// Number of cables.
    pub fn cables(self) -> u32 {
        self.leaves * (self.hosts + self.spines * self.uplinks)
    }

    /// The network file of ibsim, in the format of ibnetdiscover.
    fn netfile(self) -> String {
        let Self { hosts, leaves, spines, uplinks } = self;
        let mut out = String::new();
        let mut add = |line: std::fmt::Arguments<'_>| writeln!(out, "{line}").unwrap_or_default();
        let guid = |id: &str| id[2..].to_owned();
        for leaf in 0..leaves {
            let id = Self::leaf(leaf);
            add(format_args!("switchguid=0x{0}({0})", guid(&id)));
            let ports = hosts + spines * uplinks;
            add(format_args!("Switch {ports} \"{id}\" # \"leaf{:03}\" enhanced port 0 lid 0 lmc 0", leaf + 1));
            for host in 0..hosts {
                add(format_args!("[{}] \"{}\"[1] # \"-\" lid 0 4xHDR", host + 1, Self::host(leaf * hosts + host)));
            }
            for (spine, link) in (0..spines).flat_map(|spine| (0..uplinks).map(move |link| (spine, link))) {
                let (near, far) = (hosts + spine * uplinks + link + 1, leaf * uplinks + link + 1);
                add(format_args!("[{near}] \"{}\"[{far}] # \"-\" lid 0 4xHDR", Self::spine(spine)));
            }
            add(format_args!(""));
        }
        for spine in 0..spines {
            let id = Self::spine(spine);
            add(format_args!("switchguid=0x{0}({0})", guid(&id)));
            let ports = leaves * uplinks;
            add(format_args!("Switch {ports} \"{id}\" # \"spine{:03}\" enhanced port 0 lid 0 lmc 0", spine + 1));
            for (leaf, link) in (0..leaves).flat_map(|leaf| (0..uplinks).map(move |link| (leaf, link))) {
                let (near, far) = (leaf * uplinks + link + 1, hosts + spine * uplinks + link + 1);
                add(format_args!("[{near}] \"{}\"[{far}] # \"-\" lid 0 4xHDR", Self::leaf(leaf)));
            }
            add(format_args!(""));
        }
        for host in 0..leaves * hosts {
            let id = Self::host(host);
            add(format_args!("caguid=0x{}", guid(&id)));
            add(format_args!("Ca 1 \"{id}\" # \"node{:04} mlx5_0\"", host + 1));
            add(format_args!("[1] \"{}\"[{}] # \"-\" lid 0 4xHDR\n", Self::leaf(host / hosts), host % hosts + 1));
        }
        out
    }
}

/// A running subnet; dropping it ends its programs.
#[derive(Debug)]
pub struct Subnet {
    dir: PathBuf,
    sockets: String,
    /// Subnet manager and simulator, the last started first.
    children: Vec<Child>,
    console: Option<ChildStdin>,
}

impl Subnet {
    /// Starts the simulator and a subnet manager on the first host; returns once all ports have LIDs.
    ///
    /// # Panics
    /// When the programs are missing, or the subnet is not up within a minute.
    pub fn start(tree: FatTree) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let sockets = format!("fabriclens{}-{number}", std::process::id());
        let dir = std::env::temp_dir().join(&sockets);
        std::fs::create_dir_all(&dir).expect("a directory for ibsim");
        let net = dir.join("net");
        std::fs::write(&net, tree.netfile()).expect("the network file");
        let nodes = tree.nodes().to_string();
        let switches = (tree.leaves + tree.spines).to_string();
        let ports = (2 * tree.cables() + tree.leaves + tree.spines + 1024).to_string();
        let out = std::fs::File::create(dir.join("ibsim.out")).expect("a log file");
        let mut simulator = Command::new("ibsim")
            .args(["-s", "-N", &nodes, "-S", &switches, "-P", &ports, "-L", "4096"])
            .arg(&net)
            .current_dir(&dir)
            .env("IBSIM_SOCKNAME", &sockets)
            .stdin(Stdio::piped())
            .stdout(out)
            .stderr(Stdio::null())
            .spawn()
            .expect("ibsim; install ibsim-utils");
        let console = simulator.stdin.take();
        let mut subnet = Self { dir: dir.clone(), sockets: sockets.clone(), children: vec![simulator], console };
        wait_for(&dir.join("ibsim.out"), "simulator ready");
        let manager = client(&dir, &sockets, &FatTree::host(0), "opensm")
            .args(["-d", "2", "-e", "-F", "/dev/null", "-f"])
            .arg(dir.join("opensm.log"))
            .env("OSM_CACHE_DIR", &dir)
            .env("OSM_TMP_DIR", &dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("opensm; install opensm");
        subnet.children.insert(0, manager);
        wait_for(&dir.join("opensm.log"), "SUBNET UP");
        subnet
    }

    /// Beginning of the names of its sockets.
    pub fn sockets(&self) -> &str {
        &self.sockets
    }

    /// Gives a command to the simulator's console, for instance `Unlink "S-0002c90300a00001"[5]`, and waits until it
    /// was read.
    ///
    /// # Panics
    /// When the simulator has ended.
    pub fn console(&mut self, command: &str) {
        let out = self.dir.join("ibsim.out");
        let prompts = |text: &str| text.matches("sim> ").count();
        let before = prompts(&read(&out));
        let console = self.console.as_mut().expect("a console");
        writeln!(console, "{command}").expect("the simulator runs");
        crate::eventually(command, Duration::from_secs(20), || prompts(&read(&out)) > before);
    }

    /// Runs a program of infiniband-diags as a node.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn run(&self, node: &str, program: &str, arguments: &[&str]) -> Output {
        client(&self.dir, &self.sockets, node, program)
            .args(arguments)
            .output()
            .expect("infiniband-diags are installed")
    }
}

impl Drop for Subnet {
    fn drop(&mut self) {
        for child in &mut self.children {
            _ = child.kill();
            _ = child.wait();
        }
        _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// A program whose libibumad talks to the simulator.
fn client(dir: &Path, sockets: &str, node: &str, program: &str) -> Command {
    let mut command = Command::new(program);
    command.current_dir(dir).env("LD_PRELOAD", PRELOAD).env("SIM_HOST", node).env("IBSIM_SOCKNAME", sockets);
    command
}

fn read(file: &Path) -> String {
    let mut bytes = Vec::new();
    _ = std::fs::File::open(file).and_then(|mut file| file.read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

fn wait_for(file: &Path, text: &str) {
    crate::eventually(text, Duration::from_secs(60), || read(file).contains(text));
}

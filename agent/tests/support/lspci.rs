//! Makes a sysfs tree of what `lspci` printed of a host: PCI functions with their bridges, GPUs and RDMA adapters.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// A PCI function as `lspci` shows it.
#[derive(Debug, Clone, Default)]
pub struct Function {
    /// `0000:19:00.0`
    pub address: String,
    /// Directory below `/sys/devices`.
    pub path: String,
    /// Kind, vendor and model.
    pub what: String,
    /// Vendor and model alone.
    pub name: String,
    /// NUMA node, if it was printed.
    pub numa: Option<u32>,
    /// Capabilities with their lines; empty in trees.
    pub capabilities: Vec<Capability>,
}

/// A capability as `lspci -vvv` shows it.
#[derive(Debug, Clone, Default)]
pub struct Capability {
    pub offset: usize,
    pub is_extended: bool,
    pub title: String,
    pub lines: Vec<String>,
}

/// Functions of `lspci -tv`. Columns of `+-` and `\-` say which bus the rest of a line is on.
pub fn tree(text: &str) -> Vec<Function> {
    let mut found = Vec::new();
    // By column of the branch: path of the parent and name of the bus.
    let mut buses: BTreeMap<usize, (String, String)> = BTreeMap::new();
    let hex = |text: &str| text.bytes().all(|b| b.is_ascii_hexdigit());
    for line in text.lines().filter(|line| !line.starts_with('$')) {
        let mut at = line.find(['+', '\\', '-']).unwrap_or(0);
        let mut bus = buses.get(&at).cloned().unwrap_or_default();
        loop {
            let rest = line[at..].trim_start_matches(['-', '+', '\\']);
            let start = line.len() - rest.len();
            // A branch between here and the next item is where later lines of this bus begin.
            if let Some(branch) = line[at..start].rfind(['+', '\\']) {
                buses.insert(at + branch, bus.clone());
            }
            at = start;
            if let Some(inner) = rest.strip_prefix('[') {
                let (name, _) = inner.split_once(']').unwrap();
                let first = name.split('-').next().unwrap();
                bus = match first.split_once(':') {
                    Some(_) => (format!("pci{first}"), first.to_owned()),
                    None => (bus.0, format!("0000:{first}")),
                };
                at += name.len() + 2;
            } else if rest.len() >= 4 && hex(&rest[..2]) && rest.as_bytes()[2] == b'.' && hex(&rest[3..4]) {
                let address = format!("{}:{}", bus.1, &rest[..4]);
                let path = format!("{}/{address}", bus.0);
                let name = rest[4..].strip_prefix("  ").unwrap_or_default().to_owned();
                found.push(Function { address, path: path.clone(), what: name.clone(), name, ..Function::default() });
                bus.0 = path;
                at += 4;
            } else {
                break;
            }
        }
    }
    found
}

/// Functions of `lspci -vvv`; bridges are known by their buses.
pub fn verbose(text: &str) -> Vec<Function> {
    let mut found: Vec<Function> = Vec::new();
    let mut above: BTreeMap<String, String> = BTreeMap::new();
    for block in text.split("\n\n").filter(|block| !block.trim().is_empty()) {
        let (head, body) = block.trim_start().split_once('\n').unwrap_or((block, ""));
        let (address, what) = head.split_once(' ').unwrap();
        let address = if address.len() > 7 { address.to_owned() } else { format!("0000:{address}") };
        let bus = &address[5..7];
        let parent = above.get(bus).cloned().unwrap_or_else(|| format!("pci0000:{bus}"));
        let path = format!("{parent}/{address}");
        let mut function = Function {
            what: what.to_owned(),
            name: what.split_once(": ").map_or("", |(_, name)| name).to_owned(),
            address,
            path: path.clone(),
            ..Function::default()
        };
        for line in body.lines().map(str::trim) {
            if let Some(node) = line.strip_prefix("NUMA node: ") {
                function.numa = node.parse().ok();
            } else if let Some(bus) = line.strip_prefix("Bus: ") {
                let secondary = bus.split("secondary=").nth(1).unwrap();
                above.insert(secondary[..2].to_owned(), path.clone());
            } else if let Some(capability) = line.strip_prefix("Capabilities: [") {
                let (offset, title) = capability.split_once("] ").unwrap();
                let is_extended = offset.contains(" v");
                let offset = usize::from_str_radix(offset.split(' ').next().unwrap(), 16).unwrap();
                let title = title.to_owned();
                function.capabilities.push(Capability { offset, is_extended, title, lines: Vec::new() });
            } else if let Some(last) = function.capabilities.last_mut() {
                last.lines.push(line.to_owned());
            }
        }
        found.push(function);
    }
    found
}

/// Writes the functions below `root/sys`, with an RDMA device for each function of Mellanox, in the order of addresses.
pub fn write(functions: &[Function], root: &Path) {
    let sys = root.join("sys");
    let file = |path: PathBuf, text: &str| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    fs::create_dir_all(sys.join("bus/pci/devices")).unwrap();
    let mut adapters = 0;
    for function in functions {
        let dir = sys.join("devices").join(&function.path);
        let vendors = [("NVIDIA", "0x10de"), ("Mellanox", "0x15b3"), ("ASPEED", "0x1a03"), ("Matrox", "0x102b")];
        let vendor = vendors.iter().find(|(name, _)| function.name.starts_with(name)).map_or("0x8086", |(_, id)| id);
        file(dir.join("class"), class(function));
        file(dir.join("vendor"), vendor);
        file(dir.join("device"), "0x2330");
        if !function.capabilities.is_empty() {
            fs::write(dir.join("config"), config(&function.capabilities)).unwrap();
        }
        let numa = function.numa.map_or_else(|| "-1".to_owned(), |node| node.to_string());
        file(dir.join("numa_node"), &numa);
        symlink(
            Path::new("../../../devices").join(&function.path),
            sys.join("bus/pci/devices").join(&function.address),
        )
        .unwrap();
        if function.name.starts_with("Mellanox") {
            let device = sys.join(format!("class/infiniband/mlx5_{adapters}"));
            let model = if function.name.contains("ConnectX-7") { "MT4129" } else { "MT4125" };
            file(device.join("hca_type"), model);
            file(device.join("ports/1/link_layer"), "Ethernet");
            symlink(Path::new("../../../devices").join(&function.path), device.join("device")).unwrap();
            symlink("../../../../bus/pci/drivers/mlx5_core", dir.join("driver")).unwrap();
            adapters += 1;
        }
    }
}

fn class(function: &Function) -> &'static str {
    let kinds = [
        ("3D controller", "0x030200"),
        ("VGA compatible", "0x030000"),
        ("Audio", "0x040300"),
        ("[RTX", "0x030000"),
        ("Graphics", "0x030000"),
        ("Mellanox", "0x020000"),
        ("PCI bridge", "0x060400"),
    ];
    kinds.iter().find(|(kind, _)| function.what.contains(kind)).map_or("0x088000", |(_, class)| class)
}

/// Configuration space with the capabilities that `lspci -vvv` listed, and the registers that the agent reads.
fn config(capabilities: &[Capability]) -> Vec<u8> {
    let mut space = vec![0; 4096];
    let set16 = |space: &mut Vec<u8>, at: usize, value: u16| space[at..at + 2].copy_from_slice(&value.to_le_bytes());
    space[6] = 0x10;
    let ids = [
        ("Power Management", 0x01),
        ("MSI-X", 0x11),
        ("MSI", 0x05),
        ("Vital Product", 0x03),
        ("Express", 0x10),
        ("Advanced Error", 0x01),
        ("Access Control", 0x0d),
        ("Address Translation", 0x0f),
    ];
    for (is_extended, mut link) in [(false, 0x34), (true, 0)] {
        for capability in capabilities.iter().filter(|c| c.is_extended == is_extended) {
            let at = capability.offset;
            let id = ids.iter().find(|(title, _)| capability.title.starts_with(title)).map_or(0x09, |(_, id)| *id);
            if is_extended {
                if link != 0 {
                    let next = u16::try_from(at).unwrap() << 4;
                    space[link + 2] |= next.to_le_bytes()[0];
                    space[link + 3] |= next.to_le_bytes()[1];
                }
                set16(&mut space, at, id);
                space[at + 2] |= 1;
                link = at;
            } else {
                space[link] = u8::try_from(at).unwrap();
                space[at] = u8::try_from(id).unwrap();
                link = at + 1;
            }
            for (line, text) in capability.lines.iter().enumerate() {
                let value = text.split_once(':').map_or("", |(_, value)| value);
                let flags = |names: &[&str]| -> u16 {
                    let is_on = |name: &&str| value.split_whitespace().any(|word| word == format!("{name}+"));
                    names.iter().enumerate().map(|(bit, name)| u16::from(is_on(name)) << bit).sum()
                };
                if text.starts_with("DevCtl:") {
                    set16(&mut space, at + 8, device_control(&capability.lines[line..]));
                } else if text.starts_with("ACSCtl:") {
                    let names =
                        ["SrcValid", "TransBlk", "ReqRedir", "CmpltRedir", "UpstreamFwd", "EgressCtrl", "DirectTrans"];
                    set16(&mut space, at + 6, flags(&names));
                } else if text.starts_with("ATSCtl:") {
                    set16(&mut space, at + 6, flags(&["Enable"]) << 15);
                }
            }
        }
    }
    space
}

/// Device control register, of its lines in `lspci -vvv`.
fn device_control(lines: &[String]) -> u16 {
    let relaxed = u16::from(lines[1].contains("RlxdOrd+")) << 4;
    let power = |name: &str| {
        let (_, rest) = lines[2].split_once(name).unwrap();
        let bytes: u16 = rest.split_whitespace().next().unwrap().parse().unwrap();
        bytes.ilog2() as u16 - 7
    };
    relaxed | power("MaxPayload ") << 5 | power("MaxReadReq ") << 12
}

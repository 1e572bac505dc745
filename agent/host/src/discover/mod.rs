//! Discovers the devices of a host without hardware access: only names, links and cached attributes are read, so that a
//! faulty device cannot delay others, and every function is classified before its first counter is read.
//!
//! Called by `schedule` at startup, after events, and at a slow period.

mod classify;
mod driver;
mod gid;
mod gpu;
mod netdev;
mod pci;

pub use classify::classify_reason;
pub use gid::{RoceAddress, gid_netdev, roce_address, transport};
pub use pci::{bridges, is_address};

use crate::inventory::{Class, Device, Inventory, LinkLayer, Port};
use crate::roots::Roots;
use crate::sysfile::{is_shortage, maybe};
use fabriclens_kernel::{CallError, RdmaLink};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Longest wait for netlink, which queries each driver for its port state; discovery also works from sysfs alone.
const LINKS_DEADLINE: Duration = Duration::from_secs(3);

/// One pass over the host. Classifications in `previous` are reused. Devices may be missing from the result if
/// [`crate::sysfile::shortages`] grew meanwhile.
pub fn discover(roots: &Arc<Roots>, exclude: &[String], previous: Option<&Inventory>) -> Inventory {
    let links = links(roots);
    let mut devices = Vec::new();
    let mut claimed = BTreeSet::new();
    for name in entries(&roots.sys().join("class/infiniband")) {
        if excluded(exclude, &name) {
            continue;
        }
        let known = previous.and_then(|p| p.devices.iter().find(|d| *d.name == *name));
        let device = device(roots, &name, &links, known.map(AsRef::as_ref));
        claimed.extend(device.ports.iter().filter_map(|p| p.netdev.as_ref().map(|n| n.name.to_string())));
        devices.push(Arc::new(device));
    }
    let mut netdevs = Vec::new();
    for name in entries(&roots.sys().join("class/net")) {
        if claimed.contains(&name) || excluded(exclude, &name) {
            continue;
        }
        if let Some(mut found) = netdev::physical(roots, &name) {
            let bond = devices.iter().find(|d| d.lag.contains(&name));
            found.rdma_bond = bond.map(|d| Arc::clone(&d.name));
            netdevs.push(Arc::new(found));
        }
    }
    let (pci_functions, gpus) = gpu::gpus(roots, previous);
    // `0-1` on a host with two.
    let has_one_node = maybe(&roots.sys().join("devices/system/node/online")).is_some_and(|nodes| nodes == "0");
    Inventory { devices, netdevs, gpus, pci_functions, has_one_node }
}

/// Directories of the PCI functions of all RDMA adapters, and of the bridges above them.
pub fn adapter_functions(sys: &Path) -> Vec<PathBuf> {
    let class = sys.join("class/infiniband");
    let devices = names(&class).into_iter().map(|name| followed(&followed(&class.join(name)).join("device")));
    let adapters = devices.filter_map(|device| device.canonicalize().ok());
    adapters.flat_map(|adapter| bridges(&adapter).into_iter().chain([adapter])).collect()
}

/// Names of RDMA devices and netdevs, for a cheap comparison.
pub fn class_names(roots: &Roots) -> Vec<String> {
    let mut listed = names(&roots.sys().join("class/infiniband"));
    listed.extend(names(&roots.sys().join("class/net")));
    listed
}

/// RDMA devices (true) and netdevs (false), each with the address of its PCI function. Reads links only.
pub fn functions(roots: &Roots) -> Vec<(bool, String, String)> {
    let of = |class: &'static str| {
        let found = entries(&roots.sys().join("class").join(class)).into_iter();
        found.filter_map(move |name| {
            let function = pci::of(roots, &class_dir(roots, class, &name))?;
            Some((class == "infiniband", name, function.address))
        })
    };
    of("infiniband").chain(of("net")).collect()
}

fn device(roots: &Arc<Roots>, name: &str, links: &[RdmaLink], known: Option<&Device>) -> Device {
    let dir = class_dir(roots, "infiniband", name);
    let of_device: Vec<&RdmaLink> = links.iter().filter(|l| l.device == name).collect();
    let pci = pci::of(roots, &dir);
    let names = netdev::of_device(roots, name, &dir, &of_device);
    let driver = driver::rdma(roots, name, &dir, names.first().map(|(_, n)| n.as_str()));
    let lag = netdev::bond_members(roots, name, &names);
    let mut device = Device {
        name: name.into(),
        index: of_device.first().map(|l| l.index),
        node_guid: maybe(&dir.join("node_guid")),
        firmware: maybe(&dir.join("fw_ver")).or_else(|| of_device.iter().find_map(|l| l.firmware.clone())),
        model: maybe(&dir.join("hca_type")),
        board: maybe(&dir.join("board_id")),
        numa: pci.as_ref().and_then(|p| p.numa()),
        pci: pci.as_ref().map(|p| p.address.clone()),
        pci_dir: pci.map(|p| p.dir),
        class: Class::Physical,
        class_reason: "",
        ports: Vec::new(),
        driver: driver.into(),
        lag,
        dir,
    };
    device.ports = ports(roots, &device, &of_device, &names);
    match known {
        Some(known) if known.same_epoch(&device) => {
            (device.class, device.class_reason) = (known.class, known.class_reason);
        }
        _ => (device.class, device.class_reason) = classify::device(&device),
    }
    device
}

fn ports(roots: &Roots, device: &Device, links: &[&RdmaLink], names: &[(u32, String)]) -> Vec<Port> {
    let mut numbers: BTreeSet<u32> =
        entries(&device.dir.join("ports")).iter().filter_map(|name| name.parse().ok()).collect();
    numbers.extend(links.iter().map(|l| l.port).filter(|&p| p > 0));
    let port = |number: u32| {
        let dir = device.dir.join("ports").join(number.to_string());
        let link_layer = match maybe(&dir.join("link_layer")).as_deref() {
            Some("InfiniBand") => LinkLayer::InfiniBand,
            Some("Ethernet") => LinkLayer::Ethernet,
            _ => LinkLayer::Unknown,
        };
        let netdev = names
            .iter()
            .find(|(p, name)| *p == number && !device.lag.contains(name) && device.lag.is_empty())
            .map(|(_, name)| Arc::new(netdev::facts(roots, name)));
        Port {
            number,
            link_layer,
            transport: transport(device, &dir, link_layer),
            netdev,
            link: links.iter().find(|l| l.port == number).map(|l| (*l).clone()),
            dir,
        }
    };
    numbers.into_iter().map(port).collect()
}

/// All ports by netlink; empty if it does not answer in time (a driver may block for a minute).
fn links(roots: &Arc<Roots>) -> Vec<RdmaLink> {
    let (calls, asking) = (roots.calls(), Arc::clone(roots.asking()));
    // A thread that hangs in the kernel cannot be ended: there is at most one, however often this is called.
    if asking.swap(true, Ordering::Relaxed) {
        return Vec::new();
    }
    let (send, receive) = std::sync::mpsc::sync_channel(1);
    let asked = std::thread::Builder::new().name("rdma-links".into()).spawn(move || {
        // Dropped also if the call panics.
        let _under_way = InFlight(asking);
        let _ = send.send(calls.rdma_links());
    });
    if asked.is_err() {
        roots.asking().store(false, Ordering::Relaxed);
        return Vec::new();
    }
    match receive.recv_timeout(LINKS_DEADLINE) {
        Ok(Ok(links)) => links,
        Ok(Err(error)) => {
            if let CallError::Failed { source, .. } = &error {
                is_shortage(source);
            }
            tracing::debug!(%error, "rdma netlink listed no ports");
            Vec::new()
        }
        Err(_) => {
            tracing::warn!("rdma netlink timed out; using sysfs only until it answers");
            Vec::new()
        }
    }
}

/// Marks a netlink query in progress.
struct InFlight(Arc<AtomicBool>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// Sorted names of the subdirectories; empty if the directory does not exist.
fn entries(dir: &Path) -> Vec<String> {
    let mut names = names(dir);
    names.retain(|name| followed(&dir.join(name)).is_dir());
    names
}

/// Sorted names in a directory.
fn names(dir: &Path) -> Vec<String> {
    let found = std::fs::read_dir(dir).inspect_err(|error| _ = is_shortage(error));
    let found = found.into_iter().flatten().filter_map(Result::ok);
    let mut names: Vec<String> = found.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}

/// Directory of a device or netdev.
fn class_dir(roots: &Roots, class: &str, name: &str) -> PathBuf {
    followed(&roots.sys().join("class").join(class).join(name))
}

/// Target of a link that a recording keeps as text; otherwise the path itself.
pub fn followed(path: &Path) -> PathBuf {
    let target = text_link(path).and_then(|target| Some(path.parent()?.join(target)));
    target.and_then(|target| target.canonicalize().ok()).unwrap_or_else(|| path.to_path_buf())
}

/// Target of a link: a symlink, or a text file in its place or at `<path>.symlink`.
pub fn link(path: &Path) -> Option<PathBuf> {
    std::fs::read_link(path).ok().or_else(|| text_link(path)).or_else(|| {
        let mut name = path.file_name()?.to_os_string();
        name.push(".symlink");
        maybe(&path.with_file_name(name)).map(PathBuf::from)
    })
}

/// Target of a link kept as the text of a plain file, as in archives and checkouts without symlinks.
fn text_link(path: &Path) -> Option<PathBuf> {
    let plain = path.symlink_metadata().is_ok_and(|m| m.is_file() && m.len() < 4096);
    plain.then(|| maybe(path)).flatten().filter(|text| text.starts_with("../")).map(PathBuf::from)
}

fn excluded(globs: &[String], name: &str) -> bool {
    globs.iter().any(|glob| glob_match(glob.as_bytes(), name.as_bytes()))
}

/// Matches a glob with `*` and `?`.
pub fn glob_match(glob: &[u8], text: &[u8]) -> bool {
    match (glob.split_first(), text.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => glob_match(rest, text) || (!text.is_empty() && glob_match(glob, &text[1..])),
        (Some((b'?', rest)), Some((_, tail))) => glob_match(rest, tail),
        (Some((g, rest)), Some((t, tail))) => g == t && glob_match(rest, tail),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Links as text, as archives and checkouts without symlinks keep them.
    #[test]
    fn a_recording_without_symlinks_is_followed() {
        let root = tempfile::tempdir().unwrap();
        let sys = root.path().join("sys");
        let put = |path: &str, text: &str| {
            let path = sys.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let function = "devices/pci0000:40/0000:40:03.0/0000:43:00.0";
        put("class/infiniband/qib0", &format!("../../{function}/infiniband/qib0"));
        put(&format!("{function}/infiniband/qib0/ports/1/link_layer"), "InfiniBand\n");
        put(&format!("{function}/infiniband/qib0/device"), "../../../0000:43:00.0");
        put(&format!("{function}/driver"), "../../../../bus/pci/drivers/ib_qib");
        put(&format!("{function}/numa_node"), "2\n");
        let roots = Arc::new(Roots::new(Some(root.path().to_path_buf())));
        let found = discover(&roots, &[], None);
        let device = &found.devices[0];
        assert_eq!((&*device.name, &*device.driver, device.numa), ("qib0", "ib_qib", Some(2)));
        assert_eq!(device.pci.as_deref(), Some("0000:43:00.0"));
        assert_eq!(device.ports[0].link_layer, LinkLayer::InfiniBand);
        assert_eq!(bridges(device.pci_dir.as_deref().unwrap()).len(), 1, "the bridge above is found");
    }
}

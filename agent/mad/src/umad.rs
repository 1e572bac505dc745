//! Transport over `/dev/infiniband/umadN`, and the choice of the port.

use crate::packet::Get;
use crate::transport::Mad;
use fabriclens_kernel::CallError;
use fabriclens_kernel::live::Umad;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Requests in flight; the kernel queues them per port.
const WINDOW: usize = 256;

/// A port with a umad device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UmadPort {
    /// Device file.
    pub path: PathBuf,
    /// RDMA device, for instance `mlx5_0`.
    pub device: String,
    /// Port from 1.
    pub port: u32,
    /// True if the link layer is InfiniBand and the port is active.
    pub active: bool,
}

/// Ports with a umad device, by name, from the sysfs mounted at `sys`.
pub fn ports(sys: &Path) -> Vec<UmadPort> {
    let read = |path: PathBuf| std::fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default();
    let entries = std::fs::read_dir(sys.join("class/infiniband_mad")).into_iter().flatten().flatten();
    let mut ports: Vec<UmadPort> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok().filter(|name| name.starts_with("umad"))?;
            let (device, port) = (read(entry.path().join("ibdev")), read(entry.path().join("port")).parse().ok()?);
            let dir = sys.join("class/infiniband").join(&device).join("ports").join(format!("{port}"));
            let infiniband = read(dir.join("link_layer")) == "InfiniBand";
            let active = infiniband && read(dir.join("state")).starts_with('4');
            Some(UmadPort { path: Path::new("/dev/infiniband").join(name), device, port, active })
        })
        .collect();
    ports.sort_by(|a, b| (&a.device, a.port).cmp(&(&b.device, b.port)));
    ports
}

/// The port that a configuration means: the given device and port, or the first active one.
///
/// # Errors
/// A sentence that says what is missing.
pub fn choose(ports: Vec<UmadPort>, device: Option<&str>, port: Option<u32>) -> Result<UmadPort, String> {
    let names: Vec<String> = ports.iter().map(|p| format!("{}/{}", p.device, p.port)).collect();
    let fits = |p: &UmadPort| device.is_none_or(|d| p.device == d) && port.is_none_or(|n| p.port == n);
    let mut fitting: Vec<UmadPort> = ports.into_iter().filter(fits).collect();
    fitting.sort_by_key(|p| !p.active);
    match fitting.into_iter().next() {
        Some(port) if port.active => Ok(port),
        Some(port) => Err(format!("{}/{} is not an active InfiniBand port", port.device, port.port)),
        None if names.is_empty() => Err("no umad device; load the kernel module ib_umad (modprobe ib_umad)".to_owned()),
        None => Err(format!("no such port; those with a umad device are {}", names.join(", "))),
    }
}

/// An open umad device.
#[derive(Debug)]
pub struct UmadTransport(Umad);

impl UmadTransport {
    /// Opens a port. `deadline`: see [`crate::exchange::Pace::deadline`].
    ///
    /// # Errors
    /// See [`Umad::open`].
    pub fn open(port: &UmadPort, deadline: Duration) -> Result<Self, CallError> {
        Umad::open(&port.path, deadline).map(Self)
    }
}

impl Mad for UmadTransport {
    fn send(&mut self, get: &Get, transaction: u32) -> io::Result<()> {
        self.0.send(get.class().queue_pair(), get.lid(), &get.encode(transaction))
    }

    fn receive(&mut self, wait: Duration, into: &mut Vec<u8>) -> io::Result<Option<()>> {
        self.0.receive(wait, into)
    }

    fn window(&self) -> usize {
        WINDOW
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(device: &str, port: u32, active: bool) -> UmadPort {
        UmadPort { path: PathBuf::new(), device: device.into(), port, active }
    }

    #[test]
    fn first_active_port_is_the_default() {
        let all = || vec![port("mlx5_0", 1, false), port("mlx5_1", 1, true), port("mlx5_2", 1, true)];
        let chosen = |device, number| choose(all(), device, number).map(|p| p.device);
        assert_eq!(chosen(None, None), Ok("mlx5_1".to_owned()));
        assert_eq!(chosen(Some("mlx5_2"), Some(1)), Ok("mlx5_2".to_owned()));
        assert!(chosen(Some("mlx5_0"), None).is_err_and(|why| why.contains("not an active InfiniBand port")));
        assert!(chosen(Some("mlx5_9"), None).is_err_and(|why| why.contains("mlx5_0/1, mlx5_1/1")));
        assert!(choose(Vec::new(), None, None).is_err_and(|why| why.contains("modprobe ib_umad")));
    }

    #[test]
    fn ports_come_from_sysfs() {
        let dir = tempfile::tempdir().expect("a directory");
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            std::fs::write(path, text).expect("written");
        };
        for (umad, device, layer, state) in [
            ("umad1", "mlx5_1", "InfiniBand", "4: ACTIVE"),
            ("umad0", "mlx5_0", "Ethernet", "4: ACTIVE"),
            ("issm1", "mlx5_1", "InfiniBand", "4: ACTIVE"),
        ] {
            write(&format!("class/infiniband_mad/{umad}/ibdev"), device);
            write(&format!("class/infiniband_mad/{umad}/port"), "1\n");
            write(&format!("class/infiniband/{device}/ports/1/link_layer"), layer);
            write(&format!("class/infiniband/{device}/ports/1/state"), state);
        }
        let found: Vec<_> = ports(dir.path()).into_iter().map(|p| (p.path, p.active)).collect();
        assert_eq!(found, [("/dev/infiniband/umad0".into(), false), ("/dev/infiniband/umad1".into(), true)]);
    }
}

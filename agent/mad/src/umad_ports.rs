//! Choice of the umad devices by which a subnet is read.
//!
//! Most adapters do subnet management and general services (counters) on one device. Where a port has several planes
//! (XDR), the kernel divides them: a device of its own does subnet management, with a port for each plane, and the
//! adapter's device, whose port says that subnet management is disabled, does the rest. All of these have the same port
//! GUID, which is how libibumad pairs them, too.

use std::path::{Path, PathBuf};

/// Bit `IsSMdisabled` of a port's CapabilityMask: no subnet management through this device.
const DISABLED: u32 = 0x400;

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
    /// GUID of the port; 0 if unknown.
    pub guid: u64,
    /// True if the device does subnet management.
    pub manages: bool,
}

/// The ports by which a subnet is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UmadPair {
    /// Port for subnet management: directed routes.
    pub subnet: UmadPort,
    /// Port for general services: counters.
    pub general: UmadPort,
}

impl UmadPort {
    /// Device and port, as in series and in the configuration.
    fn name(&self) -> String {
        format!("{}/{}", self.device, self.port)
    }

    /// Whether the configuration means this port.
    fn is(&self, device: Option<&str>, port: Option<u32>) -> bool {
        device.is_none_or(|device| self.device == device) && port.is_none_or(|port| self.port == port)
    }
}

impl UmadPair {
    /// Name of the port, and of the one for subnet management if that is another.
    pub fn name(&self) -> String {
        if self.subnet == self.general {
            self.general.name()
        } else {
            format!("{} (subnet management: {})", self.general.name(), self.subnet.name())
        }
    }

    fn is_active(&self) -> bool {
        self.subnet.active && self.general.active
    }
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
            let mask = read(dir.join("cap_mask"));
            let mask = u32::from_str_radix(mask.trim_start_matches("0x"), 16).unwrap_or(0);
            let guid = port_guid(&read(dir.join("gids/0"))).unwrap_or(0);
            let path = Path::new("/dev/infiniband").join(name);
            Some(UmadPort { path, device, port, active, guid, manages: mask & DISABLED == 0 })
        })
        .collect();
    ports.sort_by(|a, b| (&a.device, a.port).cmp(&(&b.device, b.port)));
    ports
}

/// Lower half of a GID, `fe80:0000:0000:0000:0002:c903:00c0:0010`.
fn port_guid(gid: &str) -> Option<u64> {
    let words: Vec<&str> = gid.split(':').collect();
    if words.len() != 8 {
        return None;
    }
    words[4..].iter().try_fold(0, |guid, word| Some(guid << 16 | u64::from(u16::from_str_radix(word, 16).ok()?)))
}

/// All pairs of a device for general services and one for the subnet management of the same port.
fn pairs(ports: &[UmadPort]) -> Vec<UmadPair> {
    let mut pairs = Vec::new();
    for general in ports {
        let others = ports.iter().filter(|other| general.guid != 0 && other.guid == general.guid);
        let divided = others.clone().any(|other| !other.manages);
        if divided && !general.manages {
            let managing = others.filter(|other| other.manages);
            pairs.extend(managing.map(|subnet| UmadPair { subnet: subnet.clone(), general: general.clone() }));
        } else if !divided && general.manages {
            pairs.push(UmadPair { subnet: general.clone(), general: general.clone() });
        }
    }
    pairs
}

/// The port that a configuration means: the given device and port, or the first active one.
///
/// # Errors
/// A sentence that says what is missing.
pub fn choose(ports: &[UmadPort], device: Option<&str>, port: Option<u32>) -> Result<UmadPair, String> {
    let is_meant = |p: &UmadPort| p.is(device, port);
    let fitting = pairs(ports).into_iter().filter(|pair| is_meant(&pair.general) || is_meant(&pair.subnet));
    match fitting.min_by_key(|pair| !pair.is_active()) {
        Some(pair) if pair.is_active() => return Ok(pair),
        Some(pair) => return Err(format!("{} is not an active InfiniBand port", pair.name())),
        None => {}
    }
    let names: Vec<String> = ports.iter().map(UmadPort::name).collect();
    match ports.iter().find(|p| is_meant(p)) {
        Some(port) => Err(format!(
            "{} does no subnet management, and no other device does it for this port; add one \
             (rdma dev add smi0 type SMI parent {})",
            port.name(),
            port.device
        )),
        None if names.is_empty() => Err("no umad device; load the kernel module ib_umad (modprobe ib_umad)".to_owned()),
        None => Err(format!("no such port; those with a umad device are {}", names.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(device: &str, port: u32, active: bool) -> UmadPort {
        UmadPort { path: PathBuf::new(), device: device.into(), port, active, guid: 0, manages: true }
    }

    #[test]
    fn first_active_port_is_the_default() {
        let all = [port("mlx5_0", 1, false), port("mlx5_1", 1, true), port("mlx5_2", 1, true)];
        let chosen = |device, number| choose(&all, device, number).map(|pair| pair.name());
        assert_eq!(chosen(None, None), Ok("mlx5_1/1".to_owned()));
        assert_eq!(chosen(Some("mlx5_2"), Some(1)), Ok("mlx5_2/1".to_owned()));
        assert!(chosen(Some("mlx5_0"), None).is_err_and(|why| why.contains("not an active InfiniBand port")));
        assert!(chosen(Some("mlx5_9"), None).is_err_and(|why| why.contains("mlx5_0/1, mlx5_1/1")));
        assert!(choose(&[], None, None).is_err_and(|why| why.contains("modprobe ib_umad")));
    }

    /// A sysfs with these umad devices: name, RDMA device, port, link layer, state, CapabilityMask, last digit of the GUID.
    fn sysfs(devices: &[(&str, &str, u32, &str, &str, &str, u8)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a directory");
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            std::fs::write(path, text).expect("written");
        };
        for (umad, device, port, layer, state, mask, guid) in devices {
            write(&format!("class/infiniband_mad/{umad}/ibdev"), device);
            write(&format!("class/infiniband_mad/{umad}/port"), &format!("{port}\n"));
            let dir = format!("class/infiniband/{device}/ports/{port}");
            write(&format!("{dir}/link_layer"), layer);
            write(&format!("{dir}/state"), state);
            write(&format!("{dir}/cap_mask"), &format!("{mask}\n"));
            write(&format!("{dir}/gids/0"), &format!("fe80:0000:0000:0000:0002:c903:00c0:000{guid}\n"));
        }
        dir
    }

    const LAYER: &str = "InfiniBand";
    const ACTIVE: &str = "4: ACTIVE";
    /// Masks of a port that does subnet management, and of one that does not.
    const MANAGES: &str = "0xa651e848";
    const MANAGES_NOT: &str = "0xa651ec48";

    #[test]
    fn ports_come_from_sysfs() {
        let sys = sysfs(&[
            ("umad1", "mlx5_1", 1, LAYER, ACTIVE, MANAGES, 1),
            ("umad0", "mlx5_0", 1, "Ethernet", ACTIVE, MANAGES_NOT, 2),
            ("issm1", "mlx5_1", 1, LAYER, ACTIVE, MANAGES, 1),
        ]);
        let found: Vec<_> = ports(sys.path()).into_iter().map(|p| (p.path, p.active, p.guid & 15, p.manages)).collect();
        let umad = |number: u8| PathBuf::from(format!("/dev/infiniband/umad{number}"));
        assert_eq!(found, [(umad(0), false, 2, false), (umad(1), true, 1, true)]);
        assert_eq!(port_guid("fe80::2:c903:c0:10"), None, "the kernel writes all words");
    }

    #[test]
    fn planes_of_a_port_share_its_guid() {
        // An adapter with two ports of two planes each; the devices for subnet management come last, as the kernel makes them.
        let sys = sysfs(&[
            ("umad0", "mlx5_0", 1, LAYER, ACTIVE, MANAGES_NOT, 1),
            ("umad1", "mlx5_1", 1, LAYER, ACTIVE, MANAGES_NOT, 2),
            ("umad2", "smi0", 1, LAYER, "1: DOWN", MANAGES, 1),
            ("umad3", "smi0", 2, LAYER, ACTIVE, MANAGES, 1),
            ("umad4", "smi1", 1, LAYER, ACTIVE, MANAGES, 2),
            ("umad5", "smi1", 2, LAYER, ACTIVE, MANAGES, 2),
        ]);
        let all = ports(sys.path());
        let chosen = |device, port| choose(&all, device, port);
        let names =
            |pair: UmadPair| [pair.subnet.path, pair.general.path].map(|p| p.display().to_string()[20..].to_owned());
        let pair = |subnet: &str, general: &str| Ok([subnet.to_owned(), general.to_owned()]);
        assert_eq!(chosen(None, None).map(names), pair("3", "0"), "the plane that is up");
        assert_eq!(chosen(Some("mlx5_1"), None).map(names), pair("4", "1"));
        assert_eq!(chosen(Some("smi1"), Some(2)).map(names), pair("5", "1"), "the plane that was chosen");
        assert_eq!(chosen(None, None).map(|pair| pair.name()), Ok("mlx5_0/1 (subnet management: smi0/2)".to_owned()));
        assert!(chosen(Some("smi0"), Some(1)).is_err_and(|why| why.contains("not an active InfiniBand port")));
        let lone = [all[0].clone()];
        assert!(choose(&lone, None, None).is_err_and(|why| why.contains("parent mlx5_0")), "no device manages it");
    }
}

//! Names under which the agent exports the devices that messages of the kernel log name by PCI address, RDMA device or interface.

use fabriclens_agent_host::discover::functions;
use fabriclens_agent_host::roots::Roots;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most PCI functions and names that are kept.
const MOST: usize = 1024;

/// Names of a PCI function; empty without one.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct FunctionNames {
    /// Label `device`: the RDMA device, or an interface without one.
    pub device: String,
    /// Interface.
    pub netdev: String,
    /// PCI address.
    pub pci: String,
}

/// Devices of the host. Those that went away are kept: a message about a device may come after its end.
#[derive(Debug)]
pub(crate) struct Names {
    roots: Arc<Roots>,
    functions: BTreeMap<String, FunctionNames>,
    /// PCI address of each RDMA device and interface.
    addresses: BTreeMap<String, String>,
    /// Devices were listed since [`Names::begin`].
    is_fresh: bool,
}

impl Names {
    /// Lists the devices.
    pub fn new(roots: &Arc<Roots>) -> Self {
        let mut names =
            Self { roots: Arc::clone(roots), functions: BTreeMap::new(), addresses: BTreeMap::new(), is_fresh: false };
        names.list();
        names
    }

    /// Permits one listing of the devices, if a message names an unknown one.
    pub fn begin(&mut self) {
        self.is_fresh = false;
    }

    /// Names of the device that a message names.
    pub fn of(&mut self, pci: Option<&str>, name: Option<&str>) -> FunctionNames {
        let is_known = pci.is_some_and(|pci| self.functions.contains_key(pci))
            || name.is_some_and(|name| self.addresses.contains_key(name));
        if !is_known && !self.is_fresh {
            self.list();
        }
        let address = pci.or_else(|| name.and_then(|name| self.addresses.get(name)).map(String::as_str));
        let Some(address) = address else { return FunctionNames::default() };
        let mut found = self.functions.get(address).cloned().unwrap_or_default();
        address.clone_into(&mut found.pci);
        // The function has several interfaces: the message says which.
        if let Some(name) = name.filter(|name| **name != *found.device && self.addresses.contains_key(*name)) {
            name.clone_into(&mut found.netdev);
        }
        found
    }

    fn list(&mut self) {
        self.is_fresh = true;
        if self.functions.len() >= MOST || self.addresses.len() >= MOST {
            self.functions.clear();
            self.addresses.clear();
        }
        for (is_rdma, name, address) in functions(&self.roots) {
            let function = self.functions.entry(address.clone()).or_default();
            if is_rdma {
                function.device.clone_from(&name);
            } else if function.netdev.is_empty() {
                function.netdev.clone_from(&name);
            }
            self.addresses.insert(name, address);
        }
        for function in self.functions.values_mut().filter(|function| function.device.is_empty()) {
            function.device.clone_from(&function.netdev);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_named_as_their_series_are() {
        let host = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/hosts/mlx5-roce");
        let mut names = Names::new(&Arc::new(Roots::new(Some(host.into()))));
        let of = |names: &mut Names, pci: Option<&str>, name: Option<&str>| {
            let found = names.of(pci, name);
            format!("{} {} {}", found.device, found.netdev, found.pci)
        };
        assert_eq!(of(&mut names, Some("0000:3b:00.0"), None), "mlx5_0 ens1f0np0 0000:3b:00.0");
        assert_eq!(of(&mut names, None, Some("mlx5_0")), "mlx5_0 ens1f0np0 0000:3b:00.0");
        assert_eq!(of(&mut names, None, Some("ens1f0np0")), "mlx5_0 ens1f0np0 0000:3b:00.0");
        assert_eq!(of(&mut names, Some("0000:9b:00.0"), None), "  0000:9b:00.0", "no device of the fabric");
        assert_eq!(of(&mut names, None, Some("a-name-of-somebody")), "  ");
    }

    #[test]
    fn device_that_is_gone_keeps_its_name() {
        let sys = tempfile::tempdir().unwrap();
        let device = sys.path().join("sys/class/infiniband/bnxt_re0/device");
        std::fs::create_dir_all(&device).unwrap();
        std::fs::write(device.join("uevent"), "PCI_SLOT_NAME=0000:41:00.0\n").unwrap();
        let mut names = Names::new(&Arc::new(Roots::new(Some(sys.path().into()))));
        std::fs::remove_dir_all(sys.path().join("sys/class/infiniband")).unwrap();
        names.begin();
        assert_eq!(names.of(Some("0000:41:00.0"), None).device, "bnxt_re0");
    }
}

//! Finds the GPUs among the PCI functions.

use super::{followed, names};
use crate::gpu::{Gpu, MOST_GPUS};
use crate::inventory::Inventory;
use crate::roots::Roots;
use std::sync::Arc;

/// Names of all PCI functions, and the GPUs among them. A host has hundreds of functions, so they are looked at again
/// only if their names changed.
pub(super) fn gpus(roots: &Roots, previous: Option<&Inventory>) -> (Arc<[String]>, Vec<Arc<Gpu>>) {
    let bus = roots.sys().join("bus/pci/devices");
    let functions = names(&bus);
    if let Some(previous) = previous.filter(|previous| *previous.pci_functions == *functions) {
        return (Arc::clone(&previous.pci_functions), previous.gpus.clone());
    }
    let mut found: Vec<Arc<Gpu>> = Vec::new();
    for address in &functions {
        let at = followed(&bus.join(address));
        let Ok(dir) = at.canonicalize() else { continue };
        let Some(gpu) = Gpu::at(found.len(), address, &dir) else { continue };
        if found.len() == MOST_GPUS {
            tracing::warn!(limit = MOST_GPUS, "host has more GPUs than are read; the rest is left out");
            break;
        }
        found.push(Arc::new(gpu));
    }
    (functions.into(), found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn host(gpus: usize) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        (0..gpus).for_each(|gpu| add(dir.path(), gpu));
        dir
    }

    fn add(root: &Path, gpu: usize) {
        let function = root.join(format!("sys/bus/pci/devices/0000:{gpu:02x}:00.0"));
        std::fs::create_dir_all(&function).unwrap();
        for (file, text) in [("class", "0x030200"), ("vendor", "0x10de"), ("device", "0x2330")] {
            std::fs::write(function.join(file), text).unwrap();
        }
    }

    #[test]
    fn gpus_are_bounded() {
        let dir = host(MOST_GPUS + 3);
        let (functions, found) = gpus(&Roots::new(Some(dir.path().to_owned())), None);
        assert_eq!((functions.len(), found.len()), (MOST_GPUS + 3, MOST_GPUS));
        assert_eq!(found.last().unwrap().index, MOST_GPUS - 1);
    }

    #[test]
    fn functions_are_read_again_when_their_names_change() {
        let dir = host(2);
        let roots = Roots::new(Some(dir.path().to_owned()));
        let (pci_functions, found) = gpus(&roots, None);
        let known = Inventory { gpus: found, pci_functions, ..Inventory::default() };
        // Not read: a changed file of a known function goes unnoticed.
        std::fs::write(dir.path().join("sys/bus/pci/devices/0000:00:00.0/class"), "0x020000").unwrap();
        assert_eq!(gpus(&roots, Some(&known)).1, known.gpus);
        add(dir.path(), 2);
        let addresses: Vec<String> = gpus(&roots, Some(&known)).1.iter().map(|gpu| gpu.address.clone()).collect();
        assert_eq!(addresses, ["0000:01:00.0", "0000:02:00.0"]);
    }
}

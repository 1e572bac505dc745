//! PCI function of a class device, and its real directory.

use super::{followed, link};
use crate::roots::Roots;
use crate::sysfile::maybe;
use std::path::{Path, PathBuf};

/// A PCI function.
pub(super) struct Function {
    pub address: String,
    pub dir: PathBuf,
}

impl Function {
    /// NUMA node; `None` if the kernel says -1.
    pub fn numa(&self) -> Option<u32> {
        maybe(&self.dir.join("numa_node"))?.parse().ok()
    }
}

/// Follows `<class dir>/device`. An auxiliary device (a scalable function) leads to its parent PCI function.
pub(super) fn of(roots: &Roots, class_dir: &Path) -> Option<Function> {
    let by_link = followed(&class_dir.join("device"));
    let real = std::fs::canonicalize(&by_link).ok();
    let named = real.clone().filter(|p| p.ancestors().any(is_function)).or_else(|| link(&by_link));
    if let Some(path) = named
        && let Some(function) = path.ancestors().find(|p| is_function(p))
    {
        let address = function.file_name()?.to_str()?.to_string();
        let bus = roots.sys().join("bus/pci/devices").join(&address);
        let dir = if real.is_some() { function.to_path_buf() } else { std::fs::canonicalize(&bus).unwrap_or(bus) };
        return Some(Function { address, dir });
    }
    // A copied tree has a plain directory `device`; its uevent may still name the function.
    let uevent = maybe(&by_link.join("uevent"))?;
    let address = uevent.lines().find_map(|l| l.strip_prefix("PCI_SLOT_NAME="))?.to_string();
    Some(Function { address, dir: by_link })
}

/// True if the directory name is a PCI address such as `0000:3b:00.0`.
fn is_function(path: &Path) -> bool {
    path.file_name().and_then(|n| n.to_str()).is_some_and(is_address)
}

/// True for `domain:bus:device.function`.
pub fn is_address(name: &str) -> bool {
    let mut parts = name.split([':', '.']);
    let hex = |part: Option<&str>, least: usize| {
        part.is_some_and(|p| p.len() >= least && p.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    name.contains('.')
        && hex(parts.next(), 4)
        && hex(parts.next(), 2)
        && hex(parts.next(), 2)
        && hex(parts.next(), 1)
        && parts.next().is_none()
}

/// Bridges above a function, from the root port down.
pub fn bridges(dir: &Path) -> Vec<PathBuf> {
    let mut above: Vec<PathBuf> =
        dir.ancestors().skip(1).take_while(|p| is_function(p)).map(Path::to_path_buf).collect();
    above.reverse();
    above
}

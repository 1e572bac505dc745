//! Lists of kernel modules for guests, in loading order.

use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A list that a guest loads at boot, by name.
#[derive(Debug)]
pub struct List {
    /// `lab.modules=` on the kernel's command line.
    pub name: &'static str,
    /// Modules, without their dependencies.
    pub modules: &'static [&'static str],
}

/// The network card, which every guest needs to be reachable.
const BASE: &[&str] = &["virtio_pci", "virtio_net"];

/// All lists. `crc32_generic` comes before `rdma_rxe`, and `crc32c_generic` before `nf_tables`: those request them by name at run time.
pub const LISTS: &[List] = &[
    List { name: "base", modules: &[] },
    List {
        name: "rxe",
        modules: &["crc32_generic", "rdma_rxe", "rdma_ucm", "sch_netem", "sch_red", "sch_tbf", "sch_prio", "tcp_diag"],
    },
    List { name: "router", modules: &["veth", "crc32c_generic", "nf_tables", "nft_objref", "sch_netem"] },
    List { name: "hca", modules: &["ib_core", "ib_umad"] },
];

/// Module files in loading order, by list.
///
/// # Errors
/// When a module of the table is not in the kernel package.
pub fn order(root: &Path, kernel: &str) -> Result<Vec<(&'static str, Vec<PathBuf>)>> {
    let base = root.join("lib/modules").join(kernel);
    let mut files = BTreeMap::new();
    find(&base.join("kernel"), &mut files).with_context(|| format!("reading {}", base.display()))?;
    let builtin: BTreeSet<String> =
        fs::read_to_string(base.join("modules.builtin"))?.lines().map(|line| name_of(Path::new(line))).collect();
    let mut lists = Vec::new();
    for list in LISTS {
        let (mut done, mut seen) = (Vec::new(), BTreeSet::new());
        for module in BASE.iter().chain(list.modules) {
            visit(module, &files, &builtin, &mut seen, &mut done)?;
        }
        lists.push((list.name, done));
    }
    Ok(lists)
}

fn visit(
    module: &str,
    files: &BTreeMap<String, PathBuf>,
    builtin: &BTreeSet<String>,
    seen: &mut BTreeSet<String>,
    done: &mut Vec<PathBuf>,
) -> Result<()> {
    if builtin.contains(module) || !seen.insert(module.to_owned()) {
        return Ok(());
    }
    let file = files.get(module).with_context(|| format!("the kernel package has no module {module}"))?;
    for needed in depends(&fs::read(file)?) {
        visit(&needed, files, builtin, seen, done)?;
    }
    done.push(file.clone());
    Ok(())
}

/// The `depends=` entry of a module's information section.
fn depends(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(at) = module.windows(KEY.len()).position(|window| window == KEY) else {
        return Vec::new();
    };
    let tail = &module[at + KEY.len()..];
    let end = tail.iter().position(|&byte| byte == 0).unwrap_or(0);
    let list = String::from_utf8_lossy(&tail[..end]);
    list.split(',').filter(|name| !name.is_empty()).map(|name| name.replace('-', "_")).collect()
}

fn find(folder: &Path, files: &mut BTreeMap<String, PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            find(&path, files)?;
        } else if path.extension().is_some_and(|end| end == "ko") {
            files.insert(name_of(&path), path);
        }
    }
    Ok(())
}

/// Module name of a file: the kernel writes `-` and `_` interchangeably.
fn name_of(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().replace('-', "_")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_come_from_modinfo() {
        let module = b"\x7fELF..\0license=GPL\0depends=ib-core,udp_tunnel\0name=x\0";
        assert_eq!(depends(module), ["ib_core", "udp_tunnel"]);
        assert!(depends(b"\x7fELF\0depends=\0name=x\0").is_empty());
        assert!(depends(b"no information here").is_empty());
    }
}

//! Traffic class that a host's settings give to the RoCE packets of a port. The kernel tells no traffic class of single queue
//! pairs; an application may set another one, unless the driver forces its own.

use crate::inventory::Device;
use crate::sysfile::{CachedFile, FileError, NotNumber, number};
use std::path::PathBuf;

/// What the driver prints before the class that it forces.
const FORCED: &[u8] = b"Global tclass=";

/// Setting that gives a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassSetting {
    /// The driver forces it on all queue pairs (`tc/N/traffic_class` of mlx5).
    Driver,
    /// RDMA-CM gives it to the connections that it makes (`default_roce_tos`).
    RdmaCm,
}

impl ClassSetting {
    /// Words for people.
    pub fn words(self) -> &'static str {
        match self {
            Self::Driver => "forced by the driver, tc/N/traffic_class",
            Self::RdmaCm => "of RDMA-CM's connections, default_roce_tos",
        }
    }
}

/// Traffic class and the setting that gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoceClass {
    /// DSCP in the upper six bits.
    pub class: u8,
    /// Its source.
    pub setting: ClassSetting,
}

/// The traffic class of a port's RoCE packets by the settings of the host; `None` if they give none. What the driver forces comes first.
pub fn roce_class(device: &Device, port: u32) -> Option<RoceClass> {
    let read = |path: PathBuf, setting| {
        let class = u8::try_from(read_class(&mut CachedFile::new(path)).ok()?).ok()?;
        Some(RoceClass { class, setting })
    };
    let forced = device.dir.join("tc").join(port.to_string()).join("traffic_class");
    // The device is at `<sys>/class/infiniband/<name>`. Configfs shows a device only after an administrator made its directory there.
    let of_cm = || {
        let sys = device.dir.ancestors().nth(3)?;
        let of_device = sys.join("kernel/config/rdma_cm").join(&*device.name).join("ports");
        read(of_device.join(port.to_string()).join("default_roce_tos"), ClassSetting::RdmaCm)
    };
    read(forced, ClassSetting::Driver).or_else(of_cm)
}

/// Reads a traffic class from a file.
///
/// # Errors
/// [`FileError`], as for [`CachedFile::number`].
pub fn read_class(file: &mut CachedFile) -> Result<u64, FileError> {
    file.parse(class_number)
}

/// A number, or the first line of mlx5's `traffic_class`: `Global tclass=106`. Further lines are rules for single addresses; an empty
/// file, or rules alone, force nothing on all.
fn class_number(text: &[u8]) -> Result<u64, NotNumber> {
    let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    match line.strip_prefix(FORCED) {
        Some(class) => number(class),
        None if line.contains(&b'=') => Err(NotNumber::Absent("no class for all queue pairs".to_owned())),
        None => number(line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_class_that_the_driver_forces_comes_first() {
        let sys = tempfile::tempdir().unwrap();
        let dir = sys.path().join("class/infiniband/mlx5_0");
        let device = Device { dir: dir.clone(), ..Device::bare("mlx5_0", "mlx5_core") };
        let write = |path: PathBuf, text: &str| {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let class = |class, setting| Some(RoceClass { class, setting });
        assert_eq!(roce_class(&device, 1), None);
        write(sys.path().join("kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos"), "104\n");
        assert_eq!(roce_class(&device, 1), class(104, ClassSetting::RdmaCm));
        write(dir.join("tc/1/traffic_class"), "\n");
        assert_eq!(roce_class(&device, 1), class(104, ClassSetting::RdmaCm), "nothing is forced");
        write(dir.join("tc/1/traffic_class"), "Global tclass=106\n");
        assert_eq!(roce_class(&device, 1), class(106, ClassSetting::Driver));
        assert_eq!(roce_class(&device, 2), None, "of another port");
    }

    #[test]
    fn rules_for_single_addresses_force_nothing_on_all() {
        assert_eq!(class_number(b"Global tclass=106\ndst_ip=10.0.0.1,tclass=8\n"), Ok(106));
        assert!(matches!(class_number(b"dst_ip=10.0.0.1,tclass=8\n"), Err(NotNumber::Absent(_))));
        assert!(matches!(class_number(b""), Err(NotNumber::Absent(_))));
        assert_eq!(class_number(b"104\n"), Ok(104));
        assert!(matches!(class_number(b"Global tclass=-1"), Err(NotNumber::Bad(_))));
    }
}

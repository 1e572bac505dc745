//! Parses kernel uevents about RDMA devices: `ACTION@DEVPATH`, then `KEY=value`, each NUL-terminated. Used by
//! [`super::events`].

/// Uevent about an RDMA device.
#[derive(Debug, PartialEq, Eq)]
pub enum Uevent {
    /// A device was added or renamed to this name.
    Added(String),
    /// A device of this name was removed.
    Removed(String),
    /// A character device was added: libibverbs can open its device.
    VerbsAdded,
    /// This character device is about to be removed. It must be closed, because its driver waits for that.
    VerbsRemoved(String),
}

/// Parses a message of the kernel's uevent group.
pub fn parse(message: &[u8]) -> Option<Uevent> {
    let fields = || message.split(|b| *b == 0).filter_map(|field| std::str::from_utf8(field).ok());
    let value = |key: &str| fields().find_map(|field| field.strip_prefix(key)?.strip_prefix('='));
    let name = value("DEVPATH")?.rsplit('/').next()?.to_owned();
    match (value("SUBSYSTEM")?, value("ACTION")?) {
        ("infiniband", "add" | "move") => Some(Uevent::Added(name)),
        ("infiniband", "remove") => Some(Uevent::Removed(name)),
        ("infiniband_verbs", "add") => Some(Uevent::VerbsAdded),
        ("infiniband_verbs", "remove") => Some(Uevent::VerbsRemoved(name)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(action: &str, path: &str, subsystem: &str) -> Vec<u8> {
        format!("{action}@{path}\0ACTION={action}\0DEVPATH={path}\0SUBSYSTEM={subsystem}\0SEQNUM=7\0").into_bytes()
    }

    #[test]
    fn only_rdma_uevents_are_parsed() {
        let device = "/devices/pci0000:c9/0000:ca:00.0/infiniband/mlx5_0";
        let of = |action, path, subsystem| parse(&message(action, path, subsystem));
        assert_eq!(of("add", device, "infiniband"), Some(Uevent::Added("mlx5_0".into())));
        assert_eq!(of("move", device, "infiniband"), Some(Uevent::Added("mlx5_0".into())));
        assert_eq!(of("remove", device, "infiniband"), Some(Uevent::Removed("mlx5_0".into())));
        assert_eq!(of("add", "/x/uverbs0", "infiniband_verbs"), Some(Uevent::VerbsAdded));
        assert_eq!(of("remove", "/x/uverbs0", "infiniband_verbs"), Some(Uevent::VerbsRemoved("uverbs0".into())));
        assert_eq!(of("change", device, "infiniband"), None);
        assert_eq!(of("add", "/x/sda", "block"), None);
        assert_eq!(parse(b"libudev\0\xfe\xed"), None);
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            let _ = parse(&bytes);
        }
    }
}

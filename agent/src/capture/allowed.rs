//! What a scrubbed recording may contain as it is. Everything else is replaced: a new driver or kernel may put names,
//! addresses and serial numbers of the site into files that nobody thought of.

/// Files of sysfs and procfs whose words are the kernel's or a driver's own, by name.
const VOCABULARIES: &[&str] = &[
    "aer_dev_correctable",
    "aer_dev_fatal",
    "aer_dev_nonfatal",
    "arch",
    "board_id",
    "current_link_speed",
    "default_roce_mode",
    "duplex",
    "fw_ver",
    "hca_type",
    "hw_rev",
    "link_layer",
    "max_link_speed",
    "netstat",
    "node_type",
    "online",
    "operstate",
    "ostype",
    "phys_state",
    "rate",
    "snmp",
    "state",
    "trust",
    "vpd",
];
/// Keys of `uevent` and `os-release` whose values may stay.
const KEYS: &[&str] = &[
    "DEVTYPE",
    "DRIVER",
    "ID",
    "ID_LIKE",
    "IFINDEX",
    "INTERFACE",
    "MODALIAS",
    "NAME",
    "PCI_CLASS",
    "PCI_ID",
    "PCI_SLOT_NAME",
    "PCI_SUBSYS_ID",
    "PRETTY_NAME",
    "VERSION",
    "VERSION_ID",
];
/// Words of distributions, kernels and settings.
const WORDS: &[&str] = &[
    "active",
    "active-backup",
    "aarch64",
    "almalinux",
    "amd64",
    "amzn",
    "arm64",
    "auto",
    "aws",
    "azure",
    "balance-rr",
    "balance-xor",
    "bookworm",
    "broadcast",
    "centos",
    "cloud",
    "debian",
    "default",
    "disabled",
    "down",
    "enabled",
    "enterprise",
    "fast",
    "fedora",
    "full",
    "gcp",
    "generic",
    "gnu",
    "half",
    "hat",
    "ib",
    "infiniband",
    "kernel",
    "layer2",
    "layer3+4",
    "leap",
    "linux",
    "lts",
    "msi",
    "msix",
    "no",
    "none",
    "off",
    "on",
    "opensuse",
    "oracle",
    "passive",
    "pcie",
    "red",
    "release",
    "rhel",
    "rocky",
    "roce",
    "rt",
    "server",
    "slave",
    "slow",
    "suse",
    "ubuntu",
    "unknown",
    "up",
    "v1",
    "v2",
    "x86_64",
    "yes",
    "802.3ad",
    "pci",
    "net",
];
/// How names of devices begin that the kernel, a driver or systemd gives.
const DEVICES: &[&str] = &[
    "bnxt_re", "bond", "br", "cxgb4_", "docker", "efa_", "en", "erdma_", "eth", "hfi1_", "hns_", "hsn", "i40iw", "ib",
    "ionic_", "irdma", "lo", "mana_", "mlx4_", "mlx5_", "mthca", "ocrdma", "qedr", "qib", "rdmap", "roce", "rxe",
    "siw", "team", "usb", "veth", "virbr", "vlan", "wl",
];

/// Whether the words of a file need no check.
pub(super) fn is_vocabulary(file: &str) -> bool {
    VOCABULARIES.contains(&file)
}

/// Whether the value of a key may stay, as far as its words may.
pub(super) fn is_key(key: &str) -> bool {
    KEYS.contains(&key)
}

/// Whether a word says nothing about the site: a number, a word of the kernel, a name that the kernel gives a device.
pub(super) fn is_harmless(word: &str) -> bool {
    let known = WORDS.iter().any(|known| known.eq_ignore_ascii_case(word));
    known || word.len() < 2 || is_number(word) || is_pci(word) || is_kernel_name(word) || is_kernel_release(word)
}

/// Decimal with at most one dot, or hexadecimal with `0x`; four numbers with dots may be an address.
fn is_number(word: &str) -> bool {
    let word = word.trim_end_matches(['.', ':', '-']);
    if let Some(hex) = word.strip_prefix("0x") {
        return hex.len() <= 16 && hex.bytes().all(|b| b.is_ascii_hexdigit());
    }
    let digits = word.strip_prefix(['-', '+']).unwrap_or(word);
    digits.len() <= 20
        && digits.bytes().all(|b| b.is_ascii_digit() || b == b'.')
        && digits.bytes().filter(|b| *b == b'.').count() <= 1
}

/// `0000:3b:00.0`
fn is_pci(word: &str) -> bool {
    let parts: Vec<&str> = word.split([':', '.']).collect();
    parts.len() == 4
        && parts
            .iter()
            .zip([4, 2, 2, 1])
            .all(|(part, n)| part.len() == n && part.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// `6.12.0-18-amd64`, `5.14.0-427.el9.x86_64`
fn is_kernel_release(word: &str) -> bool {
    let part = |part: &str| {
        part.bytes().all(|b| b.is_ascii_digit())
            || part.strip_prefix("el").is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit() || b == b'_'))
            || ["x86_64", "aarch64", "amd64", "arm64", "generic", "cloud", "rt", "default"].contains(&part)
    };
    word.contains('.') && word.split(['.', '-']).count() > 4 && word.split(['.', '-']).all(part)
}

/// A name that the kernel, a driver or systemd gives a device: `eth0`, `enp59s0f0np0`, `bond0.100`, `mlx5_bond_0`, `HCA-1`.
pub(super) fn is_kernel_name(word: &str) -> bool {
    if word.strip_prefix("HCA-").is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit())) {
        return true;
    }
    let rest = DEVICES.iter().filter_map(|prefix| word.strip_prefix(prefix)).min_by_key(|rest| rest.len());
    let Some(rest) = rest else { return false };
    let rest = rest.strip_prefix("bond_").unwrap_or(rest);
    rest.is_empty() && word == "lo"
        || rest.bytes().any(|b| b.is_ascii_digit())
            && rest.bytes().all(|b| b.is_ascii_digit() || b"pfsndov._x".contains(&b))
        || word.strip_prefix("enx").is_some_and(|mac| mac.len() == 12 && mac.bytes().all(|b| b.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn harmless_words() {
        for word in [
            "1000",
            "-1",
            "0x15b3",
            "99.5",
            "0000:3b:00.0",
            "eth0",
            "enp59s0f0np0",
            "bond0.100",
            "mlx5_0",
            "mlx5_bond_0",
            "lo",
            "HCA-1",
            "UP",
            "enxb8cef6010203",
            "6.12.0-18-amd64",
            "5.14.0-427.13.1.el9_4.x86_64",
        ] {
            assert!(is_harmless(word), "{word}");
        }
        for word in [
            "10.1.2.3",
            "alice",
            "node17",
            "MT1234X567",
            "deadbeef",
            "rail-alice0",
            "ensecret",
            "6.12.0-alice-amd64",
            "fd00:1:2:3",
            "ethan",
        ] {
            assert!(!is_harmless(word), "{word}");
        }
    }
}

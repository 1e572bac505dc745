//! Layout of the simulated fabric: hosts, NICs, leaves, spines, and the indices of their links.

/// Simulated hosts.
pub const HOSTS: usize = 16;
/// NICs per host, one per rail.
pub const RAILS: usize = 8;
/// Hosts per pod.
pub const POD: usize = 8;
pub const SPINES: usize = 4;
pub const LEAVES: usize = HOSTS / POD * RAILS;
/// Line rate in bytes per second: 400 Gb/s.
pub const LINE: f64 = 50e9;
/// Bytes of a full RoCE frame.
pub const FRAME: f64 = 4132.0;

/// A NIC, by host and rail.
pub type Port = (usize, usize);

/// Name of a simulated host: `gpu-03`.
pub fn host_name(host: usize) -> String {
    format!("gpu-{host:02}")
}

/// Name of a NIC's network device: `ens3np0`.
pub fn netdev_name(rail: usize) -> String {
    format!("ens{rail}np0")
}

/// Index of a NIC among all NICs.
pub fn index((host, rail): Port) -> usize {
    host * RAILS + rail
}

/// Every NIC, in the order of [`index`].
pub fn ports() -> impl Iterator<Item = Port> {
    (0..HOSTS).flat_map(|host| (0..RAILS).map(move |rail| (host, rail)))
}

/// Link from a NIC to its leaf.
pub fn uplink(port: Port) -> usize {
    index(port)
}

/// Link from a leaf to a NIC.
pub fn downlink(port: Port) -> usize {
    HOSTS * RAILS + index(port)
}

/// Leaf of a NIC.
pub fn leaf((host, rail): Port) -> usize {
    host / POD * RAILS + rail
}

/// Link from a leaf to a spine.
pub fn to_spine(leaf: usize, spine: usize) -> usize {
    2 * HOSTS * RAILS + leaf * SPINES + spine
}

/// Link from a spine to a leaf.
pub fn from_spine(leaf: usize, spine: usize) -> usize {
    2 * HOSTS * RAILS + (LEAVES + leaf) * SPINES + spine
}
/// Number of links.
pub const LINKS: usize = 2 * HOSTS * RAILS + 2 * LEAVES * SPINES;

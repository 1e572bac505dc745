//! From the addresses of a connection to the interface and the class of its destination. The agent fills the maps.

use aya_ebpf::macros::map;
use aya_ebpf::maps::HashMap;
use aya_ebpf::maps::lpm_trie::{Key, LpmTrie};
use fabriclens_ebpf_abi::{Address, destination, mapped, place};

/// Addresses of this host: number of their interface.
#[map]
static LOCAL: HashMap<Address, u32> = HashMap::with_max_entries(1024, 0);

/// Networks: class of destinations. The longest prefix counts.
#[map]
static NETWORKS: LpmTrie<Address, u32> = LpmTrie::with_max_entries(4096, 1);

const AF_INET: u16 = 2;

/// A kernel `struct sockaddr_in` or `sockaddr_in6`, as tracepoints store addresses.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct SocketAddress([u8; 28]);

impl SocketAddress {
    /// Its address as the maps know it.
    #[inline(always)]
    pub fn address(&self) -> Address {
        let b = &self.0;
        if u16::from_ne_bytes([b[0], b[1]]) == AF_INET {
            return mapped([b[4], b[5], b[6], b[7]]);
        }
        let mut address = [0; 16];
        address.copy_from_slice(&b[8..24]);
        address
    }
}

/// Number of the interface that has this address; 0 when none has.
#[inline(always)]
pub fn interface(local: &Address) -> u32 {
    // SAFETY: the agent replaces entries as a whole; a torn read of a `u32` cannot be.
    unsafe { LOCAL.get(local) }.copied().unwrap_or(0)
}

/// Class of the other end.
#[inline(always)]
pub fn class(remote: &Address) -> u32 {
    NETWORKS.get(&Key::new(128, *remote)).copied().unwrap_or(destination::OUTSIDE)
}

/// Place of a connection in the maps that have one record for each interface and class.
#[inline(always)]
pub fn place_of(local: &Address, remote: &Address) -> u32 {
    place(interface(local), class(remote))
}

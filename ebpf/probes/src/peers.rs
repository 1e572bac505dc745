//! From the addresses of a connection to the interface and the class of its destination. The agent fills the maps.

use aya_ebpf::macros::map;
use aya_ebpf::maps::lpm_trie::{Key, LpmTrie};
use aya_ebpf::maps::{Array, HashMap, PerCpuArray};
use core::ptr::{read_volatile, write_volatile};
use fabriclens_ebpf_abi::{Address, Known, destination, mapped, place};

/// Addresses of this host: number of their interface.
#[map]
static LOCAL: HashMap<Address, u32> = HashMap::with_max_entries(1024, 0);

/// Networks: class of destinations. The longest prefix counts.
#[map]
static NETWORKS: LpmTrie<Address, u32> = LpmTrie::with_max_entries(4096, 1);

/// How often the agent changed the two tables.
#[map]
static EPOCH: Array<u32> = Array::with_max_entries(1, 0);

/// What the tables said of the connections that this CPU met last, at a slot by their addresses: most segments are of a
/// few connections, and a look at the tables costs more than all else that a probe does.
#[map]
static KNOWN: PerCpuArray<Known> = PerCpuArray::with_max_entries(fabriclens_ebpf_abi::KNOWN, 0);

const AF_INET: u16 = 2;

/// A kernel `struct sockaddr_in` or `sockaddr_in6`, as tracepoints store addresses.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct SocketAddress([u32; 7]);

impl SocketAddress {
    /// Its address as the maps know it.
    #[inline(always)]
    pub fn address(&self) -> Address {
        let [family, v4, a, b, c, d, _] = self.0;
        // The family is the first half of its word.
        if family as u16 == AF_INET { mapped(v4) } else { [a, b, c, d] }
    }
}

/// Number of the interface that has this address; 0 when none has.
#[inline(always)]
fn interface(local: &Address) -> u32 {
    // SAFETY: the agent replaces entries as a whole; a torn read of a `u32` cannot be.
    unsafe { LOCAL.get(local) }.copied().unwrap_or(0)
}

/// Class of the other end.
#[inline(always)]
fn class(remote: &Address) -> u32 {
    NETWORKS.get(&Key::new(128, *remote)).copied().unwrap_or(destination::OUTSIDE)
}

/// Place of a connection in the maps that have one record for each interface and class.
#[inline(always)]
pub fn place_of(local: &Address, remote: &Address) -> u32 {
    let epoch = EPOCH.get(0).copied().unwrap_or(0);
    let Some(known) = KNOWN.get_ptr_mut(slot(local, remote)) else { return found(local, remote) };
    // SAFETY: the record is this CPU's own. A probe that interrupts this one may change it between two reads: then the
    // epoch, which is written last and taken away first, or an address differs.
    unsafe {
        let same = (*known).local == *local && (*known).remote == *remote;
        let place = read_volatile(&raw const (*known).place);
        if same && epoch != 0 && read_volatile(&raw const (*known).epoch) == epoch {
            return place;
        }
        let place = found(local, remote);
        write_volatile(&raw mut (*known).epoch, 0);
        write_volatile(&raw mut (*known).local, *local);
        write_volatile(&raw mut (*known).remote, *remote);
        write_volatile(&raw mut (*known).place, place);
        write_volatile(&raw mut (*known).epoch, epoch);
        place
    }
}

/// What the tables say.
#[inline(always)]
fn found(local: &Address, remote: &Address) -> u32 {
    place(interface(local), class(remote))
}

/// Where a connection is remembered.
#[inline(always)]
fn slot(local: &Address, remote: &Address) -> u32 {
    let mixed = local[3].rotate_left(13) ^ remote[3] ^ remote[2].rotate_left(7);
    // Fibonacci hashing: the upper bits depend on all.
    mixed.wrapping_mul(0x9e37_79b9) >> (32 - fabriclens_ebpf_abi::KNOWN.trailing_zeros())
}

//! Classifies a connection by its addresses: interface and destination class. The agent fills the maps.

use aya_ebpf::bindings::bpf_sock;
use aya_ebpf::macros::map;
use aya_ebpf::maps::lpm_trie::{Key, LpmTrie};
use aya_ebpf::maps::{Array, HashMap};
use fabriclens_ebpf_abi::{Address, INTERFACES, REMEMBERED, destination, mapped, place};

/// Addresses of this host, with the number of their interface.
#[map]
static LOCAL: HashMap<Address, u32> = HashMap::with_max_entries(1024, 0);

/// Networks, with their destination class. The longest prefix wins.
#[map]
static NETWORKS: LpmTrie<Address, u32> = LpmTrie::with_max_entries(4096, 1);

/// Version of the two tables; the agent increments it after each change.
#[map]
static EPOCH: Array<u32> = Array::with_max_entries(1, 0);

/// Cache of the tables' results, by a hash of addresses and epoch. Most segments belong to few connections, and a
/// lookup in the tables costs more than the rest of a probe.
#[map]
static PLACES: Array<u64> = Array::with_max_entries(REMEMBERED, 0);

/// Bits of a cache entry that hold the index; the others hold the upper bits of the hash.
const PLACE_BITS: u32 = 8;
const PLACE: u64 = (1 << PLACE_BITS) - 1;
const _: () = assert!(INTERFACES * destination::CLASSES <= 1 << PLACE_BITS);

const AF_INET: u32 = 2;

/// Kernel structure `sockaddr_in` or `sockaddr_in6`, as stored in tracepoint records.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct SocketAddress([u32; 7]);

impl SocketAddress {
    /// Address in the form of the map keys.
    #[inline(always)]
    pub fn address(&self) -> Address {
        let [family, v4, a, b, c, d, _] = self.0;
        // The family is the first two bytes of its word.
        if family as u16 == AF_INET as u16 { mapped(v4) } else { [a, b, c, d] }
    }
}

/// Local and remote address of a socket.
#[inline(always)]
pub fn ends_of(socket: *const bpf_sock) -> (Address, Address) {
    // Reads both families: the compiler merges two branches into one read at a variable offset, which the verifier
    // rejects.
    // SAFETY: the pointer comes from the kernel. Single words, because the verifier rewrites each of these reads.
    let (family, v4, v6) = unsafe {
        let word = |at: *const u32| at.read_volatile();
        let words = |at: *const u32| [word(at), word(at.add(1)), word(at.add(2)), word(at.add(3))];
        (
            word(&raw const (*socket).family),
            [word(&raw const (*socket).src_ip4), word(&raw const (*socket).dst_ip4)],
            [words((&raw const (*socket).src_ip6).cast()), words((&raw const (*socket).dst_ip6).cast())],
        )
    };
    if family == AF_INET { (mapped(v4[0]), mapped(v4[1])) } else { (v6[0], v6[1]) }
}

/// Number of the interface that has this address; 0 if none has.
#[inline(always)]
fn interface(local: &Address) -> u32 {
    // SAFETY: the agent replaces entries as a whole, and a read of a `u32` cannot tear.
    unsafe { LOCAL.get(local) }.copied().unwrap_or(0)
}

/// Destination class of the remote address.
#[inline(always)]
fn class(remote: &Address) -> u32 {
    NETWORKS.get(&Key::new(128, *remote)).copied().unwrap_or(destination::OUTSIDE)
}

/// Index of a connection's record in maps with one record per interface and destination class.
#[inline(always)]
pub fn place_of(local: &Address, remote: &Address) -> u32 {
    let pair = |[a, b]: [u32; 2]| u64::from(a) << 32 | u64::from(b);
    let mut mixed = u64::from(EPOCH.get(0).copied().unwrap_or(0));
    for words in [local, remote] {
        mixed = mix(mixed, pair([words[0], words[1]]));
        mixed = mix(mixed, pair([words[2], words[3]]));
    }
    let Some(slot) = PLACES.get_ptr_mut((mixed >> 32) as u32 % REMEMBERED) else { return found(local, remote) };
    // One word holds key and result, so that CPUs and interrupts cannot mix two entries.
    // SAFETY: the pointer comes from the map; a word of a map is read and written in one access.
    let kept = unsafe { slot.read_volatile() };
    if (kept ^ mixed) >> PLACE_BITS == 0 {
        return (kept & PLACE) as u32;
    }
    let place = found(local, remote);
    // SAFETY: as above.
    unsafe { slot.write_volatile(mixed & !PLACE | u64::from(place) & PLACE) };
    place
}

/// Hash of the words so far and one more.
#[inline(always)]
fn mix(so_far: u64, word: u64) -> u64 {
    let product = (so_far ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    product ^ (product >> 32)
}

/// Index from the tables, without the cache.
#[inline(always)]
fn found(local: &Address, remote: &Address) -> u32 {
    place(interface(local), class(remote))
}

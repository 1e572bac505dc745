//! From the addresses of a connection to the interface and the class of its destination. The agent fills the maps.

use aya_ebpf::bindings::bpf_sock;
use aya_ebpf::macros::map;
use aya_ebpf::maps::lpm_trie::{Key, LpmTrie};
use aya_ebpf::maps::{Array, HashMap};
use fabriclens_ebpf_abi::{Address, INTERFACES, REMEMBERED, destination, mapped, place};

/// Addresses of this host: number of their interface.
#[map]
static LOCAL: HashMap<Address, u32> = HashMap::with_max_entries(1024, 0);

/// Networks: class of destinations. The longest prefix counts.
#[map]
static NETWORKS: LpmTrie<Address, u32> = LpmTrie::with_max_entries(4096, 1);

/// How often the agent changed the two tables.
#[map]
static EPOCH: Array<u32> = Array::with_max_entries(1, 0);

/// What the tables said of connections, by a mix of the addresses and the epoch: most segments are of a few connections,
/// and a look at the tables costs more than all else that a probe does.
#[map]
static PLACES: Array<u64> = Array::with_max_entries(REMEMBERED, 0);

/// Bits of a remembered word that are the place.
const PLACE_BITS: u32 = 8;
const PLACE: u64 = (1 << PLACE_BITS) - 1;
const _: () = assert!(INTERFACES * destination::CLASSES <= 1 << PLACE_BITS);

const AF_INET: u32 = 2;

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
        if family as u16 == AF_INET as u16 { mapped(v4) } else { [a, b, c, d] }
    }
}

/// Local and remote address of a socket.
#[inline(always)]
pub fn ends_of(socket: *const bpf_sock) -> (Address, Address) {
    // All of them, because reads in two branches become one read of a chosen place, which the kernel refuses.
    // SAFETY: the kernel gave the pointer. Word by word, because it rewrites each of these reads.
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
    let pair = |[a, b]: [u32; 2]| u64::from(a) << 32 | u64::from(b);
    let mut mixed = u64::from(EPOCH.get(0).copied().unwrap_or(0));
    for words in [local, remote] {
        mixed = mix(mixed, pair([words[0], words[1]]));
        mixed = mix(mixed, pair([words[2], words[3]]));
    }
    let Some(slot) = PLACES.get_ptr_mut((mixed >> 32) as u32 % REMEMBERED) else { return found(local, remote) };
    // One word holds what was asked and what was found, so that CPUs and interrupts cannot mix two of them up.
    // SAFETY: the pointer is the map's; words of a map are read and written as a whole.
    let kept = unsafe { slot.read_volatile() };
    if (kept ^ mixed) >> PLACE_BITS == 0 {
        return (kept & PLACE) as u32;
    }
    let place = found(local, remote);
    // SAFETY: as above.
    unsafe { slot.write_volatile(mixed & !PLACE | u64::from(place) & PLACE) };
    place
}

#[inline(always)]
fn mix(so_far: u64, word: u64) -> u64 {
    let product = (so_far ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    product ^ (product >> 32)
}

/// What the tables say.
#[inline(always)]
fn found(local: &Address, remote: &Address) -> u32 {
    place(interface(local), class(remote))
}

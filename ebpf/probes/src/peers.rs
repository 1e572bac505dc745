//! From the addresses of a connection to the interface and the class of its destination. The agent fills the maps.

use aya_ebpf::macros::map;
use aya_ebpf::maps::lpm_trie::{Key, LpmTrie};
use aya_ebpf::maps::{Array, HashMap, PerCpuArray};
use fabriclens_ebpf_abi::{Address, destination, place};

/// Addresses of this host: number of their interface.
#[map]
static LOCAL: HashMap<Address, u32> = HashMap::with_max_entries(1024, 0);

/// Networks: class of destinations. The longest prefix counts.
#[map]
static NETWORKS: LpmTrie<Address, u32> = LpmTrie::with_max_entries(4096, 1);

/// Pairs of addresses whose place was looked for lately: most segments are of few connections, and a look here costs a
/// fifth of one into the tables above.
#[map]
static KNOWN: PerCpuArray<Known> = PerCpuArray::with_max_entries(SLOTS, 0);

/// Goes up when the agent has changed the tables; what is known from before no longer counts. Never 0 then.
#[map]
static GENERATION: Array<u32> = Array::with_max_entries(1, 0);

const SLOTS: u32 = 256;
const AF_INET: u32 = 2;

/// Own and other address.
type Pair = [u64; 4];

#[repr(C)]
struct Known {
    pair: Pair,
    generation: u32,
    place: u32,
    /// Of the above. An interrupt may write here while this CPU is writing or reading: what was mixed up does not match.
    check: u64,
}

/// An address as the maps know it, in words, which this machine compares and stores in one instruction each. Tracepoints
/// store it so in fields such as `saddr_v6`.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq)]
pub struct Words([u64; 2]);

impl Words {
    #[inline(always)]
    fn bytes(&self) -> &Address {
        // SAFETY: of the same size, any bytes are an address, and bytes have no alignment.
        unsafe { &*(&raw const self.0).cast() }
    }
}

/// A kernel `struct sockaddr_in` or `sockaddr_in6`, as tracepoints store addresses in fields of 28 bytes.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct SocketAddress([u32; 7]);

impl SocketAddress {
    /// Its address.
    #[inline(always)]
    pub fn address(&self) -> Words {
        let s = &self.0;
        let word = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
        // The first two bytes are the family.
        match s[0] & 0xffff {
            AF_INET => Words([0, word(0xffff_0000, s[1])]),
            _ => Words([word(s[2], s[3]), word(s[4], s[5])]),
        }
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
pub fn place_of(local: &Words, remote: &Words) -> u32 {
    let pair = [local.0[0], local.0[1], remote.0[0], remote.0[1]];
    let generation = GENERATION.get(0).copied().unwrap_or(0);
    let Some(known) = KNOWN.get_ptr_mut(slot(&pair)) else { return looked_up(local, remote) };
    // SAFETY: the entry is this CPU's own, and `check` tells if an interrupt was at it.
    let known = unsafe { &mut *known };
    if known.pair == pair && known.generation == generation && known.check == check(&pair, generation, known.place) {
        return known.place;
    }
    let place = looked_up(local, remote);
    *known = Known { pair, generation, place, check: check(&pair, generation, place) };
    place
}

#[inline(always)]
fn looked_up(local: &Words, remote: &Words) -> u32 {
    place(interface(local.bytes()), class(remote.bytes()))
}

#[inline(always)]
fn slot(pair: &Pair) -> u32 {
    let mixed = (pair[0] ^ pair[1].rotate_left(17) ^ pair[2].rotate_left(31) ^ pair[3]).wrapping_mul(ODD);
    (mixed >> 32) as u32 % SLOTS
}

/// An odd number with its ones well spread.
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

#[inline(always)]
fn check(pair: &Pair, generation: u32, place: u32) -> u64 {
    let mut sum = u64::from(generation) << 32 | u64::from(place);
    for word in pair {
        sum = (sum ^ word).wrapping_mul(ODD);
    }
    !sum
}

//! Offsets of members of kernel structures, from the running kernel's type description (BTF). The table of types is
//! walked once, and only the offsets that a probe needs are kept.

use fabriclens_agent_host::roots::Roots;
use fabriclens_ebpf_abi::member;
use std::collections::BTreeMap;

/// A member of a kernel structure, and the probe's global that takes its offset.
pub struct Member {
    /// Name of the global.
    pub global: &'static str,
    /// Structure and member. Several steps are nested structures, whose offsets add up.
    pub steps: &'static [(&'static str, &'static str)],
}

/// Nesting limit of anonymous structures.
const DEEPEST: usize = 8;
const MAGIC: u16 = 0xeb9f;
const STRUCT: u32 = 4;
const UNION: u32 = 5;

/// Offset words of the members that this kernel has; empty without BTF.
pub fn words(roots: &Roots, members: &[Member]) -> BTreeMap<&'static str, u32> {
    if members.is_empty() {
        return BTreeMap::new();
    }
    std::fs::read(roots.sys().join("kernel/btf/vmlinux")).map(|data| words_of(&data, members)).unwrap_or_default()
}

/// Offset words, from BTF data.
pub(crate) fn words_of(data: &[u8], members: &[Member]) -> BTreeMap<&'static str, u32> {
    let wanted: Vec<&str> = members.iter().flat_map(|m| m.steps.iter().map(|(structure, _)| *structure)).collect();
    let Some(types) = Types::parse(data, &wanted) else { return BTreeMap::new() };
    members.iter().filter_map(|m| Some((m.global, types.word(m)?))).collect()
}

/// Structures and unions of BTF data.
struct Types<'a> {
    types: &'a [u8],
    strings: &'a [u8],
    /// Offset of each type in `types`, by type number minus one.
    begins: Vec<u32>,
    /// Structures of interest.
    named: BTreeMap<&'a str, u32>,
}

impl<'a> Types<'a> {
    fn parse(data: &'a [u8], wanted: &[&'a str]) -> Option<Self> {
        if u16::from_le_bytes([*data.first()?, *data.get(1)?]) != MAGIC {
            return None;
        }
        let header = word(data, 4)? as usize;
        let part = |at: usize| data.get(header + word(data, at)? as usize..)?.get(..word(data, at + 4)? as usize);
        let mut all = Self { types: part(8)?, strings: part(16)?, begins: Vec::new(), named: BTreeMap::new() };
        let mut at = 0;
        while at < all.types.len() {
            let (kind, count, _) = all.head(at as u32)?;
            if kind == STRUCT
                && let Some(name) = wanted.iter().find(|name| all.is_named(at, name))
            {
                all.named.insert(name, at as u32);
            }
            all.begins.push(at as u32);
            at += 12 + extra(kind, count as usize)?;
        }
        Some(all)
    }

    /// Kind, number of members, and whether offsets contain widths of bit fields.
    fn head(&self, at: u32) -> Option<(u32, u32, bool)> {
        let info = word(self.types, at as usize + 4)?;
        Some((info >> 24 & 0x1f, info & 0xffff, info >> 31 == 1))
    }

    /// Whether the type at `at` has this name.
    fn is_named(&self, at: usize, name: &str) -> bool {
        let begin = word(self.types, at).map_or(usize::MAX, |o| o as usize);
        let text = self.strings.get(begin..).unwrap_or_default();
        text.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&0))
    }

    /// Offset in bits and width of a bit field (0: none) of a member; anonymous structures are searched, too.
    fn find(&self, at: u32, name: &str, depth: usize) -> Option<(u32, u32)> {
        let (kind, count, widths) = self.head(at)?;
        if !matches!(kind, STRUCT | UNION) || depth > DEEPEST {
            return None;
        }
        (0..count as usize).find_map(|n| {
            let entry = at as usize + 12 + n * 12;
            let place = word(self.types, entry + 8)?;
            let (distance, width) = if widths { (place & 0xff_ffff, place >> 24) } else { (place, 0) };
            if self.is_named(entry, name) {
                return Some((distance, width));
            }
            let inner = *self.begins.get((word(self.types, entry + 4)? as usize).checked_sub(1)?)?;
            let (further, width) = self.is_named(entry, "").then(|| self.find(inner, name, depth + 1))??;
            Some((distance + further, width))
        })
    }

    fn word(&self, member: &Member) -> Option<u32> {
        let mut sum = (0, 0);
        for (structure, name) in member.steps {
            let (distance, width) = self.find(*self.named.get(structure)?, name, 0)?;
            sum = (sum.0 + distance, width);
        }
        member::word(sum.0, sum.1)
    }
}

/// Length of a type after its first twelve bytes; `None` for an unknown kind, after which nothing can be parsed.
fn extra(kind: u32, count: usize) -> Option<usize> {
    Some(match kind {
        1 | 14 | 17 => 4,
        2 | 7..=12 | 16 | 18 => 0,
        3 => 12,
        STRUCT | UNION | 15 | 19 => 12 * count,
        6 | 13 => 8 * count,
        _ => return None,
    })
}

fn word(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(data.get(at..)?.get(..4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An int; a structure of it, with a bit field and a nameless union around one more int; and a name in the middle
    /// of another one.
    fn blob() -> Vec<u8> {
        let strings = b"\0int\0outer\0plain\0bits\0hidden\0";
        let at = |name: &str| strings.windows(name.len()).position(|w| w == name.as_bytes()).unwrap() as u32;
        let types: Vec<u32> = [
            vec![at("int\0"), 1 << 24, 4, 32],
            vec![0, UNION << 24 | 1, 4, at("hidden\0"), 1, 32],
            vec![at("outer\0"), 1 << 31 | STRUCT << 24 | 3, 16],
            vec![at("plain\0"), 1, 64, at("bits\0"), 1, 5 << 24 | 98, 0, 2, 128],
        ]
        .concat();
        let types: Vec<u8> = types.iter().flat_map(|w| w.to_le_bytes()).collect();
        let lengths = [24, 0, types.len() as u32, types.len() as u32, strings.len() as u32];
        let mut blob = vec![0x9f, 0xeb, 1, 0];
        blob.extend(lengths.iter().flat_map(|w| w.to_le_bytes()));
        blob.extend(types);
        blob.extend(strings);
        blob
    }

    fn word(blob: &[u8], steps: &'static [(&'static str, &'static str)]) -> Option<u32> {
        Types::parse(blob, &["outer"])?.word(&Member { global: "G", steps })
    }

    #[test]
    fn members_of_anonymous_structures_are_found() {
        assert_eq!(word(&blob(), &[("outer", "plain")]), Some(64));
        assert_eq!(word(&blob(), &[("outer", "bits")]), Some(5 << 24 | 98));
        assert_eq!(word(&blob(), &[("outer", "hidden")]), Some(128 + 32));
        assert_eq!(word(&blob(), &[("outer", "plain"), ("outer", "hidden")]), Some(64 + 160));
        for (structure, member) in [("outer", "bit"), ("outer", "gone"), ("oute", "plain")] {
            let steps = Box::leak(Box::new([(structure, member)]));
            assert_eq!(word(&blob(), steps), None, "{structure}.{member}");
        }
    }

    #[test]
    fn malformed_btf_gives_nothing() {
        let whole = blob();
        for cut in 0..whole.len() {
            _ = word(&whole[..cut], &[("outer", "hidden")]);
        }
        for at in 0..whole.len() {
            let mut broken = whole.clone();
            broken[at] ^= 0xff;
            _ = word(&broken, &[("outer", "hidden")]);
        }
        assert_eq!(word(&whole[..20], &[("outer", "plain")]), None);
    }

    #[test]
    #[ignore = "needs: btf"]
    fn the_running_kernel_tells_what_the_probes_want() {
        let roots = Roots::new(None);
        let members = [
            Member { global: "CONGESTION", steps: &[("inet_connection_sock", "icsk_ca_state")] },
            Member { global: "LENGTH", steps: &[("sk_buff", "len")] },
        ];
        let words = words(&roots, &members);
        assert_eq!(words["CONGESTION"] >> 24, 5, "a bit field of five: {words:?}");
        assert!(words["LENGTH"].is_multiple_of(32) && words["LENGTH"] < 1 << 15, "{words:?}");
    }
}

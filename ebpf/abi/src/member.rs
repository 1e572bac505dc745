//! Where a member of a kernel structure is, in one word: the agent finds it in the running kernel's own description of
//! its types (BTF) and puts it into the probe; 0 says that this kernel tells nothing of such a member.

/// Bits of the word that hold the member's distance from the start of its structure, in bits.
const DISTANCE: u32 = 24;

/// The word for a member; `width` in bits, 0 for one that is no bit field. `None` when it is too far away.
pub const fn word(distance: u32, width: u32) -> Option<u32> {
    if distance == 0 || distance >> DISTANCE != 0 || width > 8 {
        return None;
    }
    Some(width << DISTANCE | distance)
}

/// Distance of the byte that the member begins in.
#[inline]
pub const fn byte(word: u32) -> usize {
    (word & ((1 << DISTANCE) - 1)) as usize / 8
}

/// A bit field out of the byte that it is in.
#[inline]
pub const fn bits(word: u32, byte: u8) -> u8 {
    let (shift, width) = (word & 7, word >> DISTANCE);
    ((byte as u32 >> shift) & ((1 << width) - 1)) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bit_field_is_found_in_its_byte() {
        let five = word(9984 + 2, 5).unwrap();
        assert_eq!(byte(five), 9984 / 8);
        assert_eq!(bits(five, 0b1101_0111), 0b1_0101);
        assert_eq!(byte(word(896, 0).unwrap()), 112);
    }

    #[test]
    fn what_does_not_fit_is_not_told() {
        assert_eq!(word(0, 0), None, "0 means that nothing is known");
        assert_eq!(word(1 << DISTANCE, 0), None);
        assert_eq!(word(8, 9), None);
    }
}

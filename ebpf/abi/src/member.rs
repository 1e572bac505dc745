//! Position of a member of a kernel structure, in one word. The agent looks it up in the type information (BTF) of the
//! running kernel and stores it in the probe. 0: this kernel does not describe the member.

/// Width of the part of the word that holds the member's offset in its structure, in bits.
const DISTANCE: u32 = 24;

/// Word for a member: `distance` is its offset in bits, `width` the width of a bit field in bits, or 0 for other
/// members. `None` if the offset is 0 or does not fit, or the bit field is wider than 8 bits.
pub const fn word(distance: u32, width: u32) -> Option<u32> {
    if distance == 0 || distance >> DISTANCE != 0 || width > 8 {
        return None;
    }
    Some(width << DISTANCE | distance)
}

/// Offset in bytes of the first byte of the member.
#[inline]
pub const fn byte(word: u32) -> usize {
    (word & ((1 << DISTANCE) - 1)) as usize / 8
}

/// Extracts a bit field from its byte.
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

//! Small records with a checksum at their end: headers and cursors of segmented logs on disk. Integers are little-endian.

/// The parts one after the other, then the CRC-32 of them.
///
/// ```
/// use fabriclens_base::sealed;
/// let record = sealed::seal(&[b"MAGIC", &7_u32.to_le_bytes()]);
/// assert!(sealed::is_intact(&record));
/// assert_eq!(sealed::u32_at(&record, 5), 7);
/// ```
pub fn seal(parts: &[&[u8]]) -> Vec<u8> {
    let mut out = parts.concat();
    out.extend(crc32fast::hash(&out).to_le_bytes());
    out
}

/// Whether the last four bytes are the CRC-32 of those before them; false if there are fewer than four.
pub fn is_intact(record: &[u8]) -> bool {
    record.split_last_chunk::<4>().is_some_and(|(body, crc)| *crc == crc32fast::hash(body).to_le_bytes())
}

/// The `u32` at a byte offset.
///
/// # Panics
/// If the record ends before it.
pub fn u32_at(record: &[u8], at: usize) -> u32 {
    record[at..at + 4].iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte))
}

/// The `u64` at a byte offset.
///
/// # Panics
/// If the record ends before it.
pub fn u64_at(record: &[u8], at: usize) -> u64 {
    record[at..at + 8].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_or_short_record_is_not_intact() {
        let mut record = seal(&[b"head", &0x0102_0304_0506_0708_u64.to_le_bytes()]);
        assert!(is_intact(&record));
        assert_eq!((u64_at(&record, 4), u32_at(&record, 4)), (0x0102_0304_0506_0708, 0x0506_0708));
        record[2] ^= 1;
        assert!(!is_intact(&record) && !is_intact(&record[..3]) && !is_intact(&[]));
    }
}

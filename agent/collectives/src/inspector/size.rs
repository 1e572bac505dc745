//! Classes of message sizes.

/// Class of a message size: the index of its lower bound in [`CLASSES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SizeClass(u8);

/// Lower bounds of the classes, bytes, and their labels. An operation of 1 MiB and one of 16 MiB are of one class.
pub const CLASSES: [(u64, &str); 6] =
    [(0, "0"), (32 << 10, "32KiB"), (1 << 20, "1MiB"), (32 << 20, "32MiB"), (1 << 30, "1GiB"), (32 << 30, "32GiB")];

impl SizeClass {
    /// Class of a size in bytes.
    pub fn of(bytes: u64) -> Self {
        let above = CLASSES.iter().rposition(|(bound, _)| bytes >= *bound).unwrap_or(0);
        Self(u8::try_from(above).unwrap_or(0))
    }

    /// Value of the label `size`: the smallest size of the class.
    pub fn label(self) -> &'static str {
        CLASSES[usize::from(self.0)].1
    }

    /// Class of a range as the Prometheus form has it: `4-5GB`, in units of 1024. `None` for other texts.
    pub fn of_range(text: &str) -> Option<Self> {
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let number: u64 = text[..digits].parse().ok()?;
        let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '-' || c == '.');
        let shift = ["B", "KB", "MB", "GB", "TB"].iter().position(|known| unit.eq_ignore_ascii_case(known))?;
        Some(Self::of(number.checked_shl(10 * u32::try_from(shift).ok()?)?))
    }
}

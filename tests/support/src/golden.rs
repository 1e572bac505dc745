//! Golden files: committed output that a test compares with what the code writes now.

use std::path::Path;

const BLESS: &str = "FABRICLENS_BLESS";

/// Whether golden files are to be rewritten: `FABRICLENS_BLESS` is set and neither empty nor `0`.
pub fn blesses() -> bool {
    std::env::var_os(BLESS).is_some_and(|value| !value.is_empty() && value != "0")
}

/// Compares `actual` with the file at `path`, or writes the file when [`blesses`].
///
/// # Panics
/// When they differ, with the first line that does, or when the file cannot be written.
#[track_caller]
pub fn golden(path: impl AsRef<Path>, actual: &str) {
    let path = path.as_ref();
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    if committed == actual {
        return;
    }
    if blesses() {
        return std::fs::write(path, actual).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }
    let (number, was, is) = first_difference(&committed, actual);
    panic!(
        "{} differs at line {number}\n  committed: {was}\n  now:       {is}\nIf this is meant, run the test again with {BLESS}=1",
        path.display()
    );
}

/// Number of the first line that differs, from 1, and both versions of it.
fn first_difference<'a>(a: &'a str, b: &'a str) -> (usize, &'a str, &'a str) {
    const END: &str = "(end of file)";
    let (mut left, mut right) = (a.lines(), b.lines());
    let mut number = 0;
    loop {
        number += 1;
        match (left.next(), right.next()) {
            (None, None) => return (number, END, END),
            (was, is) if was != is => return (number, was.unwrap_or(END), is.unwrap_or(END)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::first_difference;

    #[test]
    fn first_differing_line_is_named() {
        assert_eq!(first_difference("a\nb\nc", "a\nx\nc"), (2, "b", "x"));
        assert_eq!(first_difference("a\n", "a\nb\n"), (2, "(end of file)", "b"));
    }
}

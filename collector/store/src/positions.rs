//! Binary search by position, where there is no slice to search.

/// The first of `len` positions that is not `before`; `len` if all are.
pub fn first_not_before(len: usize, before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = low + (high - low) / 2;
        if before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

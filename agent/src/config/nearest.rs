//! The nearest valid word for a mistyped one; used wherever a name from a fixed list is refused.

/// The candidate that was most likely meant, if any is close: a few edits away, or the right key in a wrong section.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_lowercase();
    candidates
        .into_iter()
        .map(|c| (if last(c) == last(word) { 1 } else { distance(word, c) }, c))
        .min()
        .filter(|(d, c)| *d <= (c.len() / 3).max(2))
        .map(|(_, c)| c)
}

/// Edits (insert, delete, replace) that turn one text into the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            row.push((above[j] + usize::from(x != *y)).min(above[j + 1] + 1).min(row[j] + 1));
        }
        above = row;
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_found_and_far_ones_are_not() {
        let keys = ["host", "sampling.full", "collector.url", "http.listen"];
        assert_eq!(nearest("hots", keys), Some("host"));
        assert_eq!(nearest("collector.ulr", keys), Some("collector.url"));
        assert_eq!(nearest("listen", keys), Some("http.listen"));
        assert_eq!(nearest("colour.scheme", keys), None);
    }
}

//! The nearest valid word for a mistyped one; used wherever a name from a fixed list is refused.

/// The candidate that was most likely meant, if any is close: a few edits away, or the right key in a wrong section.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_lowercase();
    candidates
        .into_iter()
        .map(|c| (if last(c) == last(word) { 1 } else { strsim::levenshtein(word, c) }, c))
        .min()
        .filter(|(d, c)| *d <= (c.len() / 3).max(2))
        .map(|(_, c)| c)
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

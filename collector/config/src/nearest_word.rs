//! The nearest valid word for a mistyped one; used wherever a name from a fixed list is refused.

/// The candidate closest to `word`, if any is close enough to be what was meant.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
    candidates
        .into_iter()
        .map(|c| {
            // A right key in the wrong section is one step away.
            let moved = if last(c) == last(word) { 1 } else { usize::MAX };
            let typed = strsim::levenshtein(word, c);
            (typed.min(moved), typed, c)
        })
        .min_by_key(|(d, typed, _)| (*d, *typed))
        .filter(|(d, _, c)| *d <= (c.len() / 3).max(2))
        .map(|(_, _, c)| c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_found_and_far_ones_are_not() {
        let keys = ["data", "listen.http", "listen.otlp_grpc", "retention.age"];
        assert_eq!(nearest("listen.htpp", keys), Some("listen.http"));
        assert_eq!(nearest("otlp_grpc", keys), Some("listen.otlp_grpc"));
        assert_eq!(nearest("dat", keys), Some("data"));
        assert_eq!(nearest("colour", keys), None);
        let urls = ["forward.url", "alertmanager.urls"];
        assert_eq!(nearest("alertmanager.url", urls), Some("alertmanager.urls"), "its own section first");
    }
}

//! The nearest valid word for a mistyped one, for errors that refuse a name from a fixed list.

/// The candidate that was most likely meant: few edits away, or the right key in a wrong section (`otlp_grpc` for
/// `listen.otlp_grpc`). `None` if no candidate is close.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let key = |path: &str| path.rsplit('.').next().unwrap_or_default().to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| {
            let edits = strsim::levenshtein(word, candidate);
            let distance = if key(candidate) == key(word) { edits.min(1) } else { edits };
            (distance, edits, candidate)
        })
        .min()
        .filter(|(distance, _, candidate)| *distance <= (candidate.len() / 3).max(2))
        .map(|(_, _, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_found_and_far_ones_are_not() {
        let keys = ["data", "host", "listen.http", "listen.otlp_grpc", "retention.age", "collector.url"];
        assert_eq!(nearest("hots", keys), Some("host"));
        assert_eq!(nearest("listen.htpp", keys), Some("listen.http"));
        assert_eq!(nearest("otlp_grpc", keys), Some("listen.otlp_grpc"));
        assert_eq!(nearest("collector.ulr", keys), Some("collector.url"));
        assert_eq!(nearest("dat", keys), Some("data"));
        assert_eq!(nearest("color.scheme", keys), None);
    }

    #[test]
    fn the_same_section_comes_first() {
        assert_eq!(nearest("alertmanager.url", ["forward.url", "alertmanager.urls"]), Some("alertmanager.urls"));
    }
}

//! Parses a commented configuration file: a comment documents the keys below it.

/// A comment with the table or keys that it documents.
#[derive(Debug, Default, PartialEq)]
pub struct Entry<'a> {
    /// Header of the table that begins here, which the comment documents.
    pub table: Option<&'a str>,
    /// Lines of the comment.
    pub comment: Vec<&'a str>,
    /// Keys with their values, also those that are commented out.
    pub keys: Vec<(&'a str, &'a str)>,
}

/// Parses a file, in order.
pub fn entries(text: &str) -> Vec<Entry<'_>> {
    let mut all = vec![Entry::default()];
    for line in text.lines() {
        let bare = line.strip_prefix("# ").unwrap_or(line);
        let table = bare.starts_with('[') && bare.ends_with(']');
        let ended = all.last().is_some_and(|e| e.table.is_some() || !e.keys.is_empty() && key(bare).is_none());
        if ended || line.is_empty() {
            all.push(Entry::default());
        }
        let Some(now) = all.last_mut().filter(|_| !line.is_empty()) else { continue };
        match key(bare) {
            Some(key) => now.keys.push(key),
            None if table => now.table = Some(bare),
            None => now.comment.push(bare),
        }
    }
    all.retain(|entry| *entry != Entry::default());
    all
}

/// Parses `key = value`; none for a sentence.
fn key(line: &str) -> Option<(&str, &str)> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    line.split_once(" = ")
        .filter(|(key, _)| key.starts_with(|c: char| c.is_ascii_lowercase()) && key.chars().all(plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_belong_to_what_is_below_them() {
        let text =
            "# Head.\n\n# Why,\n# and how.\na = 1\n# b = 2\n# Of a table.\n# [c]\n# D = sentence.\n# d = \"x\"\n";
        let entry = |table, comment: &[&'static str], keys: &[(&'static str, &'static str)]| Entry {
            table,
            comment: comment.to_vec(),
            keys: keys.to_vec(),
        };
        let want = [
            entry(None, &["Head."], &[]),
            entry(None, &["Why,", "and how."], &[("a", "1"), ("b", "2")]),
            entry(Some("[c]"), &["Of a table."], &[]),
            entry(None, &["D = sentence."], &[("d", "\"x\"")]),
        ];
        assert_eq!(entries(text), want);
    }
}

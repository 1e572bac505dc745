//! A commented configuration file, as what it says: what a comment says belongs to the keys below it.

/// What stands between two blank lines, comments or tables.
#[derive(Debug, Default, PartialEq)]
pub struct Entry<'a> {
    /// The table that begins here, as it is written; what is said is about it.
    pub table: Option<&'a str>,
    /// Lines of the comment.
    pub said: Vec<&'a str>,
    /// Keys that share it, with their values, also those that are only shown as a comment.
    pub keys: Vec<(&'a str, &'a str)>,
}

/// All of a file, in order.
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
            None => now.said.push(bare),
        }
    }
    all.retain(|entry| *entry != Entry::default());
    all
}

/// `key = value`, and not a sentence.
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
        let entry = |table, said: &[&'static str], keys: &[(&'static str, &'static str)]| Entry {
            table,
            said: said.to_vec(),
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

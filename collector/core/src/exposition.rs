//! Writes samples in Prometheus' text format. Everything that a scraper may read goes through [`Exposition`], so that no
//! name or value of one sender can begin a line of another.

use std::fmt::Write as _;

use fabriclens_model::Labels;
use fabriclens_model::names::{is_admitted, is_plain_label, is_plain_metric};
use fabriclens_promql::general;

/// A text being written, sorted by metric.
#[derive(Debug, Default)]
pub struct Exposition {
    text: String,
    /// Whether names with other characters than letters, digits, `_` and `:` may be written, in quotes.
    quoted_names: bool,
    last_metric: String,
    skipped: u64,
}

impl Exposition {
    /// An empty text. `quoted_names` is true if the reader accepts names in quotes; one that does not would refuse the
    /// whole text for one of them.
    pub fn new(quoted_names: bool) -> Self {
        Self { quoted_names, ..Self::default() }
    }

    /// Writes one sample of type `untyped` with labels in addition to its own; a series whose names are not admitted is
    /// skipped and counted.
    pub fn push<'a>(&mut self, labels: &'a Labels, more: Option<(&'a str, &'a str)>, value: f64, time_ms: i64) {
        let metric = labels.metric();
        let own = || labels.iter().filter(|(name, _)| *name != "__name__").chain(more);
        let plain = is_plain_metric(metric);
        if !is_admitted(labels) || !(self.quoted_names || plain && own().all(|(name, _)| is_plain_label(name))) {
            self.skipped += 1;
            return;
        }
        let out = &mut self.text;
        if self.last_metric != metric {
            out.push_str("# TYPE ");
            if plain {
                out.push_str(metric)
            } else {
                push_quoted(out, metric)
            }
            out.push_str(" untyped\n");
            metric.clone_into(&mut self.last_metric);
        }
        let mut before = '{';
        if plain {
            out.push_str(metric);
        } else {
            out.push('{');
            push_quoted(out, metric);
            before = ',';
        }
        for (name, value) in own() {
            out.push(before);
            if is_plain_label(name) {
                out.push_str(name)
            } else {
                push_quoted(out, name)
            }
            out.push('=');
            push_quoted(out, value);
            before = ',';
        }
        if before == ',' {
            out.push('}');
        }
        _ = writeln!(out, " {} {time_ms}", general(value));
    }

    /// The text, and how many series were skipped.
    pub fn finish(self) -> (String, u64) {
        (self.text, self.skipped)
    }
}

/// Writes a text in quotes; line breaks are escaped.
fn push_quoted(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(quoted_names: bool) -> (String, u64) {
        let mut out = Exposition::new(quoted_names);
        let forged = "fabric_port_up 1 1\nfabric_port_up{host=\"other\"}";
        for labels in [
            Labels::new([("__name__", "fabric_port_up"), ("host", "a\"b\\c\nd")]),
            Labels::new([("__name__", forged), ("host", "evil")]),
            Labels::new([("__name__", "m"), ("a\n", "evil")]),
            Labels::new([("__name__", "http.requests"), ("code.class", "2xx")]),
            Labels::new([("__name__", "up")]),
        ] {
            out.push(&labels, None, 1.5, 7);
        }
        out.finish()
    }

    #[test]
    fn no_name_begins_another_line() {
        let first = "# TYPE fabric_port_up untyped\nfabric_port_up{host=\"a\\\"b\\\\c\\nd\"} 1.5 7\n";
        let last = "# TYPE up untyped\nup 1.5 7\n";
        assert_eq!(text(false), (format!("{first}{last}"), 3));
        let quoted = "# TYPE \"http.requests\" untyped\n{\"http.requests\",\"code.class\"=\"2xx\"} 1.5 7\n";
        assert_eq!(text(true), (format!("{first}{quoted}{last}"), 2));
    }
}

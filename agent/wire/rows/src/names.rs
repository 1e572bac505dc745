//! Decides which metric names, label names and label values are admitted. OTLP, remote write and import ask before a
//! series is stored; whatever writes an output asks again, because a store may hold series from before.

use crate::Labels;

/// Most labels of a series, `__name__` included.
pub const LABELS: usize = 64;
/// Longest metric or label name, bytes.
pub const NAME_BYTES: usize = 1024;
/// Longest label value, bytes.
pub const VALUE_BYTES: usize = 4096;
/// Label of the series into which the collector's store takes a native histogram apart; its value names the part. It sorts
/// after the names of ordinary labels, so that the parts of a histogram are adjacent.
pub const COMPONENT: &str = "~histogram";
/// Label of the collector's rollups; its value names the aggregate.
pub const ROLLUP: &str = "__name__ rollup";
/// Characters of a refused name that are shown.
const SHOWN: usize = 40;

/// A series is refused: the part and the bound.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Too many labels.
    #[error("more than {0} labels")]
    Labels(usize),
    /// A label without a name.
    #[error("a label has no name")]
    NoName,
    /// A series without `__name__`.
    #[error("a series has no metric name (__name__)")]
    NoMetric,
    /// A name that is too long.
    #[error("the name {0} is longer than {NAME_BYTES} bytes")]
    LongName(String),
    /// A value that is too long.
    #[error("label {0} is longer than {1} bytes")]
    LongValue(String, usize),
    /// A line break or another control character in a name.
    #[error("the name {0} has a control character")]
    Control(String),
    /// A label that only the store may add.
    #[error("the label {0} is reserved for the store; rename it")]
    ReservedLabel(String),
}

/// Checks a metric or label name: not empty, bounded, and without control characters or line separators. Other
/// characters of UTF-8 are allowed, as in Prometheus.
///
/// # Errors
/// [`NameError`].
pub fn check_name(name: &str) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError::NoName);
    }
    if name.len() > NAME_BYTES {
        return Err(NameError::LongName(shown(name)));
    }
    let breaks = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    if name.chars().any(breaks) { Err(NameError::Control(shown(name))) } else { Ok(()) }
}

/// Checks all labels of a series, the metric name included, against the usual limits.
///
/// # Errors
/// [`NameError`].
pub fn check_series<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<(), NameError> {
    check_series_within(pairs, LABELS, VALUE_BYTES)
}

/// The same against limits of the caller.
///
/// # Errors
/// [`NameError`].
pub fn check_series_within<'a>(
    pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    labels: usize,
    value_bytes: usize,
) -> Result<(), NameError> {
    let (mut count, mut named) = (0, false);
    for (name, value) in pairs {
        count += 1;
        if count > labels {
            return Err(NameError::Labels(labels));
        }
        check_name(name)?;
        if name == "__name__" && !value.is_empty() {
            check_name(value)?;
            named = true;
        } else if name == COMPONENT || name == ROLLUP {
            return Err(NameError::ReservedLabel(name.to_owned()));
        } else if value.len() > value_bytes {
            return Err(NameError::LongValue(shown(name), value_bytes));
        }
    }
    if named { Ok(()) } else { Err(NameError::NoMetric) }
}

/// Whether stored labels are admitted.
pub fn is_admitted(labels: &Labels) -> bool {
    check_series(labels.iter()).is_ok()
}

/// Whether a metric name needs no quotes in Prometheus' text format: letters, digits, `_` and `:`.
pub fn is_plain_metric(name: &str) -> bool {
    is_plain(name, |b| b == b'_' || b == b':')
}

/// Whether a label name needs no quotes in Prometheus' text format: letters, digits and `_`.
pub fn is_plain_label(name: &str) -> bool {
    is_plain(name, |b| b == b'_')
}

fn is_plain(name: &str, sign: impl Fn(u8) -> bool) -> bool {
    let first = name.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || sign(b));
    first && name.bytes().all(|b| b.is_ascii_alphanumeric() || sign(b))
}

/// The start of a name, with its control characters escaped, for messages.
fn shown(name: &str) -> String {
    let mut text: String = name.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    if name.chars().nth(SHOWN).is_some() {
        text.push('…');
    }
    text
}

/// Names that only the collector writes, by prefix. A sender that could write them would report incidents, jobs of others
/// or the collector's health. Agents send the exceptions; tests compare both with the catalog and the collector's tables.
const RESERVED: [Reserved; 3] = [
    Reserved { prefix: "fabric_incident_", sent_by_agents: &[] },
    Reserved { prefix: "fabric_job_", sent_by_agents: &["processes", "queue_pairs", "omitted", "rdma_", "tcp_peer_"] },
    Reserved { prefix: "fabriclens_", sent_by_agents: &["agent_"] },
];

/// A reserved prefix, and what may follow it in names that agents send.
struct Reserved {
    prefix: &'static str,
    sent_by_agents: &'static [&'static str],
}

/// Whether only the collector may write a metric of this name.
pub fn is_reserved(metric: &str) -> bool {
    RESERVED.iter().any(|reserved| {
        let rest = metric.strip_prefix(reserved.prefix);
        rest.is_some_and(|rest| !reserved.sent_by_agents.iter().any(|sent| rest.starts_with(sent)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bounded_and_on_one_line() {
        for good in ["up", "a:b", "http.server.duration", "größe", "9 lives"] {
            assert_eq!(check_name(good), Ok(()), "{good}");
        }
        for bad in ["a\nb", "a\0", "a\u{7f}", "a\u{9b}31m", "a\u{2028}b", "\t"] {
            assert!(matches!(check_name(bad), Err(NameError::Control(_))), "{bad:?}");
        }
        let error = check_name("x\nup{host=\"other\"} 1\n").unwrap_err().to_string();
        assert_eq!(error, r#"the name x\nup{host=\"other\"} 1\n has a control character"#);
        assert!(matches!(check_name(&"x".repeat(1025)), Err(NameError::LongName(_))));
        assert_eq!(check_name(""), Err(NameError::NoName));
    }

    #[test]
    fn series_are_checked_as_a_whole() {
        let name = ("__name__", "m");
        assert_eq!(check_series([name, ("a", "one\ntwo")]), Ok(()), "values are escaped where they are written");
        assert_eq!(check_series([("a", "b")]), Err(NameError::NoMetric));
        assert!(matches!(check_series([("__name__", "m\n")]), Err(NameError::Control(_))));
        assert!(matches!(check_series([name, ("a\n", "b")]), Err(NameError::Control(_))));
        assert!(matches!(check_series([name, ("a", &"x".repeat(4097))]), Err(NameError::LongValue(..))));
        assert_eq!(check_series([name; 65]), Err(NameError::Labels(64)));
        assert!(is_admitted(&Labels::new([name])) && !is_admitted(&Labels::new([("__name__", "a\nb")])));
    }

    #[test]
    fn labels_of_the_store_are_reserved() {
        for own in [COMPONENT, ROLLUP] {
            let refused = check_series([("__name__", "m"), (own, "count")]);
            assert_eq!(refused, Err(NameError::ReservedLabel(own.to_owned())));
        }
    }

    #[test]
    fn plain_names_need_no_quotes() {
        assert!(is_plain_metric("a:b_9") && is_plain_label("a_9") && is_plain_label("_"));
        assert!(!is_plain_metric("9a") && !is_plain_metric("a.b") && !is_plain_label("a:b") && !is_plain_label(""));
    }

    #[test]
    fn names_of_the_collector_are_reserved() {
        for own in ["fabric_incident_info", "fabric_job_info", "fabric_job_io_bytes_total", "fabriclens_build_info"] {
            assert!(is_reserved(own), "{own}");
        }
        for free in ["fabric_job_processes", "fabriclens_agent_info", "fabric_port_up", "up", "fabriclens"] {
            assert!(!is_reserved(free), "{free}");
        }
    }
}

//! The tables themselves: unique names, sorted labels, every counter in step with its metric, and the golden list of
//! Prometheus names so that a rename shows in review.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use fabriclens_catalog::counters::{FAMILIES, GENERIC, facts::FACTS};
use fabriclens_catalog::{CounterSource, MetricKind, MetricUnit, VendorCounter, metrics};

/// Every table of vendor counters with its family's name.
fn tables() -> Vec<(String, Vec<&'static VendorCounter>)> {
    let families = FAMILIES.iter().map(|f| (f.name.to_owned(), f.rows().collect()));
    let generic = GENERIC.iter().map(|(title, rows)| ((*title).to_owned(), rows.iter().collect()));
    families.chain(generic).collect()
}

/// Placeholders of a vendor's name as the labels they may become.
fn placeholder_labels(name: &str) -> Vec<String> {
    let parts = name.split('{').skip(1).filter_map(|part| part.split('}').next());
    parts
        .map(|p| match p {
            "prio" => "priority".to_owned(),
            "high" => "size".to_owned(),
            "n" => "sensor".to_owned(),
            other => other.to_owned(),
        })
        .collect()
}

#[test]
fn metric_names_are_valid_and_unique_on_both_sides() {
    let mut names = HashSet::new();
    let mut exported = HashMap::new();
    for m in metrics::all() {
        let words = m.name.split(['.', '_']);
        assert!(
            words.clone().all(|w| !w.is_empty() && w.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())),
            "{}",
            m.name
        );
        assert!(m.name.starts_with("fabric.") || m.name.starts_with("fabriclens.agent."), "{}", m.name);
        assert!(names.insert(m.name), "{} twice", m.name);
        if let Some(other) = exported.insert(m.prometheus_name(), m.name) {
            panic!("{other} and {} have the same Prometheus name", m.name);
        }
    }
    assert!(names.len() > 150);
}

#[test]
fn a_name_never_extends_another_by_its_suffix() {
    let exported: HashSet<String> = metrics::all().map(|m| m.prometheus_name()).collect();
    for suffix in ["_total", "_info", "_count", "_sum", "_bucket"] {
        for name in &exported {
            let longer = format!("{name}{suffix}");
            assert!(!exported.contains(&longer), "{name} and {longer}: OpenMetrics would take one for the other");
        }
    }
}

#[test]
fn metrics_are_described_and_their_labels_sorted() {
    for m in metrics::all() {
        assert!(m.help.len() > 10 && m.help.ends_with('.'), "{}: help must be a sentence", m.name);
        assert!(m.labels.windows(2).all(|w| w[0] < w[1]), "{}: labels must be sorted and unique", m.name);
        for identity in ["host", "device", "port"] {
            assert!(!m.labels.contains(&identity), "{}: {identity} is an identity label", m.name);
        }
        if m.kind == MetricKind::Counter {
            assert!(
                !matches!(m.unit, MetricUnit::Ratio | MetricUnit::Celsius | MetricUnit::None),
                "{}: a counter of {:?}",
                m.name,
                m.unit
            );
        }
        if m.kind == MetricKind::Info {
            assert!(m.name.ends_with(".info"), "{}", m.name);
        }
    }
}

#[test]
fn no_vendor_name_feeds_two_rows() {
    for (table, rows) in tables() {
        let mut seen = HashSet::new();
        for counter in rows {
            assert!(
                seen.insert((counter.source, counter.name)),
                "{table}: {:?} {} twice",
                counter.source,
                counter.name
            );
        }
    }
}

#[test]
fn feeds_give_exactly_the_labels_of_their_metric() {
    for (table, rows) in tables() {
        for counter in rows {
            let mut labels: Vec<String> = counter.labels.as_slice().iter().map(|(n, _)| (*n).to_owned()).collect();
            labels.extend(counter.named.map(str::to_owned));
            labels.extend(
                placeholder_labels(counter.name).into_iter().filter(|p| counter.metric.labels.contains(&p.as_str())),
            );
            labels.sort();
            assert_eq!(labels, counter.metric.labels, "{table}: {} → {}", counter.name, counter.metric.name);
            assert!(counter.labels.as_slice().iter().all(|(_, v)| !v.is_empty()), "{table}: {}", counter.name);
        }
    }
}

#[test]
fn numbers_that_become_no_label_add_up() {
    for (table, rows) in tables() {
        for counter in rows {
            let lost = placeholder_labels(counter.name)
                .into_iter()
                .any(|p| !counter.metric.labels.contains(&p.as_str()) && !["port", "dev", "low"].contains(&p.as_str()));
            assert!(!lost || counter.adds, "{table}: {} has a number that is neither a label nor summed", counter.name);
            assert!(
                !counter.adds || counter.metric.kind == MetricKind::Counter,
                "{table}: {} sums gauges",
                counter.name
            );
        }
    }
}

#[test]
fn scales_and_widths_are_sane() {
    for (table, rows) in tables() {
        for counter in rows {
            assert!(counter.scale > 0.0 && counter.scale.is_finite(), "{table}: {}", counter.name);
            assert!((1..=64).contains(&counter.width), "{table}: {}", counter.name);
            assert!(counter.metric.kind != MetricKind::Info, "{table}: {}: info metrics come from facts", counter.name);
        }
    }
}

/// Within one source, rows that are not parts of a sum and share metric and labels are spellings of one counter.
/// Each such group is listed here on purpose; a new one is a decision, not an accident.
#[test]
fn spellings_of_one_counter_are_known() {
    let mut groups: BTreeMap<(String, CounterSource, &str, String), Vec<&VendorCounter>> = BTreeMap::new();
    for (table, rows) in tables() {
        for counter in rows {
            let labels = format!("{:?}{:?}", counter.labels.as_slice(), counter.named.map(|_| counter.name));
            groups.entry((table.clone(), counter.source, counter.metric.name, labels)).or_default().push(counter);
        }
    }
    let mut found = String::new();
    for ((table, ..), rows) in groups {
        let spellings: Vec<&str> = rows.iter().map(|f| f.name).collect();
        if rows.iter().any(|f| f.adds) {
            assert!(rows.iter().all(|f| f.adds), "{table}: {spellings:?} mix sums with single counters");
        } else if rows.len() > 1 {
            found.push_str(&format!("{table}: {}\n", spellings.join(" | ")));
        }
    }
    golden("spellings.txt", &found);
}

#[test]
fn facts_end_in_labels_that_exist() {
    for fact in FACTS {
        if fact.metric.kind == MetricKind::Info {
            let label = fact.becomes.split(',').next().unwrap();
            let identity = ["port"].contains(&label);
            assert!(identity || fact.metric.labels.contains(&label), "{} → {label}", fact.name);
        }
    }
}

#[test]
fn prometheus_names_as_reviewed() {
    let mut lines: Vec<String> =
        metrics::all().map(|m| format!("{}{{{}}} {:?}\n", m.prometheus_name(), m.labels.join(","), m.kind)).collect();
    lines.sort();
    golden("prometheus_names.txt", &lines.concat());
}

/// Compares with `tests/golden/<file>`; `FABRICLENS_BLESS=1` rewrites it.
fn golden(file: &str, now: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(file);
    if fabriclens_testing::blesses() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, now).unwrap();
    }
    let before = std::fs::read_to_string(&path).unwrap_or_default();
    let changed: Vec<String> = diff(&before, now);
    assert!(changed.is_empty(), "{file} changed; if meant, run again with FABRICLENS_BLESS=1:\n{}", changed.join("\n"));
}

fn diff(before: &str, now: &str) -> Vec<String> {
    let (old, new): (HashSet<&str>, HashSet<&str>) = (before.lines().collect(), now.lines().collect());
    let gone = before.lines().filter(|l| !new.contains(l)).map(|l| format!("- {l}"));
    gone.chain(now.lines().filter(|l| !old.contains(l)).map(|l| format!("+ {l}"))).collect()
}

/// A name with its unit or `total` inside would be translated differently by different OpenTelemetry releases.
#[test]
fn names_leave_unit_and_type_to_the_translation() {
    for m in metrics::all() {
        let words: Vec<&str> = m.name.split(['.', '_']).collect();
        for word in ["total", "bytes", "seconds", "ratio", "celsius", "watts", "volts", "amperes", "per"] {
            assert!(!words.contains(&word), "{}: leave out `{word}`", m.name);
        }
    }
}

/// `rx` in a vendor's name is `receive` here, `tx` is `transmit`.
#[test]
fn directions_follow_the_names() {
    let mut checked = 0;
    for (table, rows) in tables() {
        for counter in rows {
            let Some((_, direction)) = counter.labels.as_slice().iter().find(|(n, _)| *n == "direction") else {
                continue;
            };
            let name = counter.name.to_lowercase();
            let words: Vec<&str> = name.split(|c: char| !c.is_ascii_alphabetic()).collect();
            let says = |tokens: &[&str]| words.iter().any(|w| tokens.contains(w));
            let (rx, tx) = (says(&["rx", "rcv", "rxq", "recv", "rcvd"]), says(&["tx", "xmit", "txq", "sent"]));
            if rx != tx {
                checked += 1;
                assert_eq!(*direction == "receive", rx, "{table}: {} is {direction}", counter.name);
            }
        }
    }
    assert!(checked > 600, "only {checked} names say their direction");
}

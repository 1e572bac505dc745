//! Settings of the job's ports that the audit found not to be as expected (`fabric_setting_drift`), and since when.

use super::ReportContext;
use crate::model::{Finding, Grade, Severity};
use crate::render::words::clock;
use fabriclens_model::Labels;
use fabriclens_promql::QueryError;
use std::collections::{BTreeMap, HashSet};

/// Maximum number of places that a finding names.
const NAMED: usize = 6;
/// A drift first seen this long after the begin of the job began during the job, ms: the audit looks once a minute or less often.
const LATER_MS: i64 = 180_000;

/// What `reason` says that a setting is compared with.
const REASONS: [(&str, &str); 4] = [
    ("baseline", "is not what the site's baseline demands"),
    ("far_end", "is not what the other end of the cable has"),
    ("majority", "is not what most ports of the rail have"),
    ("host", "contradicts other settings of the host"),
];

/// Findings of at least the severity warning, one for each setting and reason.
pub(super) fn settings(context: &ReportContext<'_>) -> Result<Vec<Finding>, QueryError> {
    let devices: HashSet<(&str, &str)> =
        context.ports.iter().map(|port| (port.host.as_str(), port.device.as_str())).collect();
    let is_own = |labels: &Labels| match (labels.get("host"), labels.get("device")) {
        (host, "") => Grade::from(context.on.host(host)) == Grade::Exclusive,
        place => devices.contains(&place),
    };
    let mut found: BTreeMap<(Severity, String, &str), BTreeMap<String, i64>> = BTreeMap::new();
    for (labels, intervals) in context.source.intervals("fabric_setting_drift")? {
        let severity = match labels.get("severity") {
            "critical" => Severity::Critical,
            "warning" => Severity::Warning,
            _ => continue,
        };
        let reason = REASONS.iter().find(|(name, _)| *name == labels.get("reason"));
        let (Some((_, reason)), Some((start, _)), true) = (reason, intervals.first(), is_own(&labels)) else {
            continue;
        };
        let place = match (labels.get("device"), labels.get("port")) {
            ("", _) => labels.get("host").to_owned(),
            (device, "" | "1") => format!("{} {device}", labels.get("host")),
            (device, port) => format!("{} {device} port {port}", labels.get("host")),
        };
        let places = found.entry((severity, labels.get("setting").to_owned(), reason)).or_default();
        let first = places.entry(place).or_insert(*start);
        *first = (*first).min(*start);
    }
    Ok(found
        .into_iter()
        .map(|((severity, setting, reason), places)| finding(context, severity, &setting, reason, &places))
        .collect())
}

fn finding(
    context: &ReportContext<'_>,
    severity: Severity,
    setting: &str,
    reason: &str,
    places: &BTreeMap<String, i64>,
) -> Finding {
    let mut named: Vec<String> = places.keys().take(NAMED).cloned().collect();
    named.extend(places.len().checked_sub(NAMED + 1).map(|more| format!("{} more", more + 1)));
    let first = places.values().min().copied().unwrap_or_default();
    let since = match first > context.source.start_ms + LATER_MS {
        true => format!(", since {}", clock(first * 1_000_000, true)),
        false => String::new(),
    };
    let text = format!("the setting {setting} {reason}{since}");
    let action = "`fabriclens audit` says what it is and what is expected".to_owned();
    Finding { severity, place: named.join(", "), text, action }
}

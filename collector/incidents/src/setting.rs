//! Settings of an incident's place that are not as expected: what somebody changed shortly before a fault is the first thing to look at.

use fabriclens_correlate::{Location, Severity};
use serde::{Deserialize, Serialize};

use fabriclens_core::time::format_time;

/// A change this long before an incident, or less, is told with it whatever its severity, ms.
const BEFORE_MS: i64 = 3_600_000;
/// A change this long after the begin of an incident is still told with it, ms: both times are known to some seconds.
const AFTER_MS: i64 = 60_000;

/// A setting of a port or device that is not as expected, as the audit found it.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct WrongSetting {
    /// Host.
    pub node: String,
    /// Port (`mlx5_0/1`) or device (`mlx5_0`).
    pub port: String,
    /// What it is, for people.
    pub title: String,
    /// Severity of a wrong value.
    pub severity: Severity,
    /// Value.
    pub value: String,
    /// Expected value.
    pub expected: String,
    /// When it changed to that value, Unix ms, and the value before; `None` if that is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<(i64, String)>,
}

impl WrongSetting {
    /// One sentence for people.
    pub fn words(&self) -> String {
        let Self { node, port, title, value, expected, changed, .. } = self;
        match changed {
            Some((since_ms, before)) => {
                let since = format_time(*since_ms);
                format!("{node} {port}: {title} became {value} at {since} (before: {before}; expected: {expected}).")
            }
            None => format!("{node} {port}: {title} is {value} (expected: {expected})."),
        }
    }

    /// Whether it may explain an incident at `root` that began at `start_ms`: it is a setting of that place, and changed shortly
    /// before, or was wrong before and is critical.
    pub(crate) fn may_explain(&self, root: &Location, start_ms: i64) -> bool {
        let is_in_time = match &self.changed {
            Some((since_ms, _)) if *since_ms > start_ms + AFTER_MS => false,
            Some((since_ms, _)) if *since_ms >= start_ms - BEFORE_MS => true,
            _ => self.severity == Severity::Critical,
        };
        is_in_time && self.is_of(root)
    }

    fn is_of(&self, root: &Location) -> bool {
        let at = |node: &str, port: &str| {
            let of_device = port.strip_prefix(&*self.port).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
            node == self.node && of_device
        };
        match root {
            Location::Port { node, port } => at(node, port),
            Location::Link { a, a_port, b, b_port } => at(a, a_port) || at(b, b_port),
            Location::Host { node } => *node == self.node,
            Location::Switch { .. } | Location::Job { .. } | Location::Fabric => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START_MS: i64 = 10_000_000;

    fn wrong(port: &str, severity: Severity, changed_ms: Option<i64>) -> WrongSetting {
        WrongSetting {
            node: "h1".into(),
            port: port.into(),
            title: "priorities with PFC".into(),
            severity,
            value: "none".into(),
            expected: "3".into(),
            changed: changed_ms.map(|at| (at, "3".into())),
        }
    }

    fn explains(wrong: &WrongSetting) -> bool {
        wrong.may_explain(&Location::Port { node: "h1".into(), port: "mlx5_0/1".into() }, START_MS)
    }

    #[test]
    fn change_explains_what_began_soon_after() {
        for (severity, changed, expected) in [
            (Severity::Info, Some(START_MS - 50_000), true),
            (Severity::Info, Some(START_MS + 5_000), true),
            (Severity::Critical, Some(START_MS + 120_000), false),
            (Severity::Info, Some(START_MS - 2 * BEFORE_MS), false),
            (Severity::Critical, Some(START_MS - 2 * BEFORE_MS), true),
            (Severity::Warning, None, false),
            (Severity::Critical, None, true),
        ] {
            assert_eq!(explains(&wrong("mlx5_0/1", severity, changed)), expected, "{severity:?} {changed:?}");
        }
    }

    #[test]
    fn setting_explains_its_own_place_only() {
        let of = |port: &str| wrong(port, Severity::Critical, None);
        assert!(explains(&of("mlx5_0")), "the device of the port");
        assert!(!explains(&of("mlx5_1/1")));
        assert!(!of("mlx5_1").may_explain(&Location::Port { node: "h1".into(), port: "mlx5_10/1".into() }, START_MS));
        assert!(of("mlx5_1/1").may_explain(&Location::Host { node: "h1".into() }, START_MS));
        let [a, b] = ["leaf", "h1"].map(String::from);
        let link = Location::Link { a, a_port: "swp1".into(), b, b_port: "mlx5_1/1".into() };
        assert!(of("mlx5_1/1").may_explain(&link, START_MS));
        assert!(!of("mlx5_0/1").may_explain(&link, START_MS));
        assert!(!of("mlx5_0/1").may_explain(&Location::Switch { node: "h1".into() }, START_MS));
    }

    #[test]
    fn words_say_what_became_of_it() {
        let text = wrong("mlx5_0/1", Severity::Critical, Some(0)).words();
        let expected =
            "h1 mlx5_0/1: priorities with PFC became none at 1970-01-01T00:00:00.000Z (before: 3; expected: 3).";
        assert_eq!(text, expected);
    }
}

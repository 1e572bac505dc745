//! `status`: the health of the agent on this host as text for people.

use serde_json::Value;
use std::fmt::Write as _;

/// Answer of `/healthz` as text for people.
pub fn text(health: &Value) -> String {
    let count = |what: &str| health["sources"][what].as_u64().unwrap_or(0);
    let status = health["status"].as_str().unwrap_or("unknown");
    let mut text = format!("{status}; {} sources give data, {} are not on this host\n", count("data"), count("absent"));
    for reason in health["reasons"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        _ = writeln!(text, "- {reason}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_is_printed_for_people() {
        let health = serde_json::json!({
            "status": "degraded", "reasons": ["the collector is away"], "sources": {"data": 7, "absent": 9},
        });
        assert_eq!(text(&health), "degraded; 7 sources give data, 9 are not on this host\n- the collector is away\n");
    }
}

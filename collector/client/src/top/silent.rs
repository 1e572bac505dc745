//! The table of agents and switches that fell silent.

use super::overview::Overview;
use fabriclens_base::duration;
use fabriclens_top::{Cell, Column, Level, Row, Table};
use std::time::Duration;

/// Agents first, then switches.
pub(super) fn table(overview: &Overview) -> Table {
    let agents = overview.measured.hosts.names.iter().map(|host| {
        let since = duration::format(Duration::from_secs(host.silent_s as u64));
        row(&host.host, "agent", Cell::number(host.silent_s, &since))
    });
    let switches = overview.switches.names.iter().map(|switch| row(switch, "switch", Cell::unknown()));
    Table {
        name: "Silent",
        columns: vec![Column::left("NAME"), Column::left("SENDER"), Column::right("SILENT FOR")],
        rows: agents.chain(switches).collect(),
        sort: 2,
        empty: "all agents and switches report",
    }
}

fn row(name: &str, sender: &str, since: Cell) -> Row {
    Row { id: format!("{sender} {name}"), cells: vec![Cell::text(name).at(Level::Warning), Cell::text(sender), since] }
}

/// What to look at.
pub(super) fn detail(overview: &Overview, id: &str) -> String {
    let is_agent = overview.measured.hosts.names.iter().any(|host| id == format!("agent {}", host.host));
    let remedy = match is_agent {
        true => "On the host: systemctl status fabriclens-agent; fabriclens-agent doctor",
        false => "fabriclens switches tells by which source it was read, and when last",
    };
    format!("{id} sends no samples.\n{remedy}\n")
}

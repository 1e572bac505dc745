//! Renders the report as Markdown for tickets and chats; plots become lines of block characters.

use super::tables::{self, Cell, Table};
use super::{collective_tables, path_words, words};
use crate::model::{Plot, Report};
use fabriclens_base::escape::turns_direction;
use std::fmt::Write as _;

/// Block characters of a plot, lowest first.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Width of a plot, characters.
const WIDTH: usize = 60;

/// The report as Markdown.
pub fn markdown(report: &Report) -> String {
    let mut out = format!("# Communication report: {}\n\n", escape(&tables::title(report)));
    for (name, value) in tables::about(report) {
        _ = writeln!(out, "- {name}: {}", escape(&value));
    }
    out.push('\n');
    for point in &report.summary.points {
        _ = writeln!(out, "- **{}**: {}", point.severity.text(), escape(&point.text));
    }
    out.push_str("\n| | |\n|---|---|\n");
    for (name, figure) in tables::tiles(report) {
        _ = writeln!(out, "| {name} | {} |", words::of_figure(&figure));
    }
    section(&mut out, "When the network slowed it down", &tables::slowed(report));
    _ = writeln!(out, "\n{}", escape(&report.summary.cost.basis));
    section(&mut out, "Earlier jobs of this user and size", &tables::earlier(report));
    collectives(&mut out, report);
    out.push_str("\n## Volume and rate\n");
    plot(&mut out, &report.traffic.plot);
    if let Some(s) = &report.traffic.straggler {
        let place = [Some(s.host.as_str()), s.device.as_deref()].into_iter().flatten().map(escape).collect::<Vec<_>>();
        _ = writeln!(out, "\n**Stands out:** {} {}.", place.join(" "), escape(&s.text));
    }
    table(&mut out, &tables::rails(report));
    table(&mut out, &tables::hosts(report));
    section(&mut out, "Congestion", &tables::congestion(report));
    for p in report.congestion.suffered.iter().chain(&report.congestion.caused) {
        plot(&mut out, p);
    }
    table(&mut out, &tables::ports(report));
    section(&mut out, "Links of the fabric", &tables::links(report));
    if let Some(paths) = &report.links.paths {
        out.push_str("\n## Paths\n");
        path_words::sentences(paths).iter().for_each(|line| _ = writeln!(out, "\n{}", escape(line)));
        table(&mut out, &tables::shared_links(paths));
        table(&mut out, &tables::flows(paths));
    }
    section(&mut out, "Incidents at that time", &tables::incidents(report));
    section(&mut out, "Neighbours", &tables::neighbours(report));
    section(&mut out, "Findings", &tables::findings(report));
    section(&mut out, "Inside the hosts", &tables::inside(report));
    section(&mut out, "Health", &tables::health(report));
    section(&mut out, "RDMA and TCP", &tables::transport(report));
    if let Some(flag) = &report.transport.red_flag {
        _ = writeln!(out, "\n**{}**", escape(flag));
    }
    let p = &report.peers;
    _ = writeln!(out, "\n## Communication pattern\n\n**{}**: {}.", p.pattern.text(), escape(&p.text));
    if !p.list.is_empty() {
        table(&mut out, &tables::pairs(report));
    }
    if !p.suspects.is_empty() {
        _ = writeln!(
            out,
            "\nPairs with a long round-trip time, and pairs of the host that stands out: {}.",
            escape(&p.suspects.join(", "))
        );
    }
    out.push_str("\n## Completeness of the data\n\n");
    for line in tables::quality(report) {
        _ = writeln!(out, "- {}", escape(&line));
    }
    _ = writeln!(out, "\nMade by Fabriclens, {}.", words::time(report.generated_ns));
    out
}

fn collectives(out: &mut String, report: &Report) {
    let c = &report.collectives;
    if c.is_empty() {
        return;
    }
    out.push_str("\n## Collectives\n");
    if let Some(conclusion) = &c.conclusion {
        _ = writeln!(out, "\n{}", escape(&conclusion.text));
    }
    if let Some(bandwidth) = &c.bandwidth {
        _ = writeln!(out, "\n{}", escape(&collective_tables::bandwidth(c)));
        plot(out, &bandwidth.plot);
    }
    table(out, &collective_tables::stragglers(c));
    table(out, &collective_tables::work_requests(c));
    table(out, &collective_tables::operations(c));
    table(out, &collective_tables::communicators(c));
}

/// A table under a heading; nothing if it has no rows.
fn section(out: &mut String, head: &str, rows: &Table) {
    if !rows.rows.is_empty() {
        _ = writeln!(out, "\n## {head}");
        table(out, rows);
    }
}

fn table(out: &mut String, table: &Table) {
    if table.rows.is_empty() {
        return;
    }
    let heads = table.heads.join(" | ");
    _ = writeln!(out, "\n| {heads} |\n|{}", "---|".repeat(table.heads.len()));
    for row in &table.rows {
        let cell = |c: &Cell| match c {
            Cell::Text(text) | Cell::Fact(text) => escape(text),
            Cell::Number(figure) => words::of_figure(figure),
            Cell::Severity(severity) => severity.text().to_owned(),
        };
        _ = writeln!(out, "| {} |", row.iter().map(cell).collect::<Vec<_>>().join(" | "));
    }
    if let Some(note) = &table.note {
        _ = writeln!(out, "\n{}", escape(note));
    }
}

/// One line of block characters per line of the plot, scaled to the overall maximum.
fn plot(out: &mut String, plot: &Plot) {
    let top = plot.lines.iter().flat_map(|l| &l.points).flatten().copied().fold(0.0, f64::max);
    if top == 0.0 {
        let none = plot.lines.iter().flat_map(|l| &l.points).all(Option::is_none);
        let text = if none { words::NONE } else { "0 throughout" };
        _ = writeln!(out, "\n{}: {text}", escape(&plot.title));
        return;
    }
    let highest = words::value(top, plot.unit);
    _ = writeln!(out, "\n{}; highest {highest}:\n", escape(&plot.title));
    for line in &plot.lines {
        let wide = line.points.len().div_ceil(WIDTH).max(1);
        let block = |points: &[Option<f64>]| match points.iter().flatten().copied().reduce(f64::max) {
            None => ' ',
            Some(v) => BLOCKS[((v / top * 7.0).round() as usize).min(7)],
        };
        let blocks: String = line.points.chunks(wide).map(block).collect();
        let name = line.name.replace(['\n', '\r'], " ");
        _ = writeln!(out, "    {blocks} {name} ({})", line.grade.text());
    }
}

/// Escapes Markdown and HTML, also within table cells.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '#' | '|' | '!' | '~' => {
                out.push('\\');
                out.push(c);
            }
            c if turns_direction(c) => out.push('\u{fffd}'),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

//! Renders the report as one HTML file for mail and print, without external resources and scripts.

use super::tables::{self, Cell, Table};
use super::{collective_tables, path_drawing, path_words, svg, words};
use crate::model::{Figure, Grade, Path, Paths, Plot, Report, Severity};
use fabriclens_base::escape;
use std::collections::BTreeSet;
use std::fmt::Write as _;

const STYLE: &str = include_str!("style.css");

/// The report as a complete HTML document.
pub fn html(report: &Report) -> String {
    let title = tables::title(report);
    let mut out = String::with_capacity(64 << 10);
    _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <title>Communication report: {0}</title><style>{STYLE}</style></head><body>\
         <p class=\"kicker\">Communication report</p><h1>{0}</h1>",
        escape::html(&title)
    );
    let about = tables::about(report).into_iter().map(|(n, v)| format!("<span>{n} <b>{}</b></span>", escape::html(&v)));
    _ = write!(out, "<p class=\"about\">{}</p>", about.collect::<String>());
    summary(&mut out, report);
    collectives(&mut out, report);
    traffic(&mut out, report);
    congestion(&mut out, report);
    rest(&mut out, report);
    out + "</body></html>\n"
}

fn summary(out: &mut String, report: &Report) {
    out.push_str("<ul class=\"points\">");
    for point in &report.summary.points {
        _ = write!(out, "<li class=\"{}\">{}</li>", point.severity.text(), escape::html(&point.text));
    }
    out.push_str("</ul><div class=\"tiles\">");
    for (name, figure) in tables::tiles(report) {
        _ = write!(out, "<div class=\"tile\"><div>{name}</div><strong>{}</strong></div>", number(&figure, "<br>"));
    }
    out.push_str("</div>");
    let slowed = tables::slowed(report);
    if !slowed.rows.is_empty() {
        out.push_str("<h3>When the network slowed it down</h3>");
        table(out, &slowed);
    }
    _ = write!(
        out,
        "<p class=\"note\">{}</p><p class=\"note\">Each number carries a grade: {} measured where this job was \
         alone, {} counted for its own processes, {} of several jobs together. “{}” does not mean zero.</p>",
        escape::html(&report.summary.cost.basis),
        grade(Grade::Exclusive),
        grade(Grade::PerProcess),
        grade(Grade::Shared),
        words::NONE
    );
    if !report.summary.earlier.is_empty() {
        out.push_str("<h3>Earlier jobs of this user and size</h3>");
        table(out, &tables::earlier(report));
    }
}

fn collectives(out: &mut String, report: &Report) {
    let c = &report.collectives;
    if c.is_empty() {
        return;
    }
    out.push_str("<h2>Collectives</h2>");
    if let Some(conclusion) = &c.conclusion {
        _ = write!(out, "<p>{}</p>", escape::html(&conclusion.text));
    }
    if let Some(bandwidth) = &c.bandwidth {
        _ = write!(out, "<p>{}</p>", escape::html(&collective_tables::bandwidth(c)));
        plot(out, &bandwidth.plot);
    }
    for (head, rows) in [
        ("Ranks that held others back", collective_tables::stragglers(c)),
        ("Slow and failed work requests", collective_tables::work_requests(c)),
        ("Operations", collective_tables::operations(c)),
        ("Communicators", collective_tables::communicators(c)),
    ] {
        if !rows.rows.is_empty() {
            _ = write!(out, "<h3>{head}</h3>");
            table(out, &rows);
        }
    }
}

fn traffic(out: &mut String, report: &Report) {
    let t = &report.traffic;
    out.push_str("<h2>Volume and rate</h2>");
    plot(out, &t.plot);
    if let Some(s) = &t.straggler {
        let place =
            [Some(&s.host), s.device.as_ref()].into_iter().flatten().map(|p| escape::html(p)).collect::<Vec<_>>();
        let text = escape::html(&s.text);
        _ = write!(out, "<p><span class=\"sev warning\">Stands out</span> <b>{}</b> {text}.</p>", place.join(" "));
    }
    out.push_str("<h3>Balance across rails</h3>");
    table(out, &tables::rails(report));
    out.push_str("<h3>Balance across hosts</h3>");
    table(out, &tables::hosts(report));
}

fn congestion(out: &mut String, report: &Report) {
    let c = &report.congestion;
    out.push_str("<h2>Congestion</h2>");
    table(out, &tables::congestion(report));
    for (title, plots) in [("Suffered", &c.suffered), ("Caused", &c.caused)] {
        _ = write!(out, "<h3>{title}</h3>");
        if plots.is_empty() {
            _ = write!(out, "<p class=\"none\">{}</p>", words::NONE);
        }
        let (zero, drawn): (Vec<&Plot>, Vec<&Plot>) = plots.iter().partition(|p| is_zero(p));
        drawn.into_iter().for_each(|p| plot(out, p));
        if !zero.is_empty() {
            let titles: Vec<String> = zero.iter().map(|p| escape::html(&p.title)).collect();
            let grades: BTreeSet<Grade> = zero.iter().flat_map(|p| &p.lines).map(|line| line.grade).collect();
            let grades: String = grades.into_iter().map(grade).collect();
            _ = write!(out, "<p class=\"zero\">0 throughout{grades}: {}</p>", titles.join("; "));
        }
    }
    if !c.ports.is_empty() {
        out.push_str("<h3>Ports that stand out</h3>");
        table(out, &tables::ports(report));
    }
}

/// Maximum number of drawn paths of flows.
const DRAWN: usize = 4;

fn paths(out: &mut String, paths: &Paths) {
    out.push_str("<h2>Paths</h2>");
    path_words::sentences(paths).iter().for_each(|line| _ = write!(out, "<p>{}</p>", escape::html(line)));
    if !paths.shared.is_empty() {
        out.push_str("<h3>Shared links between switches</h3>");
        table(out, &tables::shared_links(paths));
    }
    for flow in paths.list.iter().take(DRAWN) {
        let port = flow.source_port.map_or(String::new(), |port| format!(", source port {port}"));
        let of = format!("From {} to {}{port}", flow.from.node, flow.to.node);
        flow.paths.iter().take(1).for_each(|path| figure(out, &of, path));
    }
    if !paths.list.is_empty() {
        table(out, &tables::flows(paths));
    }
}

/// A drawn path with its caption; nothing if it has more nodes than fit.
fn figure(out: &mut String, of: &str, path: &Path) {
    let drawn = path_drawing::draw(path);
    if !drawn.is_empty() {
        let (of, known) = (escape::html(of), escape::html(&path.known));
        _ = write!(out, "<figure><figcaption>{of} ({known})</figcaption>{drawn}</figure>");
    }
}

fn rest(out: &mut String, report: &Report) {
    if !report.links.worst.is_empty() {
        out.push_str("<h2>Links of the fabric</h2>");
        table(out, &tables::links(report));
    }
    if let Some(paths) = &report.links.paths {
        self::paths(out, paths);
    }
    if !report.incidents.is_empty() {
        out.push_str("<h2>Incidents at that time</h2>");
        table(out, &tables::incidents(report));
        for incident in &report.incidents {
            let Some(path) = &incident.path else { continue };
            figure(out, &format!("Path of {}", incident.kind.replace('_', " ")), path);
        }
    }
    out.push_str("<h2>Neighbours</h2>");
    let neighbours = tables::neighbours(report);
    if neighbours.rows.is_empty() {
        out.push_str("<p>No other job is known to have shared hosts, devices or leaf switches with this one.</p>");
    } else {
        table(out, &neighbours);
    }
    out.push_str("<h2>Health</h2>");
    let findings = tables::findings(report);
    if findings.rows.is_empty() {
        out.push_str("<p>No problems of links, PCIe and configuration were found in the data of the agents.</p>");
    } else {
        table(out, &findings);
    }
    table(out, &tables::health(report));
    if report.inside.gpus > 0 {
        out.push_str("<h2>Inside the hosts</h2>");
        let inside = tables::inside(report);
        if inside.rows.is_empty() {
            out.push_str("<p>No problems of GPUs, NVLinks and their ways to the network were found in the data of the agents.</p>");
        } else {
            table(out, &inside);
        }
    }
    out.push_str("<h2>RDMA and TCP</h2>");
    if let Some(flag) = &report.transport.red_flag {
        _ = write!(out, "<p class=\"flag\">{}</p>", escape::html(flag));
    }
    table(out, &tables::transport(report));
    let p = &report.peers;
    _ = write!(out, "<h2>Communication pattern</h2><p><b>{}</b>: {}.</p>", p.pattern.text(), escape::html(&p.text));
    if !p.list.is_empty() {
        table(out, &tables::pairs(report));
    }
    if !p.suspects.is_empty() {
        let pairs = escape::html(&p.suspects.join(", "));
        _ = write!(
            out,
            "<p>Pairs with a long round-trip time, and pairs of the host above: {pairs}. Adapters have no counters per \
             connection, so RDMA pairs cannot be compared.</p>"
        );
    }
    out.push_str("<h2>Completeness of the data</h2><ul>");
    for line in tables::quality(report) {
        _ = write!(out, "<li>{}</li>", escape::html(&line));
    }
    let made = words::time(report.generated_ns);
    _ = write!(out, "</ul><p class=\"note\">Made by Fabriclens, {made}. Times are UTC.</p>");
}

fn table(out: &mut String, table: &Table) {
    let numeric = |c: usize| table.rows.iter().any(|r| matches!(r.get(c), Some(Cell::Number(_) | Cell::Fact(_))));
    let class = |c: usize| if numeric(c) { " class=\"n\"" } else { "" };
    out.push_str("<div class=\"scroll\"><table><thead><tr>");
    for (c, head) in table.heads.iter().enumerate() {
        _ = write!(out, "<th{}>{head}</th>", class(c));
    }
    out.push_str("</tr></thead><tbody>");
    for row in &table.rows {
        out.push_str("<tr>");
        for (c, cell) in row.iter().enumerate() {
            let text = match cell {
                Cell::Text(text) | Cell::Fact(text) => escape::html(text),
                Cell::Number(figure) => number(figure, " "),
                Cell::Severity(severity) => word(*severity),
            };
            _ = write!(out, "<td{}>{text}</td>", class(c));
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div>");
    if let Some(note) = &table.note {
        _ = write!(out, "<p class=\"note\">{}</p>", escape::html(note));
    }
}

fn word(severity: Severity) -> String {
    format!("<span class=\"sev {0}\">{0}</span>", severity.text())
}

/// All parts of a figure, each with its grade.
fn number(figure: &Figure, between: &str) -> String {
    if figure.parts.is_empty() {
        return format!("<span class=\"none\">{}</span>", words::NONE);
    }
    let part =
        |p: &crate::model::Part| format!("<span>{}{}</span>", words::value(p.value, figure.unit), grade(p.grade));
    figure.parts.iter().map(part).collect::<Vec<_>>().join(between)
}

fn grade(grade: Grade) -> String {
    let (class, letter) = match grade {
        Grade::Exclusive => ("exclusive", "E"),
        Grade::PerProcess => ("process", "P"),
        Grade::Shared => ("shared", "S"),
    };
    format!("<span class=\"g {class}\" title=\"{}\">{letter}</span>", grade.text())
}

/// Whether something was measured, and all of it is 0.
fn is_zero(plot: &Plot) -> bool {
    let mut values = plot.lines.iter().flat_map(|l| &l.points).flatten().peekable();
    values.peek().is_some() && values.all(|v| *v == 0.0)
}

fn plot(out: &mut String, plot: &Plot) {
    _ = write!(out, "<figure><figcaption>{}</figcaption>", escape::html(&plot.title));
    if plot.lines.iter().all(|l| l.points.iter().all(Option::is_none)) {
        _ = write!(out, "<p class=\"none\">{}</p></figure>", words::NONE);
        return;
    }
    if is_zero(plot) {
        out.push_str("<p>0 throughout</p></figure>");
        return;
    }
    out.push_str(&svg::draw(plot));
    out.push_str("<div class=\"legend\">");
    for (n, line) in plot.lines.iter().enumerate() {
        let (color, name) = (n % svg::COLORS, escape::html(&line.name));
        _ = write!(out, "<span><i class=\"c{color}\"></i>{name}{}</span>", grade(line.grade));
    }
    let stacked = if svg::stacked(plot) { "stacked; " } else { "" };
    _ = write!(out, "<span>{stacked}each point {}</span></div></figure>", words::duration(plot.step_seconds));
}

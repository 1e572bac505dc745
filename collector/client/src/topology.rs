//! `fabriclens topology`: which port is wired to which, a line each, and what does not agree.

use serde::Deserialize;

use super::layout::printable;
use super::{ClientError, Form, ask, pairs, print, seconds, time_of, url};
use crate::args::TopologyArgs;
use fabriclens_core::time::format_time;

#[derive(Deserialize)]
struct Answer {
    data: Told,
}

/// What is shown of a topology.
#[derive(Deserialize)]
struct Told {
    since_ns: i64,
    nodes: Vec<Node>,
    links: Vec<Link>,
    contradictions: Vec<Contradiction>,
    files: Vec<File>,
}

#[derive(Deserialize)]
struct Node {
    name: String,
    role: String,
}

#[derive(Deserialize)]
struct Link {
    a: String,
    a_port: String,
    b: String,
    b_port: String,
    rate_gbps: Option<f64>,
    rail: Option<String>,
    known: String,
}

#[derive(Deserialize)]
struct Contradiction {
    message: String,
}

#[derive(Deserialize)]
struct File {
    error: Option<String>,
    complaints: Vec<String>,
}

/// Asks and prints.
///
/// # Errors
/// [`ClientError`].
pub fn topology(args: &TopologyArgs) -> Result<(), ClientError> {
    let time = args.time.as_ref().map(|t| time_of("time", t).map(seconds)).transpose()?;
    let form: Form = time.map(|t| ("time", t)).into_iter().collect();
    let of = url(&args.server, "api/v1/topology");
    let body = ask(&args.server, |agent| agent.get(of).query_pairs(pairs(&form)).call())?;
    let mut out = std::io::stdout().lock();
    if args.json {
        return print(&mut out, &format!("{body}\n"));
    }
    let answer: Answer = serde_json::from_str(&body)
        .map_err(|e| ClientError::Foreign { url: args.server.url.clone(), message: e.to_string() })?;
    print(&mut out, &text(&answer.data, args.node.as_deref()))
}

fn text(told: &Told, node: Option<&str>) -> String {
    let count = |role: &str| told.nodes.iter().filter(|n| n.role == role).count();
    let mut out = format!(
        "hosts: {}, leaves: {}, spines: {}, cables: {}",
        count("host"),
        count("leaf"),
        count("spine"),
        told.links.len()
    );
    if told.since_ns > 0 {
        // Whole seconds: it is looked at each half minute.
        let since = format_time(told.since_ns / 1_000_000);
        out.push_str(&format!("; since {}Z", since.split('.').next().unwrap_or_default()));
    }
    out.push('\n');
    let wanted = |name: &str| node.is_none_or(|wanted| wanted == name);
    let mut rows: Vec<[String; 7]> =
        told.links.iter().filter(|l| wanted(&l.a) || wanted(&l.b)).map(|l| row(l, told, node)).collect();
    if rows.is_empty() {
        out.push_str("no cables; LLDP, topology.files and Slurm tell of them (docs/verdicts.md, Topology)\n");
    } else {
        rows.sort();
        rows.insert(0, ["NODE", "PORT", "TO", "PORT", "GBPS", "RAIL", "KNOWN"].map(str::to_owned));
        let width = |c: usize| rows.iter().map(|r| r[c].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..7).map(width).collect();
        for row in &rows {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
            out.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
            out.push('\n');
        }
    }
    let odd = told.contradictions.iter().map(|c| &c.message);
    let files = told.files.iter().flat_map(|f| f.error.iter().chain(&f.complaints));
    for line in odd.chain(files) {
        out.push_str(&format!("! {}\n", printable(line)));
    }
    out
}

/// The end that people look for first: the node that was asked for, else the host.
fn row(link: &Link, told: &Told, node: Option<&str>) -> [String; 7] {
    let host = |name: &str| told.nodes.iter().any(|n| n.name == name && n.role == "host");
    let Link { a, a_port, b, b_port, rate_gbps, rail, known } = link;
    let swap = if node.is_some() { node == Some(b) } else { host(b) && !host(a) };
    let [near, far] = if swap { [(b, b_port), (a, a_port)] } else { [(a, a_port), (b, b_port)] };
    let port = |port: &str| if port.starts_with('?') { "?".to_owned() } else { printable(port) };
    let rate = rate_gbps.map(|g| g.to_string()).unwrap_or_default();
    let rail = rail.as_deref().map(printable).unwrap_or_default();
    [printable(near.0), port(near.1), printable(far.0), port(far.1), rate, rail, known.clone()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_each_cable_with_the_host_first_and_what_is_odd_below() {
        let json = r#"{"since_ns": 1000000000, "nodes": [{"name": "h1", "role": "host"}, {"name": "leaf1", "role": "leaf"},
            {"name": "spine\u001b1", "role": "spine"}],
            "links": [{"a": "leaf1", "a_port": "1", "b": "h1", "b_port": "mlx5_0/1", "rate_gbps": 200.0, "rail": "0",
                       "known": "lldp"},
                      {"a": "leaf1", "a_port": "?spine1", "b": "spine\u001b1", "b_port": "1", "rate_gbps": null, "rail": null,
                       "known": "scheduler"}],
            "contradictions": [{"message": "h1 is not there"}],
            "files": [{"error": null, "complaints": ["f, line 2: torn"]}, {"error": "cannot read g", "complaints": []}]}"#;
        let told: Told = serde_json::from_str(json).unwrap();
        let expected = "hosts: 1, leaves: 1, spines: 1, cables: 2; since 1970-01-01T00:00:01Z\n\
            NODE   PORT      TO       PORT  GBPS  RAIL  KNOWN\n\
            h1     mlx5_0/1  leaf1    1     200   0     lldp\n\
            leaf1  ?         spine\u{fffd}1  1                 scheduler\n\
            ! h1 is not there\n! f, line 2: torn\n! cannot read g\n";
        assert_eq!(text(&told, None), expected);
        let of_leaf = text(&told, Some("leaf1"));
        assert_eq!(of_leaf.lines().nth(2).unwrap(), "leaf1  1     h1       mlx5_0/1  200   0     lldp");
        assert!(text(&told, Some("nobody")).contains("no cables; LLDP"));
    }
}

//! `fabriclens topology`: lists cables, one per line, and contradictions.

use serde::Deserialize;

use super::layout::{printable, rows};
use super::topology_path::path;
use super::{ClientError, Form, seconds, show, time_of};
use crate::args::{TopologyArgs, TopologyCommand};
use fabriclens_core::time::format_time;

#[derive(Deserialize)]
struct Answer {
    data: Topology,
}

/// The fields of a topology that are shown.
#[derive(Deserialize)]
struct Topology {
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

/// Runs the command.
///
/// # Errors
/// [`ClientError`].
pub fn topology(args: &TopologyArgs) -> Result<(), ClientError> {
    if let Some(TopologyCommand::Path(args)) = &args.command {
        return path(args);
    }
    let time = args.time.as_ref().map(|t| time_of("time", t).map(seconds)).transpose()?;
    let form: Form = time.map(|t| ("time", t)).into_iter().collect();
    let words = |answer: &Answer| text(&answer.data, args.node.as_deref());
    show(&args.server, "api/v1/topology", &form, args.json, words)
}

fn text(topology: &Topology, node: Option<&str>) -> String {
    let count = |role: &str| topology.nodes.iter().filter(|n| n.role == role).count();
    let mut out = format!(
        "hosts: {}, leaves: {}, spines: {}, cables: {}",
        count("host"),
        count("leaf"),
        count("spine"),
        topology.links.len()
    );
    if topology.since_ns > 0 {
        // Whole seconds, since the topology is updated every half minute.
        let since = format_time(topology.since_ns / 1_000_000);
        out.push_str(&format!("; since {}Z", since.split('.').next().unwrap_or_default()));
    }
    out.push('\n');
    let wanted = |name: &str| node.is_none_or(|wanted| wanted == name);
    let mut cables: Vec<[String; 7]> =
        topology.links.iter().filter(|l| wanted(&l.a) || wanted(&l.b)).map(|l| row(l, topology, node)).collect();
    if cables.is_empty() {
        out.push_str("no cables; they are reported by LLDP, topology.files and Slurm (docs/verdicts.md, Topology)\n");
    } else {
        cables.sort();
        cables.insert(0, ["NODE", "PORT", "TO", "PORT", "GBPS", "RAIL", "KNOWN"].map(str::to_owned));
        out.extend(rows(&cables).iter().map(|line| format!("{line}\n")));
    }
    let odd = topology.contradictions.iter().map(|c| &c.message);
    let files = topology.files.iter().flat_map(|f| f.error.iter().chain(&f.complaints));
    for line in odd.chain(files) {
        out.push_str(&format!("! {}\n", printable(line)));
    }
    out
}

/// A cable with the requested node first, or else the host.
fn row(link: &Link, topology: &Topology, node: Option<&str>) -> [String; 7] {
    let host = |name: &str| topology.nodes.iter().any(|n| n.name == name && n.role == "host");
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
    fn cables_are_listed_with_contradictions() {
        let json = r#"{"since_ns": 1000000000, "nodes": [{"name": "h1", "role": "host"}, {"name": "leaf1", "role": "leaf"},
            {"name": "spine\u001b1", "role": "spine"}],
            "links": [{"a": "leaf1", "a_port": "1", "b": "h1", "b_port": "mlx5_0/1", "rate_gbps": 200.0, "rail": "0",
                       "known": "lldp"},
                      {"a": "leaf1", "a_port": "?spine1", "b": "spine\u001b1", "b_port": "1", "rate_gbps": null, "rail": null,
                       "known": "scheduler"}],
            "contradictions": [{"message": "h1 is not there"}],
            "files": [{"error": null, "complaints": ["f, line 2: torn"]}, {"error": "cannot read g", "complaints": []}]}"#;
        let topology: Topology = serde_json::from_str(json).unwrap();
        let expected = "hosts: 1, leaves: 1, spines: 1, cables: 2; since 1970-01-01T00:00:01Z\n\
            NODE   PORT      TO       PORT  GBPS  RAIL  KNOWN\n\
            h1     mlx5_0/1  leaf1    1     200   0     lldp\n\
            leaf1  ?         spine\u{fffd}1  1                 scheduler\n\
            ! h1 is not there\n! f, line 2: torn\n! cannot read g\n";
        assert_eq!(text(&topology, None), expected);
        let of_leaf = text(&topology, Some("leaf1"));
        assert_eq!(of_leaf.lines().nth(2).unwrap(), "leaf1  1     h1       mlx5_0/1  200   0     lldp");
        assert!(text(&topology, Some("unknown")).contains("no cables; they are reported by LLDP"));
    }
}

//! `fabriclens topology path`: the path between two host ports, one egress port per line.

use serde::Deserialize;

use super::layout::printable;
use super::{ClientError, Form, show};
use crate::args::TopologyPathArgs;

#[derive(Deserialize)]
struct Answer {
    data: Paths,
}

#[derive(Deserialize)]
struct Paths {
    to: End,
    known: String,
    adaptive_routing: bool,
    paths: Vec<Vec<Hop>>,
}

#[derive(Deserialize)]
struct End {
    host: String,
    port: String,
}

#[derive(Deserialize)]
struct Hop {
    node: String,
    port: String,
    ingress: Option<u32>,
    virtual_lanes: Option<Vec<u8>>,
    virtual_lanes_of_ingress: Option<bool>,
}

/// Runs the command.
pub(super) fn path(args: &TopologyPathArgs) -> Result<(), ClientError> {
    let form: Form = vec![("from", args.from.clone()), ("to", args.to.clone())];
    show(&args.server, "api/v1/topology/path", &form, args.json, |answer: &Answer| text(&answer.data))
}

fn text(answer: &Paths) -> String {
    let Paths { to, known, adaptive_routing, paths } = answer;
    let mut out = String::new();
    for (n, path) in paths.iter().enumerate() {
        if paths.len() > 1 {
            out.push_str(&format!("path {}\n", n + 1));
        }
        for hop in path {
            let ingress = hop.ingress.map(|port| format!(", in by {port}")).unwrap_or_default();
            let lanes = hop.virtual_lanes.as_ref().map(|lanes| format!("; {}", words(lanes))).unwrap_or_default();
            let whose =
                if hop.virtual_lanes_of_ingress == Some(false) { " (read for another ingress port)" } else { "" };
            out.push_str(&format!("{} port {}{ingress}{lanes}{whose}\n", printable(&hop.node), printable(&hop.port)));
        }
        out.push_str(&format!("{} port {}\n", printable(&to.host), printable(&to.port)));
    }
    out.push_str(match (known.as_str(), adaptive_routing, paths.len()) {
        ("forwarding_table", _, _) => "By the forwarding tables.\n",
        (_, true, _) => "By the forwarding tables; switches route adaptively, so packets take one of several paths, these or longer ones.\n",
        _ => "By the forwarding tables; the receiver has several LIDs, and the sender chooses one.\n",
    });
    out
}

/// Virtual lanes by service level in words: `VL 0`, or `SL 0-7 VL 0, SL 8-15 VL 1`.
fn words(lanes: &[u8]) -> String {
    let mut runs: Vec<(usize, usize, u8)> = Vec::new();
    for (level, lane) in lanes.iter().enumerate() {
        match runs.last_mut().filter(|(_, _, last)| last == lane) {
            Some(run) => run.1 = level,
            None => runs.push((level, level, *lane)),
        }
    }
    if let [(_, _, lane)] = runs[..] {
        return format!("VL {lane}");
    }
    let run = |(first, last, lane): &(usize, usize, u8)| {
        let levels = if first == last { first.to_string() } else { format!("{first}-{last}") };
        format!("SL {levels} VL {lane}")
    };
    runs.iter().map(run).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hops_are_listed_with_their_lanes() {
        let json = r#"{"to": {"host": "node3", "port": "mlx5_0/1"}, "known": "forwarding_table", "adaptive_routing": false,
            "paths": [[{"node": "node1", "port": "mlx5_0/1", "ingress": null, "virtual_lanes": null,
                        "virtual_lanes_of_ingress": null},
                       {"node": "leaf\u001b1", "port": "3", "ingress": 1, "virtual_lanes": [0, 0, 1, 15],
                        "virtual_lanes_of_ingress": true},
                       {"node": "leaf2", "port": "1", "ingress": 4, "virtual_lanes": [0, 0, 0],
                        "virtual_lanes_of_ingress": false}]]}"#;
        let mut answer: Paths = serde_json::from_str(json).unwrap();
        let expected = "node1 port mlx5_0/1\n\
            leaf\u{fffd}1 port 3, in by 1; SL 0-1 VL 0, SL 2 VL 1, SL 3 VL 15\n\
            leaf2 port 1, in by 4; VL 0 (read for another ingress port)\n\
            node3 port mlx5_0/1\n\
            By the forwarding tables.\n";
        assert_eq!(text(&answer), expected);
        (answer.known, answer.adaptive_routing) = ("one_of".into(), true);
        assert!(text(&answer).ends_with("packets take one of several paths, these or longer ones.\n"));
        answer.adaptive_routing = false;
        assert!(text(&answer).ends_with("the receiver has several LIDs, and the sender chooses one.\n"));
    }
}

//! `/api/v1/topology/path`: the path between two host ports of an InfiniBand subnet, by the forwarding tables.

use std::sync::Arc;
use std::time::Instant;

use axum::Extension;
use axum::extract::State;
use fabriclens_correlate::{Role, Topology};
use fabriclens_subnet_paths::{Endpoint, Hop, PairPaths};
use serde_json::{Value, json};

use super::Api;
use super::blocking::in_turn;
use super::encode::{self, Json};
use super::params::Params;
use fabriclens_core::time::now_ns;
use fabriclens_server::auth::Caller;
use fabriclens_server::error::{ApiError, Kind};

/// Returns the paths from port `from` to port `to`, each `HOST` or `HOST:PORT`.
pub(super) async fn path(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    params: Params,
) -> Result<Json, ApiError> {
    let end = |name: &'static str| {
        let missing = || ApiError::parameter(name, format!("missing parameter '{name}': HOST:PORT"));
        params.get(name).map(str::to_owned).ok_or_else(missing)
    };
    let (from, to) = (end("from")?, end("to")?);
    // Decompressing the version of a large fabric takes a while.
    let turns = api.list_turn.clone();
    let text = in_turn(&turns, &caller, move || {
        let (_, topology) = api.topologies.version(now_ns());
        let (from, to) = (endpoint(&topology, "from", &from)?, endpoint(&topology, "to", &to)?);
        let found = api.telemetry.subnet_paths.finder(Instant::now()).paths(&from, &to);
        let found = found.map_err(|error| ApiError::new(Kind::NotFound, error.to_string()))?;
        Ok(answer(&from, &to, &found).to_string())
    })
    .await?;
    Ok(encode::success(|out| out.push_str(&text)))
}

/// The port that a parameter names, with the switch port that the topology says it is connected to.
fn endpoint(topology: &Topology, name: &'static str, text: &str) -> Result<Endpoint, ApiError> {
    // Port names have no colon; host names may be addresses.
    let exact = topology.node(text).is_some();
    let (host, port) = text.rsplit_once(':').filter(|_| !exact).unwrap_or((text, ""));
    let cables = topology.links.iter().flat_map(|link| {
        let [a, b] = &link.ends;
        [(a, b), (b, a)]
    });
    let cables = cables.filter(|(near, _)| topology.nodes[near.node].name == host);
    let far = |end: &fabriclens_correlate::LinkEnd| (topology.nodes[end.node].name.clone(), end.port.clone());
    if port.is_empty() {
        let ports: Vec<_> = cables.filter(|(near, _)| topology.nodes[near.node].role == Role::Host).collect();
        return match &ports[..] {
            [(near, to)] => Ok(Endpoint { host: host.to_owned(), port: near.port.clone(), attached: Some(far(to)) }),
            [] => Err(ApiError::new(
                Kind::NotFound,
                format!("no cable of host {host:?} is known; write HOST:PORT, for instance {host}:mlx5_0/1"),
            )),
            several => {
                let names: Vec<String> = several.iter().map(|(near, _)| format!("{host}:{}", near.port)).collect();
                Err(ApiError::parameter(name, format!("{host:?} has several ports: {}", names.join(", "))))
            }
        };
    }
    let attached = cables.clone().find(|(near, _)| near.port == port).map(|(_, to)| far(to));
    Ok(Endpoint { host: host.to_owned(), port: port.to_owned(), attached })
}

fn answer(from: &Endpoint, to: &Endpoint, found: &PairPaths) -> Value {
    let hop = |hop: &Hop| {
        json!({
            "node": &*hop.node,
            "port": &*hop.port,
            "ingress": hop.ingress,
            "virtual_lanes": hop.lanes.map(|lanes| lanes.all().to_vec()),
            "virtual_lanes_of_ingress": hop.lanes.map(|lanes| lanes.is_exact),
        })
    };
    let end = |end: &Endpoint| json!({ "host": end.host, "port": end.port });
    json!({
        "from": end(from),
        "to": end(to),
        "known": if found.is_exact() { "forwarding_table" } else { "one_of" },
        "adaptive_routing": found.is_adaptive,
        "several_lids": found.has_several_lids,
        "paths": found.all.iter().map(|path| path.iter().map(hop).collect::<Vec<_>>()).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_correlate::{Link, LinkEnd, Node};

    fn topology() -> Topology {
        let node = |name: &str, role| Node { name: name.into(), role };
        let nodes = vec![node("n1", Role::Host), node("n2", Role::Host), node("leaf1", Role::Leaf)];
        let link = |host, port: &str, at: &str| {
            Link::new([LinkEnd { node: host, port: port.into() }, LinkEnd { node: 2, port: at.into() }], None)
        };
        Topology::new(nodes, vec![link(0, "mlx5_0/1", "7"), link(1, "mlx5_0/1", "8"), link(1, "mlx5_1/1", "9")])
    }

    #[test]
    fn ports_are_named_with_their_host() {
        let end = |text: &str| endpoint(&topology(), "from", text);
        let of = |text| end(text).map(|end| (end.port, end.attached)).map_err(|error| error.message);
        let at = |port: &str| Some(("leaf1".to_owned(), port.to_owned()));
        assert_eq!(of("n1").unwrap(), ("mlx5_0/1".to_owned(), at("7")));
        assert_eq!(of("n2:mlx5_1/1").unwrap(), ("mlx5_1/1".to_owned(), at("9")));
        assert_eq!(of("n9:mlx5_1/1").unwrap(), ("mlx5_1/1".to_owned(), None), "the tables may know it");
        let several = of("n2").unwrap_err();
        assert!(several.contains("n2:mlx5_0/1, n2:mlx5_1/1"), "{several}");
        assert!(of("n9").unwrap_err().contains("write HOST:PORT"));
    }
}

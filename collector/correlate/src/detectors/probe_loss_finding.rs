//! What is told of a link that loses probes: its hosts, one path over it, and other links that fit as well.

use crate::detectors::context::DetectorContext;
use crate::detectors::evidence::name;
use crate::detectors::loss_places::Explained;
use crate::detectors::loss_votes::{Place, Suspect, path_over};
use crate::detectors::tcp_twins::only_rdma;
use crate::model::finding::{Evidence, Finding};
use crate::model::kind::IncidentKind;
use std::collections::BTreeSet;

/// The finding of a link that loses probes. `is_thin`: the losses are few, so that it is only an observation. `votes` were lost where
/// chance loses `expected`, from the first to the last instant of `span_ns`, Unix nanoseconds.
pub(super) fn finding(
    ctx: &DetectorContext<'_>,
    Explained { best, near, on }: &Explained<'_>,
    is_thin: bool,
    [votes, expected]: [f64; 2],
    span_ns: [i64; 2],
) -> Finding {
    let worst = best.egress[0];
    let whom = name(ctx, worst);
    let hosts: BTreeSet<usize> =
        on.iter().flat_map(|(probe, _)| probe.ends).map(|port| ctx.fabric.ports.list[port].end.node).collect();
    let path = on.first().and_then(|(probe, _)| path_over(ctx.fabric, probe, &best.egress));
    let way = path.as_ref().map(|path| format!(" One path is {}.", ctx.fabric.path_words(&path.hops)));
    let other = |place: &Place| match place.suspect {
        Suspect::Host(node) | Suspect::Switch(node) => format!(", then {}", ctx.fabric.topology.nodes[node].name),
        Suspect::Cable(_) => format!(", then the link at {}", name(ctx, place.egress[0])),
    };
    let order: String = near.iter().map(other).collect();
    let which = if near.is_empty() {
        " Probes by other links pass.".to_owned()
    } else {
        format!(" Several links are on the same paths; likeliest is the link at {whom}{order}.")
    };
    let only_rdma = best.egress.iter().find_map(|egress| only_rdma(ctx, *egress));
    let kind = if only_rdma.is_some() { IncidentKind::TransportErrors } else { IncidentKind::LossyLink };
    let text = format!(
        "{} probes between {} hosts were lost over the link at {whom}, {:.2} % of those that crossed it.{which}{}{}",
        on.len(),
        hosts.len(),
        best.loss() * 100.0,
        way.unwrap_or_default(),
        only_rdma.map(|only| only.words()).unwrap_or_default()
    );
    let evidence = Evidence {
        metric: "lost_probes".to_owned(),
        at: whom,
        value: votes,
        threshold: expected,
        window_ns: ctx.window.time_range_ns(),
    };
    let root = ctx.fabric.link_or_port(worst);
    let sure = match (is_thin, near.is_empty()) {
        (true, _) => 0.45,
        (_, true) => 0.75,
        _ => 0.65,
    };
    let mut found = Finding::new(kind, root, sure, evidence, text).began_at(Some(span_ns[0]));
    if let Some((probe, _)) = on.first() {
        found = found.observed_at(probe.ends[0]);
    }
    if let Some(path) = path {
        found = found.along(&path);
    }
    if near.is_empty() { found } else { found.as_inferred() }
}

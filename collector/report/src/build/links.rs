//! Links near the job, by the counters of switch ports: hosts cannot see what happens between two switches.

use super::ReportContext;
use super::ports::{Counter, Counters, Join, Row, add, increases, row};
use crate::model::{Links, WorstLink};
use fabriclens_promql::QueryError;
use std::cmp::Ordering;
use std::collections::HashMap;

/// Maximum number of listed links.
const LISTED: usize = 20;
/// Minimum fraction of time held back, damaged frames and dropped packets for a link to be listed.
const HELD: f64 = 0.001;
const ERRORS: f64 = 10.0;
const DROPS: f64 = 1.0;

/// Counters of switch ports. Rows of one metric follow each other.
const ROWS: &[Row] = &[
    row("fabric_port_io_bytes_total", "transmit", Counter::Sent, Join::Sum),
    row("fabric_port_io_bytes_total", "receive", Counter::Received, Join::Sum),
    row("fabric_pfc_pause_seconds_total", "receive", Counter::Paused, Join::Most),
    row("fabric_pause_duration_seconds_total", "receive", Counter::Paused, Join::Most),
    row("fabric_port_xmit_wait_bytes_total", "", Counter::Wait, Join::Sum),
    row("fabric_ecn_marks_total", "", Counter::Marked, Join::Most),
    row("fabric_port_queue_ecn_marks_total", "", Counter::Marked, Join::Most),
    row("fabric_link_symbol_errors_total", "", Counter::LinkErrors, Join::Most),
    row("fabric_link_crc_errors_total", "receive", Counter::LinkErrors, Join::Most),
    row("fabric_link_receive_errors_total", "", Counter::LinkErrors, Join::Most),
    row("fabric_port_discards_total", "", Counter::Discards, Join::Sum),
];

/// A cable, from the topology.
pub struct Link {
    /// Its two ends.
    pub ends: [LinkEnd; 2],
}

/// One end of a cable.
pub struct LinkEnd {
    /// Host or switch, as the label `host` of series.
    pub node: String,
    /// Port name of the topology: of a switch, the label `port` of series. `None` if it is unknown.
    pub port: Option<String>,
    /// Whether the node is a switch.
    pub is_switch: bool,
}

impl LinkEnd {
    /// The labels `host` and `port` of its series; `None` if it is no switch, or its port is unknown.
    fn switch_port(&self) -> Option<Place<'_>> {
        self.port.as_deref().filter(|_| self.is_switch).map(|port| (self.node.as_str(), port))
    }
}

/// Switch and port.
type Place<'a> = (&'a str, &'a str);

pub(super) fn links(context: &ReportContext<'_>, links: &[Link]) -> Result<Links, QueryError> {
    let ends = || links.iter().flat_map(|link| &link.ends).filter_map(LinkEnd::switch_port);
    if ends().next().is_none() {
        return Ok(Links { known: links.len(), measured: 0, worst: Vec::new() });
    }
    let mut source = context.source.beside(ends().map(|(node, _)| node));
    source.choose_method(ends().count());
    let read = increases(&source, ROWS)?;
    let mut ports: HashMap<Place<'_>, Counters> = ends().map(|place| (place, Counters::new())).collect();
    for (of_metric, increases) in &read {
        for increase in increases {
            if let Some(port) = ports.get_mut(&(increase.labels.get("host"), increase.labels.get("port"))) {
                add(port, of_metric, increase);
            }
        }
    }
    let samples = source.at(&source.selector("fabric_port_rate_bytes_per_second", ""), source.end_ms)?;
    let rates = samples.iter().map(|s| ((s.labels.get("host"), s.labels.get("port")), s.value)).collect();
    let seconds = source.seconds();
    let measured: Vec<WorstLink> = links.iter().filter_map(|link| judge(link, &ports, &rates, seconds)).collect();
    let count = measured.len();
    let mut worst: Vec<_> = measured.into_iter().map(|link| (harm(&link), link)).collect();
    worst.retain(|(harm, _)| harm.iter().any(|part| *part > 0.0));
    // Damage is rarer than drops, and drops are rarer than waiting.
    worst.sort_by(|(a, one), (b, other)| {
        let parts = a.iter().zip(b).map(|(a, b)| b.total_cmp(a));
        parts.fold(Ordering::Equal, Ordering::then).then_with(|| one.link.cmp(&other.link))
    });
    worst.truncate(LISTED);
    Ok(Links { known: links.len(), measured: count, worst: worst.into_iter().map(|(_, link)| link).collect() })
}

/// Damaged frames, dropped packets and fraction of time held back; 0 below their minimum.
fn harm(link: &WorstLink) -> [f64; 3] {
    [(link.errors, ERRORS), (link.drops, DROPS), (link.held, HELD)]
        .map(|(value, least)| value.filter(|value| *value >= least).unwrap_or(0.0))
}

/// Figures of a link; `None` if none of its switch ports was read.
fn judge(
    link: &Link,
    ports: &HashMap<Place<'_>, Counters>,
    rates: &HashMap<Place<'_>, f64>,
    seconds: f64,
) -> Option<WorstLink> {
    let mut figures = WorstLink { link: name(link), held: None, load: None, errors: None, drops: None, marks: None };
    let mut read = false;
    for place in link.ends.iter().filter_map(LinkEnd::switch_port) {
        let Some(counters) = ports.get(&place).filter(|counters| !counters.is_empty()) else { continue };
        read = true;
        let total = |counter| counters.get(&counter).map(|counted| counted.total).filter(|total| total.is_finite());
        let capacity = rates.get(&place).filter(|rate| **rate > 0.0).map(|rate| rate * seconds);
        let of_capacity = |counter| Some(total(counter)? / capacity?);
        let paused = total(Counter::Paused).map(|paused| paused / seconds);
        for share in [paused, of_capacity(Counter::Wait)] {
            figures.held = most(figures.held, share.map(|share| share.min(1.0)));
        }
        for counter in [Counter::Sent, Counter::Received] {
            figures.load = most(figures.load, of_capacity(counter));
        }
        for (sum, counter) in [
            (&mut figures.errors, Counter::LinkErrors),
            (&mut figures.drops, Counter::Discards),
            (&mut figures.marks, Counter::Marked),
        ] {
            *sum = (*sum).into_iter().chain(total(counter)).reduce(|a, b| a + b);
        }
    }
    read.then_some(figures)
}

fn most(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    a.into_iter().chain(b).reduce(f64::max)
}

/// Both ends: `leaf-1 swp12 - spine-3 Ethernet80`. Unknown ports are omitted.
fn name(link: &Link) -> String {
    let end = |end: &LinkEnd| match &end.port {
        None => end.node.clone(),
        Some(port) => format!("{} {port}", end.node),
    };
    link.ends.iter().map(end).collect::<Vec<_>>().join(" - ")
}

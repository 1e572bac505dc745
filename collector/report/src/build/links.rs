//! Links near the job, by the counters of switch ports: hosts cannot see what happens between two switches.

use super::ReportContext;
use super::cable::{Link, LinkEnd, Place, name};
use super::paths::FoundPaths;
use super::ports::{Counter, Counters, Join, Row, add, increases, row};
use crate::model::{LinkFlows, Links, WorstLink};
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

pub(super) fn links(
    context: &ReportContext<'_>,
    mut links: Vec<Link>,
    found: Option<FoundPaths<'_>>,
) -> Result<Links, QueryError> {
    links.extend(found.iter().flat_map(|found| found.more_links(&links)).collect::<Vec<_>>());
    let figures = figures(context, &links)?;
    let flows = |link: &Link| found.as_ref().map(|found| found.over(link));
    // A link that no flow takes for sure does not explain what the job suffered.
    let is_complete = found.as_ref().is_some_and(FoundPaths::is_complete);
    let is_avoided = |link: &WorstLink| is_complete && link.flows.is_some_and(|flows| flows == LinkFlows::default());
    let measured = links.iter().filter_map(|link| {
        let figures = figures.get(&name(link))?.clone();
        Some(WorstLink { flows: flows(link), ..figures })
    });
    let mut worst: Vec<_> = measured.map(|link| (is_avoided(&link), harm(&link), link)).collect();
    let count = worst.len();
    worst.retain(|(_, harm, _)| harm.iter().any(|part| *part > 0.0));
    // Damage is rarer than drops, and drops are rarer than waiting.
    worst.sort_by(|(avoided, a, one), (other_avoided, b, other)| {
        let parts = a.iter().zip(b).map(|(a, b)| b.total_cmp(a));
        let order = parts.fold(avoided.cmp(other_avoided), Ordering::then);
        order.then_with(|| one.link.cmp(&other.link))
    });
    worst.truncate(LISTED);
    let worst: Vec<WorstLink> = worst.into_iter().map(|(_, _, link)| link).collect();
    let names: Vec<String> = worst.iter().map(|link| link.link.clone()).collect();
    let paths = found.map(|found| found.section(&figures, &names));
    Ok(Links { known: links.len(), measured: count, worst, paths })
}

/// Figures of the links by name, without flows; of those of which a switch port was read.
fn figures(context: &ReportContext<'_>, links: &[Link]) -> Result<HashMap<String, WorstLink>, QueryError> {
    let ends = || links.iter().flat_map(|link| &link.ends).filter_map(LinkEnd::switch_port);
    if ends().next().is_none() {
        return Ok(HashMap::new());
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
    let judged = links.iter().filter_map(|link| Some((name(link), judge(link, &ports, &rates, seconds)?)));
    Ok(judged.collect())
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
    let mut figures =
        WorstLink { link: name(link), held: None, load: None, errors: None, drops: None, marks: None, flows: None };
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

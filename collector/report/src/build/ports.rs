//! Counters of each port of the job; one table row per series.

use crate::model::{Figure, Grade, Part, Unit};
use crate::read::{Increase, Source};
use fabriclens_jobs::Occupancy;
use fabriclens_promql::QueryError;
use std::collections::{BTreeMap, HashMap};

/// A counter of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Counter {
    Sent,
    Received,
    RdmaSent,
    RdmaReceived,
    /// Seconds in which it was paused.
    Paused,
    /// Seconds in which it paused its switch.
    Pausing,
    /// Bytes it could not send for lack of credits.
    Wait,
    CnpReceived,
    CnpSent,
    Marked,
    Retransmits,
    LinkErrors,
    Timeouts,
    Downs,
    Discards,
    Uncorrectable,
}

/// Combines several series of a port into one counter. `Most` is for priorities that are paused at the same time and
/// for events that several series count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Join {
    Sum,
    Most,
}

/// A series of a port and the counter that it adds to.
pub(super) struct Row {
    metric: &'static str,
    /// Value of the `direction` label; empty: any.
    direction: &'static str,
    counter: Counter,
    join: Join,
}

pub(super) const fn row(metric: &'static str, direction: &'static str, counter: Counter, join: Join) -> Row {
    Row { metric, direction, counter, join }
}

/// Counters of ports of hosts. Rows of one metric follow each other.
const ROWS: &[Row] = &[
    row("fabric_port_io_bytes_total", "transmit", Counter::Sent, Join::Sum),
    row("fabric_port_io_bytes_total", "receive", Counter::Received, Join::Sum),
    row("fabric_rdma_io_bytes_total", "transmit", Counter::RdmaSent, Join::Sum),
    row("fabric_rdma_io_bytes_total", "receive", Counter::RdmaReceived, Join::Sum),
    row("fabric_pfc_pause_seconds_total", "receive", Counter::Paused, Join::Most),
    row("fabric_pfc_pause_seconds_total", "transmit", Counter::Pausing, Join::Most),
    row("fabric_pause_duration_seconds_total", "receive", Counter::Paused, Join::Most),
    row("fabric_pause_duration_seconds_total", "transmit", Counter::Pausing, Join::Most),
    row("fabric_port_xmit_wait_bytes_total", "", Counter::Wait, Join::Sum),
    row("fabric_cnp_packets_total", "receive", Counter::CnpReceived, Join::Sum),
    row("fabric_cnp_packets_total", "transmit", Counter::CnpSent, Join::Sum),
    row("fabric_ecn_packets_total", "", Counter::Marked, Join::Sum),
    row("fabric_rdma_retransmits_total", "", Counter::Retransmits, Join::Most),
    row("fabric_rdma_sequence_naks_total", "receive", Counter::Retransmits, Join::Most),
    row("fabric_rdma_ack_timeouts_total", "", Counter::Timeouts, Join::Sum),
    row("fabric_link_symbol_errors_total", "", Counter::LinkErrors, Join::Most),
    row("fabric_link_crc_errors_total", "receive", Counter::LinkErrors, Join::Most),
    row("fabric_link_receive_errors_total", "", Counter::LinkErrors, Join::Most),
    row("fabric_link_downs_total", "", Counter::Downs, Join::Sum),
    row("fabric_port_discards_total", "receive", Counter::Discards, Join::Sum),
    row("fabric_port_discards_total", "transmit", Counter::Discards, Join::Sum),
    row("fabric_fec_uncorrectable_blocks_total", "", Counter::Uncorrectable, Join::Sum),
];

/// Increase of a counter of a port.
#[derive(Clone, Debug)]
pub(super) struct Counted {
    pub total: f64,
    /// Increase between edges; NaN: not measured.
    pub steps: Vec<f64>,
}

/// Counters of a port that were measured.
pub(super) type Counters = HashMap<Counter, Counted>;

/// A port of the job with its counters.
pub(super) struct Port {
    pub host: String,
    pub device: String,
    pub port: String,
    pub rail: String,
    /// True if an agent reported the rail; otherwise `rail` is the device name.
    pub on_rail: bool,
    pub grade: Grade,
    /// Line rate at the end of the job, bytes per second.
    pub rate: Option<f64>,
    /// Longest gap in the samples of its sent bytes, ms.
    pub gap_ms: i64,
    pub counted: Counters,
}

impl Port {
    /// Increase over the whole time; `None`: not measured.
    pub fn total(&self, counter: Counter) -> Option<f64> {
        self.counted.get(&counter).map(|c| c.total)
    }

    /// Increase in the n-th step; `None`: not measured.
    pub fn step(&self, counter: Counter, n: usize) -> Option<f64> {
        self.counted.get(&counter).and_then(|c| c.steps.get(n)).copied().filter(|v| v.is_finite())
    }

    /// `gpu-07 mlx5_3`, with the port number if it is not 1.
    pub fn name(&self) -> String {
        match self.port.as_str() {
            "" | "1" => format!("{} {}", self.host, self.device),
            port => format!("{} {} port {port}", self.host, self.device),
        }
    }
}

/// Host, device, port.
type Place = (String, String, String);

fn place(labels: &fabriclens_model::Labels) -> Place {
    let l = |name| labels.get(name).to_owned();
    (l("host"), l("device"), l("port"))
}

/// Reads all counters of the job's ports. The job must be the first of the occupancy.
pub(super) fn read(source: &Source<'_>, on: &Occupancy<'_>) -> Result<Vec<Port>, QueryError> {
    let increases = increases(source, ROWS)?;
    // By host, device and port; `None`: not a port of the job. The keys borrow their texts, because a large job has
    // half a million counters.
    let mut ports: HashMap<[&str; 3], Option<Port>> = HashMap::new();
    for (of_metric, increases) in &increases {
        for increase in increases {
            let at = ["host", "device", "port"].map(|name| increase.labels.get(name));
            // Interfaces without an RDMA port do not belong to the fabric.
            let jobs = || !at[2].is_empty() && on.on_device(at[0], at[1]).any(|job| job == 0);
            let Some(port) = ports.entry(at).or_insert_with(|| jobs().then(|| new(at, on))) else { continue };
            if add(&mut port.counted, of_metric, increase) == Some(Counter::Sent) {
                port.gap_ms = port.gap_ms.max(increase.gap_ms);
            }
        }
    }
    let mut ports: Vec<Port> = ports.into_values().flatten().filter(|port| !port.counted.is_empty()).collect();
    ports.sort_unstable_by(|a, b| (&a.host, &a.device, &a.port).cmp(&(&b.host, &b.device, &b.port)));
    describe(source, &mut ports)?;
    Ok(ports)
}

fn new([host, device, port]: [&str; 3], on: &Occupancy<'_>) -> Port {
    Port {
        host: host.to_owned(),
        device: device.to_owned(),
        port: port.to_owned(),
        rail: device.to_owned(),
        on_rail: false,
        grade: on.device(host, device).into(),
        rate: None,
        gap_ms: 0,
        counted: HashMap::new(),
    }
}

/// Rows of a metric, and the increases of its series.
pub(super) type OfMetric = (Vec<&'static Row>, Vec<Increase>);

/// Increases of all series of a table, with the rows of each metric. Rows of one metric must follow each other.
pub(super) fn increases(source: &Source<'_>, rows: &'static [Row]) -> Result<Vec<OfMetric>, QueryError> {
    let mut metrics: Vec<&str> = rows.iter().map(|r| r.metric).collect();
    metrics.dedup();
    let increases = in_parallel(&metrics, |metric| source.increases(metric))?;
    let of_metric = |metric: &&str| rows.iter().filter(|r| r.metric == *metric).collect();
    Ok(metrics.iter().map(of_metric).zip(increases).collect())
}

/// Adds an increase to the counters of its port, by the row of its metric and direction. Returns the counter.
pub(super) fn add(counted: &mut Counters, of_metric: &[&Row], increase: &Increase) -> Option<Counter> {
    let direction = increase.labels.get("direction");
    let row = of_metric.iter().find(|r| r.direction.is_empty() || r.direction == direction)?;
    let Some(known) = counted.get_mut(&row.counter) else {
        counted.insert(row.counter, Counted { total: increase.total, steps: increase.steps.clone() });
        return Some(row.counter);
    };
    let join = |a: f64, b: f64| match row.join {
        _ if a.is_nan() => b,
        _ if b.is_nan() => a,
        Join::Sum => a + b,
        Join::Most => a.max(b),
    };
    known.total = join(known.total, increase.total);
    known.steps.iter_mut().zip(&increase.steps).for_each(|(a, b)| *a = join(*a, *b));
    Some(row.counter)
}

/// Adds the latest rails and line rates.
fn describe(source: &Source<'_>, ports: &mut [Port]) -> Result<(), QueryError> {
    let mut rails = HashMap::new();
    let mut rates = HashMap::new();
    for at in [source.end_ms, source.start_ms] {
        for s in source.at(&source.selector("fabric_port_info", "rail!=\"\""), at)? {
            rails.entry(place(&s.labels)).or_insert_with(|| s.labels.get("rail").to_owned());
        }
        for s in source.at(&source.selector("fabric_port_rate_bytes_per_second", ""), at)? {
            rates.entry(place(&s.labels)).or_insert(s.value);
        }
    }
    for port in ports {
        let at = (port.host.clone(), port.device.clone(), port.port.clone());
        port.rate = rates.get(&at).copied().filter(|rate| *rate > 0.0);
        if let Some(rail) = rails.remove(&at) {
            (port.rail, port.on_rail) = (rail, true);
        }
    }
    Ok(())
}

/// Runs the work for all metrics on at most four threads, so that a report leaves cores to queries.
fn in_parallel<T: Send>(
    metrics: &[&str],
    work: impl Fn(&str) -> Result<T, QueryError> + Sync,
) -> Result<Vec<T>, QueryError> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(4);
    fabriclens_base::on_threads(metrics.to_vec(), threads, work).into_iter().collect()
}

/// Aggregation of the values of several ports.
#[derive(Clone, Copy)]
pub(super) enum Aggregation {
    Sum,
    Mean,
    Most,
}

/// Aggregates values by grade.
pub(super) fn figure(unit: Unit, over: Aggregation, values: impl IntoIterator<Item = (Grade, Option<f64>)>) -> Figure {
    let mut by: BTreeMap<Grade, Vec<f64>> = BTreeMap::new();
    for (grade, value) in values {
        if let Some(value) = value.filter(|v| v.is_finite()) {
            by.entry(grade).or_default().push(value);
        }
    }
    let join = |v: &[f64]| match over {
        Aggregation::Sum => v.iter().sum(),
        Aggregation::Mean => v.iter().sum::<f64>() / v.len() as f64,
        Aggregation::Most => v.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    };
    let parts = by.into_iter().map(|(grade, v)| Part { grade, value: join(&v), of: v.len() }).collect();
    Figure { unit, parts }
}

/// Sum of a counter over ports, by grade.
pub(super) fn sum<'a>(unit: Unit, ports: impl IntoIterator<Item = &'a Port>, counter: Counter) -> Figure {
    figure(unit, Aggregation::Sum, ports.into_iter().map(|p| (p.grade, p.total(counter))))
}

//! What each port of the job counted in the time: one row a counter.

use crate::model::{Figure, Grade, Part, Unit};
use crate::read::{Rise, Source};
use fabriclens_jobs::Occupancy;
use fabriclens_promql::QueryError;
use std::collections::{BTreeMap, HashMap};

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum What {
    Sent,
    Received,
    RdmaSent,
    RdmaReceived,
    /// Seconds it could not send.
    Paused,
    /// Seconds it kept others from sending.
    Pausing,
    /// Bytes it could not send for want of credits.
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

/// How several series of a port become one: priorities are paused together, errors of several kinds are added up, and
/// what is counted in several ways is counted once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Join {
    Sum,
    Most,
}

struct Row {
    metric: &'static str,
    /// Which direction; `""`: it has none.
    direction: &'static str,
    what: What,
    join: Join,
}

const fn row(metric: &'static str, direction: &'static str, what: What, join: Join) -> Row {
    Row { metric, direction, what, join }
}

/// Rows of one metric follow each other.
const ROWS: &[Row] = &[
    row("fabric_port_io_bytes_total", "transmit", What::Sent, Join::Sum),
    row("fabric_port_io_bytes_total", "receive", What::Received, Join::Sum),
    row("fabric_rdma_io_bytes_total", "transmit", What::RdmaSent, Join::Sum),
    row("fabric_rdma_io_bytes_total", "receive", What::RdmaReceived, Join::Sum),
    row("fabric_pfc_pause_seconds_total", "receive", What::Paused, Join::Most),
    row("fabric_pfc_pause_seconds_total", "transmit", What::Pausing, Join::Most),
    row("fabric_pause_duration_seconds_total", "receive", What::Paused, Join::Most),
    row("fabric_pause_duration_seconds_total", "transmit", What::Pausing, Join::Most),
    row("fabric_port_xmit_wait_bytes_total", "", What::Wait, Join::Sum),
    row("fabric_cnp_packets_total", "receive", What::CnpReceived, Join::Sum),
    row("fabric_cnp_packets_total", "transmit", What::CnpSent, Join::Sum),
    row("fabric_ecn_packets_total", "", What::Marked, Join::Sum),
    row("fabric_rdma_retransmits_total", "", What::Retransmits, Join::Most),
    row("fabric_rdma_sequence_naks_total", "receive", What::Retransmits, Join::Most),
    row("fabric_rdma_ack_timeouts_total", "", What::Timeouts, Join::Sum),
    row("fabric_link_symbol_errors_total", "", What::LinkErrors, Join::Most),
    row("fabric_link_crc_errors_total", "receive", What::LinkErrors, Join::Most),
    row("fabric_link_receive_errors_total", "", What::LinkErrors, Join::Most),
    row("fabric_link_downs_total", "", What::Downs, Join::Sum),
    row("fabric_port_discards_total", "receive", What::Discards, Join::Sum),
    row("fabric_port_discards_total", "transmit", What::Discards, Join::Sum),
    row("fabric_fec_uncorrectable_blocks_total", "", What::Uncorrectable, Join::Sum),
];

/// A counter of a port in the time.
#[derive(Clone, Debug)]
pub(super) struct Counted {
    pub total: f64,
    /// Between edges; NaN: not measured.
    pub steps: Vec<f64>,
}

/// A port of the job.
pub(super) struct Port {
    pub host: String,
    pub device: String,
    pub port: String,
    pub rail: String,
    /// Somebody told it; else it is the name of the device.
    pub on_rail: bool,
    pub grade: Grade,
    /// Line rate at the end, bytes a second.
    pub rate: Option<f64>,
    /// The longest hole in its bytes, ms.
    pub hole_ms: i64,
    pub counted: HashMap<What, Counted>,
}

impl Port {
    pub fn total(&self, what: What) -> Option<f64> {
        self.counted.get(&what).map(|c| c.total)
    }

    /// Between two edges; `None`: not measured.
    pub fn step(&self, what: What, n: usize) -> Option<f64> {
        self.counted.get(&what).and_then(|c| c.steps.get(n)).copied().filter(|v| v.is_finite())
    }

    /// `gpu-07 mlx5_3`, with the port where it is not the first.
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

/// Reads all counters of the job's ports; the job is the first of the occupancy.
pub(super) fn read(source: &Source<'_>, on: &Occupancy<'_>) -> Result<Vec<Port>, QueryError> {
    let mut metrics: Vec<&str> = ROWS.iter().map(|r| r.metric).collect();
    metrics.dedup();
    let rises = side_by_side(&metrics, |metric| source.rises(metric))?;
    // By place; `None`: no port of the job. Texts stay where they are, because a large job has half a million counters.
    let mut ports: HashMap<[&str; 3], Option<Port>> = HashMap::new();
    for (metric, rises) in metrics.iter().zip(&rises) {
        let of_metric: Vec<&Row> = ROWS.iter().filter(|r| r.metric == *metric).collect();
        for rise in rises {
            let at = ["host", "device", "port"].map(|name| rise.labels.get(name));
            // An interface without RDMA is the host's, not the fabric's.
            let jobs = || !at[2].is_empty() && on.on_device(at[0], at[1]).any(|job| job == 0);
            let Some(port) = ports.entry(at).or_insert_with(|| jobs().then(|| new(at, on))) else { continue };
            let direction = rise.labels.get("direction");
            for row in of_metric.iter().filter(|r| r.direction.is_empty() || r.direction == direction) {
                if row.what == What::Sent {
                    port.hole_ms = port.hole_ms.max(rise.hole_ms);
                }
                add(&mut port.counted, row, rise);
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
        hole_ms: 0,
        counted: HashMap::new(),
    }
}

fn add(counted: &mut HashMap<What, Counted>, row: &Row, rise: &Rise) {
    let Some(known) = counted.get_mut(&row.what) else {
        counted.insert(row.what, Counted { total: rise.total, steps: rise.steps.clone() });
        return;
    };
    let join = |a: f64, b: f64| match row.join {
        _ if a.is_nan() => b,
        _ if b.is_nan() => a,
        Join::Sum => a + b,
        Join::Most => a.max(b),
    };
    known.total = join(known.total, rise.total);
    known.steps.iter_mut().zip(&rise.steps).for_each(|(a, b)| *a = join(*a, *b));
}

/// Rails and line rates, as they were last.
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

/// Work on some threads, no more than four: a report must leave room for queries.
fn side_by_side<T: Send>(
    metrics: &[&str],
    work: impl Fn(&str) -> Result<T, QueryError> + Sync,
) -> Result<Vec<T>, QueryError> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(4);
    let next = std::sync::atomic::AtomicUsize::new(0);
    let run = || {
        let mut done = Vec::new();
        loop {
            let n = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            match metrics.get(n) {
                Some(metric) => done.push((n, work(metric))),
                None => return done,
            }
        }
    };
    let mut all: Vec<(usize, Result<T, QueryError>)> = std::thread::scope(|s| {
        let others: Vec<_> = (1..threads).map(|_| s.spawn(run)).collect();
        let mut all = run();
        for other in others {
            all.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        all
    });
    all.sort_by_key(|(n, _)| *n);
    all.into_iter().map(|(_, result)| result).collect()
}

/// How values of several ports become one number.
#[derive(Clone, Copy)]
pub(super) enum Over {
    Sum,
    Mean,
    Most,
}

/// A number of each grade.
pub(super) fn figure(unit: Unit, over: Over, values: impl IntoIterator<Item = (Grade, Option<f64>)>) -> Figure {
    let mut by: BTreeMap<Grade, Vec<f64>> = BTreeMap::new();
    for (grade, value) in values {
        if let Some(value) = value.filter(|v| v.is_finite()) {
            by.entry(grade).or_default().push(value);
        }
    }
    let join = |v: &[f64]| match over {
        Over::Sum => v.iter().sum(),
        Over::Mean => v.iter().sum::<f64>() / v.len() as f64,
        Over::Most => v.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    };
    let parts = by.into_iter().map(|(grade, v)| Part { grade, value: join(&v), of: v.len() }).collect();
    Figure { unit, parts }
}

/// A counter's total over ports.
pub(super) fn sum<'a>(unit: Unit, ports: impl IntoIterator<Item = &'a Port>, what: What) -> Figure {
    figure(unit, Over::Sum, ports.into_iter().map(|p| (p.grade, p.total(what))))
}

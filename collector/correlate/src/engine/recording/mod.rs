//! A recorded fabric: `topology.json`, `jobs.json`, `ports.csv.gz` and, if present, `flows_seen.csv.gz`, `paths.csv.gz` and
//! `probes.csv.gz`. Its samples become what agents and switches would have sent, in order of time, so that the same evaluation
//! reads them.

mod columns;
mod error;
mod files;
mod optional_table;
mod order;
mod period;
mod probe_results;
mod queue_pairs_seen;
mod route_updates;
mod row_codec;
mod rows;
mod traced_paths;

pub use error::RecordingError;
pub use files::RecordedJob;
pub(super) use route_updates::RouteUpdates;

use crate::model::fabric::Fabric;
use crate::model::ports::Ports;
use crate::model::topology::{HostNames, Role, TopologySource, merge, port_name};
use fabriclens_model::{Layout, Series, absent};
use order::RowStream;
use rows::{Row, Rows};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::rc::Rc;

/// How a recording is read.
#[derive(Clone, Copy, Debug)]
pub struct ReadAs {
    /// Factor for times and cumulative counters of traffic, so that rates and shares stay the same.
    pub stretch: i64,
    /// Skips switch ports, as if no switch was monitored.
    pub hosts_only: bool,
}

/// All series of a port at an instant.
#[derive(Clone, Debug)]
pub struct PortSample {
    /// The series, with their labels.
    pub series: Layout,
    /// Unix milliseconds.
    pub time_ms: i64,
    /// Values by series; absent where nothing was measured.
    pub values: Vec<f64>,
}

/// Samples in order of time, or why there are no more.
type SampleStream = Box<dyn Iterator<Item = Result<PortSample, RecordingError>>>;

/// A recording whose samples are read as they are used.
pub struct Recording {
    /// Nodes and cables as its files describe them.
    pub(super) described: Vec<TopologySource>,
    /// Topology and ports, without jobs.
    pub(super) fabric: Fabric,
    pub(super) jobs: Vec<RecordedJob>,
    /// Sampling period in ms: the shortest that more than a few ports have.
    pub(super) step_ms: i64,
    pub(super) samples: SampleStream,
    /// Paths, queue pairs and probes.
    pub(super) routes: RouteUpdates,
}

impl Recording {
    /// Opens a directory.
    ///
    /// # Errors
    /// [`RecordingError`] names the file and what is wrong. Further errors come with the samples.
    pub fn open(dir: &Path, how: ReadAs) -> Result<Self, RecordingError> {
        let described = vec![files::topology(dir)?];
        let topology = merge(&described, &HostNames::default());
        let wanted = topology.nodes.iter().filter(|node| !how.hosts_only || node.role == Role::Host);
        let wanted: HashSet<String> = wanted.map(|node| node.name.clone()).collect();
        let (samples, step_ms) = samples(Rows::open(dir, how.stretch, move |node| wanted.contains(node))?)?;
        let fabric = Fabric::new(topology.clone(), Ports::new(&topology), Vec::new());
        let jobs = files::jobs(dir, how.stretch)?;
        let routes = RouteUpdates::open(dir, how.stretch)?;
        Ok(Self { described, fabric, jobs, step_ms, samples, routes })
    }

    /// A recording of series in memory, sampled every `step_ms`.
    pub fn of_series(fabric: Fabric, series: Vec<Series>, step_ms: i64) -> Self {
        let mut by_port: BTreeMap<(String, String), Vec<Series>> = BTreeMap::new();
        for one in series {
            let port = (one.labels.get("host").to_owned(), port_name(&one.labels));
            by_port.entry(port).or_default().push(one);
        }
        let mut samples: Vec<PortSample> = by_port.into_values().flat_map(samples_of_port).collect();
        samples.sort_by_key(|sample| sample.time_ms);
        let samples = Box::new(samples.into_iter().map(Ok));
        let routes = RouteUpdates::default();
        Self { described: Vec::new(), fabric, jobs: Vec::new(), step_ms, samples, routes }
    }

    /// The recording with each sample changed or left out.
    #[must_use]
    pub fn map_samples(self, change: impl FnMut(PortSample) -> Option<PortSample> + 'static) -> Self {
        let mut change = change;
        let samples = self.samples.filter_map(move |sample| match sample {
            Ok(sample) => change(sample).map(Ok),
            Err(error) => Some(Err(error)),
        });
        Self { samples: Box::new(samples), ..self }
    }
}

/// Samples of the rows of a file in order of time, and their period in ms.
fn samples<W: Fn(&str) -> bool + 'static>(mut rows: Rows<W>) -> Result<(SampleStream, i64), RecordingError> {
    let layouts: Rc<RefCell<Vec<Layout>>> = Rc::default();
    let known = layouts.clone();
    let next = move || -> Result<Option<Row>, RecordingError> {
        let Some((row, new)) = rows.next()? else { return Ok(None) };
        if let Some([node, port]) = new {
            let labels: Vec<_> = rows.columns().map(|column| column.labels(&node, &port)).collect();
            known.borrow_mut().push(Layout::new(labels));
        }
        Ok(Some(row))
    };
    let rows: RowStream = Box::new(UntilError { next: Some(next) });
    let (rows, step_ms) = order::by_time(rows)?;
    let sample = move |row: Row| PortSample {
        series: layouts.borrow()[row.port as usize].clone(),
        time_ms: row.time_ms,
        values: row.values,
    };
    Ok((Box::new(rows.map(move |row| row.map(&sample))), step_ms))
}

/// Ends after the first error.
struct UntilError<F> {
    next: Option<F>,
}

impl<T, E, F: FnMut() -> Result<Option<T>, E>> Iterator for UntilError<F> {
    type Item = Result<T, E>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next.as_mut()?().transpose();
        if !matches!(next, Some(Ok(_))) {
            self.next = None;
        }
        next
    }
}

/// Samples of the series of one port.
fn samples_of_port(series: Vec<Series>) -> Vec<PortSample> {
    let layout = Layout::new(series.iter().map(|one| one.labels.clone()).collect::<Vec<_>>());
    let mut by_time: BTreeMap<i64, Vec<f64>> = BTreeMap::new();
    for (at, one) in series.iter().enumerate() {
        for (time, value) in one.times.iter().zip(&one.values) {
            by_time.entry(*time).or_insert_with(|| vec![absent(); series.len()])[at] = *value;
        }
    }
    let sample = |(time_ms, values)| PortSample { series: layout.clone(), time_ms, values };
    by_time.into_iter().map(sample).collect()
}

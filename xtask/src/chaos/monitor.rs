//! Records memory, open files and sample age of the test bed each second, and draws a chart of them.
//!
//! Finds the processes by name, which the process namespace makes unique.

use super::testbed::{lag, now};
use crate::process::Process;
use anyhow::Result;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Process names, truncated by the kernel: collector and agent.
const NAMES: [&str; 2] = ["fabriclens", "fabriclens-agen"];

/// One reading; NaN if a value could not be read.
#[derive(Clone, Copy)]
pub struct Snapshot {
    /// Unix seconds.
    pub at: f64,
    /// Resident bytes of the collector and of the largest agent.
    pub rss: [f64; 2],
    /// Open files of the collector and of the agent with most.
    pub files: [f64; 2],
    /// Age in seconds of the newest stored sample of the host furthest behind.
    pub lag: f64,
}

/// A panel of the chart: title, unit, and lines.
type Panel = (&'static str, f64, &'static [(&'static str, fn(&Snapshot) -> f64)]);

const PANELS: &[Panel] = &[
    ("resident memory, MB", 1e6, &[("collector", |m| m.rss[0]), ("largest agent", |m| m.rss[1])]),
    ("open files", 1.0, &[("collector", |m| m.files[0]), ("agent with most", |m| m.files[1])]),
    ("newest sample of the host furthest behind, s", 1.0, &[("age", |m| m.lag)]),
];
const COLORS: [&str; 2] = ["#1f6feb", "#d9730d"];
/// Width of the chart and height of one panel.
const WIDTH: f64 = 1100.0;
const HEIGHT: f64 = 190.0;

/// Takes a snapshot each second until the program ends.
pub struct Monitor(Arc<Mutex<Vec<Snapshot>>>);

impl Monitor {
    /// Starts the recording; `url` is the collector's.
    pub fn start(url: &str, hosts: usize) -> Self {
        let snapshots: Arc<Mutex<Vec<Snapshot>>> = Arc::default();
        let (seen, url) = (snapshots.clone(), url.to_owned());
        std::thread::spawn(move || {
            loop {
                let (at, late) = (now(), lag(&url, hosts));
                let [rss, files] =
                    [resident as fn(u32) -> Result<f64>, files].map(|of| NAMES.map(|name| most(name, of)));
                let snapshot = Snapshot { at, rss, files, lag: late.unwrap_or(f64::NAN) };
                match seen.lock() {
                    Ok(mut seen) => seen.push(snapshot),
                    Err(_) => return,
                }
                std::thread::sleep(Duration::from_secs(1));
            }
        });
        Self(snapshots)
    }

    /// Snapshots since a time, Unix seconds.
    pub fn since(&self, from: f64) -> Vec<Snapshot> {
        let seen = self.0.lock().map(|seen| seen.clone()).unwrap_or_default();
        seen.into_iter().filter(|m| m.at >= from).collect()
    }
}

/// Largest value; NaN is ignored.
pub fn largest(snapshots: &[Snapshot], of: impl Fn(&Snapshot) -> f64) -> f64 {
    snapshots.iter().map(of).fold(f64::NAN, f64::max)
}

/// CPU time of each agent in nanoseconds, by process id.
pub fn agents_cpu() -> BTreeMap<u32, u64> {
    named(NAMES[1]).filter_map(|id| Some((id, Process::cpu_total_of(id).ok()?))).collect()
}

fn most(name: &str, of: impl Fn(u32) -> Result<f64>) -> f64 {
    named(name).filter_map(|id| of(id).ok()).fold(f64::NAN, f64::max)
}

fn resident(id: u32) -> Result<f64> {
    Process::size_of(id).map(|size| size.rss as f64)
}

fn files(id: u32) -> Result<f64> {
    Ok(fs::read_dir(format!("/proc/{id}/fd"))?.count() as f64)
}

fn named(name: &str) -> impl Iterator<Item = u32> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    ids.filter(move |id| fs::read_to_string(format!("/proc/{id}/comm")).is_ok_and(|comm| comm.trim() == name))
}

/// SVG chart, with a labeled band for each fault `(name, from, to)`.
pub fn chart(snapshots: &[Snapshot], faults: &[(&str, f64, f64)]) -> String {
    let (begin, end) = (snapshots.first().map_or(0.0, |m| m.at), snapshots.last().map_or(1.0, |m| m.at));
    let x = |at: f64| 60.0 + (at - begin) / (end - begin).max(1.0) * (WIDTH - 80.0);
    // Too many labels would overlap.
    let names = faults.len() <= 60;
    let bottom = HEIGHT * PANELS.len() as f64;
    let height = bottom + if names { 150.0 } else { 20.0 };
    let mut svg = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height}' font-family='sans-serif' font-size='11'>\
         <rect width='100%' height='100%' fill='white'/>"
    );
    for (name, from, to) in faults {
        let (left, width) = (x(*from), (x(*to) - x(*from)).max(1.0));
        _ = write!(svg, "<rect x='{left:.1}' y='20' width='{width:.1}' height='{:.0}' fill='#f4f0e6'/>", bottom - 20.0);
        if names {
            let y = bottom + 12.0;
            _ = write!(svg, "<text x='{left:.1}' y='{y}' transform='rotate(50 {left:.1} {y})'>{name}</text>");
        }
    }
    for (row, (title, service, lines)) in PANELS.iter().enumerate() {
        let (top, base) = (HEIGHT * row as f64 + 24.0, HEIGHT * (row + 1) as f64 - 16.0);
        let peak = lines.iter().map(|(_, of)| largest(snapshots, of)).fold(0.0, f64::max).max(*service);
        let y = |value: f64| base - value / peak * (base - top);
        _ = write!(svg, "<text x='60' y='{:.0}' font-weight='bold'>{title}</text>", top - 8.0);
        for part in [0.0, 0.5, 1.0] {
            let (at, text) = (y(peak * part), peak * part / service);
            _ = write!(svg, "<line x1='60' x2='{}' y1='{at:.1}' y2='{at:.1}' stroke='#ddd'/>", WIDTH - 20.0);
            _ = write!(svg, "<text x='55' y='{:.1}' text-anchor='end'>{text:.0}</text>", at + 4.0);
        }
        for (n, (label, of)) in lines.iter().enumerate() {
            let color = COLORS[n];
            // A NaN breaks the line.
            for part in snapshots.split(|m| of(m).is_nan()) {
                let points: String = part.iter().map(|m| format!("{:.1},{:.1} ", x(m.at), y(of(m)))).collect();
                _ = write!(svg, "<polyline points='{points}' fill='none' stroke='{color}' stroke-width='1.3'/>");
            }
            let at = 360.0 + 140.0 * n as f64;
            _ = write!(svg, "<text x='{at}' y='{:.0}' fill='{color}'>{label}</text>", top - 8.0);
        }
    }
    _ = write!(svg, "<text x='60' y='{:.0}'>{:.0} s</text></svg>", height - 8.0, end - begin);
    svg
}

//! What the stage costs while it is hurt, and how far samples are behind: a row a second, and a picture of them.
//!
//! Processes are found by their names, which is why this runs where no others are.

use super::stage::{lag, now};
use crate::process::Process;
use anyhow::Result;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Names of processes, as the kernel cuts them: the collector, and an agent.
const NAMES: [&str; 2] = ["fabriclens", "fabriclens-agen"];

/// One look; NaN where there was nothing to see.
#[derive(Clone, Copy)]
pub struct Moment {
    /// Seconds since 1970.
    pub at: f64,
    /// Resident bytes: of the collector, and of the largest agent.
    pub rss: [f64; 2],
    /// Open files, the same way.
    pub files: [f64; 2],
    /// Age of the newest stored sample of the host that is furthest behind, seconds.
    pub lag: f64,
}

/// A row of the picture: title, what a unit of it is, and its lines.
type Panel = (&'static str, f64, &'static [(&'static str, fn(&Moment) -> f64)]);

const PANELS: &[Panel] = &[
    ("resident memory, MB", 1e6, &[("collector", |m| m.rss[0]), ("largest agent", |m| m.rss[1])]),
    ("open files", 1.0, &[("collector", |m| m.files[0]), ("agent with most", |m| m.files[1])]),
    ("newest sample of the host furthest behind, s", 1.0, &[("age", |m| m.lag)]),
];
const COLOURS: [&str; 2] = ["#1f6feb", "#d9730d"];
/// Of the picture, and of one panel.
const WIDTH: f64 = 1100.0;
const HEIGHT: f64 = 190.0;

/// Looks each second until the program ends.
pub struct Watch(Arc<Mutex<Vec<Moment>>>);

impl Watch {
    /// Begins; `url` is the collector's.
    pub fn start(url: &str, hosts: usize) -> Self {
        let moments: Arc<Mutex<Vec<Moment>>> = Arc::default();
        let (seen, url) = (moments.clone(), url.to_owned());
        std::thread::spawn(move || {
            loop {
                let (at, late) = (now(), lag(&url, hosts));
                let [rss, files] =
                    [resident as fn(u32) -> Result<f64>, files].map(|of| NAMES.map(|name| most(name, of)));
                let moment = Moment { at, rss, files, lag: late.unwrap_or(f64::NAN) };
                match seen.lock() {
                    Ok(mut seen) => seen.push(moment),
                    Err(_) => return,
                }
                std::thread::sleep(Duration::from_secs(1));
            }
        });
        Self(moments)
    }

    /// What was seen since a time.
    pub fn since(&self, from: f64) -> Vec<Moment> {
        let seen = self.0.lock().map(|seen| seen.clone()).unwrap_or_default();
        seen.into_iter().filter(|m| m.at >= from).collect()
    }
}

/// The largest of some of them; NaN leaves no trace.
pub fn largest(moments: &[Moment], of: impl Fn(&Moment) -> f64) -> f64 {
    moments.iter().map(of).fold(f64::NAN, f64::max)
}

/// CPU time that each agent has taken, by process, nanoseconds.
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

/// All of it as SVG, with a band and its name for each `(name, from, to)`.
pub fn picture(moments: &[Moment], faults: &[(&str, f64, f64)]) -> String {
    let (begin, end) = (moments.first().map_or(0.0, |m| m.at), moments.last().map_or(1.0, |m| m.at));
    let x = |at: f64| 60.0 + (at - begin) / (end - begin).max(1.0) * (WIDTH - 80.0);
    // A long run has more faults than there is room for names.
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
    for (row, (title, unit, lines)) in PANELS.iter().enumerate() {
        let (top, base) = (HEIGHT * row as f64 + 24.0, HEIGHT * (row + 1) as f64 - 16.0);
        let peak = lines.iter().map(|(_, of)| largest(moments, of)).fold(0.0, f64::max).max(*unit);
        let y = |value: f64| base - value / peak * (base - top);
        _ = write!(svg, "<text x='60' y='{:.0}' font-weight='bold'>{title}</text>", top - 8.0);
        for part in [0.0, 0.5, 1.0] {
            let (at, text) = (y(peak * part), peak * part / unit);
            _ = write!(svg, "<line x1='60' x2='{}' y1='{at:.1}' y2='{at:.1}' stroke='#ddd'/>", WIDTH - 20.0);
            _ = write!(svg, "<text x='55' y='{:.1}' text-anchor='end'>{text:.0}</text>", at + 4.0);
        }
        for (n, (label, of)) in lines.iter().enumerate() {
            let colour = COLOURS[n];
            // What was not seen breaks the line.
            for part in moments.split(|m| of(m).is_nan()) {
                let points: String = part.iter().map(|m| format!("{:.1},{:.1} ", x(m.at), y(of(m)))).collect();
                _ = write!(svg, "<polyline points='{points}' fill='none' stroke='{colour}' stroke-width='1.3'/>");
            }
            let at = 360.0 + 140.0 * n as f64;
            _ = write!(svg, "<text x='{at}' y='{:.0}' fill='{colour}'>{label}</text>", top - 8.0);
        }
    }
    _ = write!(svg, "<text x='60' y='{:.0}'>{:.0} s</text></svg>", height - 8.0, end - begin);
    svg
}

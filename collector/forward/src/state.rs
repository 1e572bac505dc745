//! State of a queue under its mutex: segments, the file being written, records waiting to be written.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::Path;

use fabriclens_model::{Labels, Layout, LayoutId, Matcher, RowGroup, present};
use fabriclens_store::io::{Files, Output};
use fabriclens_store::log_record;

use super::segment::{self, Cursor, Segment};
use fabriclens_core::time::now_ms;

#[derive(Default)]
pub(super) struct State {
    /// Oldest first; new records go to the last one if `open`.
    pub(super) segments: VecDeque<Segment>,
    /// File of the last segment; held by a writer while `writing`.
    pub(super) out: Option<Box<dyn Output>>,
    /// Whether the last segment accepts records.
    pub(super) open: bool,
    /// Column lists seen in this segment, with number and selected part if anything of them is selected.
    pub(super) known: HashMap<LayoutId, Option<(u32, Selection)>>,
    pub(super) layouts: u32,
    /// Unwritten records, and their samples.
    pub(super) pending: Vec<u8>,
    pub(super) pending_samples: u64,
    pub(super) appended: u64,
    pub(super) durable: u64,
    pub(super) writing: bool,
    pub(super) failure: Option<String>,
    /// Samples ever made durable.
    pub(super) total: u64,
    pub(super) at: Cursor,
    pub(super) stopped: bool,
}

/// Selected part of a column list.
pub(super) struct Selection {
    /// `None` for all columns.
    columns: Option<Vec<usize>>,
    series: Layout,
}

/// Unwritten data that a writer takes out of the mutex.
pub(super) struct Work {
    pub(super) out: Option<Box<dyn Output>>,
    /// Header and column lists if a new segment begins.
    pub(super) head: Vec<u8>,
    pub(super) number: u64,
    pub(super) bytes: Vec<u8>,
    pub(super) samples: u64,
    pub(super) upto: u64,
}

impl State {
    /// Adds the records of a group; `false` if nothing of it is selected.
    pub(super) fn encode(&mut self, group: &RowGroup, select: &[Vec<Matcher>]) -> bool {
        let id = group.series.id();
        let fresh = !self.known.contains_key(&id);
        if fresh {
            let layout = select_columns(&group.series, select).map(|taken| (self.layouts, taken));
            if let Some((number, taken)) = layout.as_ref() {
                self.layouts += 1;
                log_record::put_layout(&mut self.pending, *number, &taken.series);
            }
            self.known.insert(id, layout);
        }
        let Some(Some((number, taken))) = self.known.get(&id) else { return false };
        let rows = group.times.len();
        let values = match &taken.columns {
            None => &group.values,
            Some(columns) => &columns.iter().flat_map(|c| &group.values[c * rows..(c + 1) * rows]).copied().collect(),
        };
        self.pending_samples += present(values);
        log_record::put_rows(&mut self.pending, *number, &group.times, values);
        true
    }

    pub(super) fn last_len(&self) -> u64 {
        self.segments.back().map_or(0, |g| g.len)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.segments.iter().map(|g| g.len).sum()
    }

    /// Lets the next record begin a new segment.
    pub(super) fn seal(&mut self) {
        (self.out, self.open, self.layouts) = (None, false, 0);
        self.known.clear();
    }

    pub(super) fn take(&mut self) -> Work {
        self.writing = true;
        let newest = self.segments.back().map_or(0, |g| g.number);
        let (mut head, mut number) = (Vec::new(), newest);
        if !self.open {
            number = newest.max(self.at.segment.saturating_sub(1)) + 1;
            head = segment::header(number, self.total, now_ms());
            for (number, taken) in self.known.values().flatten() {
                log_record::put_layout(&mut head, *number, &taken.series);
            }
        }
        Work {
            out: self.out.take(),
            head,
            number,
            bytes: std::mem::take(&mut self.pending),
            samples: std::mem::take(&mut self.pending_samples),
            upto: self.appended,
        }
    }

    pub(super) fn done(&mut self, mut work: Work, result: io::Result<()>, dir: &Path) {
        self.writing = false;
        match result {
            Ok(()) => {
                if !self.open {
                    let segment = Segment { number: work.number, len: 0, first: self.total, last_ms: 0 };
                    self.segments.push_back(segment);
                    self.open = true;
                }
                if let Some(last) = self.segments.back_mut() {
                    last.len += (work.head.len() + work.bytes.len()) as u64;
                    last.last_ms = now_ms();
                }
                (self.out, self.durable) = (work.out, work.upto);
                self.total = self.total.saturating_add(work.samples);
            }
            Err(e) => {
                tracing::error!(queue = %dir.display(), error = %e, "cannot make the forward queue durable");
                work.bytes.append(&mut self.pending);
                self.pending = work.bytes;
                self.pending_samples += work.samples;
                self.failure = Some(e.to_string());
            }
        }
    }
}

impl Work {
    /// Writes and syncs, into a new segment if there is none.
    pub(super) fn run(&mut self, files: &dyn Files, dir: &Path) -> io::Result<()> {
        if self.out.is_none() {
            let path = dir.join(segment::name(self.number));
            // Left over from a failed attempt.
            match files.remove(&path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => {}
            }
            let mut out = files.create(&path)?;
            out.append(&self.head)?;
            files.sync_dir(dir)?;
            self.out = Some(out);
        }
        let Some(out) = self.out.as_mut() else { return Err(io::ErrorKind::NotFound.into()) };
        out.append(&self.bytes)?;
        out.sync()
    }
}

/// Selected part of a column list; `None` if nothing is selected.
fn select_columns(series: &Layout, select: &[Vec<Matcher>]) -> Option<Selection> {
    let fits = |labels: &Labels| select.is_empty() || select.iter().any(|list| list.iter().all(|m| m.matches(labels)));
    let columns: Vec<usize> = (0..series.len()).filter(|c| fits(&series[*c])).collect();
    if columns.is_empty() {
        return None;
    }
    if columns.len() == series.len() {
        return Some(Selection { columns: None, series: series.clone() });
    }
    let labels = columns.iter().map(|c| series[*c].clone()).collect();
    Some(Selection { columns: Some(columns), series: labels })
}

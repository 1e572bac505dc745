//! Adds series of the head to a selection.

use crate::head::chunk::Chunk;
use crate::head::generation::Generation;
use crate::selection::{Entry, Part, Parts, SAMPLE, SERIES, Selection};
use crate::series_builder::{SeriesBuilder, Times, rows};
use fabriclens_model::{ReadError, is_absent};
use foldhash::HashMap;
use std::hint::black_box;
use std::sync::Arc;

/// Series of the head whose labels are fetched from memory at once: they are far from each other there.
const AHEAD: usize = 32;

impl Selection<'_> {
    /// Adds the samples of a generation in the range, in the order of `series`: [`Selection::arrange`] sorts when the head is
    /// no longer locked.
    pub fn add_head(&mut self, head: &Generation, series: &[u32], start: i64, end: i64) -> Result<(), ReadError> {
        let mut open = OpenTimes::default();
        for (nth, s) in series.iter().enumerate() {
            if nth % AHEAD == 0 {
                let few = &series[nth..series.len().min(nth + AHEAD)];
                black_box(few.iter().map(|s| Arc::strong_count(head.labels(*s).parts().1)).sum::<usize>());
            }
            let (mut parts, mut later) = (Parts::new(), Parts::new());
            for (l, c) in head.series.locations(*s) {
                let layout = &head.layouts[l as usize];
                let mut newest = i64::MIN;
                for (late, of) in layout.unsealed().enumerate() {
                    let mut rows = rows(of.times(), start, end);
                    if self.newest {
                        rows = of.newest(c as usize, rows);
                    }
                    if rows.is_empty() {
                        continue;
                    }
                    if self.newest {
                        newest = newest.max(of.times()[rows.start]);
                    }
                    self.limit.add(rows.len())?;
                    self.take(size_of::<Part>() + 2 * SAMPLE * rows.len())?;
                    let times = open.of((l, late, rows.start), &of.times()[rows.clone()], &mut self.times);
                    let mut values = Vec::with_capacity(rows.len());
                    of.column(c as usize, rows.clone(), &mut values);
                    if !values.iter().any(|v| is_absent(*v)) {
                        later.push(Part::Plain(times, values));
                        continue;
                    }
                    let mut joined = SeriesBuilder::default();
                    joined.push((times, 0..rows.len()), &values, true);
                    if joined.len() > 0 {
                        let (times, values) = joined.finish(&mut self.times);
                        later.push(Part::Plain(times, values));
                    }
                }
                let wanted = |k: &&Arc<Chunk>| k.overlaps(start, end) && k.range().1 >= newest;
                for chunk in layout.sealed.iter().filter(wanted) {
                    self.limit.add(chunk.rows())?;
                    self.take(size_of::<Part>() + SAMPLE * chunk.rows())?;
                    parts.push(Part::Sealed(chunk.clone(), c));
                }
                parts.append(&mut later);
            }
            if !parts.is_empty() {
                self.take(SERIES)?;
                self.entries.push(Entry { labels: head.labels(*s).clone(), parts });
            }
        }
        Ok(())
    }
}

/// Layout, buffer and first row of times.
type OpenRows = (u32, usize, usize);

/// Times of unsealed rows, shared by all columns of a layout.
#[derive(Default)]
struct OpenTimes {
    known: HashMap<OpenRows, Arc<[i64]>>,
    /// The series of a port come one after the other.
    last: Option<(OpenRows, Arc<[i64]>)>,
}

impl OpenTimes {
    fn of(&mut self, rows: OpenRows, times: &[i64], all: &mut Times) -> Arc<[i64]> {
        if let Some((last, times)) = &self.last
            && *last == rows
        {
            return times.clone();
        }
        let known = self.known.entry(rows).or_insert_with(|| all.shared(times.to_vec())).clone();
        self.last = Some((rows, known.clone()));
        known
    }
}

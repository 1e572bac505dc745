//! Range vector functions of series with native histograms. Floats are computed as in series without them; windows that
//! contain histograms are computed here.

use super::annotation::Subject;
use super::point::{Samples, between, sampled};
use super::select::Ranged;
use super::{Annotation, Column, Context, Grid, Point, Span, Window};
use crate::error::Evaluated;
use crate::functions::{Function, Run};

impl Context<'_> {
    /// Replaces the results of the windows that contain histograms.
    pub(super) fn over_histograms(
        &mut self,
        f: &Function,
        s: &Samples,
        (ranged, grid, offset): (&Ranged, Grid, usize),
        spans: &[Span],
        column: &mut Column,
    ) -> Evaluated<()> {
        let labels = column.labels.clone();
        let subject = Subject { metric: labels.metric(), offset };
        for (i, span) in spans.iter().enumerate() {
            self.check()?;
            let (start, end) = ranged.window(grid.time(i));
            let histograms = between(&s.histograms, (self.limits.version.first_within(start), end));
            if histograms.is_empty() {
                continue;
            }
            self.count_samples(sampled(histograms));
            let floats = span.low..span.high;
            let (times, values) = (&s.times[floats.clone()], &s.values[floats]);
            let window = Window { times, values, histograms, now: grid.time(i) };
            let point = match f.run {
                Run::Change(_) if !values.is_empty() => {
                    self.annotate(&Annotation::MixedRange(subject.metric), offset);
                    None
                }
                Run::Change(change) => change.of_histograms(self, &window, (start, end), subject)?,
                Run::Window { native: Some(native), .. } => native(self, &window, subject)?,
                _ => {
                    if !values.is_empty() {
                        self.annotate(&Annotation::IgnoredInRange(subject.metric), offset);
                    }
                    continue;
                }
            };
            if let Some(Point::Histogram(h)) = &point {
                self.charge_histogram(h)?;
            }
            column.put(i, point);
        }
        Ok(())
    }
}

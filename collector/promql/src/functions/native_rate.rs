//! `rate`, `increase`, `delta`, `irate` and `idelta` of native histograms: differences of all counts, with the rules of
//! floats for resets and extrapolation.

use super::Change;
use crate::error::Evaluated;
use crate::eval::{Annotation, Combination, Context, Point, Span, Subject, Window};
use fabriclens_model::{Histogram, ResetHint};
use std::sync::Arc;

impl Change {
    /// The change within a window of histograms only; `ends` are both ends of the window. `None` for fewer than two, and
    /// for those that cannot be combined.
    pub(crate) fn of_histograms(
        self,
        cx: &mut Context<'_>,
        window: &Window<'_>,
        ends: (i64, i64),
        subject: Subject<'_>,
    ) -> Evaluated<Option<Point>> {
        let times: Vec<i64> = window.histograms.iter().map(|(t, _)| *t).collect();
        let points: Vec<&Arc<Histogram>> = window.histograms.iter().map(|(_, h)| h).collect();
        let span = Span { low: 0, high: times.len() };
        let Some(extrapolation) = self.extrapolate(&times, span, ends) else { return Ok(None) };
        let Some(mut change) = self.difference(cx, &points, subject)? else { return Ok(None) };
        change.scale(self.factor_from(&extrapolation, points[0].count(), change.count()));
        Ok(Some(change.into()))
    }

    /// The difference between the last and the first of at least two histograms, with what was lost by resets.
    fn difference(
        self,
        cx: &mut Context<'_>,
        points: &[&Arc<Histogram>],
        subject: Subject<'_>,
    ) -> Evaluated<Option<Histogram>> {
        let [first, inner @ .., last] = points else { return Ok(None) };
        let gauges = points.iter().filter(|h| h.hint() == ResetHint::Gauge).count();
        if self.counter && gauges > 0 {
            cx.annotate(&Annotation::NotCounter(subject.metric), subject.offset);
        }
        let mixed = |cx: &mut Context<'_>| {
            cx.annotate(&Annotation::MixedSchemas(subject.metric), subject.offset);
            Ok(None)
        };
        // What is before a reset does not matter, nor do its buckets.
        let restarted = self.counter && points[1].is_reset_after(first);
        let emptied = restarted.then(|| points[1].emptied());
        let start: &Histogram = emptied.as_ref().unwrap_or(first);
        // A gauge is what its last sample is; the resets of a counter are somewhere between.
        let compared = if self.counter { inner } else { &[] };
        if compared.iter().chain([last]).any(|h| h.is_custom() != start.is_custom()) {
            return mixed(cx);
        }
        let schema = compared.iter().chain([last]).map(|h| h.schema()).fold(start.schema(), i8::min);
        let mut change = Histogram::clone(last);
        change.limit_schema(schema);
        let Ok(reconciled) = change.subtract(start) else { return mixed(cx) };
        let mut bounds_differ = [reconciled.bounds_differ, false];
        if self.counter {
            let mut before = start;
            for h in &points[1..] {
                cx.check()?;
                if h.is_reset_after(before) {
                    let Ok(reconciled) = change.add(before) else { return mixed(cx) };
                    bounds_differ[1] |= reconciled.bounds_differ;
                }
                before = h;
            }
        } else if first.hint() != ResetHint::Gauge || last.hint() != ResetHint::Gauge {
            cx.annotate(&Annotation::NotGauge(subject.metric), subject.offset);
        }
        for (differ, by) in bounds_differ.into_iter().zip([Combination::Subtraction, Combination::Addition]) {
            if differ {
                cx.annotate(&Annotation::BoundsReconciled(by), subject.offset);
            }
        }
        change.compact();
        Ok(Some(change.with_hint(ResetHint::Gauge)))
    }
}

pub(super) fn irate(cx: &mut Context<'_>, w: &Window<'_>, subject: Subject<'_>) -> Evaluated<Option<Point>> {
    Ok(last_two(cx, w, subject, true))
}

pub(super) fn idelta(cx: &mut Context<'_>, w: &Window<'_>, subject: Subject<'_>) -> Evaluated<Option<Point>> {
    Ok(last_two(cx, w, subject, false))
}

fn last_two(cx: &mut Context<'_>, w: &Window<'_>, subject: Subject<'_>, rate: bool) -> Option<Point> {
    let (floats, histograms) = (w.times.len(), w.histograms.len());
    let time = |i: usize| w.histograms[i].0;
    // Histograms among the last two samples of both kinds.
    let last = w.times.last().is_none_or(|t| *t < time(histograms - 1));
    let older = histograms - usize::from(last);
    let float_left = floats - usize::from(!last);
    let second = match (older.checked_sub(1), float_left.checked_sub(1)) {
        (None, None) => return None,
        (Some(h), Some(f)) => w.times[f] < time(h),
        (h, _) => h.is_some(),
    };
    match (second, last) {
        (false, false) => {
            let float = if rate { super::rate::irate } else { super::rate::idelta };
            float(w, &[]).map(Point::Float)
        }
        (true, true) => {
            let [(t1, before), (t2, now)] = [&w.histograms[histograms - 2], &w.histograms[histograms - 1]];
            let mut change = Histogram::clone(now);
            let gauges = [before, now].map(|h| h.hint() == ResetHint::Gauge);
            if rate && gauges.contains(&true) {
                cx.annotate(&Annotation::NotCounter(subject.metric), subject.offset);
            }
            if !rate && gauges.contains(&false) {
                cx.annotate(&Annotation::NotGauge(subject.metric), subject.offset);
            }
            if !rate || !now.is_reset_after(before) {
                let Ok(reconciled) = change.subtract(before) else {
                    cx.annotate(&Annotation::MixedSchemas(subject.metric), subject.offset);
                    return None;
                };
                if reconciled.bounds_differ {
                    cx.annotate(&Annotation::BoundsReconciled(Combination::Subtraction), subject.offset);
                }
            }
            change.compact();
            if rate {
                change.divide((t2 - t1) as f64 / 1000.0);
            }
            Some(change.with_hint(ResetHint::Gauge).into())
        }
        _ => {
            cx.annotate(&Annotation::MixedRange(subject.metric), subject.offset);
            None
        }
    }
}

//! The `*_over_time` functions, `changes` and `resets` of windows with native histograms.

use crate::error::Evaluated;
use crate::eval::{Annotation, Context, Point, Subject, Window};
use fabriclens_model::{Histogram, HistogramAccumulator, HistogramMean, HistogramSum};
use std::sync::Arc;

type Computed = Evaluated<Option<Point>>;

fn float(value: f64) -> Computed {
    Ok(Some(Point::Float(value)))
}

pub(super) fn count(_: &mut Context<'_>, w: &Window<'_>, _: Subject<'_>) -> Computed {
    float((w.values.len() + w.histograms.len()) as f64)
}

pub(super) fn present(_: &mut Context<'_>, _: &Window<'_>, _: Subject<'_>) -> Computed {
    float(1.0)
}

pub(super) fn first(_: &mut Context<'_>, w: &Window<'_>, _: Subject<'_>) -> Computed {
    Ok(ordered(w).next().map(|(_, p)| p.into()))
}

pub(super) fn last(_: &mut Context<'_>, w: &Window<'_>, _: Subject<'_>) -> Computed {
    Ok(ordered(w).last().map(|(_, p)| p.into()))
}

pub(super) fn time_of_first(_: &mut Context<'_>, w: &Window<'_>, _: Subject<'_>) -> Computed {
    Ok(ordered(w).next().map(|(t, _)| Point::Float(t as f64 / 1000.0)))
}

pub(super) fn time_of_last(_: &mut Context<'_>, w: &Window<'_>, _: Subject<'_>) -> Computed {
    Ok(ordered(w).last().map(|(t, _)| Point::Float(t as f64 / 1000.0)))
}

#[expect(clippy::float_cmp, reason = "a change is any difference")]
pub(super) fn changes(_: &mut Context<'_>, w: &Window<'_>, _: Subject<'_>) -> Computed {
    float(transitions(w, |a, b| match (a, b) {
        (Seen::Float(a), Seen::Float(b)) => a != b && !(a.is_nan() && b.is_nan()),
        (Seen::Histogram(a), Seen::Histogram(b)) => !b.same_observations(a),
        _ => true,
    }))
}

pub(super) fn resets(_: &mut Context<'_>, w: &Window<'_>, _: Subject<'_>) -> Computed {
    float(transitions(w, |a, b| match (a, b) {
        (Seen::Float(a), Seen::Float(b)) => b < a,
        (Seen::Histogram(a), Seen::Histogram(b)) => b.is_reset_after(a),
        _ => true,
    }))
}

pub(super) fn sum(cx: &mut Context<'_>, w: &Window<'_>, subject: Subject<'_>) -> Computed {
    combined::<HistogramSum>(cx, w, subject)
}

pub(super) fn avg(cx: &mut Context<'_>, w: &Window<'_>, subject: Subject<'_>) -> Computed {
    combined::<HistogramMean>(cx, w, subject)
}

/// Combines all histograms of a window without floats.
fn combined<T: HistogramAccumulator>(cx: &mut Context<'_>, w: &Window<'_>, subject: Subject<'_>) -> Computed {
    if !w.values.is_empty() {
        cx.annotate(&Annotation::MixedRange(subject.metric), subject.offset);
        return Ok(None);
    }
    let each = w.histograms.iter().map(|(_, h)| (&**h, subject.metric));
    Ok(cx.combine::<T>(each, subject.offset)?.map(Point::from))
}

/// A sample of a window.
#[derive(Clone, Copy)]
enum Seen<'w> {
    Float(f64),
    Histogram(&'w Arc<Histogram>),
}

impl From<Seen<'_>> for Point {
    fn from(seen: Seen<'_>) -> Self {
        match seen {
            Seen::Float(v) => Self::Float(v),
            Seen::Histogram(h) => Self::Histogram(h.clone()),
        }
    }
}

/// The samples of both kinds with their times, ascending.
fn ordered<'w>(w: &Window<'w>) -> impl Iterator<Item = (i64, Seen<'w>)> + use<'w> {
    let mut floats = w.times.iter().zip(w.values).map(|(t, v)| (*t, Seen::Float(*v))).peekable();
    let mut histograms = w.histograms.iter().map(|(t, h)| (*t, Seen::Histogram(h))).peekable();
    std::iter::from_fn(move || match (floats.peek(), histograms.peek()) {
        (Some((a, _)), Some((b, _))) if a < b => floats.next(),
        (Some(_), None) => floats.next(),
        _ => histograms.next(),
    })
}

/// Number of neighboring samples for which `counts` holds.
fn transitions<'w>(w: &Window<'w>, counts: impl Fn(Seen<'w>, Seen<'w>) -> bool) -> f64 {
    let all = || ordered(w).map(|(_, seen)| seen);
    all().zip(all().skip(1)).filter(|(a, b)| counts(*a, *b)).count() as f64
}

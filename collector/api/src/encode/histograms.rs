//! Results with native histograms: the fields `histogram` and `histograms` of the Prometheus API.

use super::{push_list, push_list_within, push_point};
use fabriclens_core::json_text::{push_labels, push_time, push_value};
use fabriclens_model::{Budget, Histogram, HistogramSeries, Labels, ReadError, Series};
use fabriclens_promql::{Outcome, Sample, Value};

/// Bytes of a bucket, `[0,"0.7071067811865475","1","12345.678"],`, for each byte of its memory, rounded up.
const JSON_OF_BYTE: usize = 6;

/// Estimates the bytes of a series' histograms as JSON, rather too high.
pub(super) fn size(s: &HistogramSeries) -> usize {
    s.bytes() * JSON_OF_BYTE
}

/// Number of series with floats, histograms or both.
pub(super) fn series(outcome: &Outcome) -> usize {
    match &outcome.value {
        Value::Vector(samples) => samples.len() + outcome.histograms.len(),
        Value::Matrix(series) => joined(series, &outcome.histograms).len(),
        Value::Scalar { .. } | Value::String { .. } => 0,
    }
}

/// Writes a vector or a matrix as [`super::push_result`] does, with its histograms.
///
/// # Errors
/// Those of `budget`.
pub(super) fn push(out: &mut String, outcome: &Outcome, limit: usize, budget: &dyn Budget) -> Result<(), ReadError> {
    match &outcome.value {
        Value::Matrix(series) => {
            let all = joined(series, &outcome.histograms);
            out.push_str("{\"resultType\":\"matrix\",\"result\":");
            push_list_within(out, &all[..all.len().min(limit)], budget, push_series)
        }
        value => {
            let floats: &[Sample] = if let Value::Vector(samples) = value { samples } else { &[] };
            let floats = floats.iter().map(Element::Float);
            let all: Vec<Element<'_>> = floats.chain(outcome.histograms.iter().map(Element::Histogram)).collect();
            out.push_str("{\"resultType\":\"vector\",\"result\":");
            push_list_within(out, &all[..all.len().min(limit)], budget, push_element)
        }
    }
}

/// An element of a vector.
enum Element<'a> {
    Float(&'a Sample),
    Histogram(&'a HistogramSeries),
}

fn push_element(out: &mut String, element: &Element<'_>) {
    out.push_str("{\"metric\":");
    match element {
        Element::Float(s) => {
            push_labels(out, &s.labels);
            out.push_str(",\"value\":");
            push_point(out, s.time_ms, s.value);
        }
        Element::Histogram(s) => {
            push_labels(out, &s.labels);
            out.push_str(",\"histogram\":");
            for (time, histogram) in s.times.iter().zip(&s.values).take(1) {
                push_histogram_point(out, *time, histogram);
            }
        }
    }
    out.push('}');
}

/// The floats and the histograms of one series.
type Both<'a> = (Option<&'a Series>, Option<&'a HistogramSeries>);

/// Series of either list, sorted by labels as both are.
fn joined<'a>(floats: &'a [Series], histograms: &'a [HistogramSeries]) -> Vec<Both<'a>> {
    let mut out = Vec::with_capacity(floats.len().max(histograms.len()));
    let (mut floats, mut histograms) = (floats.iter().peekable(), histograms.iter().peekable());
    let labels = |s: Option<&Labels>, other: Option<&Labels>| s.is_some_and(|s| other.is_none_or(|o| s <= o));
    loop {
        let (next, native) = (floats.peek().map(|s| &s.labels), histograms.peek().map(|s| &s.labels));
        let (take, take_native) = (labels(next, native), labels(native, next));
        if !take && !take_native {
            return out;
        }
        out.push((floats.next_if(|_| take), histograms.next_if(|_| take_native)));
    }
}

fn push_series(out: &mut String, (floats, histograms): &Both<'_>) {
    out.push_str("{\"metric\":");
    if let Some(labels) = floats.map(|s| &s.labels).or(histograms.map(|s| &s.labels)) {
        push_labels(out, labels);
    }
    if let Some(s) = floats {
        out.push_str(",\"values\":");
        let points: Vec<(&i64, &f64)> = s.times.iter().zip(&s.values).collect();
        push_list(out, &points, |out, (t, v)| push_point(out, **t, **v));
    }
    if let Some(s) = histograms {
        out.push_str(",\"histograms\":");
        let points: Vec<_> = s.times.iter().zip(&s.values).collect();
        push_list(out, &points, |out, (t, h)| push_histogram_point(out, **t, h));
    }
    out.push('}');
}

fn push_histogram_point(out: &mut String, time_ms: i64, histogram: &Histogram) {
    out.push('[');
    push_time(out, time_ms);
    out.push(',');
    push_histogram(out, histogram);
    out.push(']');
}

/// `{"count":"3","sum":"4.5","buckets":[[0,"1","2","3"]]}` with the buckets that have observations; the number before the
/// bounds says which of them belong to the bucket.
fn push_histogram(out: &mut String, histogram: &Histogram) {
    for (text, value) in [("{\"count\":\"", histogram.count()), ("\",\"sum\":\"", histogram.sum())] {
        out.push_str(text);
        push_value(out, value);
    }
    out.push('"');
    let buckets: Vec<_> = histogram.intervals().filter(|b| b.count != 0.0).collect();
    if !buckets.is_empty() {
        out.push_str(",\"buckets\":");
        push_list(out, &buckets, |out, b| {
            out.push_str(match (b.lower_inclusive, b.upper_inclusive) {
                (false, true) => "[0",
                (true, false) => "[1",
                (false, false) => "[2",
                (true, true) => "[3",
            });
            for value in [b.lower, b.upper, b.count] {
                out.push_str(",\"");
                push_value(out, value);
                out.push('"');
            }
            out.push(']');
        });
    }
    out.push('}');
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_model::{HistogramParts, Side, Span, Unlimited};
    use std::sync::Arc;

    fn histogram() -> Arc<Histogram> {
        let side = |offset, counts: &[f64]| Side {
            spans: vec![Span { offset, length: counts.len() as u32 }],
            counts: counts.to_vec(),
        };
        let parts = HistogramParts {
            zero_threshold: 0.25,
            zero_count: 1.0,
            count: 6.5,
            sum: f64::INFINITY,
            positive: side(1, &[3.0, 0.0, 0.5]),
            negative: side(0, &[2.0]),
            ..HistogramParts::default()
        };
        Arc::new(Histogram::new(parts).unwrap())
    }

    const JSON: &str = r#"{"count":"6.5","sum":"+Inf","buckets":[[1,"-1","-0.5","2"],[3,"-0.25","0.25","1"],[0,"1","2","3"],[0,"4","8","0.5"]]}"#;

    fn of(value: Value, histograms: Vec<HistogramSeries>, limit: usize) -> String {
        let stats = fabriclens_promql::Stats::default();
        let outcome = Outcome { value, histograms, warnings: vec![], infos: vec![], stats };
        let json = super::super::outcome(&outcome, limit, None, &Unlimited).unwrap().0;
        assert!(json.len() <= super::super::size(&outcome) + 100, "{} for {json}", super::super::size(&outcome));
        json.replace(JSON, "HISTOGRAM")
    }

    fn native(name: &str, times: &[i64]) -> HistogramSeries {
        let labels = Labels::new([("a", name)]);
        HistogramSeries { labels, times: times.to_vec(), values: vec![histogram(); times.len()] }
    }

    #[test]
    fn vectors_have_a_histogram_in_place_of_a_value() {
        let float = Sample { labels: Labels::new([("a", "1")]), time_ms: 1000, value: 2.0 };
        let value = Value::Vector(vec![float]);
        assert_eq!(
            of(value.clone(), vec![native("2", &[1000])], 9),
            r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{"a":"1"},"value":[1,"2"]},{"metric":{"a":"2"},"histogram":[1,HISTOGRAM]}]}}"#
        );
        let cut = of(value, vec![native("2", &[1000])], 1);
        assert!(cut.contains("truncated due to limit") && !cut.contains("HISTOGRAM"), "{cut}");
    }

    #[test]
    fn a_series_of_a_matrix_has_both_kinds_of_samples() {
        let floats = |name: &str| Series { labels: Labels::new([("a", name)]), times: vec![1000], values: vec![2.0] };
        assert_eq!(
            of(
                Value::Matrix(vec![floats("1"), floats("3")]),
                vec![native("2", &[1000]), native("3", &[2000, 2500])],
                9
            ),
            r#"{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"a":"1"},"values":[[1,"2"]]},{"metric":{"a":"2"},"histograms":[[1,HISTOGRAM]]},{"metric":{"a":"3"},"values":[[1,"2"]],"histograms":[[2,HISTOGRAM],[2.500,HISTOGRAM]]}]}}"#
        );
    }
}

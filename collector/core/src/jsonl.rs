//! Series as JSON lines in the format of VictoriaMetrics. Export writes it, import reads it, and remote engines answer
//! with it. Histograms, which VictoriaMetrics has not, are lines of their own.

mod value;

use std::fmt::Write as _;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use fabriclens_model::{HistogramSeries, Labels, Series};
use prost::Message as _;
use value::{Value, push_sample};

use crate::json_text::push_labels;
use crate::prompb::Histogram;
use crate::prompb_histogram::{MAX_HISTOGRAM_BYTES, message_of};

/// Appends `{"metric":{…},"values":[…],"timestamps":[…]}` and a newline; times in Unix ms.
pub fn push(out: &mut String, series: &Series) {
    out.push_str("{\"metric\":");
    push_labels(out, &series.labels);
    out.push_str(",\"values\":[");
    for (i, v) in series.values.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        push_sample(out, *v);
    }
    push_times(out, &series.times);
}

/// Appends `{"metric":{…},"histograms":[…],"timestamps":[…]}` and a newline. A histogram is the message `prometheus.Histogram` of
/// remote write, in base64.
pub fn push_histograms(out: &mut String, series: &HistogramSeries) {
    out.push_str("{\"metric\":");
    push_labels(out, &series.labels);
    out.push_str(",\"histograms\":[");
    for (i, (time, histogram)) in series.times.iter().zip(&series.values).enumerate() {
        out.push_str(if i > 0 { ",\"" } else { "\"" });
        BASE64_STANDARD.encode_string(message_of(histogram, *time).encode_to_vec(), out);
        out.push('"');
    }
    push_times(out, &series.times);
}

/// Ends a list of samples with the list of their times, and the line.
fn push_times(out: &mut String, times: &[i64]) {
    out.push_str("],\"timestamps\":[");
    for (i, t) in times.iter().enumerate() {
        _ = write!(out, "{}{t}", if i > 0 { "," } else { "" });
    }
    out.push_str("]}\n");
}

/// A part of a series.
#[derive(Debug)]
pub struct Line {
    /// Labels, `__name__` included.
    pub labels: Labels,
    /// Unix ms, in any order.
    pub times: Vec<i64>,
    /// As many as times.
    pub samples: Samples,
}

/// Samples of a line.
#[derive(Debug)]
pub enum Samples {
    /// Values.
    Floats(Vec<f64>),
    /// Native histograms, each with its time.
    Histograms(Vec<Histogram>),
}

/// A line as it is written.
#[derive(serde::Deserialize)]
struct Fields {
    metric: std::collections::BTreeMap<String, String>,
    values: Option<Vec<Value>>,
    histograms: Option<Vec<String>>,
    timestamps: Vec<i64>,
}

/// Parses one line.
///
/// # Errors
/// Describes the syntax error, or samples and timestamps that differ in number.
pub fn read(text: &str) -> Result<Line, String> {
    // VictoriaMetrics 1.79 writes infinities without quotes, which is not JSON.
    let parsed = serde_json::from_str(text).or_else(|e| match quoted(text) {
        Some(text) => serde_json::from_str(&text),
        None => Err(e),
    });
    let Fields { metric, values, histograms, timestamps: times } = parsed.map_err(|e| e.to_string())?;
    let number = values.as_ref().map(Vec::len).or(histograms.as_ref().map(Vec::len));
    if let Some(number) = number.filter(|number| *number != times.len()) {
        return Err(format!("{number} samples but {} timestamps", times.len()));
    }
    let samples = match (values, histograms) {
        (Some(values), None) => Samples::Floats(values.into_iter().map(|v| v.0).collect()),
        (None, Some(texts)) => Samples::Histograms(
            texts.iter().zip(&times).map(|(text, time)| histogram(text, *time)).collect::<Result<_, _>>()?,
        ),
        (None, None) => return Err("neither `values` nor `histograms`".to_owned()),
        (Some(_), Some(_)) => return Err("both `values` and `histograms`; they are lines of their own".to_owned()),
    };
    Ok(Line { labels: Labels::new(metric.iter().map(|(n, v)| (n.as_str(), v.as_str()))), times, samples })
}

fn histogram(text: &str, time: i64) -> Result<Histogram, String> {
    if text.len() / 4 * 3 > MAX_HISTOGRAM_BYTES {
        return Err(format!("a histogram is longer than {MAX_HISTOGRAM_BYTES} bytes"));
    }
    let bytes = BASE64_STANDARD.decode(text).map_err(|e| format!("a histogram is not base64: {e}"))?;
    let message =
        Histogram::decode(&bytes[..]).map_err(|e| format!("a histogram is no `prometheus.Histogram`: {e}"))?;
    Ok(Histogram { timestamp: time, ..message })
}

/// Puts quotes around bare infinities and NaN; `None` if the line has no values.
fn quoted(text: &str) -> Option<String> {
    let (head, rest) = text.split_once("\"values\":[")?;
    let (values, tail) = rest.split_once(']')?;
    let values = values.split(',').map(|v| match v.trim() {
        bare @ ("+Inf" | "-Inf" | "Inf" | "NaN") => format!("\"{bare}\""),
        other => other.to_owned(),
    });
    Some(format!("{head}\"values\":[{}]{tail}", values.collect::<Vec<_>>().join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_model::{HistogramParts, Side, Span, stale};
    use std::sync::Arc;

    fn floats(text: &str) -> Vec<f64> {
        match read(text).unwrap().samples {
            Samples::Floats(values) => values,
            Samples::Histograms(_) => panic!("{text}"),
        }
    }

    #[test]
    fn values_round_trip_to_the_bit() {
        let values = r#"[1,-0,0.1,1e+300,null,"Infinity",-Inf,"NaN","NaN(7ff8000000000000)",5e-324]"#;
        let got = floats(&format!(
            r#"{{"metric":{{"a":"\"values\":["}},"values":{values},"timestamps":[1,2,3,4,5,6,7,8,9,10]}}"#
        ));
        let bits: Vec<u64> = got.iter().map(|v| v.to_bits()).collect();
        let want = [1.0, -0.0, 0.1, 1e300, stale(), f64::INFINITY, f64::NEG_INFINITY];
        assert_eq!(bits[..7], want.map(f64::to_bits));
        assert_eq!(bits[7..], [0x7ff8_0000_0000_0001, 0x7ff8_0000_0000_0000, 1]);
        for bad in [
            r#"{"metric":{},"values":["x"],"timestamps":[1]}"#,
            r#"{"metric":{},"values":["NaN(0)"],"timestamps":[1]}"#,
            r#"{"metric":{},"values":[1],"timestamps":[1.5]}"#,
            r#"{"metric":{},"values":[1,2],"timestamps":[1]}"#,
            r#"{"values":[1],"timestamps":[1]}"#,
            r#"{"metric":{},"timestamps":[]}"#,
            r#"{"metric":{},"values":[],"histograms":[],"timestamps":[]}"#,
            r#"{"metric":{},"histograms":[],"timestamps":[1]}"#,
            r#"{"metric":{},"histograms":["?"],"timestamps":[1]}"#,
            r#"{"metric":{},"histograms":["/w=="],"timestamps":[1]}"#,
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
        let long =
            format!(r#"{{"metric":{{}},"histograms":["{}"],"timestamps":[1]}}"#, "A".repeat(MAX_HISTOGRAM_BYTES * 2));
        assert!(read(&long).unwrap_err().contains("longer than"));
    }

    #[test]
    fn histograms_round_trip() {
        let positive = Side { spans: vec![Span { offset: -3, length: 2 }], counts: vec![0.1, 7.0] };
        let parts =
            HistogramParts { schema: 3, count: 7.1, sum: f64::NEG_INFINITY, positive, ..HistogramParts::default() };
        let values = [fabriclens_model::Histogram::new(parts).unwrap(), fabriclens_model::Histogram::stale()];
        let labels = Labels::new([("__name__", "h"), ("a", "\"")]);
        let series = HistogramSeries { labels, times: vec![-5, 7], values: values.clone().map(Arc::new).into() };
        let mut text = String::new();
        push_histograms(&mut text, &series);
        let line = read(text.trim_end()).unwrap();
        assert_eq!((line.labels, &line.times), (series.labels, &series.times));
        let Samples::Histograms(messages) = line.samples else { panic!("{text}") };
        let got = messages.iter().map(|m| (m.timestamp, crate::prompb_histogram::histogram_of(m).unwrap()));
        assert!(got.eq(series.times.into_iter().zip(values)));
    }
}

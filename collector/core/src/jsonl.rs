//! Series as JSON lines in the format of VictoriaMetrics. Export writes it, import reads it, and remote engines answer
//! with it.

use std::fmt::Write as _;

use fabriclens_model::{Labels, Series, is_stale, stale};
use serde::de::{self, Deserializer, Visitor};

use crate::json_text::push_labels;
use crate::json_text::push_value;

/// Bits of the ordinary NaN of Prometheus, written as `"NaN"`.
const NORMAL_NAN: u64 = 0x7ff8_0000_0000_0001;

/// Appends `{"metric":{…},"values":[…],"timestamps":[…]}` and a newline; times in Unix ms. As in VictoriaMetrics, a
/// staleness marker is `null` and infinities are strings. The ordinary NaN is `"NaN"` and any other NaN carries its
/// bits, so that an import restores exactly what was exported.
pub fn push(out: &mut String, series: &Series) {
    out.push_str("{\"metric\":");
    push_labels(out, &series.labels);
    out.push_str(",\"values\":[");
    for (i, v) in series.values.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        match *v {
            v if is_stale(v) => out.push_str("null"),
            v if v.to_bits() == NORMAL_NAN => out.push_str("\"NaN\""),
            v if v.is_nan() => _ = write!(out, "\"NaN({:x})\"", v.to_bits()),
            f64::INFINITY => out.push_str("\"Infinity\""),
            f64::NEG_INFINITY => out.push_str("\"-Infinity\""),
            v => push_value(out, v),
        }
    }
    out.push_str("],\"timestamps\":[");
    for (i, t) in series.times.iter().enumerate() {
        _ = write!(out, "{}{t}", if i > 0 { "," } else { "" });
    }
    out.push_str("]}\n");
}

/// A parsed line.
#[derive(serde::Deserialize)]
struct Line {
    metric: std::collections::BTreeMap<String, String>,
    values: Vec<Value>,
    timestamps: Vec<i64>,
}

/// A number, `null` for a staleness marker, or a string for values that JSON cannot express.
struct Value(f64);

impl<'de> de::Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Any)
    }
}

struct Any;

impl Visitor<'_> for Any {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a number, null, \"NaN\", \"Infinity\" or \"-Infinity\"")
    }

    fn visit_f64<E>(self, v: f64) -> Result<Value, E> {
        Ok(Value(v))
    }

    fn visit_u64<E>(self, v: u64) -> Result<Value, E> {
        Ok(Value(v as f64))
    }

    fn visit_i64<E>(self, v: i64) -> Result<Value, E> {
        Ok(Value(v as f64))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value(stale()))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Value, E> {
        let bits = |hex: &str| u64::from_str_radix(hex, 16).ok().map(f64::from_bits).filter(|v| v.is_nan());
        let value = match text {
            "Infinity" | "+Inf" | "Inf" => Some(f64::INFINITY),
            "-Infinity" | "-Inf" => Some(f64::NEG_INFINITY),
            "NaN" => Some(f64::from_bits(NORMAL_NAN)),
            other => other.strip_prefix("NaN(").and_then(|t| t.strip_suffix(')')).and_then(bits),
        };
        value.map(Value).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}

/// Parses one line; its times may be in any order.
///
/// # Errors
/// Describes the syntax error, or values and timestamps that differ in number.
pub fn read(text: &str) -> Result<Series, String> {
    // VictoriaMetrics 1.79 writes infinities without quotes, which is not JSON.
    let parsed = serde_json::from_str(text).or_else(|e| match quoted(text) {
        Some(text) => serde_json::from_str(&text),
        None => Err(e),
    });
    let line: Line = parsed.map_err(|e| e.to_string())?;
    if line.values.len() != line.timestamps.len() {
        return Err(format!("{} values but {} timestamps", line.values.len(), line.timestamps.len()));
    }
    let labels = Labels::new(line.metric.iter().map(|(n, v)| (n.as_str(), v.as_str())));
    let values = line.values.into_iter().map(|v| v.0).collect();
    Ok(Series { labels, times: line.timestamps, values })
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

    #[test]
    fn values_round_trip_to_the_bit() {
        let values = r#"[1,-0,0.1,1e+300,null,"Infinity",-Inf,"NaN","NaN(7ff8000000000000)",5e-324]"#;
        let line = read(&format!(
            r#"{{"metric":{{"a":"\"values\":["}},"values":{values},"timestamps":[1,2,3,4,5,6,7,8,9,10]}}"#
        ))
        .unwrap();
        let bits: Vec<u64> = line.values.iter().map(|v| v.to_bits()).collect();
        let want = [1.0, -0.0, 0.1, 1e300, stale(), f64::INFINITY, f64::NEG_INFINITY];
        assert_eq!(bits[..7], want.map(f64::to_bits));
        assert_eq!(bits[7..], [0x7ff8_0000_0000_0001, 0x7ff8_0000_0000_0000, 1]);
        for bad in [
            r#"{"metric":{},"values":["x"],"timestamps":[1]}"#,
            r#"{"metric":{},"values":["NaN(0)"],"timestamps":[1]}"#,
            r#"{"metric":{},"values":[1],"timestamps":[1.5]}"#,
            r#"{"metric":{},"values":[1,2],"timestamps":[1]}"#,
            r#"{"values":[1],"timestamps":[1]}"#,
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}

//! `/api/v1/import`: JSON lines as `/api/v1/export` writes them, ours or VictoriaMetrics'. Read line by line and stored
//! batch by batch, through the same checks as remote write.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use fabriclens_model::{Labels, stale};
use http_body_util::BodyExt as _;
use serde::de::{self, Deserializer, Visitor};

use super::http::Refusal;
use super::{Ingest, IngestError, Report, Way, body};
use crate::forward::request::{self, Point};
use crate::serve::listen::Peer;

/// Bytes after which a batch is stored.
const BATCH: usize = 1 << 20;
/// How long a client may send nothing.
const STALL: Duration = Duration::from_secs(60);

/// One line.
#[derive(serde::Deserialize)]
struct Line {
    metric: std::collections::BTreeMap<String, String>,
    values: Vec<Value>,
    timestamps: Vec<i64>,
}

/// A number, `null` (a staleness marker), or a text for what JSON has no number for.
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
            "NaN" => Some(f64::from_bits(crate::api::export::NORMAL_NAN)),
            other => other.strip_prefix("NaN(").and_then(|t| t.strip_suffix(')')).and_then(bits),
        };
        value.map(Value).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
    }
}

/// Lines that are stored together.
#[derive(Default)]
struct Batch {
    series: Vec<Vec<u8>>,
    points: Vec<Point>,
}

impl Batch {
    fn add(&mut self, text: &str) -> Result<(), String> {
        // VictoriaMetrics 1.79 writes infinities bare, which is no JSON.
        let parsed = serde_json::from_str(text).or_else(|e| match quoted(text) {
            Some(text) => serde_json::from_str(&text),
            None => Err(e),
        });
        let line: Line = parsed.map_err(|e| e.to_string())?;
        if line.values.len() != line.timestamps.len() {
            return Err(format!("{} values but {} timestamps", line.values.len(), line.timestamps.len()));
        }
        let labels = Labels::new(line.metric.iter().map(|(n, v)| (n.as_str(), v.as_str())));
        let series = self.series.len() as u32;
        self.series.push(request::labels(&labels));
        let points = line.timestamps.iter().zip(&line.values);
        self.points.extend(points.map(|(time, value)| Point { series, time: *time, value: value.0 }));
        Ok(())
    }
}

/// The line with its bare infinities as texts.
fn quoted(text: &str) -> Option<String> {
    let (head, rest) = text.split_once("\"values\":[")?;
    let (values, tail) = rest.split_once(']')?;
    let values = values.split(',').map(|v| match v.trim() {
        bare @ ("+Inf" | "-Inf" | "Inf" | "NaN") => format!("\"{bare}\""),
        other => other.to_owned(),
    });
    Some(format!("{head}\"values\":[{}]{tail}", values.collect::<Vec<_>>().join(",")))
}

/// A `WriteRequest` of some lines; the error names the line by its number in the request.
fn parse(lines: &[u8], before: u64) -> Result<Vec<u8>, IngestError> {
    let mut batch = Batch::default();
    for (line, number) in lines.split(|b| *b == b'\n').zip(before + 1..) {
        let malformed = |what: String| {
            let format = "{\"metric\":{…},\"values\":[…],\"timestamps\":[…]}";
            IngestError::Malformed(format!("line {number}: {what}; each must be {format}; lines before may be stored"))
        };
        let text = std::str::from_utf8(line).map_err(|e| malformed(e.to_string()))?.trim();
        if !text.is_empty() {
            batch.add(text).map_err(malformed)?;
        }
    }
    Ok(request::encode(&batch.points, &batch.series))
}

/// What is under way of one import.
struct Import {
    ingest: Arc<Ingest>,
    peer: Peer,
    /// Bytes that are not stored yet.
    rest: Vec<u8>,
    /// Lines that are.
    lines: u64,
    report: Report,
}

impl Import {
    /// Takes plain bytes; stores whole lines whenever there is a batch of them.
    async fn feed(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        self.rest.extend_from_slice(bytes);
        if self.rest.len() < BATCH {
            return Ok(());
        }
        let limit = self.ingest.message_size();
        match self.rest.iter().rposition(|b| *b == b'\n') {
            Some(last) => {
                let rest = self.rest.split_off(last + 1);
                let lines = std::mem::replace(&mut self.rest, rest);
                self.store(lines).await
            }
            None if self.rest.len() > limit => Err(body::BodyError::TooLarge { when: "line", limit }.into()),
            None => Ok(()),
        }
    }

    async fn store(&mut self, lines: Vec<u8>) -> Result<(), Refusal> {
        let _turn = self.ingest.enter().await?;
        let before = self.lines;
        self.lines += lines.iter().filter(|b| **b == b'\n').count() as u64;
        let parsed = tokio::task::spawn_blocking(move || parse(&lines, before)).await;
        let request = parsed.unwrap_or_else(|e| Err(IngestError::Internal(e.to_string())))?;
        self.report.join(self.ingest.remote_write(Way::Import, self.peer.0.ip(), request).await?);
        Ok(())
    }
}

/// See the module. 204 when all is stored; 400 tells what is not, and all else is.
pub(super) async fn import(
    State(ingest): State<Arc<Ingest>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let counted = ingest.clone();
    let lines = Import { ingest, peer, rest: vec![], lines: 0, report: Report::default() };
    match take(lines, &headers, body).await.map(|report| report.message()) {
        Ok(message) if message.is_empty() => StatusCode::NO_CONTENT.into_response(),
        Ok(message) => (StatusCode::BAD_REQUEST, format!("{message}\n")).into_response(),
        Err(refusal) => {
            counted.refused(Way::Import, refusal.reason);
            refusal.into_text()
        }
    }
}

async fn take(mut import: Import, headers: &HeaderMap, mut body: Body) -> Result<Report, Refusal> {
    let mut gzip = match body::encoding(headers).as_str() {
        "identity" | "" => None,
        "gzip" | "x-gzip" => Some(flate2::write::MultiGzDecoder::new(Vec::new())),
        other => return Err(body::BodyError::Encoding(other.to_owned(), "gzip or none").into()),
    };
    loop {
        let Ok(frame) = tokio::time::timeout(STALL, body.frame()).await else {
            return Err(Refusal::slow(STALL));
        };
        let Some(frame) = frame else { break };
        let frame = frame.map_err(|e| body::BodyError::Cut(e.to_string()))?;
        let Some(data) = frame.data_ref() else { continue };
        match &mut gzip {
            None => import.feed(data).await?,
            Some(decoder) => {
                // In small steps, so that a bomb is stopped by the length of a line.
                for part in data.chunks(1024) {
                    decoder.write_all(part).map_err(|e| body::BodyError::Corrupt("gzip", e.to_string()))?;
                    let plain = std::mem::take(decoder.get_mut());
                    import.feed(&plain).await?;
                }
            }
        }
    }
    if let Some(decoder) = gzip {
        let plain = decoder.finish().map_err(|e| body::BodyError::Corrupt("gzip", e.to_string()))?;
        import.feed(&plain).await?;
    }
    let last = std::mem::take(&mut import.rest);
    import.store(last).await?;
    Ok(import.report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_either_kind_are_read_to_the_bit() {
        let mut batch = Batch::default();
        let values = r#"[1,-0,0.1,1e+300,null,"Infinity",-Inf,"NaN","NaN(7ff8000000000000)",5e-324]"#;
        batch
            .add(&format!(
                r#"{{"metric":{{"a":"\"values\":["}},"values":{values},"timestamps":[1,2,3,4,5,6,7,8,9,10]}}"#
            ))
            .unwrap();
        let bits: Vec<u64> = batch.points.iter().map(|p| p.value.to_bits()).collect();
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
            assert!(batch.add(bad).is_err(), "{bad}");
        }
    }
}

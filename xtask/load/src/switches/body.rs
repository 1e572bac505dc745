//! The request of a switch, encoded once. Only its name, the time and the values change, all of them in place.

use super::rows::{Named, ROWS, Row};
use anyhow::Result;
use fabriclens_foreign::Conversion;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, metric,
    number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message as _;

/// Time in the encoded request, which is replaced.
const TIME: u64 = 0x7ef1_5b5b_d3c2_91a8;
/// Upper half of the value with a number in the encoded request, which is replaced.
const VALUE: u64 = 0x7ff1_a5a5;
/// Switch in the encoded request, which is replaced.
const TEMPLATE: usize = 9999;
/// Flag and length before a message of gRPC.
const HEAD: usize = 5;

/// Name of a switch; all have the same length.
pub fn name(switch: usize) -> String {
    format!("switch-{switch:04}")
}

/// Names of metrics in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Form {
    /// Gauges as NVIDIA Cumulus Linux sends them.
    Cumulus,
    /// The same series as the collector stores them.
    Canonical,
}

/// An encoded request with a gRPC frame, and the offsets of what changes.
pub struct Body {
    frame: Vec<u8>,
    names: Vec<usize>,
    times: Vec<usize>,
    values: Vec<Place>,
}

/// Where the value of a row at a port is, and how it is converted.
struct Place {
    at: usize,
    row: &'static Row,
    port: usize,
    conversion: Conversion,
}

impl Body {
    /// Request for a number of ports: one metric per row, with one point per port.
    ///
    /// # Errors
    /// When the collector's table does not know a row.
    pub fn new(form: Form, ports: usize) -> Result<Self> {
        let (mut metrics, mut conversions) = (Vec::new(), Vec::new());
        for (at, row) in ROWS.iter().enumerate() {
            let mut named = Vec::new();
            for port in 1..=ports {
                let port = format!("swp{port}");
                named.push(match form {
                    Form::Cumulus => row.foreign(&port),
                    Form::Canonical => row.canonical(&port)?,
                });
            }
            conversions.extend(named.iter().map(|named| named.conversion));
            metrics.push(metric(named, at * ports));
        }
        let attribute = match form {
            Form::Cumulus => "net.host.name",
            Form::Canonical => "host",
        };
        let resource = Resource { attributes: vec![pair(attribute, name(TEMPLATE))], ..Resource::default() };
        let scope_metrics = vec![ScopeMetrics { metrics, ..ScopeMetrics::default() }];
        let resource = ResourceMetrics { resource: Some(resource), scope_metrics, ..ResourceMetrics::default() };
        let message = ExportMetricsServiceRequest { resource_metrics: vec![resource] }.encode_to_vec();
        let mut frame = vec![0];
        frame.extend_from_slice(&u32::try_from(message.len())?.to_be_bytes());
        frame.extend_from_slice(&message);
        Ok(Self::find(frame, ports, &conversions))
    }

    fn find(frame: Vec<u8>, ports: usize, conversions: &[Conversion]) -> Self {
        let template = name(TEMPLATE);
        let (mut names, mut times, mut values) = (Vec::new(), Vec::new(), Vec::new());
        for at in HEAD..frame.len() {
            if frame[at..].starts_with(template.as_bytes()) {
                names.push(at);
            }
            let Some(word) = frame[at..].first_chunk().map(|word| u64::from_le_bytes(*word)) else { continue };
            if word == TIME {
                times.push(at);
            } else if word >> 32 == VALUE {
                let number = (word & 0xffff_ffff) as usize;
                let (row, port, conversion) = (&ROWS[number / ports], number % ports, conversions[number]);
                values.push(Place { at, row, port, conversion });
            }
        }
        Self { frame, names, times, values }
    }

    /// Points of a request.
    pub fn points(&self) -> u64 {
        self.values.len() as u64
    }

    /// The frame of a switch at a second since the start, with the time in Unix ns.
    pub fn of(&self, switch: usize, second: u64, time_ns: u64) -> Vec<u8> {
        let mut frame = self.frame.clone();
        let name = name(switch);
        for at in &self.names {
            frame[*at..*at + name.len()].copy_from_slice(name.as_bytes());
        }
        for at in &self.times {
            frame[*at..*at + 8].copy_from_slice(&time_ns.to_le_bytes());
        }
        for Place { at, row, port, conversion } in &self.values {
            // Each port of each switch has a pace of its own.
            let pace = 1.0 - ((switch * 31 + port * 7) % 100) as f64 / 200.0;
            let value = row.value(*conversion, second as f64, pace);
            frame[*at..*at + 8].copy_from_slice(&value.to_bits().to_le_bytes());
        }
        frame
    }
}

fn pair(key: &str, value: String) -> KeyValue {
    let value = Some(AnyValue { value: Some(any_value::Value::StringValue(value)) });
    KeyValue { key: key.to_owned(), value, ..KeyValue::default() }
}

/// A metric with one point per port, whose values are numbered from `first`.
fn metric(named: Vec<Named>, first: usize) -> Metric {
    let (name, unit, sum) = named.first().map_or_else(Default::default, |n| (n.name.clone(), n.unit, n.sum));
    let point = |(port, named): (usize, Named)| NumberDataPoint {
        attributes: named.attributes.into_iter().map(|(key, value)| pair(key, value)).collect(),
        time_unix_nano: TIME,
        value: Some(number_data_point::Value::AsDouble(f64::from_bits(VALUE << 32 | (first + port) as u64))),
        ..NumberDataPoint::default()
    };
    let data_points = named.into_iter().enumerate().map(point).collect();
    let data = if sum {
        let aggregation_temporality = AggregationTemporality::Cumulative.into();
        metric::Data::Sum(Sum { data_points, aggregation_temporality, is_monotonic: true })
    } else {
        metric::Data::Gauge(Gauge { data_points })
    };
    Metric { name, unit: unit.to_owned(), data: Some(data), ..Metric::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_wire::decode::Decoder;

    #[test]
    fn a_request_has_the_name_time_and_values_of_its_switch() {
        let body = Body::new(Form::Cumulus, 3).unwrap();
        assert_eq!(body.points(), 3 * ROWS.len() as u64);
        let frame = body.of(17, 10, 1_700_000_000_000_000_000);
        assert_eq!(frame[1..HEAD], u32::try_from(frame.len() - HEAD).unwrap().to_be_bytes());
        let rows = Decoder::default().bytes(&frame[HEAD..]).unwrap();
        let points = rows.groups.iter().flat_map(|group| group.series.iter().zip(&group.values));
        let mut seen = 0;
        for (labels, value) in points {
            let row = ROWS.iter().find(|row| row.foreign("").name == labels.metric()).unwrap();
            let of = |pace| row.value(row.foreign("").conversion, 10.0, pace);
            assert!((of(0.0)..=of(1.0)).contains(value), "{labels} {value}");
            assert_eq!(labels.get("net_host_name"), "switch-0017");
            seen += 1;
        }
        assert_eq!(seen, 3 * ROWS.len());
        assert!(rows.groups.iter().all(|group| group.times == [1_700_000_000_000]));
    }

    #[test]
    fn canonical_requests_have_the_series_that_the_collector_stores() {
        let body = Body::new(Form::Canonical, 2).unwrap();
        let rows = Decoder::default().bytes(&body.of(3, 9, 1_000_000_000)[HEAD..]).unwrap();
        let series: Vec<String> = rows.groups.iter().flat_map(|g| g.series.iter().map(ToString::to_string)).collect();
        for wanted in [
            r#"fabric_port_io_bytes_total{direction="receive", host="switch-0003", port="swp2"}"#,
            r#"fabric_port_up{host="switch-0003", port="swp1"}"#,
        ] {
            assert!(series.iter().any(|s| s == wanted), "{wanted}: {series:#?}");
        }
        assert_eq!(series.len(), 2 * ROWS.len());
        // Microseconds become seconds.
        let values = rows.groups.iter().flat_map(|g| g.series.iter().zip(&g.values));
        let mut paused = values.filter(|(labels, _)| labels.metric() == "fabric_pfc_pause_seconds_total");
        assert!(paused.all(|(_, value)| (1000.0..1001.0).contains(value)));
    }
}

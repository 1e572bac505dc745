//! OTLP of switches.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{
    Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, metric, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message as _;

/// A gauge with one value.
pub struct Sent {
    /// Name of its metric.
    pub name: String,
    /// Attributes of its point.
    pub attributes: Vec<(&'static str, String)>,
    /// Unix ms.
    pub time_ms: i64,
    /// Its value.
    pub value: f64,
}

fn attribute((key, text): &(&'static str, String)) -> KeyValue {
    let value = Some(AnyValue { value: Some(any_value::Value::StringValue(text.clone())) });
    KeyValue { key: (*key).to_owned(), value, ..KeyValue::default() }
}

/// One gauge per value, as switches send their counters.
pub fn request(resource: &[(&'static str, String)], points: impl Iterator<Item = Sent>) -> Vec<u8> {
    let metric = |sent: Sent| {
        let point = NumberDataPoint {
            attributes: sent.attributes.iter().map(attribute).collect(),
            time_unix_nano: sent.time_ms.cast_unsigned() * 1_000_000,
            value: Some(number_data_point::Value::AsDouble(sent.value)),
            ..NumberDataPoint::default()
        };
        let data = Some(metric::Data::Gauge(Gauge { data_points: vec![point] }));
        Metric { name: sent.name, data, ..Metric::default() }
    };
    let resource = Some(Resource { attributes: resource.iter().map(attribute).collect(), ..Resource::default() });
    let scope_metrics = vec![ScopeMetrics { metrics: points.map(metric).collect(), ..ScopeMetrics::default() }];
    let all = ResourceMetrics { resource, scope_metrics, ..ResourceMetrics::default() };
    ExportMetricsServiceRequest { resource_metrics: vec![all] }.encode_to_vec()
}

//! Encodes remote write 1.0 requests (`prometheus.WriteRequest`) with labels that are encoded only once.

use crate::workload::Port;

/// Labels of each series of a port, encoded as fields of a `TimeSeries`.
pub fn port_series(port: &Port) -> Vec<Vec<u8>> {
    let device = format!("mlx5_{}", port.rail);
    let of_column = |c: &fabriclens_wire::Column| {
        let name = c.metric.prometheus_name();
        let mut labels: Vec<(&str, &str)> = c.labels.iter().map(|(n, v)| (&**n, &**v)).collect();
        labels.extend([("__name__", &*name), ("host", &port.host), ("device", &device), ("port", "1")]);
        labels.extend(port.job.as_deref().map(|job| ("job", job)));
        labels.sort_unstable();
        series(&labels)
    };
    port.columns.iter().map(of_column).collect()
}

/// Labels of a series, encoded as fields of a `TimeSeries`.
pub fn series<N: AsRef<[u8]>>(labels: &[(N, N)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in labels {
        let mut pair = Vec::new();
        field(1, name.as_ref(), &mut pair);
        field(2, value.as_ref(), &mut pair);
        field(1, &pair, &mut out);
    }
    out
}

fn varint(mut v: u64, out: &mut Vec<u8>) {
    while v >= 0x80 {
        out.push(v as u8 | 0x80);
        v >>= 7;
    }
    out.push(v as u8);
}

/// Appends a bytes field.
fn field(number: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(number << 3 | 2);
    varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Encoder of requests for fixed series.
#[derive(Default)]
pub struct Encoder {
    /// Encoded labels of each series.
    pub series: Vec<Vec<u8>>,
    out: Vec<u8>,
    parts: Vec<(usize, u64)>,
}

impl Encoder {
    /// A request with one value per series.
    pub fn encode(&mut self, time: i64, values: impl Iterator<Item = f64>) -> (&[u8], u64) {
        let all = self.series.len();
        self.encode_in_parts(time, values, all).first().copied().unwrap_or_default()
    }

    /// Requests with at most `most` samples each.
    pub fn encode_in_parts(&mut self, time: i64, values: impl Iterator<Item = f64>, most: usize) -> Vec<(&[u8], u64)> {
        self.out.clear();
        self.parts.clear();
        let (mut body, mut sample) = (Vec::new(), Vec::new());
        let mut samples = 0;
        for (labels, value) in self.series.iter().zip(values) {
            sample.clear();
            sample.push(0x09);
            sample.extend_from_slice(&value.to_le_bytes());
            sample.push(0x10);
            varint(time.cast_unsigned(), &mut sample);
            body.clear();
            body.extend_from_slice(labels);
            field(2, &sample, &mut body);
            field(1, &body, &mut self.out);
            samples += 1;
            if samples == most as u64 {
                self.parts.push((self.out.len(), samples));
                samples = 0;
            }
        }
        if samples > 0 {
            self.parts.push((self.out.len(), samples));
        }
        let mut from = 0;
        let part = |(to, samples): &(usize, u64)| {
            let bytes = &self.out[from..*to];
            from = *to;
            (bytes, *samples)
        };
        self.parts.iter().map(part).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Hosts, RAILS, Rails};
    use fabriclens_wire::proto::{Field, Reader, text};

    /// Label pairs, value and time of each series of a request.
    fn read(request: &[u8]) -> Vec<(Vec<String>, f64, i64)> {
        let bytes = |f| match f {
            (n, Field::Bytes(b)) => (n, b),
            other => panic!("{other:?}"),
        };
        let one = |series| {
            let (mut labels, mut value, mut time) = (Vec::new(), 0.0, 0);
            for (number, body) in Reader::new(series).map(|f| bytes(f.unwrap())) {
                match number {
                    1 => labels.extend(Reader::new(body).map(|f| text(bytes(f.unwrap()).1).unwrap().to_owned())),
                    _ => {
                        for field in Reader::new(body).map(Result::unwrap) {
                            match field {
                                (1, Field::Fixed64(bits)) => value = f64::from_bits(bits),
                                (2, Field::Varint(v)) => time = v.cast_signed(),
                                other => panic!("{other:?}"),
                            }
                        }
                    }
                }
            }
            (labels, value, time)
        };
        Reader::new(request).map(|f| one(bytes(f.unwrap()).1)).collect()
    }

    #[test]
    fn a_request_has_each_series_once() {
        let rails = Rails::new(false).unwrap();
        let hosts = Hosts::new(&rails, 3, 2, true);
        let series = hosts.ports.iter().flat_map(port_series).collect();
        let mut encoder = Encoder { series, ..Encoder::default() };
        let values = || hosts.ports.iter().flat_map(|p| p.values.iter().map(|v| *v as f64));
        let (body, samples) = encoder.encode(1_700_000_000_123, values());
        let all = read(body);
        assert_eq!((all.len(), samples), (2 * RAILS * 60, 960));
        let mut sets: Vec<&Vec<String>> = all.iter().map(|s| &s.0).collect();
        for set in &sets {
            let names: Vec<&String> = set.iter().step_by(2).collect();
            assert!(names.is_sorted() && names.len() >= 5, "{set:?}");
        }
        sets.sort();
        sets.dedup();
        assert_eq!(sets.len(), 960);
        assert!(all.iter().all(|s| s.2 == 1_700_000_000_123));
        assert!(all.iter().map(|s| s.1).eq(values()));
    }

    #[test]
    fn parts_are_bounded_and_lose_nothing() {
        let mut encoder = Encoder { series: vec![series(&[("__name__", "a")]); 7], ..Encoder::default() };
        let parts = encoder.encode_in_parts(1, (0..7).map(f64::from), 3);
        assert_eq!(parts.iter().map(|p| p.1).collect::<Vec<_>>(), [3, 3, 1]);
        let values: Vec<f64> = parts.iter().flat_map(|p| read(p.0)).map(|s| s.1).collect();
        assert_eq!(values, (0..7).map(f64::from).collect::<Vec<_>>());
    }
}

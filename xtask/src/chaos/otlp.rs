//! Bytes of OTLP requests, most with one point of one metric.

use super::testbed::now;

/// A gauge of a host.
pub fn gauge(host: &str, name: &str, value: f64) -> Vec<u8> {
    let point = [time(), fixed(4, value.to_bits())].concat();
    request(host, &[field(1, name.as_bytes()), field(5, &field(1, &point))].concat())
}

/// Gauges of a host in one metric, which differ in the end of a label's value.
pub fn gauges(host: &str, name: &str, value: &str, points: usize) -> Vec<u8> {
    let point = |n: usize| {
        let text = field(2, &field(1, format!("{value}{n}").as_bytes()));
        field(1, &[time(), fixed(4, 1.0_f64.to_bits()), field(7, &[field(1, b"label"), text].concat())].concat())
    };
    let points: Vec<u8> = (0..points).flat_map(point).collect();
    request(host, &[field(1, name.as_bytes()), field(5, &points)].concat())
}

/// Metrics of a host with a point and a description each.
pub fn described(host: &str, metrics: usize, description: &str) -> Vec<u8> {
    let metric = |n: usize| {
        let point = [time(), fixed(4, 1.0_f64.to_bits())].concat();
        [field(1, format!("described_{n}").as_bytes()), field(2, description.as_bytes()), field(5, &field(1, &point))]
            .concat()
    };
    let all: Vec<Vec<u8>> = (0..metrics).map(metric).collect();
    request_of(host, &all)
}

/// Resources without anything, two bytes each.
pub fn empty_resources(count: usize) -> Vec<u8> {
    field(1, &[]).repeat(count)
}

/// A cumulative histogram of a host with this many bounds, packed in 16 bytes each.
pub fn histogram(host: &str, name: &str, bounds: u32) -> Vec<u8> {
    let counts: Vec<u8> = (0..=bounds).flat_map(|_| 1_u64.to_le_bytes()).collect();
    let explicit: Vec<u8> = (0..bounds).flat_map(|n| f64::from(n).to_le_bytes()).collect();
    let point = [time(), fixed(4, u64::from(bounds) + 1), field(6, &counts), field(7, &explicit)].concat();
    let cumulative = [2 << 3, 2];
    let histogram = [field(1, &point), cumulative.to_vec()].concat();
    request(host, &[field(1, name.as_bytes()), field(9, &histogram)].concat())
}

fn request(host: &str, metric: &[u8]) -> Vec<u8> {
    request_of(host, &[metric.to_vec()])
}

fn request_of(host: &str, metrics: &[Vec<u8>]) -> Vec<u8> {
    let attribute = [field(1, b"host"), field(2, &field(1, host.as_bytes()))].concat();
    let scope: Vec<u8> = metrics.iter().flat_map(|metric| field(2, metric)).collect();
    field(1, &[field(1, &field(1, &attribute)), field(2, &scope)].concat())
}

fn time() -> Vec<u8> {
    fixed(3, (now() * 1e9) as u64)
}

/// A field of eight bytes.
pub fn fixed(number: u8, bits: u64) -> Vec<u8> {
    [&[number << 3 | 1][..], &bits.to_le_bytes()].concat()
}

/// A field with a length.
pub fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let (mut out, mut length) = (vec![number << 3 | 2], bytes.len());
    while length > 0x7f {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend(bytes);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_varints() {
        assert_eq!(field(1, &[7]), [10, 1, 7]);
        assert_eq!(field(2, &[0; 300])[..3], [18, 0xac, 2]);
    }
}

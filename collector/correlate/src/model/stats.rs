//! Small statistics that several layers share.

/// Arithmetic mean; `None` without values. Sums in the order given, so that equal inputs give equal bits.
pub fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, n) = values.fold((0.0, 0usize), |(sum, n), v| (sum + v, n + 1));
    (n > 0).then(|| sum / n as f64)
}

//! Small statistics that several layers share.

/// Arithmetic mean; `None` without values. Sums in the order given, so that equal inputs give equal bits.
pub fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, n) = values.fold((0.0, 0usize), |(sum, n), v| (sum + v, n + 1));
    (n > 0).then(|| sum / n as f64)
}

/// Probability of at least so many events where so many are expected (Poisson); 1 if no more come than are expected.
pub fn at_least(events: f64, expected: f64) -> f64 {
    let events = events.floor();
    if events <= expected {
        return 1.0;
    }
    let factorial: f64 = (1..=events as u32).map(|n| f64::from(n).ln()).sum();
    let (mut sum, mut term, mut n) = (0.0, (events * expected.ln() - expected - factorial).exp(), events);
    while term > sum * 1e-12 {
        (sum, n) = (sum + term, n + 1.0);
        term *= expected / n;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::at_least;

    #[test]
    fn chance_follows_poisson() {
        let near = |is: f64, should: f64| assert!((is / should - 1.0).abs() < 1e-6, "{is} {should}");
        near(at_least(1.0, 0.5), 1.0 - (-0.5_f64).exp());
        near(at_least(4.9, 3.0), 1.0 - 13.0 * (-3.0_f64).exp());
        // Of five events, the first term is nearly all.
        near(at_least(5.0, 1e-3), 1e-15 / 120.0 * (1.0 - 1e-3 * 5.0 / 6.0));
        assert_eq!(at_least(2.0, 2.0), 1.0);
        assert!(at_least(2000.0, 1000.0) < 1e-100 && at_least(1040.0, 1000.0) > 0.05);
    }
}

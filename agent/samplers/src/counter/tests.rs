//! Any sequence of raw readings: never negative, never a spike, exact where nothing happened.

use super::*;
use fabriclens_catalog::{CounterSource, metrics::traffic};
use proptest::prelude::*;

fn feed(width: u8, overflow: Overflow) -> VendorCounter {
    VendorCounter {
        source: CounterSource::HwCounters,
        name: "x",
        metric: &traffic::RDMA_PACKETS,
        labels: fabriclens_catalog::FixedLabels::NONE,
        named: None,
        scale: 1.0,
        width,
        overflow,
        adds: false,
        precedence: 0,
    }
}

const CEILING: f64 = 5e9;

/// Growth as a rate function sees it: a fall counts as a restart from zero.
fn seen(series: &[u64]) -> u64 {
    series.windows(2).map(|w| if w[1] >= w[0] { w[1] - w[0] } else { w[1] }).sum()
}

fn run(feed: &VendorCounter, raws: &[u64]) -> Vec<u64> {
    let (mut counter, mut total) = (Counter::default(), Total::new(1.0));
    let mut series = Vec::new();
    for &raw in raws {
        match counter.advance(feed, raw, 1.0, CEILING, false) {
            Step::First(raw) | Step::Reset(raw) => total.restart(raw),
            Step::Grew(growth, _) => total.add(growth),
            Step::Implausible | Step::Saturated | Step::NotReading => continue,
        }
        series.push(total.count());
    }
    series
}

#[test]
fn a_wrap_at_pace_is_extended() {
    let raws: Vec<u64> = (0..20).map(|i| (4_000_000_000_u64 + i * 50_000_000) % (1 << 32)).collect();
    let series = run(&feed(32, Overflow::Wrap), &raws);
    assert_eq!(seen(&series), 19 * 50_000_000);
    assert!(series.windows(2).all(|w| w[1] > w[0]));
}

#[test]
fn an_idle_counter_near_its_end_that_falls_was_reset() {
    let raws = [4_200_000_000, 4_200_000_010, 4_200_000_020, 7];
    assert_eq!(run(&feed(32, Overflow::Wrap), &raws).last(), Some(&7));
}

#[test]
fn resets_seen_elsewhere_are_no_wraps_here() {
    let mut counter = Counter::default();
    let feed = feed(32, Overflow::Wrap);
    for raw in [4_000_000_000, 4_200_000_000] {
        counter.advance(&feed, raw, 1.0, CEILING, false);
    }
    assert_eq!(counter.advance(&feed, 100_000_000, 1.0, CEILING, true), Step::Reset(100_000_000));
}

#[test]
fn saturated_and_unread_counters_say_nothing() {
    let mut counter = Counter::default();
    assert_eq!(counter.advance(&feed(8, Overflow::Saturate), 255, 1.0, CEILING, false), Step::Saturated);
    assert_eq!(counter.advance(&feed(8, Overflow::Saturate), 3, 1.0, CEILING, false), Step::Reset(3));
    assert_eq!(counter.advance(&feed(64, Overflow::Wrap), u64::MAX, 1.0, CEILING, false), Step::NotReading);
}

#[test]
fn a_jump_beyond_the_line_is_not_added() {
    let series = run(&feed(64, Overflow::Wrap), &[10, 20, 1 << 50, (1 << 50) + 5]);
    assert_eq!(series, [10, 20, 25]);
}

#[test]
fn a_replaced_device_with_a_long_life_starts_at_zero() {
    let mut counter = Counter::default();
    let feed = feed(64, Overflow::Wrap);
    counter.advance(&feed, 1 << 60, 1.0, CEILING, false);
    assert_eq!(counter.advance(&feed, 1 << 50, 1.0, CEILING, false), Step::Reset(0));
}

#[test]
fn scales_keep_integers_exact() {
    assert_eq!(scaled(u64::MAX / 8, 4.0), Value::Int(u64::MAX / 8 * 4));
    assert_eq!(scaled(1_500_000, 1e-6), Value::Float(1.5));
    assert!(matches!(scaled(u64::MAX, 4.0), Value::Float(_)));
}

proptest! {
    #[test]
    fn growth_without_events_is_exact(start in 0..1_u64 << 32, steps in prop::collection::vec(0..1_000_000_000_u64, 1..50)) {
        let mut raws = vec![start];
        for step in &steps {
            raws.push(raws[raws.len() - 1] + step);
        }
        prop_assert_eq!(seen(&run(&feed(64, Overflow::Wrap), &raws)), steps.iter().sum::<u64>());
    }

    /// 64-bit and saturating counters: what is shown never exceeds what was counted.
    #[test]
    fn resets_never_add(steps in prop::collection::vec((0..2_000_u64, prop::bool::weighted(0.2)), 1..60), width in prop::sample::select(vec![8_u8, 16, 64])) {
        let overflow = if width == 64 { Overflow::Wrap } else { Overflow::Saturate };
        let end = if width == 64 { u64::MAX } else { (1 << width) - 1 };
        let (mut raw, mut counted, mut raws) = (0_u64, 0_u64, vec![0]);
        for (step, reset) in steps {
            raw = (if reset { 0 } else { raw }).saturating_add(step).min(end);
            counted += step;
            raws.push(raw);
        }
        prop_assert!(seen(&run(&feed(width, overflow), &raws)) <= counted);
    }

    /// A wrapping counter with any readings at all: each step adds no more than the line or its recent pace allows.
    #[test]
    fn no_reading_makes_a_spike(raws in prop::collection::vec(0..1_u64 << 32, 2..60)) {
        let feed = feed(32, Overflow::Wrap);
        let mut counter = Counter::default();
        let mut fastest = 0_f64;
        for &raw in &raws {
            if let Step::Grew(growth, wrapped) = counter.advance(&feed, raw, 1.0, 1e8, false) {
                prop_assert!(growth as f64 <= 1e8);
                prop_assert!(!wrapped || growth as f64 <= fastest * WRAP_FACTOR * 2.0 + WRAP_SLOP);
                fastest = fastest.max(growth as f64);
            }
        }
    }
}

//! Sums over queues, lists that change, and totals that live on.

use super::*;
use fabriclens_agent_host::batch::Batch;
use fabriclens_catalog::{CounterSource, DriverFamily, LinkLayer, bind};
use fabriclens_wire::Value;
use std::sync::Arc;
use std::time::{Duration, Instant};

const RATE: f64 = 12.5e9;

fn batch(pairs: &[(&str, u64)]) -> Batch {
    let pairs: Vec<(Arc<str>, u64)> = pairs.iter().map(|(name, value)| (Arc::from(*name), *value)).collect();
    let mut batch = Batch::default();
    batch.begin();
    batch.set_pairs(&pairs);
    batch
}

fn assigned(batch: &Batch) -> Vec<Assigned> {
    let family = DriverFamily::for_driver("mlx5_core");
    let row = |(raw, name): (usize, &Arc<str>)| {
        Some(Assigned { raw, bound: bind(family, LinkLayer::Ethernet, CounterSource::Ethtool, name)? })
    };
    batch.names().iter().enumerate().filter_map(row).collect()
}

fn now(start: Instant, second: u64) -> ReadContext {
    ReadContext {
        at: start + Duration::from_secs(second),
        begin_ns: second * 1_000_000_000,
        rate: RATE,
        known_rate: Some(RATE),
    }
}

fn plan(batch: &Batch, former: Option<&SourcePlan>) -> SourcePlan {
    let mut carried = Carried::new();
    if let Some(former) = former {
        former.carry(&mut carried);
    }
    let shape = PlanShape::new(batch.names(), &assigned(batch), false);
    SourcePlan::new(Arc::new(shape), &carried, former)
}

#[test]
fn a_sum_over_queues_survives_a_reset_and_a_change_of_queues() {
    let start = Instant::now();
    let first = batch(&[("rx0_packets", 100), ("rx1_packets", 200)]);
    let mut before = plan(&first, None);
    assert_eq!(before.columns().len(), 1, "queues add up");
    before.take_full(&first, now(start, 1));
    assert_eq!(before.values(&Batch::default(), None, 0), [Value::Int(300)]);
    before.take_full(&batch(&[("rx0_packets", 110), ("rx1_packets", 5)]), now(start, 2));
    assert_eq!(
        before.values(&Batch::default(), None, 0),
        [Value::Int(315)],
        "one queue's reset is not a fall of the sum"
    );
    assert_eq!(before.discontinuities.reset, 1);
    let third = batch(&[("rx0_packets", 115), ("rx2_packets", 1000)]);
    let mut after = plan(&third, Some(&before));
    after.take_full(&third, now(start, 3));
    assert_eq!(after.values(&Batch::default(), None, 0), [Value::Int(320)], "a new queue's past is not growth");
    after.take_full(&batch(&[("rx0_packets", 116), ("rx2_packets", 1001)]), now(start, 4));
    assert_eq!(after.values(&Batch::default(), None, 0), [Value::Int(322)]);
}

#[test]
fn a_pause_longer_than_time_is_no_pause() {
    let start = Instant::now();
    let name = "rx_prio3_pause_duration";
    let first = batch(&[(name, 0)]);
    let mut plan = plan(&first, None);
    plan.take_full(&first, now(start, 1));
    plan.values(&Batch::default(), Some(RATE), 0);
    // An hour of pause within a second: the firmware's error, not the fabric's.
    plan.take_full(&batch(&[(name, 3_600_000_000)]), now(start, 2));
    assert_eq!(
        plan.values(&Batch::default(), Some(RATE), 0),
        [Value::Float(0.0), Value::Absent],
        "no growth, and no share over it"
    );
    assert_eq!(plan.discontinuities.implausible, 1);
    let urgent = plan.take_full(&batch(&[(name, 3_600_250_000)]), now(start, 3));
    assert!(urgent, "a quarter of the second was paused");
    assert_eq!(plan.values(&Batch::default(), Some(RATE), 0), [Value::Float(0.25), Value::Float(0.25)]);
    assert_eq!(plan.starts(0)[0], 2_000_000_000, "counts since the jump");
}

#[test]
fn counters_that_fall_together_were_reset() {
    let start = Instant::now();
    let names = ["rx_prio3_pause", "tx_prio3_pause", "rx_bytes_phy"];
    let at = |values: [u64; 3]| batch(&names.iter().copied().zip(values).collect::<Vec<_>>());
    let first = at([50, 60, 7_000_000]);
    let mut plan = plan(&first, None);
    plan.take_full(&first, now(start, 1));
    plan.values(&Batch::default(), None, 0);
    plan.take_full(&at([1, 2, 3000]), now(start, 2));
    let values = plan.values(&Batch::default(), None, 0);
    for expected in [1, 2, 3000] {
        assert!(values.contains(&Value::Int(expected)), "{values:?}");
    }
    assert_eq!(plan.discontinuities.reset, 3);
    assert_eq!(plan.starts(0)[0], 2_000_000_000);
}

//! Round trips of the codecs, bit for bit, and their behavior on arbitrary bytes.

use super::{column, floats, ints};
use fabriclens_model::{ABSENT_NAN, STALE_NAN};
use proptest::prelude::*;

fn round_trip(values: &[f64]) -> usize {
    let mut out = Vec::new();
    column::encode(values, &mut out);
    let back = column::decode(&out, values.len()).unwrap();
    let bits = |v: &[f64]| v.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&back), bits(values));
    out.len()
}

/// Values as they occur: any bits, markers, zeros of both signs, small and large integers, decimals.
fn value() -> impl Strategy<Value = f64> {
    prop_oneof![
        1 => any::<u64>().prop_map(f64::from_bits),
        1 => prop::sample::select(vec![0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY,
            f64::MIN_POSITIVE, f64::MAX, 9.007199254740993e15, f64::from_bits(STALE_NAN), f64::from_bits(ABSENT_NAN),
            f64::from_bits(0xfff8_0000_0000_0001)]),
        4 => (0u32..100).prop_map(f64::from),
        2 => any::<i32>().prop_map(|i| f64::from(i) / 1000.0),
        2 => any::<u64>().prop_map(|i| (i >> 11) as f64),
    ]
}

/// Mostly constant columns, counters with gaps, and noise.
fn shaped() -> impl Strategy<Value = Vec<f64>> {
    prop_oneof![
        prop::collection::vec(value(), 0..300),
        (value(), 1usize..300).prop_map(|(v, n)| vec![v; n]),
        (value(), 1usize..300, value(), any::<prop::sample::Index>()).prop_map(|(v, n, odd, at)| {
            let mut all = vec![v; n];
            all[at.index(n)] = odd;
            all
        }),
        (any::<u32>(), prop::collection::vec((0u32..5000, 0u8..20), 1..300)).prop_map(|(start, steps)| {
            let mut v = f64::from(start);
            steps
                .into_iter()
                .map(|(d, kind)| match kind {
                    0 => f64::from_bits(ABSENT_NAN),
                    1 => f64::from_bits(STALE_NAN),
                    _ => {
                        v += f64::from(d) * 4.0;
                        v
                    }
                })
                .collect()
        }),
    ]
}

proptest! {
    #[test]
    fn columns_round_trip(values in shaped()) {
        round_trip(&values);
    }

    #[test]
    fn ints_round_trip(values in prop::collection::vec((any::<i64>(), 0u32..64), 0..300)) {
        let values: Vec<i64> = values.into_iter().map(|(v, s)| v >> s).collect();
        let mut out = Vec::new();
        ints::encode(&values, &mut out);
        prop_assert_eq!(ints::decode(&out, values.len()).unwrap(), values);
    }

    #[test]
    fn floats_round_trip(values in prop::collection::vec(value(), 0..300)) {
        let mut out = Vec::new();
        floats::encode(&values, &mut out);
        let mut back = Vec::new();
        floats::decode_into(&out, values.len(), &mut back).unwrap();
        prop_assert!(back.iter().zip(&values).all(|(a, b)| a.to_bits() == b.to_bits()));
    }

    #[test]
    fn foreign_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), rows in 0usize..300) {
        let _ = column::decode(&bytes, rows);
        let _ = ints::decode(&bytes, rows);
        let _ = floats::decode_into(&bytes, rows, &mut Vec::new());
    }

    #[test]
    fn damaged_columns_never_panic(values in shaped(), at in any::<prop::sample::Index>(), flip in 1u8..=255) {
        let mut out = Vec::new();
        column::encode(&values, &mut out);
        if !out.is_empty() {
            let i = at.index(out.len());
            out[i] ^= flip;
            let _ = column::decode(&out, values.len());
        }
    }
}

#[test]
fn common_columns_are_small() {
    let rows = 1024u64;
    assert!(round_trip(&vec![1500.0; 1024]) <= 4, "constant");
    assert_eq!(round_trip(&vec![f64::from_bits(ABSENT_NAN); 1024]), 0, "absent");
    let regular: Vec<f64> = (0..rows).map(|i| (1_000_000 + i * 128) as f64).collect();
    assert!(round_trip(&regular) <= 16, "regular counter");
    let sparse: Vec<f64> = (0..rows).map(|i| (i / 100) as f64).collect();
    assert!(round_trip(&sparse) <= 32, "sparse counter: {}", round_trip(&sparse));
    let mut ended = vec![7.0; 1023];
    ended.push(f64::from_bits(STALE_NAN));
    assert!(round_trip(&ended) <= 24, "constant that ends");
    let celsius: Vec<f64> = (0..rows).map(|i| 45.0 + ((i * 7919) % 16) as f64 / 10.0).collect();
    assert!(round_trip(&celsius) <= 600, "decimals: {}", round_trip(&celsius));
}

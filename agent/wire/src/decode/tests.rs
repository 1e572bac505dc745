//! Templates of many resources.

use super::*;
use crate::encode::request_bytes;
use crate::encode::tests::section;

#[test]
fn ports_that_differ_in_their_neighbors_share_a_template() {
    let mut decoder = Decoder::default();
    let sections: Vec<_> = (0..2000).map(|port| section(port, &format!("spine{port}"))).collect();
    let request = request_bytes(&sections);
    for _ in 0..3 {
        let rows = decoder.bytes(&request).unwrap();
        assert_eq!(rows.groups.len(), 2 * sections.len(), "counters, and the info column");
        assert_eq!(rows.groups.iter().map(|group| group.series.len()).sum::<usize>(), 5 * sections.len());
    }
    assert_eq!(decoder.templates.len(), 1);
}

#[test]
fn label_sets_are_kept_until_templates_read_all_requests() {
    let mut decoder = Decoder::default();
    let sections: Vec<_> = (0..20).map(|port| section(port, "spine")).collect();
    let (all, few) = (request_bytes(&sections), request_bytes(&sections[..1]));
    let ids = |rows: Rows| rows.groups.iter().map(|group| group.series.id()).collect::<Vec<_>>();
    let mut read = |request: &[u8], times: usize| {
        (1..times).for_each(|_| drop(decoder.bytes(request).unwrap()));
        let last = ids(decoder.bytes(request).unwrap());
        (last, decoder.cache.label_sets(), decoder.cache.bytes())
    };
    let first = read(&all, 4);
    let settled = read(&all, 20);
    assert_eq!(settled.0, first.0, "the same lists");
    assert_eq!((first.1, settled.1), (5 * sections.len(), sections.len()), "info columns have no template");
    assert!(settled.2 < first.2 && settled.2 > first.2 / 4, "{} {}", settled.2, first.2);
    assert_eq!(read(&all, 50), settled, "nothing grows");
    assert_eq!(read(&few, 1).0, first.0[..2]);
}

#[test]
fn label_sets_are_dropped_within_a_request_that_adds_others() {
    let mut decoder = Decoder::default();
    let [one, other] = [1, 2].map(|port| request_bytes(&[section(port, "spine")]));
    (0..3).for_each(|_| drop(decoder.bytes(&one).unwrap()));
    let rows = decoder.bytes(&[one.repeat(20), other].concat()).unwrap();
    assert_eq!(rows.groups.len(), 2 * 21);
    assert_eq!(decoder.cache.label_sets(), 1 + 5);
}

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

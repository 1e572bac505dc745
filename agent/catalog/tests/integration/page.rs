//! The committed reference page is the one the tables give.

use std::path::Path;

use fabriclens_catalog::{metrics, page};

#[test]
fn the_reference_page_is_fresh() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == page::render(),
        "docs/metrics.md is stale; run `cargo run -p fabriclens-catalog --example metrics_page`"
    );
}

#[test]
fn the_page_names_every_metric_and_its_sources() {
    let page = page::render();
    for metric in metrics::all() {
        assert!(page.contains(&format!("### `{}`\n", metric.prometheus_name())), "{}", metric.name);
    }
    assert!(page.contains("- mlx5, ethtool: `rx_prio{prio}_pause_duration` (receive; ×0.000001)"));
    assert!(page.contains("`symbol_error` (16 bits, saturates)"));
}

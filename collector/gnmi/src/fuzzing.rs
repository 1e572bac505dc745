//! Entry point for the fuzzer: messages of a target become rows of series.

use std::sync::{Arc, LazyLock};

use fabriclens_config::GnmiKind;
use fabriclens_core::telemetry::Telemetry;
use fabriclens_model::Labels;
use fabriclens_model::names::check_series;

use crate::counters::SwitchCounters;
use crate::notification;
use crate::output::Output;
use crate::path_budget::PathBudget;
use crate::stream_receiver::receiver;
use crate::subscriptions::streams;

/// A time of arrival, Unix ms.
const NOW_MS: i64 = 1_700_000_000_000;

/// Reads a message as each stream of each kind of target. Whatever it holds, each row has every series once, and the store
/// takes each series.
pub fn message(bytes: &[u8]) {
    static TELEMETRY: LazyLock<Telemetry> = LazyLock::new(|| Telemetry::new().expect("metrics register once"));
    let counters = Arc::new(SwitchCounters::new("leaf1", &TELEMETRY));
    let output = Output { switch: "leaf1".into(), outbox: Arc::default(), counters, paths: PathBudget::new(1 << 20) };
    for stream in [GnmiKind::Sonic, GnmiKind::OpenConfig, GnmiKind::Cumulus].into_iter().flat_map(streams) {
        let mut receiver = receiver(stream, output.clone());
        // An error ends the stream; what came before it counts.
        _ = notification::read(bytes, stream.dialect, NOW_MS, &mut *receiver);
    }
    for mut row in output.outbox.take() {
        assert_eq!(row.series.len(), row.values.len());
        let refused: Vec<&Labels> = row.series.iter().filter(|labels| check_series(labels.iter()).is_err()).collect();
        assert!(refused.is_empty(), "the store takes no {refused:?}");
        let series = row.series.len();
        row.series.sort();
        row.series.dedup();
        assert_eq!(row.series.len(), series, "a series twice in one row");
    }
}

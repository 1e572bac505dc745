//! Entry point for the fuzzer: messages of a target become rows of series.

use std::sync::{Arc, LazyLock};

use fabriclens_core::telemetry::Telemetry;
use fabriclens_foreign::sources::{gnmi_openconfig, gnmi_sonic};
use fabriclens_model::Labels;
use fabriclens_model::names::check_series;

use crate::counters::SwitchCounters;
use crate::events::Events;
use crate::leaf::{Dialect, Receiver};
use crate::neighbors::Neighbors;
use crate::notification;
use crate::output::Output;
use crate::series::Series;

/// A time of arrival, Unix ms.
const NOW_MS: i64 = 1_700_000_000_000;

/// Reads a message in each dialect, with each receiver. Whatever it holds, each row has every series once, and the store
/// takes each series.
pub fn message(bytes: &[u8]) {
    static TELEMETRY: LazyLock<Telemetry> = LazyLock::new(|| Telemetry::new().expect("metrics register once"));
    let counters = Arc::new(SwitchCounters::new("leaf1", &TELEMETRY));
    let output = Output { switch: "leaf1".into(), outbox: Arc::default(), counters };
    let dialects = [(Dialect::SonicTable, &gnmi_sonic::SOURCE), (Dialect::OpenConfig, &gnmi_openconfig::SOURCE)];
    for (dialect, source) in dialects {
        let receivers: [Box<dyn Receiver>; 3] = [
            Box::new(Series::new(output.clone(), source)),
            Box::new(Events::new(output.clone())),
            Box::new(Neighbors::new(output.clone())),
        ];
        for mut receiver in receivers {
            // An error ends the stream; what came before it counts.
            _ = notification::read(bytes, dialect, NOW_MS, &mut *receiver);
        }
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

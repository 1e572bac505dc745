//! Counters of a port under the names of NVIDIA Cumulus Linux, and the same under canonical names.

use anyhow::{Result, bail};
use fabriclens_catalog::{Metric, MetricKind};
use fabriclens_foreign::sources::cumulus;
use fabriclens_foreign::{Conversion, Meaning, Value, meaning};

/// A counter or state of a port.
pub struct Row {
    /// Name that Cumulus sends; without it, and with `canonical`, that of the catalog.
    name: &'static str,
    /// Attribute besides the interface.
    more: Option<(&'static str, &'static str)>,
    /// First value.
    base: f64,
    /// Growth per second.
    growth: f64,
}

const AS_IS: Conversion = Conversion::Scale(1.0);
const PRIORITY: Option<(&str, &str)> = Some(("switch-priority", "3"));
const CLASS: Option<(&str, &str)> = Some(("tc", "3"));

const fn row(name: &'static str, more: Option<(&'static str, &'static str)>, base: f64, growth: f64) -> Row {
    Row { name, more, base, growth }
}

/// Rows of `xtask/src/demo/switches/cumulus.rs`: two thirds of the counters of a busy port grow each second.
pub const ROWS: &[Row] = &[
    row("nvswitch_interface_ether_stats_octets", None, 1e14, 4.1e10),
    row("nvswitch_interface_ether_stats_pkts", None, 1e10, 1e7),
    row("nvswitch_interface_if_out_octets", None, 1e14, 3.9e10),
    row("nvswitch_interface_if_out_pkts", None, 1e10, 9.5e6),
    row("nvswitch_interface_if_in_discards", None, 0.0, 0.0),
    row("nvswitch_interface_if_out_discards", None, 17.0, 0.0),
    row("nvswitch_interface_if_in_errors", None, 0.0, 0.0),
    row("nvswitch_interface_dot3_stats_fcs_errors", None, 0.0, 0.0),
    row("nvswitch_interface_sp_rx_pause", PRIORITY, 1e6, 311.0),
    row("nvswitch_interface_sp_tx_pause", PRIORITY, 1e6, 97.0),
    row("nvswitch_interface_sp_rx_pause_duration", PRIORITY, 1e9, 5_300.0),
    row("nvswitch_interface_sp_tx_pause_duration", PRIORITY, 1e9, 1_700.0),
    row("nvswitch_interface_performance_marked_packets", None, 1e7, 4_100.0),
    row("nvswitch_interface_tc_tx_ecn_marked_tc", CLASS, 1e7, 4_100.0),
    row("nvswitch_interface_tc_tx_queue", CLASS, 1e5, 1_000.0),
    row("nvswitch_interface_oper_state", None, 1.0, 0.0),
    row("nvswitch_interface_oper_aggregate_speed", None, 4e11, 0.0),
    row("nvswitch_interface_carrier_changes_total", None, 3.0, 0.0),
];

/// Name, unit, and attributes of a row's point at a port.
pub struct Named {
    /// Metric name.
    pub name: String,
    /// Unit in UCUM; empty for foreign names.
    pub unit: &'static str,
    /// True for a cumulative, monotonic sum; else a gauge.
    pub sum: bool,
    /// Attributes of the point.
    pub attributes: Vec<(&'static str, String)>,
    /// How the value is made of the foreign one.
    pub conversion: Conversion,
}

impl Row {
    /// Value after some seconds at a pace from 0 to 1, as the conversion makes it.
    pub fn value(&self, conversion: Conversion, seconds: f64, pace: f64) -> f64 {
        let value = (self.base + self.growth * pace * seconds).floor();
        conversion.of(Value::Number(value)).unwrap_or(value)
    }

    /// As Cumulus sends it: a gauge.
    pub fn foreign(&self, port: &str) -> Named {
        let more = self.more.iter().map(|(name, value)| (*name, (*value).to_owned()));
        let attributes = std::iter::once(("interface", port.to_owned())).chain(more).collect();
        Named { name: self.name.to_owned(), unit: "", sum: false, attributes, conversion: AS_IS }
    }

    /// The same series under the name that the collector stores.
    ///
    /// # Errors
    /// When the collector's table does not know the row.
    pub fn canonical(&self, port: &str) -> Result<Named> {
        let known: Vec<(String, &str)> =
            self.more.iter().map(|(name, value)| (name.replace('-', "_"), *value)).collect();
        let mut attributes = vec![("interface", port)];
        attributes.extend(known.iter().map(|(name, value)| (name.as_str(), *value)));
        let Meaning::Series(series) = meaning(&cumulus::SOURCE, self.name, &attributes[..]) else {
            bail!("the collector does not know {}", self.name);
        };
        let metric: &Metric = series.metric;
        let port = series.port.map(|port| ("port", port));
        Ok(Named {
            name: metric.name.to_owned(),
            unit: metric.unit.ucum(),
            sum: metric.kind == MetricKind::Counter,
            attributes: port.into_iter().chain(series.labels).collect(),
            conversion: series.conversion,
        })
    }
}

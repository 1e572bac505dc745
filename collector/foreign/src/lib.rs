//! The table of foreign names: under which names and attributes switches and exporters send what the catalog knows.
//!
//! To add a vendor is to add rows in a file of [`sources`] and one line in [`SOURCES`]. A row says which canonical metric a
//! foreign name is, where port and labels are found, and how the value is converted, or why the name is left out. Kind and
//! unit are those of the canonical metric: several vendors send counters as gauges.
//!
//! ```
//! use fabriclens_foreign::{Meaning, Value, meaning, sources};
//!
//! let attributes = [("interface", "swp5s1"), ("tc", "3")];
//! let Meaning::Series(series) = meaning(&sources::cumulus::SOURCE, "nvswitch_interface_tc_tx_octet", &attributes[..]) else {
//!     panic!("a known name");
//! };
//! assert_eq!(series.metric.prometheus_name(), "fabric_port_traffic_class_io_bytes_total");
//! assert_eq!(series.port.as_deref(), Some("swp5s1"));
//! assert_eq!(series.labels, [("direction", "transmit".to_owned()), ("traffic_class", "3".to_owned())]);
//! assert_eq!(series.conversion.of(Value::Text("1500")), Some(1500.0));
//! ```

#![forbid(unsafe_code)]

mod attributes;
pub mod canonical;
mod conversion;
mod instance;
mod meaning;
mod pattern;
mod row;
mod source;
pub mod sources;

pub use attributes::Attributes;
pub use conversion::{Conversion, Value};
pub use instance::instance_host;
pub use meaning::{Meaning, Series, meaning};
pub use row::{Condition, Ids, Label, LabelValue, PortFrom, Row, Target};
pub use source::{Describes, Source, SwitchFrom};
pub use sources::{SOURCES, source_of};

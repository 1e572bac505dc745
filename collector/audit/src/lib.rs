//! Audit of settings: finds ports that are not set as the site's baselines, the other end of the link, or most ports of the group
//! demand, and hosts that contradict themselves. A wrong setting on one host is the most common fault of a RoCE fabric, and silent.
//!
//! [`KEYS`] lists the settings. Where no majority agrees, the report lists the group as split and accuses no port. The audit
//! reads series only, and changes nothing on a host or a switch.
//!
//! ```
//! use fabriclens_audit::KEYS;
//!
//! assert!(KEYS.iter().any(|key| key.name == "pfc_priorities"));
//! ```

#![forbid(unsafe_code)]

mod auditor;
mod baseline;
mod changes;
mod drift;
mod files;
mod host_rules;
mod judge;
mod key;
mod learn;
mod majority;
mod member;
mod read;
mod series;
#[cfg(test)]
mod testing;
mod value;

pub use auditor::{AuditReport, Auditor, Services, run};
pub use baseline::BaselineError;
pub use drift::{Changed, Drift, Reason, Split, SplitValue};
pub use files::BaselineFileState;
pub use key::{FarEnd, KEYS, Key, Reading, Series};

//! Samplers: one file per counter source ([`sources`]), each with its row in [`ALL`], and [`plan`], which selects the
//! source of each series.
//!
//! The agent's schedule opens the samplers of each [`target`] and reads them; a sampler neither starts threads for a
//! tick nor knows when it is read.
//!
//! ```
//! use fabriclens_agent_samplers::counter::Total;
//! use fabriclens_wire::Value;
//!
//! // `port_xmit_data` counts units of four bytes; the export is in bytes.
//! let mut bytes = Total::new(4.0);
//! bytes.add(1_000);
//! assert_eq!(bytes.value(), Value::Int(4_000));
//! ```

mod background;
pub mod counter;
mod counter_dir;
pub mod kernel_log;
pub mod microburst;
pub mod nvml_memory;
mod pcie_link;
mod per_interface;
pub mod plan;
mod queue_pair_totals;
mod sampler;
mod source_port;
pub mod sources;
pub mod target;

pub use sampler::{Period, Sampler, Spec};
pub use sources::{ALL, by_name};

//! Samplers: one file per source of counters ([`sources`]), each with its row in [`ALL`]; and [`plan`], which decides which
//! source feeds which series.
//!
//! The schedule of the agent opens samplers for each [`target`] and reads them; nothing here starts a thread of its own
//! for a tick or knows when it is read.

mod background;
pub mod counter;
mod counter_dir;
pub mod microburst;
mod per_interface;
pub mod plan;
mod queue_pair_totals;
mod sampler;
pub mod sources;
pub mod target;

pub use sampler::{Period, Sampler, Spec};
pub use sources::{ALL, by_name};

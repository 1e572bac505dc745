//! Which column is fed by which counter of which source, by the catalog's precedence; rebuilt when a list changes.
//!
//! Called by `device` after the first read of a subject's sources and whenever a batch's generation has moved. Series
//! that live on keep their totals.

mod assign;
mod derive;
mod line;

pub use assign::{Assigned, Assignment, Candidates, assign};
pub use line::{Carried, Discontinuities, LinePlan, Now, saturated};

#[cfg(test)]
mod tests;

//! Plan of a sampling target: selects the counter and source of each column by the catalog's precedence.
//!
//! `device` builds it after the first read of the sources and again when a list of names changes. Totals of surviving
//! series are kept.

mod assign;
mod column_state;
mod derive;
mod discontinuities;
mod series;
mod shape;
mod source_plan;

pub use assign::{Assignment, Candidates, assign};
pub use discontinuities::Discontinuities;
pub use series::Assigned;
pub use shape::PlanShape;
pub use source_plan::{Carried, ReadContext, SourcePlan, saturated};

#[cfg(test)]
mod tests;

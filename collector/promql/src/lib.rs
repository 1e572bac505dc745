//! PromQL over [`fabriclens_model::Read`]: the float language of Prometheus 2.53.
//!
//! [`Engine`] is all a caller needs. A query is parsed once into a plan, and the plan is evaluated in columns: each
//! selector reads its series once over the whole span of the query, and every operator works on arrays that hold one
//! value per step. Called by the HTTP API, the detectors and the reports; knows no disk and no network.

mod engine;
mod error;
mod eval;
mod functions;
mod number;
mod parse;
mod plan;
mod value;

pub use engine::{CancelToken, Engine, Limits};
pub use error::{Position, QueryError};
pub use value::{Outcome, Sample, Value, ValueKind};

/// Checks that a query parses and type-checks, and says what kind of value it yields; reads nothing.
///
/// # Errors
/// [`QueryError::Parse`] with the place where the query is wrong, as far as it is known.
pub fn check(query: &str) -> Result<ValueKind, QueryError> {
    parse::parse(query).map(|e| e.kind)
}

//! PromQL over [`fabriclens_model::Read`]: the float language of Prometheus 2.53.
//!
//! [`Engine`] is all a caller needs. A query is parsed once into a plan, and the plan is evaluated in columns: each
//! selector reads its series once over the whole span of the query, and every operator works on arrays that hold one
//! value per step. `CONFORMANCE.md` says how it is held to the reference and where it deviates. Called by the HTTP
//! API, the detectors and the reports; knows no disk and no network.

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
pub use number::{exponential, general};
pub use value::{Outcome, Sample, Stats, Value, ValueKind};

/// The matchers of a plain selector such as `up{job="x"}`: what `match[]` of the HTTP API holds.
///
/// # Errors
/// [`QueryError::Parse`] when the text is anything else, or matches everything.
pub fn selector(text: &str) -> Result<Vec<fabriclens_model::Matcher>, QueryError> {
    match engine::roomy(text, || parse::parse(text))?.node {
        plan::Node::Select(s) if s.shift == plan::Shift::default() => Ok(s.matchers),
        _ => Err(QueryError::Parse {
            message: format!("{text:?} is not a plain series selector"),
            position: Some(Position::of(text, 0)),
        }),
    }
}

/// Checks that a query parses and type-checks, and says what kind of value it yields; reads nothing.
///
/// # Errors
/// [`QueryError::Parse`] with the place where the query is wrong, as far as it is known.
pub fn check(query: &str) -> Result<ValueKind, QueryError> {
    engine::roomy(query, || parse::parse(query).map(|e| e.kind))
}

/// The query laid out for reading.
///
/// # Errors
/// As [`check`].
pub fn format(query: &str) -> Result<String, QueryError> {
    engine::roomy(query, || {
        parse::parse(query)?;
        Ok(promql_parser::parser::parse(query).map_err(QueryError::parse)?.prettify())
    })
}

//! PromQL over [`fabriclens_model::Read`]: the language of Prometheus 3, for floats and native histograms.
//!
//! [`Engine`] is the entry point. A query is parsed once into a plan, which is evaluated in columns: each selector
//! reads its series once over the whole time span of the query, some thousand at a time where only a result of each is
//! needed, and every operator works on arrays with one value per step. `CONFORMANCE.md` lists the conformance tests and
//! all deviations. Called by the HTTP API, the detectors and the reports.
//!
//! ```
//! use fabriclens_model::{Labels, Memory, Series};
//! use fabriclens_promql::{Engine, Value};
//!
//! let labels = Labels::new([("__name__", "bytes_total"), ("port", "1")]);
//! let times = vec![0, 30_000, 60_000];
//! let data = Memory(vec![Series { labels, times, values: vec![0.0, 300.0, 600.0] }]);
//!
//! assert!(fabriclens_promql::check("rate(bytes_total[1m])").is_ok());
//! let outcome = Engine::default().instant(&data, "rate(bytes_total[1m])", 60_000)?;
//! let Value::Vector(samples) = outcome.value else { panic!("not a vector") };
//! assert_eq!(samples[0].value, 10.0);
//! # Ok::<(), fabriclens_promql::QueryError>(())
//! ```

mod engine;
mod error;
mod eval;
mod functions;
mod limits;
mod number;
mod parse;
mod plan;
mod value;

use fabriclens_model::{Budget, Matcher, Patterns};

pub use engine::Engine;
pub use error::{Position, QueryError};
pub use fabriclens_model::CancelToken;
pub use limits::{Limits, Version};
pub use number::{exponential, general};
pub use value::{Outcome, Sample, Stats, Value, ValueKind};

/// The matchers of a plain selector such as `up{job="x"}`, as in `match[]` of the HTTP API. `patterns` are those of
/// the request.
///
/// # Errors
/// [`QueryError::Parse`] if the text is not a plain selector, or matches everything; [`QueryError::Memory`],
/// [`QueryError::Timeout`] or [`QueryError::Cancelled`] if the budget of the patterns ends.
pub fn selector(text: &str, patterns: &mut Patterns<'_>) -> Result<Vec<Matcher>, QueryError> {
    match engine::with_deep_stack(text, || parse::parse(text, None, patterns))?.node {
        plan::Node::Select(s) if s.shift == plan::Shift::default() && s.edges == plan::Edges::Plain => Ok(s.matchers),
        _ => Err(QueryError::Parse {
            message: format!("{text:?} is not a plain series selector"),
            position: Some(Position::of(text, 0)),
        }),
    }
}

/// Parses and type-checks a query without reading data; returns the type of its value.
///
/// # Errors
/// [`QueryError::Parse`], with the position if it is known.
pub fn check(query: &str) -> Result<ValueKind, QueryError> {
    engine::with_deep_stack(query, || parse::parse(query, None, &mut Patterns::default()).map(|e| e.kind))
}

/// Whether results of a range query can be kept for another one: those at each step are the same in any range, and depend only on
/// samples up to that step. Without reading data, so some queries of which this is true are refused.
pub fn looks_only_back(query: &str) -> bool {
    parse::looks_only_back(query)
}

/// Pretty-prints a query.
///
/// # Errors
/// See [`check`]; also those of the budget.
pub fn format(query: &str, budget: &dyn Budget) -> Result<String, QueryError> {
    engine::with_deep_stack(query, || {
        parse::parse(query, None, &mut Patterns::new(budget))?;
        parse::format(query)
    })
}

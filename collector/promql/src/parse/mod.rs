//! Parses query text to a plan. The grammar is the `promql-parser` crate's; [`scan`] normalizes the text and records
//! positions, [`lower`] converts the syntax tree to [`crate::plan`] and type-checks it as Prometheus 2.53 does.

mod explain;
mod literal;
mod lower;
pub(crate) mod pattern;
mod scan;

use crate::error::QueryError;
use crate::functions;
use crate::plan::Expr;
use std::sync::Once;

static REGISTER: Once = Once::new();

/// Parses and type-checks a query.
pub(crate) fn parse(query: &str) -> Result<Expr, QueryError> {
    // The crate follows 3.x and lacks some functions of 2.53.
    REGISTER.call_once(|| {
        if let Err(clash) = functions::register_missing() {
            debug_assert!(false, "{clash}");
        }
    });
    let scanned = scan::scan(query)?;
    let tree = promql_parser::parser::parse(&scanned.text).map_err(|m| explain::explain(query, &scanned.leaves, &m))?;
    lower::Lowering::new(query, &scanned.leaves).expr(&tree)
}

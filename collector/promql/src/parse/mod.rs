//! From text to plan. The grammar is the `promql-parser` crate's; [`scan`] prepares the text (and knows where things
//! stand in it), [`lower`] turns the crate's tree into [`crate::plan`] and checks types as Prometheus 2.53 does.

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

/// Parses and checks a query.
pub(crate) fn parse(query: &str) -> Result<Expr, QueryError> {
    // Functions of 2.53 that the crate, which follows 3.x, has dropped.
    REGISTER.call_once(|| {
        if let Err(clash) = functions::register_missing() {
            debug_assert!(false, "{clash}");
        }
    });
    let scanned = scan::scan(query)?;
    let tree = promql_parser::parser::parse(&scanned.text).map_err(|m| explain::explain(query, &scanned.leaves, &m))?;
    lower::Lowering::new(query, &scanned.leaves).expr(&tree)
}

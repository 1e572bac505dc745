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
use fabriclens_model::Patterns;
use std::sync::Once;

static REGISTER: Once = Once::new();

/// Bytes of the syntax tree and the plan for each byte of the text and for each operand, at most; those of ordinary
/// queries are not worth counting.
const TREE_OF_BYTE: usize = 64;
const TREE_OF_OPERAND: usize = 6 << 10;
const FREE_TREE: usize = 64 << 10;
/// Most operands of a query that is formatted: each level of nesting indents all lines within.
const MAX_FORMATTED: usize = 1000;

/// Parses and type-checks a query.
pub(crate) fn parse(query: &str, patterns: &mut Patterns<'_>) -> Result<Expr, QueryError> {
    let scanned = scan::scan(query)?;
    // The syntax tree, and the stack of those who walk it.
    let bytes = scanned.text.len() * TREE_OF_BYTE + scanned.leaves.len() * TREE_OF_OPERAND;
    patterns.budget().request(bytes.saturating_sub(FREE_TREE))?;
    let tree = grammar(&scanned.text).map_err(|m| explain::explain(query, &scanned, &m))?;
    lower::Lowering::new(query, &scanned, patterns).expr(&tree)
}

/// Pretty-prints a valid query. The grammar crate compiles what stands where a pattern is, so that becomes a number.
pub(crate) fn format(query: &str) -> Result<String, QueryError> {
    let scanned = scan::scan(query)?;
    if scanned.leaves.len() > MAX_FORMATTED {
        let message = format!("query has more than {MAX_FORMATTED} operands; format its parts");
        return Err(QueryError::parse(message));
    }
    let mut mark = "pattern".to_owned();
    while query.contains(&mark) {
        mark.push('_');
    }
    let (mut text, mut end) = (String::new(), 0);
    for (n, pattern) in scanned.patterns.iter().enumerate() {
        text.extend([&query[end..pattern.span.start], &pattern.stand_in(&format!("{mark}{n}."))]);
        end = pattern.span.end;
    }
    text.push_str(&query[end..]);
    let pretty = grammar(&text).map_err(QueryError::parse)?.prettify();
    let mut parts = pretty.split(&mark);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let Some((n, rest)) = part.split_once('.') else { continue };
        let pattern = n.parse().ok().and_then(|n: usize| scanned.patterns.get(n));
        out.push_str(&promql_parser::util::escape_string(pattern.map_or("", |p| &p.text)));
        out.push_str(rest.strip_prefix('|').unwrap_or(rest));
    }
    Ok(out)
}

fn grammar(text: &str) -> Result<promql_parser::parser::Expr, String> {
    // The crate follows 3.x and lacks some functions of 2.53.
    REGISTER.call_once(|| {
        if let Err(clash) = functions::register_missing() {
            debug_assert!(false, "{clash}");
        }
    });
    promql_parser::parser::parse(text)
}

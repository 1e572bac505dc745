//! Translates error messages of the grammar crate to Prometheus' wording, with the position if it can be derived.

use super::QueryError;
use super::scan::Scanned;
use crate::error::Position;

pub(super) fn explain(query: &str, scanned: &Scanned, message: &str) -> QueryError {
    if message == "invalid promql query" {
        // If an appended operand makes the query valid, the input ended too early.
        if promql_parser::parser::parse(&format!("{} m", scanned.text)).is_ok() {
            let position = Some(Position::of(query, query.len()));
            return QueryError::Parse { message: "unexpected end of input".to_owned(), position };
        }
        return QueryError::parse("unexpected token: the query does not follow the grammar");
    }
    if let Some(name) = message.strip_prefix("unknown function with name ") {
        let name = name.trim_matches('\'');
        let place = scanned.leaves.iter().find(|at| query[**at..].starts_with(name));
        let message = format!("unknown function with name {name:?}");
        return QueryError::Parse { message, position: place.map(|at| Position::of(query, *at)) };
    }
    let typed = ["expected ", "subquery is only", "unary expression"].iter().any(|start| message.starts_with(start));
    if !typed {
        return QueryError::parse(message);
    }
    let word = |w: &str| match w.trim_end_matches(',') {
        "vector" => w.replace("vector", "instant vector"),
        "matrix" => w.replace("matrix", "range vector"),
        _ => w.replace('\'', "\""),
    };
    QueryError::parse(message.split(' ').map(word).collect::<Vec<_>>().join(" "))
}

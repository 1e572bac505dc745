//! Whether results at a step depend on nothing but samples up to that step.

use super::lex::{Kind, lex};

/// Functions of a whole range query.
const OF_THE_RANGE: [&str; 3] = ["start", "end", "range"];

/// Whether the result of a query at each step of a range is that at the same instant of any other range, and depends only on samples
/// up to that instant. Says no where the tokens alone do not tell, and for text that is no query.
pub(crate) fn looks_only_back(query: &str) -> bool {
    let Ok(tokens) = lex(query) else { return false };
    tokens.windows(2).all(|pair| {
        let [token, next] = [pair[0], pair[1]];
        let word = |word: &str| token.kind == Kind::Word && token.text(query).eq_ignore_ascii_case(word);
        let pinned = token.kind == Kind::Mark(b'@') || word("smoothed");
        let ahead = word("offset") && !matches!(next.kind, Kind::Number(_));
        let whole = next.kind == Kind::Mark(b'(') && OF_THE_RANGE.iter().any(|name| word(name));
        !(pinned || ahead || whole)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_that_look_ahead_are_found() {
        for query in [
            "up",
            "rate(x[5m] offset 5m)",
            "sum by (start) (x) - x offset 1w",
            "max_over_time(rate(x[5m])[1h:1m])",
            "x[step() * 2] anchored",
            "end_total and on (range) rate(start[1m])",
            "label_replace(x, \"@\", \"smoothed\", \"a\", \"\")",
        ] {
            assert!(looks_only_back(query), "{query}");
        }
        for query in [
            "x @ 5",
            "rate(x[5m] @ end())",
            "x offset -5m",
            "x OFFSET (5m - 10m)",
            "x offset +5m",
            "rate(x[5m] smoothed)",
            "time() - start()",
            "end ()",
            "rate(x[range()])",
            "rate(x[5m",
        ] {
            assert!(!looks_only_back(query), "{query}");
        }
    }
}

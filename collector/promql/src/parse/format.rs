//! Pretty-prints queries: canonical spaces, and long expressions over several lines. It works on the tokens of a query
//! that is known to be valid.

use super::lex::{Kind, Parsed, Token, error, is_keyword, lex};
use super::literal::unquote;
use crate::plan::{AGGREGATIONS, BinaryOp};

/// Most operands of a query that is formatted: each level of nesting indents all lines within.
const MAX_OPERANDS: usize = 1000;
/// Longest line that is not broken, bytes.
const LINE: usize = 100;
const INDENT: usize = 2;
/// Modifiers of binary operators that are followed by a list in parentheses.
const LISTED: [&str; 7] = ["on", "ignoring", "group_left", "group_right", "fill", "fill_left", "fill_right"];

/// Words behind a selector, which end an operand.
const BEHIND: [&str; 2] = ["anchored", "smoothed"];

/// Pretty-prints a valid query.
pub(crate) fn format(query: &str) -> Parsed<String> {
    let mut tokens = lex(query)?;
    let operators = tokens.iter().filter(|t| matches!(t.kind, Kind::Operator(_))).count();
    let words = tokens.iter().filter(|t| matches!(t.kind, Kind::Number(_) | Kind::Word)).count();
    if operators >= MAX_OPERANDS || words > 4 * MAX_OPERANDS {
        let message = format!("query has more than {MAX_OPERANDS} operands; format its parts");
        return Err(error(query, 0, message));
    }
    let printer = Printer { query };
    printer.move_groupings(&mut tokens);
    let mut out = String::new();
    printer.print(&tokens[..tokens.len() - 1], 0, &mut out);
    Ok(out)
}

struct Printer<'q> {
    query: &'q str,
}

impl<'q> Printer<'q> {
    fn is_word(&self, token: Option<&Token>, words: &[&str]) -> bool {
        let word = |t: &Token| t.kind == Kind::Word && words.iter().any(|w| t.text(self.query).eq_ignore_ascii_case(w));
        token.is_some_and(word)
    }

    /// Moves `by` and `without` behind an aggregation in front of its arguments.
    fn move_groupings(&self, tokens: &mut [Token]) {
        for at in 1..tokens.len() {
            let opens = tokens[at].kind == Kind::Mark(b'(');
            let aggregates = AGGREGATIONS.iter().any(|(name, _)| self.is_word(tokens.get(at - 1), &[name]));
            if !opens || !aggregates {
                continue;
            }
            let close = past_brackets(tokens, at);
            if self.is_word(tokens.get(close), &["by", "without"]) {
                let end = past_brackets(tokens, close + 1);
                tokens[at..end].rotate_left(close - at);
            }
        }
    }

    /// Prints an expression, indented; without the end of its last line.
    fn print(&self, tokens: &[Token], indent: usize, out: &mut String) {
        if let Some(flat) = self.flat(tokens, LINE.saturating_sub(indent)) {
            line(&flat, indent, out);
            return;
        }
        if let Some((at, end)) = self.loosest_operator(tokens) {
            self.print(&tokens[..at], indent + INDENT, out);
            out.push('\n');
            line(&self.flat(&tokens[at..end], usize::MAX).unwrap_or_default(), indent, out);
            out.push('\n');
            self.print(&tokens[end..], indent + INDENT, out);
            return;
        }
        let Some((open, close)) = self.arguments(tokens) else {
            line(&self.flat(tokens, usize::MAX).unwrap_or_default(), indent, out);
            return;
        };
        line(&self.flat(&tokens[..=open], usize::MAX).unwrap_or_default(), indent, out);
        for argument in split_arguments(&tokens[open + 1..close]) {
            out.push('\n');
            self.print(argument, indent + INDENT, out);
            out.push(',');
        }
        // No comma after the last one.
        out.pop();
        out.push('\n');
        line(&self.flat(&tokens[close..], usize::MAX).unwrap_or_default(), indent, out);
    }

    /// The operator outside brackets that is applied last, and the end of its modifiers.
    fn loosest_operator(&self, tokens: &[Token]) -> Option<(usize, usize)> {
        let mut loosest: Option<(u8, usize, usize)> = None;
        let (mut at, mut operand) = (0, false);
        while at < tokens.len() {
            let op = match tokens[at].kind {
                Kind::Operator(op) => Some(op),
                Kind::Word => self.word_operator(&tokens[at]),
                _ => None,
            };
            let Some(op) = op.filter(|_| operand) else {
                operand = !matches!(tokens[at].kind, Kind::Operator(_) | Kind::Mark(b'@'))
                    && !self.is_word(tokens.get(at), &["offset"]);
                at = past_brackets(tokens, at);
                continue;
            };
            let end = self.past_modifiers(tokens, at + 1);
            // Of equal operators the last is applied last, except powers.
            let level = op.level();
            if loosest.is_none_or(|l| level < l.0 || level == l.0 && op != BinaryOp::Pow) {
                loosest = Some((level, at, end));
            }
            (at, operand) = (end, false);
        }
        loosest.map(|(_, at, end)| (at, end))
    }

    fn word_operator(&self, token: &Token) -> Option<BinaryOp> {
        let all = [BinaryOp::And, BinaryOp::Or, BinaryOp::Unless, BinaryOp::Atan2];
        all.into_iter().find(|op| self.is_word(Some(token), &[op.symbol()]))
    }

    fn past_modifiers(&self, tokens: &[Token], mut at: usize) -> usize {
        if self.is_word(tokens.get(at), &["bool"]) {
            at += 1;
        }
        while self.is_word(tokens.get(at), &LISTED) {
            let listed = tokens.get(at + 1).is_some_and(|t| t.kind == Kind::Mark(b'('));
            if !listed && !self.is_word(tokens.get(at), &["group_left", "group_right"]) {
                // A metric of this name.
                break;
            }
            at = if listed { past_brackets(tokens, at + 1) } else { at + 1 };
        }
        at
    }

    /// The parentheses around the arguments of a call or around a whole expression.
    fn arguments(&self, tokens: &[Token]) -> Option<(usize, usize)> {
        let mut at = 0;
        while at < tokens.len() {
            let end = past_brackets(tokens, at);
            let grouping = at > 0 && self.is_word(tokens.get(at - 1), &["by", "without"]);
            if tokens[at].kind == Kind::Mark(b'(') && !grouping && end > at + 2 {
                return Some((at, end - 1));
            }
            at = end;
        }
        None
    }

    /// The tokens on one line, if it has at most `most` bytes.
    fn flat(&self, tokens: &[Token], most: usize) -> Option<String> {
        let mut out = String::new();
        let mut braces = false;
        // Whether an operand has just ended, so that a sign is an operator.
        let mut operand = false;
        for (at, token) in tokens.iter().enumerate() {
            let before = at.checked_sub(1).map(|b| &tokens[b]);
            let sign = matches!(token.kind, Kind::Operator(BinaryOp::Add | BinaryOp::Sub)) && !operand;
            if before.is_some_and(|before| self.spaced(before, token, braces, self.was_sign(tokens, at - 1))) {
                out.push(' ');
            }
            self.write(token, &mut out);
            match token.kind {
                Kind::Mark(b'{') => braces = true,
                Kind::Mark(b'}') => braces = false,
                _ => {}
            }
            operand = !sign
                && match token.kind {
                    Kind::Number(_) | Kind::Text | Kind::Mark(b')' | b']' | b'}') => true,
                    Kind::Word => self.ends_operand(token),
                    _ => false,
                };
            if out.len() > most {
                return None;
            }
        }
        Some(out)
    }

    /// Whether a word is an operand, or the end of one.
    fn ends_operand(&self, word: &Token) -> bool {
        let is_operand = !is_keyword(word.text(self.query)) && self.word_operator(word).is_none();
        is_operand || self.is_word(Some(word), &BEHIND)
    }

    /// Whether the token at `at` is a sign rather than an operator.
    fn was_sign(&self, tokens: &[Token], at: usize) -> bool {
        if !matches!(tokens[at].kind, Kind::Operator(BinaryOp::Add | BinaryOp::Sub)) {
            return false;
        }
        // An operator on a line of its own stands in front of its modifiers.
        let is_modified = self.past_modifiers(tokens, at + 1) > at + 1;
        let Some(before) = at.checked_sub(1).map(|b| &tokens[b]) else { return !is_modified };
        match before.kind {
            Kind::Number(_) | Kind::Text | Kind::Mark(b']' | b'}') => false,
            // Behind the labels of `on (…)` stands an operand.
            Kind::Mark(b')') => self.closes_modifier(tokens, at - 1),
            Kind::Word => !self.ends_operand(before),
            _ => true,
        }
    }

    fn closes_modifier(&self, tokens: &[Token], close: usize) -> bool {
        let mut depth = 0_usize;
        for at in (0..=close).rev() {
            match tokens[at].kind {
                Kind::Mark(b')') => depth += 1,
                Kind::Mark(b'(') => {
                    depth -= 1;
                    if depth == 0 {
                        return at > 0 && self.is_word(tokens.get(at - 1), &LISTED);
                    }
                }
                _ => {}
            }
        }
        false
    }

    fn spaced(&self, before: &Token, token: &Token, braces: bool, after_sign: bool) -> bool {
        let matching = |t: &Token| {
            matches!(t.kind, Kind::Assign | Kind::Match | Kind::NotMatch | Kind::Operator(BinaryOp::NotEqual))
        };
        match (before.kind, token.kind) {
            (Kind::Mark(b'(' | b'[' | b'{'), _) | (_, Kind::Mark(b')' | b']' | b'}' | b',' | b':' | b'[')) => false,
            (Kind::Mark(b','), _) => !braces,
            (Kind::Mark(b':'), _) => false,
            _ if braces && (matching(before) || matching(token)) => false,
            _ if after_sign => false,
            (Kind::Word, Kind::Mark(b'(')) => {
                let text = before.text(self.query);
                let called = matches!(text.to_ascii_lowercase().as_str(), "start" | "end");
                !called && (is_keyword(text) || self.word_operator(before).is_some())
            }
            (Kind::Word, Kind::Mark(b'{')) => self.word_operator(before).is_some(),
            _ => true,
        }
    }

    fn write(&self, token: &Token, out: &mut String) {
        let text = token.text(self.query);
        match token.kind {
            Kind::Text => {
                out.push('"');
                for c in unquote(text).map(|(text, _)| text).unwrap_or_default().chars() {
                    match c {
                        '"' | '\\' => out.extend(['\\', c]),
                        '\n' => out.push_str("\\n"),
                        '\t' => out.push_str("\\t"),
                        '\r' => out.push_str("\\r"),
                        c => out.push(c),
                    }
                }
                out.push('"');
            }
            Kind::Word if is_keyword(text) || self.word_operator(token).is_some() => {
                out.push_str(&text.to_ascii_lowercase());
            }
            Kind::Word if AGGREGATIONS.iter().any(|(name, _)| text.eq_ignore_ascii_case(name)) => {
                out.push_str(&text.to_ascii_lowercase());
            }
            _ => out.push_str(text),
        }
    }
}

fn line(text: &str, indent: usize, out: &mut String) {
    out.extend(std::iter::repeat_n(' ', indent));
    out.push_str(text);
}

/// The token after this one, or after the brackets that it opens.
fn past_brackets(tokens: &[Token], at: usize) -> usize {
    let mut depth = 0_usize;
    for (i, token) in tokens.iter().enumerate().skip(at) {
        match token.kind {
            Kind::Mark(b'(' | b'[' | b'{') => depth += 1,
            Kind::Mark(b')' | b']' | b'}') => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return i + 1;
        }
    }
    tokens.len()
}

fn split_arguments(tokens: &[Token]) -> Vec<&[Token]> {
    let (mut out, mut from, mut at) = (vec![], 0, 0);
    while at < tokens.len() {
        if tokens[at].kind == Kind::Mark(b',') {
            out.push(&tokens[from..at]);
            from = at + 1;
        }
        at = past_brackets(tokens, at);
    }
    out.push(&tokens[from..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_printed_in_one_way() {
        for (query, want) in [
            ("SUM(MAX(up)without(x))BY(job)", "sum by (job) (max without (x) (up))"),
            (
                "sum by(\"a.b\")(up{x='1',\"y.z\"!=\"2\"}[5m:1m]offset -(1h/2))",
                "sum by (\"a.b\") (up{x=\"1\",\"y.z\"!=\"2\"}[5m:1m] offset -(1h / 2))",
            ),
            ("a*on(x)group_left(y)-b^-2", "a * on (x) group_left (y) -b ^ -2"),
            ("a@start()>bool fill(-1)b # c", "a @ start() > bool fill (-1) b"),
            ("rate(x[5m*2]anchored)-(1)-{a=~`\\d`}", "rate(x[5m * 2] anchored) - (1) - {a=~\"\\\\d\"}"),
            ("a and b or-c", "a and b or -c"),
            ("- x", "-x"),
            ("-(x)^2", "-(x) ^ 2"),
            ("+1-  -x", "+1 - -x"),
            ("x anchored-1", "x anchored - 1"),
            ("x[5m]smoothed+y", "x[5m] smoothed + y"),
        ] {
            assert_eq!(format(query).unwrap(), want);
            assert_eq!(format(want).unwrap(), want);
        }
    }

    #[test]
    fn long_queries_are_broken_where_they_are_loosest() {
        let (long, other) = ("a".repeat(60), "b".repeat(60));
        let query = format!(
            "sum by (x) (rate({long}[5m]) * on (host) group_left () {other}) / 2 + label_replace({long}, \"y\", \"z\", \"w\", \"{other}\")"
        );
        let want = format!(
            "    sum by (x) (\n        rate({long}[5m])\n      * on (host) group_left ()\n        {other}\n    )\n  /\n    2\n+\n  label_replace(\n    {long},\n    \"y\",\n    \"z\",\n    \"w\",\n    \"{other}\"\n  )"
        );
        assert_eq!(format(&query).unwrap(), want);
        assert_eq!(format(&want).unwrap(), want);
    }
}

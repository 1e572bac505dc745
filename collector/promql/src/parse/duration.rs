//! Durations: literals, and expressions of them (`[5m * 2]`, `offset (1h / 2)`), which are evaluated while parsing.

use super::Parser;
use super::lex::{Kind, Parsed};
use crate::plan::BinaryOp;

impl Parser<'_, '_> {
    /// A duration expression of operators of level `least` and above, in seconds; NaN if it depends on a step or
    /// range that is not known.
    pub(super) fn duration(&mut self, least: u8) -> Parsed<f64> {
        let mut left = self.signed_duration()?;
        while let Kind::Operator(op) = self.token().kind {
            let level = op.level();
            if level < least || !op.is_arithmetic() {
                break;
            }
            let at = self.token().start;
            self.skip();
            let right = self.duration(if op == BinaryOp::Pow { level } else { level + 1 })?;
            if right == 0.0 && matches!(op, BinaryOp::Div | BinaryOp::Mod) {
                let what = if op == BinaryOp::Div { "division" } else { "modulo" };
                return Err(self.error(at, format!("{what} by zero")));
            }
            left = crate::eval::arithmetic(op, left, right);
        }
        Ok(left)
    }

    fn signed_duration(&mut self) -> Parsed<f64> {
        match self.token().kind {
            Kind::Operator(sign @ (BinaryOp::Add | BinaryOp::Sub)) => {
                self.prefix()?;
                self.skip();
                let value = self.duration(BinaryOp::Pow.level())?;
                Ok(if sign == BinaryOp::Sub { -value } else { value })
            }
            _ => self.single_duration(),
        }
    }

    /// A number, a duration, `step()`, `range()`, `min_of(a, b)`, `max_of(a, b)`, or an expression in parentheses.
    fn single_duration(&mut self) -> Parsed<f64> {
        let token = self.token();
        match token.kind {
            Kind::Number(seconds) => {
                self.skip();
                Ok(seconds)
            }
            Kind::Mark(b'(') => {
                self.skip();
                let value = self.duration(0)?;
                self.expect(b')', "duration expression")?;
                Ok(value)
            }
            Kind::Word => {
                let word = self.word().to_ascii_lowercase();
                match word.as_str() {
                    "step" | "range" => {
                        self.skip();
                        self.expect(b'(', "duration expression")?;
                        self.expect(b')', "duration expression")?;
                        let known = self.resolution.map(|r| if word == "step" { r.step } else { r.range });
                        Ok(known.map_or(f64::NAN, |ms| ms as f64 / 1000.0))
                    }
                    "min_of" | "max_of" | "min" | "max" => {
                        self.skip();
                        self.expect(b'(', "duration expression")?;
                        let a = self.duration(0)?;
                        self.expect(b',', "duration expression")?;
                        let b = self.duration(0)?;
                        self.expect(b')', "duration expression")?;
                        Ok(match word.starts_with("min") {
                            _ if a.is_nan() || b.is_nan() => f64::NAN,
                            true => a.min(b),
                            false => a.max(b),
                        })
                    }
                    _ => Err(self.unexpected("duration expression", "duration")),
                }
            }
            _ => Err(self.unexpected("duration expression", "duration")),
        }
    }

    /// The duration of `offset`: without parentheses it ends before an operator.
    pub(super) fn offset_duration(&mut self) -> Parsed<i64> {
        let at = self.token().start;
        let sign = self.sign();
        let value = self.single_duration()?;
        self.millis(sign * value, at)
    }

    /// A range or a resolution in brackets: positive.
    pub(super) fn range_duration(&mut self) -> Parsed<i64> {
        let at = self.token().start;
        let value = self.duration(0)?;
        match self.millis(value, at)? {
            ms if ms > 0 => Ok(ms),
            // Only a query that is run knows its step.
            _ if value.is_nan() => Ok(1),
            _ => Err(self.error(at, "duration must be greater than 0")),
        }
    }

    /// Milliseconds, far beyond any data and small enough that sums of a few never overflow.
    pub(super) fn millis(&self, seconds: f64, at: usize) -> Parsed<i64> {
        const MOST: f64 = (i64::MAX / 64) as f64;
        let ms = (seconds * 1000.0).round();
        if ms.abs() >= MOST {
            return Err(self.error(at, "duration out of range"));
        }
        // NaN is an unknown step: 0.
        Ok(ms as i64)
    }
}

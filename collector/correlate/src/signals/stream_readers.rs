//! The terms of signals that the streaming evaluator reads, by metric.

use crate::signals::expression::{Alternatives, Divisor, Measure, Term};
use fabriclens_model::Matcher;
use std::collections::HashMap;

/// A term that is evaluated here.
pub(super) struct Reader {
    /// Row of its signal in [`ALL`].
    pub row: u16,
    pub series: Vec<Matcher>,
    pub rate: bool,
    pub scale: f64,
    /// Index of the divisor series.
    pub over: Option<u16>,
}

/// Terms and divisor series, by metric name.
#[derive(Default)]
pub(super) struct Readers {
    pub terms: Vec<Reader>,
    pub divisors: Vec<Vec<Matcher>>,
    pub by_metric: HashMap<&'static str, Vec<Use>>,
}

/// What a series is used for: a term by number, or the divisor of terms. In few bytes, because there are millions of series.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Use {
    Term(u16),
    Divisor(u16),
}

impl Readers {
    /// Takes the expression of a row, if all of its terms can be evaluated over arriving samples: gauges and rates of now.
    pub(super) fn add(&mut self, row: usize, expression: Alternatives) -> bool {
        let streams = |term: &Term| {
            let of_now = matches!(term.measure, Measure::Gauge | Measure::Rate) && term.offset.is_none();
            of_now && term.spread.is_none() && term.unless.is_none()
        };
        expression.0.iter().all(streams) && expression.0.iter().all(|term| self.add_term(row, term).is_some())
    }

    pub(super) fn add_term(&mut self, row: usize, term: &Term) -> Option<()> {
        let series = term.selector.matchers().ok()?;
        let (scale, over) = match term.divisor {
            None => (1.0, None),
            Some(Divisor::Number(number)) => (1.0 / number, None),
            Some(Divisor::Series(selector)) => {
                self.by_metric.entry(selector.metric).or_default().push(Use::Divisor(self.divisors.len() as u16));
                self.divisors.push(selector.matchers().ok()?);
                (1.0, Some((self.divisors.len() - 1) as u16))
            }
        };
        self.by_metric.entry(term.selector.metric).or_default().push(Use::Term(self.terms.len() as u16));
        self.terms.push(Reader { row: row as u16, series, rate: term.measure == Measure::Rate, scale, over });
        Some(())
    }
}

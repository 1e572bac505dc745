//! A signal as a typed expression. The streaming evaluator reads its parts, and [`Alternatives::promql`] writes it as PromQL.

use fabriclens_model::{MatchOp, Matcher, MatcherError};
use std::fmt::{self, Display, Formatter};

/// Selects the series of one metric, by labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selector {
    /// Metric name.
    pub metric: &'static str,
    /// Label, operator (equal or regular expression) and value.
    pub labels: &'static [(&'static str, MatchOp, &'static str)],
}

/// How series become values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// The newest sample.
    Gauge,
    /// Growth per second since the sample before.
    Rate,
    /// Mean growth per second over a fixed time, such as `5m`.
    MeanRate(&'static str),
    /// Growth over a long time, such as `1d`: the difference of two samples, which costs two however long the time. A counter
    /// reset counts as no growth.
    Growth(&'static str),
}

/// What a value is divided by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Divisor {
    /// A number.
    Number(f64),
    /// The series of another metric with the same labels.
    Series(Selector),
}

/// How series that are not one per port become series of ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// The highest series of a device counts for each of its ports.
    PortsOfDevice,
    /// A port has the lowest value of its lanes.
    LowestLane,
}

/// One way to measure a signal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Term {
    /// Series that are read.
    pub selector: Selector,
    /// How they become values.
    pub measure: Measure,
    /// Reads them as they were so long ago, such as `1d`.
    pub offset: Option<&'static str>,
    /// What values are divided by.
    pub divisor: Option<Divisor>,
    /// How series become those of ports.
    pub spread: Option<Spread>,
    /// Not read for ports that have this other metric (at the same offset).
    pub unless: Option<Selector>,
}

/// Ways to measure a signal, the preferred first: a port takes the first that it has.
#[derive(Clone, Copy, Debug)]
pub struct Alternatives(pub &'static [Term]);

impl Selector {
    /// The selector as matchers of labels.
    ///
    /// # Errors
    /// [`MatcherError`] if a regular expression of the table does not compile.
    pub fn matchers(&self) -> Result<Vec<Matcher>, MatcherError> {
        let labels = self.labels.iter().map(|(label, op, value)| Matcher::new(*label, *op, *value));
        std::iter::once(Ok(Matcher::equal("__name__", self.metric))).chain(labels).collect()
    }
}

impl Term {
    /// A gauge.
    pub const fn gauge(selector: Selector) -> Self {
        Self { selector, measure: Measure::Gauge, offset: None, divisor: None, spread: None, unless: None }
    }

    /// The rate of a counter since the sample before.
    pub const fn rate(selector: Selector) -> Self {
        Self { measure: Measure::Rate, ..Self::gauge(selector) }
    }

    /// The mean rate of a counter over a fixed time.
    pub const fn mean_rate(selector: Selector, time: &'static str) -> Self {
        Self { measure: Measure::MeanRate(time), ..Self::gauge(selector) }
    }

    /// The growth of a counter over a long time.
    pub const fn growth(selector: Selector, time: &'static str) -> Self {
        Self { measure: Measure::Growth(time), ..Self::gauge(selector) }
    }

    /// Divides by a number or by another series.
    #[must_use]
    pub const fn over(self, divisor: Divisor) -> Self {
        Self { divisor: Some(divisor), ..self }
    }

    /// Reads the value of so long ago.
    #[must_use]
    pub const fn ago(self, offset: &'static str) -> Self {
        Self { offset: Some(offset), ..self }
    }

    /// Makes series those of ports.
    #[must_use]
    pub const fn spread(self, spread: Spread) -> Self {
        Self { spread: Some(spread), ..self }
    }

    /// Leaves out ports that have another metric.
    #[must_use]
    pub const fn unless(self, selector: Selector) -> Self {
        Self { unless: Some(selector), ..self }
    }
}

impl Alternatives {
    /// Whether values are rates since the sample before.
    pub fn is_rate(&self) -> bool {
        self.0.first().is_some_and(|term| term.measure == Measure::Rate)
    }

    /// The metric that stands first in [`Alternatives::promql`]; evidence is named after it.
    pub fn metric(&self) -> &'static str {
        self.metrics().next().unwrap_or_default()
    }

    /// Whether any alternative reads a metric.
    pub fn reads(&self, metric: &str) -> bool {
        self.metrics().any(|name| name == metric)
    }

    /// Every metric that is read.
    pub fn metrics(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().flat_map(|term| {
            let divisor = match term.divisor {
                Some(Divisor::Series(selector)) => Some(selector.metric),
                _ => None,
            };
            let ports = (term.spread == Some(Spread::PortsOfDevice)).then_some(PORTS);
            let unless = term.unless.map(|selector| selector.metric);
            [ports, Some(term.selector.metric), divisor, unless].into_iter().flatten()
        })
    }

    /// The expression in PromQL. `window` is the range of rates since the sample before, such as `5s`.
    pub fn promql(&self, window: &str) -> String {
        self.promql_of(window, |_| true)
    }

    /// The same with some of its terms.
    pub(crate) fn promql_of(&self, window: &str, which: impl Fn(&Term) -> bool) -> String {
        let terms = self.0.iter().filter(|term| which(term));
        terms.map(|term| WithWindow { term, window }.to_string()).collect::<Vec<_>>().join(" or ")
    }
}

/// The metric that names the ports of a device.
const PORTS: &str = "fabric_port_up";

impl Display for Selector {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.metric)?;
        for (at, (label, op, value)) in self.labels.iter().enumerate() {
            let open = if at == 0 { '{' } else { ',' };
            let op = if *op == MatchOp::Regex { "=~" } else { "=" };
            write!(f, "{open}{label}{op}\"{value}\"")?;
        }
        if self.labels.is_empty() { Ok(()) } else { f.write_str("}") }
    }
}

/// A term with the range of its rate.
struct WithWindow<'a> {
    term: &'a Term,
    window: &'a str,
}

impl Display for WithWindow<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { term, window } = self;
        let Term { selector, measure, offset, divisor, spread, unless } = term;
        let ago = offset.map_or_else(String::new, |offset| format!(" offset {offset}"));
        match spread {
            Some(Spread::PortsOfDevice) => {
                write!(f, "0 * {PORTS} + on (host, device) group_left () max by (host, device) (")?;
            }
            Some(Spread::LowestLane) => f.write_str("min by (host, device, port) (")?,
            None => {}
        }
        match measure {
            Measure::Gauge => write!(f, "{selector}{ago}")?,
            Measure::Rate => write!(f, "irate({selector}[{window}]{ago})")?,
            Measure::MeanRate(time) => write!(f, "rate({selector}[{time}]{ago})")?,
            Measure::Growth(time) => write!(f, "clamp_min({selector} - {selector} offset {time}, 0)")?,
        }
        if spread.is_some() {
            f.write_str(")")?;
        }
        match divisor {
            Some(Divisor::Number(number)) => write!(f, " / {number}")?,
            Some(Divisor::Series(series)) => write!(f, " / {series}")?,
            None => {}
        }
        match unless {
            Some(other) => write!(f, " unless on (host, device, port) {other}{ago}"),
            None => Ok(()),
        }
    }
}

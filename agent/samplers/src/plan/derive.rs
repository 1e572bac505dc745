//! Gauges that only the agent can derive: shares of time and peaks within a second, over measured time.

use fabriclens_catalog::Metric;
use fabriclens_catalog::metrics::{congestion, link, netdev, pause, pfc, storm, traffic};

/// Normalization of growth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Per {
    /// Units per second.
    Second,
    /// Seconds of a second: a share, at most 1.
    Share,
    /// Bytes relative to the line rate: a share, at most 1.
    Line,
}

/// Derivation of gauges from a cumulative metric.
#[derive(Debug)]
pub struct Rule {
    /// Cumulative source metric.
    pub base: &'static Metric,
    /// Normalization.
    pub per: Per,
    /// Gauge over the full sample.
    pub whole: Option<&'static Metric>,
    /// Gauge of the highest congestion sample within a full sample.
    pub peak: Option<&'static Metric>,
    /// Value per second from which the sample is urgent.
    pub urgent: f64,
}

const NEVER: f64 = f64::INFINITY;
/// Share of time paused that exceeds normal flow control.
const PAUSED: f64 = 0.01;

/// Link errors per second that make a sample urgent.
const ERRORS: f64 = 1.0;

/// All derivations.
pub static RULES: &[Rule] = &[
    rate(&traffic::PORT_IO, Some(&traffic::PORT_IO_PEAK), NEVER),
    rate(&traffic::RDMA_IO, Some(&traffic::RDMA_IO_PEAK), NEVER),
    rate(&netdev::NETDEV_IO, Some(&traffic::NETDEV_IO_PEAK), NEVER),
    rate(&pfc::PFC_FRAMES, Some(&pfc::PFC_FRAMES_PEAK), NEVER),
    rate(&congestion::CNP_PACKETS, Some(&congestion::CNP_PEAK), NEVER),
    rate(&congestion::ECN_PACKETS, Some(&congestion::ECN_PEAK), NEVER),
    rate(&storm::STORM_EVENTS, None, f64::MIN_POSITIVE),
    rate(&link::LINK_DOWNS, None, f64::MIN_POSITIVE),
    rate(&link::SYMBOL_ERRORS, None, ERRORS),
    rate(&link::CRC_ERRORS, None, ERRORS),
    share(&pfc::PFC_PAUSE, Per::Share, &pfc::PFC_PAUSE_SHARE, &pfc::PFC_PAUSE_SHARE_MAX),
    share(&pause::PAUSE_DURATION, Per::Share, &pause::PAUSE_SHARE, &pause::PAUSE_SHARE_MAX),
    share(&congestion::XMIT_WAIT, Per::Line, &congestion::XMIT_WAIT_SHARE, &congestion::XMIT_WAIT_SHARE_MAX),
];

const fn rate(base: &'static Metric, peak: Option<&'static Metric>, urgent: f64) -> Rule {
    Rule { base, per: Per::Second, whole: None, peak, urgent }
}

const fn share(base: &'static Metric, per: Per, whole: &'static Metric, peak: &'static Metric) -> Rule {
    Rule { base, per, whole: Some(whole), peak: Some(peak), urgent: PAUSED }
}

/// Derivation of a metric.
pub fn rule(metric: &Metric) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.base == metric)
}

impl Per {
    /// Normalizes `growth` in `seconds` on a link of `rate` bytes per second.
    pub fn of(self, growth: f64, seconds: f64, rate: Option<f64>) -> Option<f64> {
        if seconds <= 0.0 {
            return None;
        }
        let per_second = growth / seconds;
        match self {
            Self::Second => Some(per_second),
            Self::Share => Some(per_second.min(1.0)),
            Self::Line => rate.filter(|r| *r > 0.0).map(|r| (per_second / r).min(1.0)),
        }
    }
}

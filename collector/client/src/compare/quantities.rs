//! The numbers of two reports that are compared: one row per number, and when two values differ beyond noise.

use serde::Serialize;

use super::report::{Figure, GRADES, Grade, Measured, Operation, Report};
use super::words::Unit;

/// Relative difference up to which two values are alike: the rate of one job varies as much from run to run.
const NOISE: f64 = 0.05;
/// Difference of two fractions up to which they are alike: half a percent of the time.
const SHARE_NOISE: f64 = 0.005;
/// Difference of two rates of events up to which they are alike, in standard deviations of independent events, and number of events
/// up to which they are.
const COUNT_SIGMAS: f64 = 3.0;
const COUNT_EVENTS: f64 = 10.0;

/// How a number of jobs that differ in size and time is made comparable.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Basis {
    /// Shown, and not compared: it grows with the run time.
    Shown,
    /// Compared between ended runs whose numbers are of as many ports.
    Total,
    /// Compared as it is.
    Share,
    /// Divided by the ports (or hosts) that it was computed from.
    EachPort,
    /// Divided by the ports (or hosts) and by the hours of the run.
    EachPortHour,
}

/// The direction that is worse for the job.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Worse {
    More,
    Less,
    Neither,
}

/// A number of a report.
struct Quantity {
    key: &'static str,
    name: &'static str,
    unit: Unit,
    read: fn(&Report) -> &Figure,
    basis: Basis,
    worse: Worse,
}

/// Key of the upper bound of the share of its time that a job lost.
pub(super) const LOST_SHARE: &str = "lost_at_most_share";
/// Key of the bytes sent.
pub(super) const BYTES: &str = "bytes_sent";

const QUANTITIES: &[Quantity] = &[
    Quantity {
        key: "lost_at_least_seconds",
        name: "lost, at least",
        unit: Unit::Seconds,
        read: |r| &r.summary.cost.at_least,
        basis: Basis::Shown,
        worse: Worse::More,
    },
    Quantity {
        key: "lost_at_most_seconds",
        name: "lost, at most",
        unit: Unit::Seconds,
        read: |r| &r.summary.cost.at_most,
        basis: Basis::Shown,
        worse: Worse::More,
    },
    Quantity {
        key: LOST_SHARE,
        name: "lost, at most, share of its time",
        unit: Unit::Ratio,
        read: |r| &r.summary.cost.at_most_share,
        basis: Basis::Share,
        worse: Worse::More,
    },
    Quantity {
        key: BYTES,
        name: "bytes sent",
        unit: Unit::Bytes,
        read: |r| &r.traffic.transmitted,
        basis: Basis::Total,
        worse: Worse::Neither,
    },
    Quantity {
        key: "port_rate",
        name: "rate of a port",
        unit: Unit::BytesPerSecond,
        read: |r| &r.traffic.mean_rate,
        basis: Basis::EachPort,
        worse: Worse::Less,
    },
    Quantity {
        key: "paused",
        name: "port time paused",
        unit: Unit::Ratio,
        read: |r| &r.congestion.paused,
        basis: Basis::Share,
        worse: Worse::More,
    },
    Quantity {
        key: "pausing",
        name: "port time pausing the switch",
        unit: Unit::Ratio,
        read: |r| &r.congestion.pausing,
        basis: Basis::Share,
        worse: Worse::More,
    },
    Quantity {
        key: "credit_waits",
        name: "port time without credits",
        unit: Unit::Ratio,
        read: |r| &r.congestion.xmit_wait,
        basis: Basis::Share,
        worse: Worse::More,
    },
    Quantity {
        key: "congestion_notifications",
        name: "congestion notifications of a port",
        unit: Unit::CountPerHour,
        read: |r| &r.congestion.cnp_received,
        basis: Basis::EachPortHour,
        worse: Worse::More,
    },
    Quantity {
        key: "retransmits",
        name: "retransmitted packets of a port",
        unit: Unit::CountPerHour,
        read: |r| &r.health.retransmits,
        basis: Basis::EachPortHour,
        worse: Worse::More,
    },
    Quantity {
        key: "timeouts",
        name: "expired retransmission timers of a port",
        unit: Unit::CountPerHour,
        read: |r| &r.summary.cost.timeouts,
        basis: Basis::EachPortHour,
        worse: Worse::More,
    },
    Quantity {
        key: "link_errors",
        name: "link errors of a port",
        unit: Unit::CountPerHour,
        read: |r| &r.health.link_errors,
        basis: Basis::EachPortHour,
        worse: Worse::More,
    },
    Quantity {
        key: "discards",
        name: "packets dropped by a port",
        unit: Unit::CountPerHour,
        read: |r| &r.health.discards,
        basis: Basis::EachPortHour,
        worse: Worse::More,
    },
];

/// What the second value is against the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    /// The difference is noise.
    Alike,
    /// Better for the job.
    Better,
    /// Worse for the job.
    Worse,
    /// Different, which is neither good nor bad by itself.
    Differs,
    /// One value was not measured, or the two say different things.
    NotCompared,
}

/// A row of the comparison.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub(super) key: String,
    pub(super) name: String,
    pub(super) unit: Unit,
    /// Confidence that the numbers belong to the jobs; absent for numbers without grades.
    pub(super) grade: Option<Grade>,
    /// Values of both runs; absent: not measured.
    pub(super) a: Option<f64>,
    pub(super) b: Option<f64>,
    /// Relative change from the first to the second; absent if not compared, or if the first is zero.
    pub(super) change: Option<f64>,
    pub(super) verdict: Verdict,
}

/// A value as it is shown and compared, and the events behind it.
#[derive(Clone, Copy)]
struct Value {
    shown: f64,
    of: usize,
    count: Option<Count>,
}

/// Events, and the port-hours in which they were counted; above zero.
#[derive(Clone, Copy)]
struct Count {
    events: f64,
    exposure: f64,
}

/// All rows that at least one run measured. Numbers of different grades are never compared with each other.
pub(super) fn rows(a: &Report, b: &Report) -> Vec<Row> {
    let mut rows: Vec<Row> = QUANTITIES.iter().flat_map(|quantity| of_quantity(quantity, a, b)).collect();
    let tcp = [a, b].map(|report| report.transport.tcp_share);
    if tcp.iter().any(Option::is_some) {
        let value = |share: Option<f64>| share.map(|shown| Value { shown, of: 1, count: None });
        let [x, y] = tcp.map(value);
        let (change, verdict) = compare(x, y, Unit::Ratio, Worse::More);
        let (key, name) = ("tcp_share".to_owned(), "TCP, share of all bytes".to_owned());
        rows.push(Row { key, name, unit: Unit::Ratio, grade: None, a: tcp[0], b: tcp[1], change, verdict });
    }
    rows.extend(operations(a, b));
    rows
}

/// Operations of collectives that are compared: those of the first run with the most time.
const OPERATIONS: usize = 4;

/// Bus bandwidth of operations that both runs have, which does not depend on the number of ranks; the mean time where no bus
/// bandwidth is known and as many hosts took part.
fn operations(a: &Report, b: &Report) -> Vec<Row> {
    let value = |value: Option<f64>| value.map(|shown| Value { shown, of: 1, count: None });
    let of_operation = |one: &Operation| {
        let other = b.collectives.operations.iter().find(|o| (&o.operation, &o.size) == (&one.operation, &one.size))?;
        let name = format!("{} from {}", one.operation, one.size);
        let bandwidths = [one.bandwidth, other.bandwidth].map(value);
        if let [Some(_), Some(_)] = bandwidths {
            let (key, name) = (format!("bus_bandwidth:{name}"), format!("bus bandwidth of {name}"));
            return row(key, name, Unit::BytesPerSecond, None, bandwidths, Worse::Less);
        }
        let times = [one.mean_seconds, other.mean_seconds].map(value);
        let (key, name) = (format!("operation_time:{name}"), format!("mean time of {name}"));
        row(key, name, Unit::Seconds, None, times, Worse::More).filter(|_| a.job.hosts == b.job.hosts)
    };
    a.collectives.operations.iter().filter_map(of_operation).take(OPERATIONS).collect()
}

/// Rates of a port by rail; rails of one run alone are listed, too.
pub(super) fn rails(a: &Report, b: &Report) -> Vec<Row> {
    let mut names: Vec<&str> = [a, b].iter().flat_map(|r| &r.traffic.rails).map(|rail| rail.rail.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let rows = names.into_iter().flat_map(|name| {
        GRADES.into_iter().filter_map(move |grade| {
            let value = |report: &Report| {
                let rail = report.traffic.rails.iter().find(|rail| rail.rail == name)?;
                let Measured { value, of } = rail.transmitted.at(grade)?;
                Some(Value { shown: per(value, of as f64 * report.seconds())?, of, count: None })
            };
            let values = [value(a), value(b)];
            let key = format!("rail_rate:{name}");
            row(key, format!("rate of a port of rail {name}"), Unit::BytesPerSecond, Some(grade), values, Worse::Less)
        })
    });
    rows.collect()
}

fn of_quantity(quantity: &Quantity, a: &Report, b: &Report) -> Vec<Row> {
    let Quantity { key, name, unit, read, basis, worse } = quantity;
    let both_ended = a.has_ended() && b.has_ended();
    let of_grade = |grade: Grade| {
        let values = [a, b].map(|report| read(report).at(grade).and_then(|part| value(part, *basis, report)));
        let mut row = row((*key).to_owned(), (*name).to_owned(), *unit, Some(grade), values, *worse)?;
        let of = values.map(|value| value.map(|value| value.of));
        let is_compared = match basis {
            Basis::Shown => false,
            Basis::Total => both_ended && of[0] == of[1],
            _ => true,
        };
        if !is_compared {
            (row.change, row.verdict) = (None, Verdict::NotCompared);
        }
        Some(row)
    };
    GRADES.into_iter().filter_map(of_grade).collect()
}

fn value(Measured { value, of }: Measured, basis: Basis, report: &Report) -> Option<Value> {
    let exposure = of as f64 * report.seconds() / 3600.0;
    let shown = match basis {
        Basis::Shown | Basis::Total | Basis::Share => Some(value),
        Basis::EachPort => per(value, of as f64),
        Basis::EachPortHour => per(value, exposure),
    };
    let count = (basis == Basis::EachPortHour).then_some(Count { events: value, exposure });
    Some(Value { shown: shown?, of, count })
}

fn per(value: f64, by: f64) -> Option<f64> {
    (by > 0.0).then(|| value / by)
}

/// A row, if one of the values was measured.
fn row(
    key: String,
    name: String,
    unit: Unit,
    grade: Option<Grade>,
    values: [Option<Value>; 2],
    worse: Worse,
) -> Option<Row> {
    let [a, b] = values.map(|value| value.map(|value| value.shown));
    a.or(b)?;
    let (change, verdict) = compare(values[0], values[1], unit, worse);
    Some(Row { key, name, unit, grade, a, b, change, verdict })
}

fn compare(a: Option<Value>, b: Option<Value>, unit: Unit, worse: Worse) -> (Option<f64>, Verdict) {
    let (Some(a), Some(b)) = (a, b) else { return (None, Verdict::NotCompared) };
    let change = (a.shown != 0.0).then(|| (b.shown - a.shown) / a.shown.abs());
    let change = if a.shown == b.shown { Some(0.0) } else { change };
    if !differs(a, b, unit) {
        return (change, Verdict::Alike);
    }
    let is_more = b.shown > a.shown;
    let verdict = match worse {
        Worse::Neither => Verdict::Differs,
        Worse::More if is_more => Verdict::Worse,
        Worse::Less if !is_more => Verdict::Worse,
        _ => Verdict::Better,
    };
    (change, verdict)
}

/// Whether two values differ beyond noise.
fn differs(a: Value, b: Value, unit: Unit) -> bool {
    let difference = (b.shown - a.shown).abs();
    let noise = NOISE * a.shown.abs().max(b.shown.abs());
    if difference <= noise || (unit == Unit::Ratio && difference <= SHARE_NOISE) {
        return false;
    }
    match (a.count, b.count) {
        (Some(a), Some(b)) => count_differs(a, b),
        _ => true,
    }
}

/// Whether the rates of two counts differ by more than independent events would by chance: a few packets in one run and none in the
/// other say nothing.
fn count_differs(a: Count, b: Count) -> bool {
    let pooled = (a.events + b.events) / (a.exposure + b.exposure);
    let deviation = (pooled * (1.0 / a.exposure + 1.0 / b.exposure)).sqrt();
    let difference = (a.events / a.exposure - b.events / b.exposure).abs();
    a.events.max(b.events) > COUNT_EVENTS && difference > COUNT_SIGMAS * deviation
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(shown: f64, count: Option<Count>) -> Value {
        Value { shown, of: 1, count }
    }

    #[test]
    fn small_differences_are_noise() {
        for (a, b, unit, expected) in [
            (100.0, 104.0, Unit::BytesPerSecond, false),
            (100.0, 106.0, Unit::BytesPerSecond, true),
            (0.0, 0.004, Unit::Ratio, false),
            (0.0, 0.006, Unit::Ratio, true),
            (0.50, 0.52, Unit::Ratio, false),
        ] {
            assert_eq!(differs(of(a, None), of(b, None), unit), expected, "{a} {b}");
        }
    }

    #[test]
    fn few_events_are_chance() {
        // Events of both runs, and hours times ports of each.
        for (events, exposure, expected) in [
            ([0.0, 3.0], [1.0, 1.0], false),
            ([0.0, 50.0], [1.0, 1.0], true),
            ([1000.0, 1060.0], [1.0, 1.0], false),
            ([1000.0, 1300.0], [1.0, 1.0], true),
            ([1000.0, 10_000.0], [1.0, 10.0], false),
            ([1000.0, 1000.0], [1.0, 10.0], true),
            ([0.0, 50.0], [1.0, 1000.0], false),
        ] {
            let count = |n: usize| Count { events: events[n], exposure: exposure[n] };
            let value = |n: usize| of(events[n] / exposure[n], Some(count(n)));
            assert_eq!(differs(value(0), value(1), Unit::CountPerHour), expected, "{events:?} {exposure:?}");
        }
    }
}

//! The tables of the section about collectives.

use super::tables::{Table, fact, text};
use super::words::{self, NONE};
use crate::model::{Collectives, Unit};

/// Ranks that held others back.
pub(super) fn stragglers(collectives: &Collectives) -> Table {
    let rows = collectives.stragglers.iter().map(|s| {
        let host = if s.host.is_empty() { NONE } else { &s.host };
        let since = words::clock(s.start_ns, true);
        vec![text(host), text(&s.rank), text(since), fact(words::duration(s.seconds)), text(&s.text)]
    });
    Table::new(&["Host", "Rank", "From", "For", "It"], rows.collect())
}

/// Slow and failed work requests.
pub(super) fn work_requests(collectives: &Collectives) -> Table {
    let rows = collectives.work_requests.iter().map(|w| {
        let to = if w.to.is_empty() { NONE } else { &w.to };
        let numbers = if w.remote.is_empty() { w.local.clone() } else { format!("{} to {}", w.local, w.remote) };
        vec![text(&w.kind), text(&w.from), text(to), text(numbers), text(&w.text)]
    });
    let mut table = Table::new(&["Work requests", "From", "To", "Queue pair", "Port"], rows.collect());
    table.note = (!table.rows.is_empty()).then(|| {
        "By the log of the job, the last ones of each host; what the port counted is of the whole job.".to_owned()
    });
    table
}

/// Operations by kind and class of message size.
pub(super) fn operations(collectives: &Collectives) -> Table {
    let value = |v: Option<f64>, unit| fact(v.map_or(NONE.to_owned(), |v| words::value(v, unit)));
    let rows = collectives.operations.iter().map(|o| {
        let size = if o.size == "0" { "less".to_owned() } else { format!("from {}", o.size) };
        vec![
            text(&o.operation),
            text(size),
            value(Some(o.executions), Unit::Count),
            fact(words::percent(o.share)),
            value(Some(o.mean_seconds), Unit::Seconds),
            value(o.bandwidth, Unit::BytesPerSecond),
            value(o.wait_seconds, Unit::Seconds),
        ]
    });
    let heads =
        ["Operation", "Message", "Completed", "Of all time in them", "Mean time", "Bus bandwidth", "Wait for the last"];
    let mut table = Table::new(&heads, rows.collect());
    let share = collectives.share.map_or(String::new(), |share| {
        format!("Each rank spent {} of the job's time in them, added up over communicators. ", words::percent(share))
    });
    table.note = (!table.rows.is_empty()).then(|| {
        format!(
            "{share}By files of NCCL's Inspector; each rank's operations count. The mean time includes the wait for the last rank; \
             the wait is for the last rank of the same host."
        )
    });
    table
}

/// Communicators.
pub(super) fn communicators(collectives: &Collectives) -> Table {
    let rows = collectives.communicators.iter().map(|c| {
        let version = if c.library_version.is_empty() { NONE } else { &c.library_version };
        let launched = c.launched.map_or(NONE.to_owned(), |n| words::value(n, Unit::Count));
        let idle = c.idle_seconds.map_or(NONE.to_owned(), words::duration);
        vec![text(&c.id), fact(c.size), text(version), fact(launched), fact(idle)]
    });
    Table::new(&["Communicator", "Ranks", "Library", "Launched", "Longest rest"], rows.collect())
}

/// The main operation's bus bandwidth beside the line rate, as a sentence; empty if unknown.
pub(super) fn bandwidth(collectives: &Collectives) -> String {
    let Some(b) = &collectives.bandwidth else { return String::new() };
    let rate = |bytes: f64| words::value(bytes, Unit::BytesPerSecond);
    let usual = b.usual.map_or(String::new(), |usual| match b.line_rate {
        Some(line) => format!(": usually {}, which is {} of the line rate", rate(usual), words::percent(usual / line)),
        None => format!(": usually {}", rate(usual)),
    });
    let slowed =
        b.slowed.map_or(String::new(), |slowed| format!("; {} while the network held the job back", rate(slowed)));
    format!("Bus bandwidth of {} from {}{usual}{slowed}.", b.operation, b.size)
}

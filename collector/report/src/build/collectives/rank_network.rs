//! What the counters of a host's ports say of a time in which one of its ranks held others back.

use crate::build::ReportContext;
use crate::build::congestion::{held, wait_share};
use crate::build::ports::{Counter, Port};
use crate::build::ranks::UsedPorts;
use crate::build::traffic::median;
use crate::model::{Method, RankNetwork};
use crate::render::words::percent;

/// A sign of trouble.
struct Sign {
    counter: Counter,
    /// Whether its value is a fraction of the time; otherwise a number of events.
    is_share: bool,
    /// Value from which it counts.
    least: f64,
    words: fn(f64) -> String,
}

const fn share(counter: Counter, least: f64, words: fn(f64) -> String) -> Sign {
    Sign { counter, is_share: true, least, words }
}

const fn events(counter: Counter, least: f64, words: fn(f64) -> String) -> Sign {
    Sign { counter, is_share: false, least, words }
}

/// Causes before effects: a port that pauses its switch is often paused too.
const SIGNS: [Sign; 7] = [
    share(Counter::Pausing, 0.01, |share| format!("paused its switch for {} of that time", percent(share))),
    events(Counter::Downs, 1.0, |n| format!("went down {n:.0} times")),
    events(Counter::LinkErrors, 10.0, |n| format!("counted {n:.0} link errors")),
    share(Counter::Paused, 0.02, |share| format!("was paused for {} of that time", percent(share))),
    share(Counter::Wait, 0.02, |share| format!("waited for credits for {} of that time", percent(share))),
    events(Counter::Timeouts, 1.0, |n| format!("counted {n:.0} expired retransmission timers")),
    events(Counter::Retransmits, 100.0, |n| format!("counted {n:.0} lost packets")),
];
/// Multiple of the median of the other hosts' ports from which a port stands out.
const BEYOND: f64 = 3.0;

/// The verdict and its words, for a time in Unix ms. If the ports that the rank uses are unknown, all of its host count.
pub(super) fn rank_network(
    context: &ReportContext<'_>,
    host: &str,
    uses: &UsedPorts,
    time: (i64, i64),
) -> (RankNetwork, String) {
    let (own, others): (Vec<&Port>, Vec<&Port>) = context.ports.iter().partition(|port| port.host == host);
    let (start_ms, end_ms) = time;
    let edges = context.source.edges();
    let within = |n: &usize| edges[*n] < end_ms && start_ms < edges[n + 1];
    let steps: Vec<usize> = (0..context.steps.len()).filter(within).collect();
    let value = |port: &Port, sign: &Sign| value(context, port, sign, &steps);
    if !own.iter().any(|port| SIGNS.iter().any(|sign| value(port, sign).is_some())) {
        let text = match host {
            "" => "it is not known on which host it ran".to_owned(),
            _ => format!("the ports of {host} were not read in that time"),
        };
        return (RankNetwork::Unknown, text);
    }
    let usual =
        |sign: &Sign| median(&others.iter().filter_map(|port| value(port, sign)).collect::<Vec<_>>()).unwrap_or(0.0);
    let (mut like_others, mut elsewhere) = (None, None);
    for sign in &SIGNS {
        let most = own.iter().filter_map(|port| Some((value(port, sign)?, *port)));
        let most = most.filter(|(value, _)| *value >= sign.least);
        // A port that the rank uses before another one that stands out more.
        let most = most.max_by(|a, b| uses.has(a.1).cmp(&uses.has(b.1)).then(a.0.total_cmp(&b.0)));
        let Some((most, port)) = most else { continue };
        let text = format!("{} {}", port.name(), (sign.words)(most));
        let stands_out = most > BEYOND * usual(sign);
        if stands_out && (uses.are_unknown() || uses.has(port)) {
            let shows = |other: &Port| SIGNS.iter().any(|sign| value(other, sign).is_some_and(|v| v >= sign.least));
            let alone = !context.ports.iter().any(|other| !std::ptr::eq(other, port) && shows(other));
            let rest = if alone { ", and nothing else of the job was held back" } else { "" };
            return (RankNetwork::Troubled, format!("{text}{rest}"));
        }
        if stands_out {
            // Of a port only the first queue pairs are listed, so this acquits nothing.
            elsewhere.get_or_insert(text);
            continue;
        }
        like_others.get_or_insert(text);
    }
    if let Some(text) = elsewhere {
        let text = format!("{text}, but the queue pairs of its process that are listed are on other ports");
        return (RankNetwork::Unknown, text);
    }
    match like_others {
        Some(text) => (RankNetwork::LikeOthers, format!("{text}, as ports of the job's other hosts were")),
        None => (RankNetwork::Clean, format!("no port of {host} was held back or lost packets in that time")),
    }
}

/// Value of a sign in some steps: a fraction of the measured part of them, or a number of events. Counters that were read at
/// checkpoints say it for the whole job only. `None`: not measured.
fn value(context: &ReportContext<'_>, port: &Port, sign: &Sign, steps: &[usize]) -> Option<f64> {
    let counter = sign.counter;
    if context.source.method == Method::Checkpoints {
        return match counter {
            Counter::Wait => wait_share(context, port),
            _ if sign.is_share => Some((port.total(counter)? / context.source.seconds()).min(1.0)),
            _ => port.total(counter),
        };
    }
    let in_step = |n: usize| match sign.is_share {
        true => held(context, port, counter, n).map(|share| share * context.steps[n]),
        false => port.step(counter, n),
    };
    let (mut sum, mut seconds) = (0.0, 0.0);
    for n in steps.iter().copied() {
        let Some(value) = in_step(n) else { continue };
        (sum, seconds) = (sum + value, seconds + context.steps[n]);
    }
    (seconds > 0.0).then_some(if sign.is_share { sum / seconds } else { sum })
}

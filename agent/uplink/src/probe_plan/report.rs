//! Task that reports paths and results to the active collector of one uplink.

use super::ask::UNSUPPORTED;
use super::plans::{Finding, PairFinding, ProbePlans};
use crate::Uplink;
use crate::ring::Reader;
use crate::targets::Targets;
use fabriclens_probe_plan::{REPORT, REPORT_EVERY, RESULTS, ReportReply, ReportRequest, ReportedPair, TARGETS};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::watch;
use tonic::{Code, Status};

/// Timeout of one report.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Longest pause after reports that failed.
const LONGEST: Duration = Duration::from_secs(30);

/// Task that reports every [`REPORT_EVERY`] what was found. A report that fails is sent again, with a longer pause.
#[derive(Debug)]
pub struct ReportTask {
    plans: Arc<ProbePlans>,
    targets: Targets,
    reader: Reader<PairFinding>,
    /// Taken from the queue and not yet reported; at most [`RESULTS`].
    pending: VecDeque<PairFinding>,
    /// Dropped so far by this task.
    dropped: u64,
    /// Drops that the collector knows of.
    told: u64,
    pause: Duration,
}

impl ReportTask {
    /// One task for each uplink.
    pub fn of(plans: &Arc<ProbePlans>, uplinks: &[Uplink]) -> Vec<Self> {
        let task = |(number, uplink): (usize, &Uplink)| Self {
            plans: Arc::clone(plans),
            targets: uplink.live.targets.share(),
            reader: plans.reader(number),
            pending: VecDeque::new(),
            dropped: 0,
            told: 0,
            pause: REPORT_EVERY,
        };
        uplinks.iter().enumerate().map(task).collect()
    }

    /// Reports until `stop` turns true. What waits then is lost: it is of no use to the agent's next start.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let forever = async {
            loop {
                tokio::time::sleep(self.pause).await;
                self.report().await;
            }
        };
        tokio::select! {
            () = forever => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
    }

    /// Sends one report, if something was found.
    async fn report(&mut self) {
        let room = RESULTS.saturating_sub(self.pending.len());
        self.pending.extend(self.reader.take(room));
        if self.pending.is_empty() {
            self.pause = REPORT_EVERY;
            return;
        }
        let (mut request, count) = request(&self.pending);
        (request.host, request.agent) = self.plans.sender();
        let dropped = self.dropped + self.reader.account().dropped;
        request.dropped = dropped - self.told;
        let collector = self.targets.current();
        let reply = collector.unary::<ReportReply>(REPORT, &request, TIMEOUT).await;
        let url = collector.url().to_owned();
        let totals = &self.plans.totals;
        match reply {
            Ok(reply) => {
                totals.reports.fetch_add(1, Ordering::Relaxed);
                totals.refused.fetch_add(u64::from(reply.refused), Ordering::Relaxed);
                if reply.refused > 0 {
                    let (refused, why) = (reply.refused, reply.why);
                    tracing::debug!(collector = url, refused, why, "collector refused paths or results");
                }
                self.pending.drain(..count);
                self.told = dropped;
                self.pause = REPORT_EVERY;
            }
            Err(status) => self.failed(&url, &status, count),
        }
    }

    fn failed(&mut self, collector: &str, status: &Status, count: usize) {
        self.plans.totals.failed_reports.fetch_add(1, Ordering::Relaxed);
        // Logged when it begins: the health endpoint tells how long it lasts.
        if self.pause == REPORT_EVERY {
            let error = crate::response::text(status);
            tracing::warn!(collector, error, "paths and probe results cannot be reported; trying again");
        }
        let is_final = matches!(status.code(), Code::InvalidArgument | Code::Unimplemented);
        if is_final {
            self.pending.drain(..count);
            self.dropped += count as u64;
            self.plans.totals.dropped.fetch_add(count as u64, Ordering::Relaxed);
        }
        self.pause = match status.code() {
            Code::Unimplemented => UNSUPPORTED,
            _ => (self.pause * 2).min(LONGEST),
        };
    }
}

/// A report of the first findings, as many as its pairs allow, and their number.
fn request(findings: &VecDeque<PairFinding>) -> (ReportRequest, usize) {
    let mut positions: HashMap<&ReportedPair, u32> = HashMap::new();
    let mut request = ReportRequest::default();
    let mut count = 0;
    for PairFinding { pair, finding } in findings {
        let position = match positions.get(&**pair) {
            Some(position) => *position,
            None if request.pairs.len() >= TARGETS => break,
            None => {
                let position = u32::try_from(request.pairs.len()).unwrap_or(u32::MAX);
                request.pairs.push((**pair).clone());
                positions.insert(pair, position);
                position
            }
        };
        match finding.clone() {
            Finding::Path(mut path) => {
                path.pair = position;
                request.paths.push(path);
            }
            Finding::Probe(mut probe) => {
                probe.pair = position;
                request.probes.push(probe);
            }
        }
        count += 1;
    }
    (request, count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabriclens_probe_plan::{ProbeResult, TracedPath};

    fn finding(pair: &str, finding: Finding) -> PairFinding {
        let pair = ReportedPair { from: "rxe0/1".into(), host: pair.to_owned(), port: "rxe0/1".into() };
        PairFinding { pair: Arc::new(pair), finding }
    }

    #[test]
    fn a_report_names_each_pair_once() {
        let probe = |sent_ns| Finding::Probe(ProbeResult { sent_ns, ..ProbeResult::default() });
        let path = Finding::Path(TracedPath { source_port: 50_000, ..TracedPath::default() });
        let found = [finding("b", probe(1)), finding("c", path), finding("b", probe(2))];
        let (mut report, count) = request(&VecDeque::from(found));
        report.host = "a".to_owned();
        assert_eq!((count, report.pairs.len(), report.paths[0].pair), (3, 2, 1));
        assert_eq!(report.probes.iter().map(|probe| (probe.pair, probe.sent_ns)).collect::<Vec<_>>(), [(0, 1), (0, 2)]);
        assert!(report.check().is_ok());
    }

    #[test]
    fn findings_of_too_many_pairs_wait_for_the_next_report() {
        let probe = || Finding::Probe(ProbeResult::default());
        let found: VecDeque<_> = (0..TARGETS + 5).map(|n| finding(&format!("h{n}"), probe())).collect();
        let (mut report, count) = request(&found);
        report.host = "a".to_owned();
        assert_eq!(count, TARGETS);
        assert!(report.check().is_ok());
    }
}

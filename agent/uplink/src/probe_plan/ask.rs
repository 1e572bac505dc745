//! Task that asks for the plan.

use super::plans::{PlanState, ProbePlans};
use crate::Uplink;
use crate::targets::Targets;
use fabriclens_probe_plan::{ASK_EVERY, PLAN, PlanReply, PlanRequest};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tonic::Code;

/// Timeout of one collector; several in a row fit into a plan.
const TIMEOUT: Duration = Duration::from_secs(3);
/// Interval at which a receiver that does not know plans is asked again: it may be a collector before its upgrade.
pub(super) const UNSUPPORTED: Duration = Duration::from_secs(60);
/// Shortest pause between two requests.
const PAUSE: Duration = Duration::from_millis(500);

/// Task that asks the collectors for the plan, every [`ASK_EVERY`] and soon after the ports have changed.
#[derive(Debug)]
pub struct PlanTask {
    plans: Arc<ProbePlans>,
    /// Collectors of each uplink.
    uplinks: Vec<Asked>,
    /// Whether a collector knows of ports of this host.
    told: bool,
}

/// An uplink's collectors.
#[derive(Debug)]
struct Asked {
    targets: Targets,
    /// When the active collector, which does not know plans, is asked again.
    not_before: Instant,
}

impl PlanTask {
    /// Asks over the connections of these uplinks.
    pub fn new(plans: &Arc<ProbePlans>, uplinks: &[Uplink]) -> Self {
        let not_before = Instant::now();
        let uplinks = uplinks.iter().map(|uplink| Asked { targets: uplink.live.targets.share(), not_before });
        Self { plans: Arc::clone(plans), uplinks: uplinks.collect(), told: false }
    }

    /// Asks until `stop` turns true.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) {
        tokio::select! {
            () = self.ask_forever() => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
    }

    async fn ask_forever(&mut self) {
        loop {
            let (request, sent) = (self.plans.request(), Instant::now());
            let has_ports = !request.ports.is_empty();
            // A host whose last port is gone tells so once.
            if has_ports || self.told {
                self.told = has_ports;
                self.ask(&request, sent).await;
                tokio::time::sleep(PAUSE).await;
            }
            let pause = ASK_EVERY.saturating_sub(sent.elapsed());
            _ = tokio::time::timeout(pause, self.plans.changed.notified()).await;
        }
    }

    /// Asks the active collector of one uplink after the other, until one answers.
    async fn ask(&mut self, request: &PlanRequest, sent: Instant) {
        let totals = &self.plans.totals;
        let mut failure = None;
        for uplink in &mut self.uplinks {
            if sent < uplink.not_before {
                continue;
            }
            let collector = uplink.targets.current();
            let reply = collector.unary::<PlanReply>(PLAN, request, TIMEOUT).await;
            let why = match reply.map(|reply| reply.check().map(|()| reply)) {
                Ok(Ok(reply)) => {
                    totals.plans.fetch_add(1, Ordering::Relaxed);
                    self.plans.take(reply, collector.url(), sent);
                    return;
                }
                Ok(Err(malformed)) => format!("{}: refused a plan with {malformed}", collector.url()),
                Err(status) if status.code() == Code::Unimplemented => {
                    uplink.not_before = sent + UNSUPPORTED;
                    continue;
                }
                Err(status) => format!("{}: {}", collector.url(), crate::response::text(&status)),
            };
            totals.failed_plans.fetch_add(1, Ordering::Relaxed);
            failure = failure.or(Some(why));
        }
        match failure {
            Some(why) => {
                if self.plans.set_state(PlanState::Failed(why.clone())) {
                    tracing::warn!(why, "no probe plan; tracing and probing go on until the last plan ends");
                }
            }
            None => {
                if self.plans.set_state(PlanState::Unsupported) {
                    tracing::warn!(
                        "the receiver makes no probe plans, so nothing is traced or probed; upgrade the collector, or set probes.enabled = false"
                    );
                }
            }
        }
    }
}

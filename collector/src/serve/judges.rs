//! What an ingest collector does every ten seconds: it reports the switches that it hears of to its judges, and learns which judge
//! is active, how the topology names switches, and which jobs are in trouble.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use fabriclens_core::endpoint::{self, Client};
use fabriclens_core::failover_client::FailoverClient;
use fabriclens_core::periodic::{Trigger, periodic};
use fabriclens_core::telemetry::Telemetry;
use fabriclens_ingest::Ingest;
use fabriclens_ingest::judge::{ANSWER_BYTES, COLLECTOR, CollectorReport, JudgeAnswer};
use tokio::sync::watch;

const INTERVAL: Duration = Duration::from_secs(10);

/// Asks all judges until `stop` becomes true.
pub(super) async fn watch(
    judges: Arc<FailoverClient>,
    ingest: Arc<Ingest>,
    telemetry: Telemetry,
    stop: watch::Receiver<bool>,
) {
    let collector = RandomState::new().hash_one(());
    let work = move |trigger| {
        if trigger != Trigger::Stop {
            look(collector, &judges, &ingest, &telemetry);
        }
    };
    periodic(INTERVAL, Arc::default(), stop, "the judge is no longer watched", work).await;
}

fn look(collector: u64, judges: &FailoverClient, ingest: &Ingest, telemetry: &Telemetry) {
    let report = CollectorReport { collector, switches: ingest.switches() };
    // Numbers and texts are always valid JSON.
    let report = serde_json::to_vec(&report).unwrap_or_default();
    let (mut active, mut failed, mut answer) = (Vec::new(), Vec::new(), None);
    for judge in judges.clients() {
        match tell(judge, &report) {
            Ok(found) => {
                active.push(judge.url());
                answer.get_or_insert(found);
            }
            Err(why) => failed.push(format!("{}: {why}", judge.url())),
        }
    }
    if let Some(JudgeAnswer { switch_names, troubled_jobs }) = answer {
        ingest.name_switches_as(switch_names.into_iter());
        telemetry.troubled_jobs.set(&troubled_jobs);
    }
    let before = telemetry.judges.active.get();
    telemetry.judges.active.set(i64::try_from(active.len()).unwrap_or(i64::MAX));
    let remark = match active.len() {
        0 => Some(("no judge answers; samples wait for it".to_owned(), failed.join("; "))),
        1 => None,
        n => Some((
            format!("{n} judges are active, and each judges a part; give them one judge.lease"),
            active.join(", "),
        )),
    };
    if let Some((what, detail)) = remark.as_ref().filter(|_| before != telemetry.judges.active.get()) {
        tracing::warn!(detail, "{what}");
    }
    telemetry.judges.set_remarks(remark.into_iter().collect());
}

/// Reports to a judge.
fn tell(judge: &Client, report: &[u8]) -> Result<JudgeAnswer, String> {
    let request = judge.post(&format!("{}{COLLECTOR}", judge.url())).map_err(|e| e.to_string())?;
    let mut response = request.content_type("application/json").send(report).map_err(|e| e.to_string())?;
    if !response.status().is_success() {
        return Err(endpoint::error_text(&mut response));
    }
    let limited = response.body_mut().with_config().limit(ANSWER_BYTES);
    let answer = limited.read_to_vec().map_err(|e| e.to_string())?;
    serde_json::from_slice(&answer).map_err(|e| format!("its answer is not understood: {e}"))
}

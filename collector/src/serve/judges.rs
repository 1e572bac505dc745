//! What an ingest collector asks its judges every ten seconds: which of them is active, and how the topology names switches.

use std::sync::Arc;
use std::time::Duration;

use fabriclens_core::endpoint::{self, Client};
use fabriclens_core::failover_client::FailoverClient;
use fabriclens_core::periodic::{Trigger, periodic};
use fabriclens_core::telemetry::Telemetry;
use fabriclens_ingest::Ingest;
use fabriclens_ingest::judge::SWITCH_NAMES;
use tokio::sync::watch;

const INTERVAL: Duration = Duration::from_secs(10);
/// Longest list of names, bytes.
const NAMES: u64 = 4 << 20;

/// Asks all judges until `stop` becomes true.
pub(super) async fn watch(
    judges: Arc<FailoverClient>,
    ingest: Arc<Ingest>,
    telemetry: Telemetry,
    stop: watch::Receiver<bool>,
) {
    let work = move |trigger| {
        if trigger != Trigger::Stop {
            look(&judges, &ingest, &telemetry);
        }
    };
    periodic(INTERVAL, Arc::default(), stop, "the judge is no longer watched", work).await;
}

fn look(judges: &FailoverClient, ingest: &Ingest, telemetry: &Telemetry) {
    let (mut active, mut failed, mut names) = (Vec::new(), Vec::new(), None);
    for judge in judges.clients() {
        match switch_names(judge) {
            Ok(found) => {
                active.push(judge.url());
                names.get_or_insert(found);
            }
            Err(why) => failed.push(format!("{}: {why}", judge.url())),
        }
    }
    if let Some(names) = names {
        ingest.name_switches_as(names.lines().map(str::to_owned));
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

fn switch_names(judge: &Client) -> Result<String, String> {
    let request = judge.get(&format!("{}{SWITCH_NAMES}", judge.url())).map_err(|e| e.to_string())?;
    let mut response = request.call().map_err(|e| e.to_string())?;
    if !response.status().is_success() {
        return Err(endpoint::error_text(&mut response));
    }
    response.body_mut().with_config().limit(NAMES).read_to_string().map_err(|e| e.to_string())
}

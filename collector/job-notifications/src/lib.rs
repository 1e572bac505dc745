//! Messages about ended jobs: the report in three sentences and its link, to webhooks and programs.
//!
//! There is no queue. Each receiver compares the runs that ended within a day with those it was told, which are stored, and sends
//! what is missing. So an outage ends with one message for each job, and a restart repeats none.

#![forbid(unsafe_code)]

mod message;
mod notifier;
mod program;
mod shared;
mod told;
mod webhook;

use std::sync::Arc;

use fabriclens_config::{Config, JobNotificationTarget};
use fabriclens_core::endpoint::FileError;
use fabriclens_core::telemetry::Telemetry;
use fabriclens_core::time::now_ns;
use fabriclens_job_sources::Jobs;
use fabriclens_store::Store;
use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;

use notifier::{Notifier, Target};
use program::Program;
use shared::Shared;
pub use shared::{Digest, DigestAnswer, ReadDigest};
use told::Told;
use webhook::Webhook;

/// Tells all configured receivers until `stop` becomes true.
///
/// # Errors
/// [`FileError`]; then no receiver is told.
pub fn start(
    config: &Config,
    store: &Store,
    jobs: &Arc<Jobs>,
    telemetry: &Telemetry,
    read: ReadDigest,
    stop: &watch::Receiver<bool>,
) -> Result<Vec<JoinHandle<()>>, FileError> {
    let shared = Shared {
        jobs: jobs.clone(),
        read: Arc::new(Mutex::new(read)),
        telemetry: telemetry.clone(),
        base: config.external_url.clone().unwrap_or_else(|| format!("http://{}", config.listen.http)),
        stop: stop.clone(),
    };
    let mut notifiers = Vec::new();
    for receiver in &config.job_notification {
        let target = match &receiver.target {
            JobNotificationTarget::Webhook { endpoint, url } => {
                Target::Webhook(Webhook::new(endpoint, url.clone(), receiver.template.clone(), telemetry)?)
            }
            JobNotificationTarget::Program { path, timeout } => {
                Target::Program(Program { path: path.clone(), timeout: *timeout, template: receiver.template.clone() })
            }
        };
        let told = Told::open(store, &receiver.name, now_ns());
        notifiers.push(Notifier::new(receiver.clone(), target, told, shared.clone()));
    }
    Ok(notifiers.into_iter().map(|notifier| tokio::spawn(notifier.run())).collect())
}

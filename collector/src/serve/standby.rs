//! Start of a judge that has a lease: it waits as a standby, takes over, and opens the data directory.

use std::sync::Arc;
use std::time::Duration;

use fabriclens_config::{Config, ServeRole};
use fabriclens_core::judge_lease::{JudgeLease, LeaseState, Timing};
use fabriclens_core::telemetry::Telemetry;
use fabriclens_server::startup_listener::NotReady;
use fabriclens_store::{OpenError, Store};

use super::data_dir::open;
use super::error::ServeError;

/// Interval at which a judge tries to open a data directory that its predecessor has not left yet.
const REOPEN: Duration = Duration::from_millis(250);

/// Waits for the lease of a judge; `None` if none is configured.
///
/// # Errors
/// [`ServeError::Lease`] if the lease cannot be used.
pub(super) async fn wait(
    config: &Config,
    telemetry: &Telemetry,
    not_ready: &NotReady,
) -> Result<Option<JudgeLease>, ServeError> {
    let Some(path) = config.judge.lease.as_ref().filter(|_| config.role == ServeRole::Judge) else {
        return Ok(None);
    };
    let name = judge_name(config);
    let lease = JudgeLease::start(path, &name, &config.data, Timing::default());
    let lease = lease.map_err(|e| ServeError::Lease(e.to_string()))?;
    let (mut state, mut logged) = (lease.state(), None);
    loop {
        let now = state.borrow_and_update().clone();
        match now {
            LeaseState::Held { epoch } => {
                tracing::info!(name, epoch, lease = %path.display(), "holds the judge's lease");
                telemetry.judges.epoch.set(i64::try_from(epoch).unwrap_or(i64::MAX));
                not_ready.starting();
                return Ok(Some(lease));
            }
            LeaseState::Lost(why) => return Err(ServeError::Lease(why)),
            LeaseState::Standby { of } if of.is_empty() => not_ready.set("standby: no judge holds the lease yet"),
            LeaseState::Standby { of } => {
                not_ready.set(format!("standby of {of}"));
                if logged.as_ref() != Some(&of) {
                    tracing::info!(name, holder = of, lease = %path.display(), "standby");
                    logged = Some(of);
                }
            }
        }
        if state.changed().await.is_err() {
            return Err(ServeError::Lease("the thread of judge.lease ended".to_owned()));
        }
    }
}

/// Opens the data directory. With a lease, waits until the predecessor's lock of it is gone: it is a second fence.
///
/// # Errors
/// [`ServeError`]; with a lease also if that is lost meanwhile.
pub(super) async fn open_data(
    config: &Config,
    memory: u64,
    lease: Option<&JudgeLease>,
    not_ready: &NotReady,
) -> Result<Arc<Store>, ServeError> {
    let Some(lease) = lease else { return open(config, memory).await };
    let mut logged = false;
    let opened = async {
        loop {
            match open(config, memory).await {
                Err(ServeError::Store(error @ OpenError::Locked { .. })) => {
                    if !logged {
                        tracing::warn!(%error, "waits for the data directory of the judge before");
                        logged = true;
                    }
                    not_ready.set("takes over: the judge before still locks the data directory; end its process");
                    tokio::time::sleep(REOPEN).await;
                }
                opened => return opened,
            }
        }
    };
    let store = tokio::select! {
        opened = opened => opened?,
        why = lease.lost() => return Err(ServeError::Lease(why)),
    };
    lease.bind().map_err(|e| ServeError::Lease(format!("cannot write into {}: {e}", config.data.display())))?;
    Ok(store)
}

/// Name of this judge in the lease.
fn judge_name(config: &Config) -> String {
    if config.judge.name.is_empty() {
        return rustix::system::uname().nodename().to_string_lossy().into_owned();
    }
    config.judge.name.clone()
}

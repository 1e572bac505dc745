//! Refuses secret files that every user of the host can read. Runs last; missing files are reported by the code that
//! opens them.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::{Config, ConfigError, Endpoint, JobNotificationTarget, Pods};

/// Files that a kubelet mounts belong to the pod alone, whatever their mode.
const POD: &str = "/var/run/secrets/kubernetes.io/";
/// Parts of header names that carry secrets.
const HEADERS: &[&str] = &["auth", "cookie", "key", "secret", "token"];

/// Checks all secret files; `file` is the configuration itself, which may hold secret headers.
pub(super) fn check(config: &Config, file: Option<&Path>) -> Result<(), ConfigError> {
    let servers: Vec<(&'static str, &Endpoint)> = servers(config).collect();
    let named = servers.iter().flat_map(|(section, e)| {
        [("password_file", &e.password_file), ("bearer_token_file", &e.bearer_token_file)]
            .map(|(key, path)| Some((format!("{section}.{key}"), path.as_deref()?)))
    });
    let token = config.jobs.slurmrestd.as_ref().and_then(|s| s.token_file.as_deref());
    let own = [("tls.key", config.tls.as_ref().map(|t| t.key.as_path())), ("jobs.slurmrestd.token_file", token)];
    let own = own.map(|(key, path)| Some((key.to_owned(), path?)));
    let keys = config.gnmi.iter().filter_map(|t| Some(("key", t.tls.as_ref()?.identity.as_ref()?.1.as_path())));
    let passwords = config.gnmi.iter().filter_map(|t| Some(("password_file", t.login.as_ref()?.1.as_path())));
    let switches = keys.chain(passwords).map(|(key, path)| Some((format!("gnmi.targets.{key}"), path)));
    for (key, path) in own.into_iter().chain(named).chain(switches).flatten() {
        if !path.starts_with(POD) && is_open(path) {
            return Err(ConfigError::Exposed { what: key, path: path.to_owned() });
        }
    }
    let secret = |name: &str| HEADERS.iter().any(|part| name.to_ascii_lowercase().contains(part));
    for (section, server) in servers {
        if let (Some(name), Some(file)) = (server.headers.keys().find(|n| secret(n)), file.filter(|f| is_open(f))) {
            let what = format!("{section}.headers.{name}");
            return Err(ConfigError::Exposed { what, path: file.to_owned() });
        }
    }
    Ok(())
}

/// All configured servers with the section that names them.
fn servers(config: &Config) -> impl Iterator<Item = (&'static str, &Endpoint)> {
    let store = config.store.iter().flat_map(|s| [("store", &s.read), ("store", &s.write.endpoint)]);
    let forward = config.forward.iter().map(|f| ("forward", &f.endpoint));
    let receivers = config.alertmanager.endpoints.iter().map(|e| ("alertmanager", e));
    let receivers = receivers.chain(config.webhook.iter().map(|w| ("webhook", &w.endpoint)));
    let receivers = receivers.chain(config.job_notification.iter().filter_map(|receiver| match &receiver.target {
        JobNotificationTarget::Webhook { endpoint, .. } => Some(("job_notification", endpoint)),
        JobNotificationTarget::Program { .. } => None,
    }));
    let slurm = config.jobs.slurmrestd.iter().map(|s| ("jobs.slurmrestd", &s.endpoint));
    let pods = config.jobs.kubernetes.iter().filter_map(|k| match &k.pods {
        Pods::Url(endpoint) => Some(("jobs.kubernetes", endpoint)),
        Pods::File(_) => None,
    });
    let peers = config.peers.iter().map(|p| ("peers", p));
    let judges = config.judge.endpoints.iter().map(|e| ("judge", e));
    store.chain(forward).chain(peers).chain(judges).chain(receivers).chain(slurm).chain(pods)
}

/// Whether every user of this host can read the file.
fn is_open(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|meta| meta.permissions().mode() & 0o004 != 0)
}

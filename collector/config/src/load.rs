//! Merges file, environment and flags into a checked [`Config`].

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::keys::{Form, KEYS, SERVER_KEYS, TABLE_KEYS};
use super::raw::{RawConfig, RawSwitches};
use super::value::{size, time};
use crate::thresholds;
use fabriclens_base::nearest;
use fabriclens_promql::Version;

use super::{Config, ConfigError, Switches, Tls, auth, gnmi, job_notification, jobs, judge, notify, remote};

/// Command-line flags; `None` leaves file, environment or default in force.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// `--data`
    pub data: Option<String>,
    /// `--role`
    pub role: Option<String>,
    /// `--http`
    pub http: Option<String>,
    /// `--otlp-grpc`
    pub otlp_grpc: Option<String>,
    /// `--otlp-http`
    pub otlp_http: Option<String>,
    /// `--retention`
    pub retention: Option<String>,
}

/// Loads and checks the configuration. `env` is the process environment; unknown `FABRICLENS_` variables are ignored,
/// since the agent uses the same prefix.
///
/// # Errors
/// [`ConfigError`] with file or key and the remedy.
pub fn load(
    file: Option<&Path>,
    env: impl IntoIterator<Item = (String, String)>,
    flags: &Overrides,
) -> Result<Config, ConfigError> {
    let mut table = match file {
        Some(path) => read(path)?,
        None => toml::Table::new(),
    };
    let place = file.map_or_else(|| "config".to_owned(), |p| p.display().to_string());
    apply_environment(&mut table, env)?;
    let mut raw: RawConfig =
        table.try_into().map_err(|e: toml::de::Error| ConfigError::Syntax { place, message: e.to_string() })?;
    let replace = |slot: &mut Option<String>, flag: &Option<String>| {
        if flag.is_some() {
            slot.clone_from(flag);
        }
    };
    replace(&mut raw.data, &flags.data);
    replace(&mut raw.role, &flags.role);
    replace(&mut raw.listen.http, &flags.http);
    replace(&mut raw.listen.otlp_grpc, &flags.otlp_grpc);
    replace(&mut raw.listen.otlp_http, &flags.otlp_http);
    replace(&mut raw.retention.age, &flags.retention);
    let config = check(raw)?;
    super::secrets::check(&config, file)?;
    Ok(config)
}

fn read(path: &Path) -> Result<toml::Table, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
    let place = path.display().to_string();
    // Parsed twice: as a table for the check of its keys, and as a struct, whose errors carry line and column.
    let table: toml::Table = text
        .parse()
        .map_err(|e: toml::de::Error| ConfigError::Syntax { place: place.clone(), message: e.to_string() })?;
    refuse_unknown(&table, &place)?;
    toml::from_str::<RawConfig>(&text)
        .map_err(|e| ConfigError::Syntax { place: place.clone(), message: e.to_string() })?;
    Ok(table)
}

fn refuse_unknown(table: &toml::Table, place: &str) -> Result<(), ConfigError> {
    let all = || KEYS.iter().map(|(k, _)| *k).chain(SERVER_KEYS.iter().chain(TABLE_KEYS).copied());
    let known = |key: &str| all().any(|k| k == key);
    let section = |name: &str| all().any(|k| k.split_once('.').is_some_and(|(s, _)| s == name));
    for (name, value) in table {
        let keys = match value.as_table() {
            Some(inner) if section(name) => inner.keys().map(|k| format!("{name}.{k}")).collect(),
            _ if matches!(name.as_str(), "forward" | "webhook" | "job_notification") => {
                let tables = value.as_array().into_iter().flatten().filter_map(toml::Value::as_table);
                tables.flat_map(|t| t.keys().map(|k| format!("{name}.{k}"))).collect()
            }
            _ => vec![name.clone()],
        };
        if let Some(key) = keys.into_iter().find(|k| !known(k)) {
            let sections = all().filter_map(|k| k.split_once('.').map(|(s, _)| s));
            let hint = nearest(&key, all().chain(sections));
            return Err(ConfigError::UnknownKey { place: place.to_owned(), key, hint });
        }
    }
    Ok(())
}

fn apply_environment(
    table: &mut toml::Table,
    env: impl IntoIterator<Item = (String, String)>,
) -> Result<(), ConfigError> {
    for (name, text) in env {
        let Some((key, form)) = KEYS.iter().find(|(k, _)| name == environment_name(k)) else { continue };
        let bad = |message: &str| ConfigError::Syntax { place: name.clone(), message: format!("{text:?} {message}") };
        let value = match form {
            Form::Text => toml::Value::String(text.clone()),
            Form::Bool => toml::Value::Boolean(text.parse().map_err(|_| bad("is neither true nor false"))?),
            // As a key without a default is shown.
            Form::Integer if text.is_empty() => continue,
            Form::Integer => toml::Value::Integer(text.parse().map_err(|_| bad("is not a whole number"))?),
        };
        match key.split_once('.') {
            None => {
                table.insert((*key).to_owned(), value);
            }
            Some((section, inner)) => {
                let entry = table.entry(section).or_insert_with(|| toml::Value::Table(toml::Table::new()));
                if let Some(section) = entry.as_table_mut() {
                    section.insert(inner.to_owned(), value);
                }
            }
        }
    }
    Ok(())
}

/// Name of the environment variable that overrides a key: `FABRICLENS_LISTEN_OTLP_GRPC` for `listen.otlp_grpc`.
fn environment_name(key: &str) -> String {
    format!("FABRICLENS_{}", key.replace('.', "_").to_uppercase())
}

pub(super) fn check(raw: RawConfig) -> Result<Config, ConfigError> {
    let mut config = Config::default();
    if let Some(data) = raw.data {
        config.data = PathBuf::from(data);
    }
    config.role = judge::role(raw.role)?;
    config.insecure = raw.insecure.unwrap_or(false);
    address(&mut config.listen.http, raw.listen.http, "listen.http")?;
    address(&mut config.listen.otlp_grpc, raw.listen.otlp_grpc, "listen.otlp_grpc")?;
    address(&mut config.listen.otlp_http, raw.listen.otlp_http, "listen.otlp_http")?;
    time(&mut config.self_metrics_interval, raw.self_metrics_interval, "self_metrics_interval")?;
    time(&mut config.retention.age, raw.retention.age, "retention.age")?;
    time(&mut config.retention.rollups, raw.retention.rollups, "retention.rollups")?;
    time(&mut config.retention.jobs, raw.retention.jobs, "retention.jobs")?;
    time(&mut config.retention.incidents, raw.retention.incidents, "retention.incidents")?;
    config.jobs = jobs::check(raw.jobs)?;
    config.thresholds = thresholds::from_tables(&raw.verdicts.thresholds)?;
    time(&mut config.late, raw.verdicts.late, "verdicts.late")?;
    config.switches = switches(raw.switches)?;
    config.topology = raw.topology.files.into_iter().map(PathBuf::from).collect();
    config.baselines = raw.audit.baselines.into_iter().map(PathBuf::from).collect();
    let rate = |slot: &mut u32, raw: Option<u32>| *slot = raw.unwrap_or(*slot);
    rate(&mut config.probes.per_port, raw.probes.per_port);
    rate(&mut config.probes.per_host, raw.probes.per_host);
    rate(&mut config.probes.per_fabric, raw.probes.per_fabric);
    rate(&mut config.probes.traces_per_leaf, raw.probes.traces_per_leaf);
    if let Some(class) = raw.probes.traffic_class {
        config.probes.traffic_class = Some(u8::try_from(class).map_err(|_| ConfigError::Value {
            key: "probes.traffic_class",
            message: format!("{class} is not from 0 to 255; write the DSCP times 4"),
        })?);
    }
    if let Some(level) = raw.probes.service_level {
        let valid = u8::try_from(level).ok().filter(|level| *level <= 15);
        config.probes.service_level = Some(valid.ok_or_else(|| ConfigError::Value {
            key: "probes.service_level",
            message: format!("{level} is not from 0 to 15; write the service level of the jobs"),
        })?);
    }
    config.probes.paths = raw.probes.paths.map_or(config.probes.paths, |n| n as usize);
    time(&mut config.ingest.future, raw.ingest.future, "ingest.future")?;
    time(&mut config.query.timeout, raw.query.timeout, "query.timeout")?;
    time(&mut config.query.lookback, raw.query.lookback, "query.lookback")?;
    if let Some(text) = raw.query.promql {
        config.query.promql = Version::named(&text).ok_or_else(|| ConfigError::Value {
            key: "query.promql",
            message: format!("{text:?} is not a version; write \"3.x\" or \"2.x\""),
        })?;
    }
    config.memory = raw.limits.memory.map(|t| size(&t, "limits.memory")).transpose()?;
    config.retention.size = raw.retention.size.map(|t| size(&t, "retention.size")).transpose()?;
    if let Some(text) = raw.ingest.message_size {
        config.ingest.message_size = usize::try_from(size(&text, "ingest.message_size")?).unwrap_or(usize::MAX);
    }
    config.ingest.in_flight = raw.ingest.in_flight.map_or(config.ingest.in_flight, |n| n as usize);
    let count = |slot: &mut usize, raw: Option<u64>| *slot = raw.map_or(*slot, |n| n as usize);
    count(&mut config.listen.connections.all, raw.listen.connections);
    count(&mut config.listen.connections.of_address, raw.listen.connections_per_address);
    config.listen.requests = raw.listen.requests.unwrap_or(config.listen.requests);
    count(&mut config.series.all, raw.ingest.series);
    count(&mut config.series.of_metric, raw.ingest.series_per_metric);
    count(&mut config.series.of_tenant, raw.ingest.series_per_tenant);
    config.series.tenant_label = raw.ingest.tenant_label.unwrap_or_default();
    config.query.concurrency = raw.query.concurrency.map_or(config.query.concurrency, |n| n as usize);
    config.query.max_samples = raw.query.max_samples.unwrap_or(config.query.max_samples);
    if let Some(text) = raw.query.memory {
        config.query.memory = usize::try_from(size(&text, "query.memory")?).unwrap_or(usize::MAX);
    }
    config.store = remote::check_store(raw.store)?;
    config.forward = remote::check(raw.forward)?;
    config.peers = remote::check_peers(raw.peers)?;
    config.judge = judge::check(raw.judge)?;
    config.external_url = notify::check_external_url(raw.external_url)?;
    config.alertmanager = notify::check_alertmanager(raw.alertmanager)?;
    config.webhook = notify::check_webhooks(raw.webhook)?;
    config.job_notification = job_notification::check(raw.job_notification)?;
    config.tls = tls(raw.tls.cert, raw.tls.key, raw.tls.client_ca)?;
    config.gnmi = gnmi::check(raw.gnmi)?;
    config.auth = auth::check(raw.auth, &config)?;
    bounds(&config)?;
    judge::check_role(&config)?;
    Ok(config)
}

fn bounds(config: &Config) -> Result<(), ConfigError> {
    let needs = |key, ok: bool, message: &str| {
        if ok { Ok(()) } else { Err(ConfigError::Value { key, message: message.to_owned() }) }
    };
    needs("data", !config.data.as_os_str().is_empty(), "empty; name a directory")?;
    needs("topology.files", config.topology.iter().all(|f| !f.as_os_str().is_empty()), "an empty name; name a file")?;
    needs("audit.baselines", config.baselines.iter().all(|f| !f.as_os_str().is_empty()), "an empty name; name a file")?;
    needs("retention.age", config.retention.age >= Duration::from_secs(3600), "at least 1h")?;
    needs("retention.size", config.retention.size.is_none_or(|s| s >= 64 << 20), "at least 64MiB")?;
    needs("listen.connections", config.listen.connections.all > 0, "at least 1")?;
    needs("listen.connections_per_address", config.listen.connections.of_address > 0, "at least 1")?;
    needs("ingest.message_size", (64 << 10..=1 << 30).contains(&config.ingest.message_size), "from 64KiB to 1GiB")?;
    needs("ingest.in_flight", config.ingest.in_flight > 0, "at least 1")?;
    needs("ingest.series", config.series.all > 0, "at least 1")?;
    needs("ingest.series_per_metric", config.series.of_metric > 0, "at least 1")?;
    needs("ingest.series_per_tenant", config.series.of_tenant > 0, "at least 1")?;
    needs("limits.memory", config.memory.is_none_or(|m| m >= 256 << 20), "at least 256MiB")?;
    let probes = &config.probes;
    needs("probes.per_port", probes.per_port <= 1000, "at most 1000 probes per second")?;
    needs("probes.per_host", probes.per_host <= 2000, "at most 2000 probes per second")?;
    needs("probes.per_fabric", probes.per_fabric <= 100_000, "at most 100000 probes per second")?;
    needs("probes.traces_per_leaf", probes.traces_per_leaf <= 1000, "at most 1000 traces per second")?;
    needs("probes.paths", (1..=64).contains(&probes.paths), "from 1 to 64")?;
    needs("query.concurrency", config.query.concurrency > 0, "at least 1")?;
    needs("query.memory", config.query.memory >= 1 << 20, "at least 1MiB")?;
    needs("query.timeout", !config.query.timeout.is_zero(), "longer than 0s")?;
    needs("query.lookback", !config.query.lookback.is_zero(), "longer than 0s")?;
    for (key, address) in config.listen.all() {
        if !address.ip().is_loopback() && config.tls.is_none() && !config.insecure {
            return Err(ConfigError::Insecure { key, address });
        }
    }
    Ok(())
}

fn address(slot: &mut SocketAddr, text: Option<String>, key: &'static str) -> Result<(), ConfigError> {
    let Some(text) = text else { return Ok(()) };
    let numeric = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.clone(),
    };
    *slot = numeric.parse().map_err(|_| ConfigError::Value {
        key,
        message: format!("{text:?} is not an address and port; write for instance 127.0.0.1:7470 or [::]:7470"),
    })?;
    Ok(())
}

fn switches(raw: RawSwitches) -> Result<Switches, ConfigError> {
    let bad = |key, message: String| ConfigError::Value { key, message };
    let mut addresses = BTreeMap::new();
    for (address, name) in raw.addresses {
        let parsed: IpAddr = address.parse().map_err(|_| {
            bad("switches.addresses", format!("{address:?} is not an IP address; write \"10.0.0.7\" = \"leaf1\""))
        })?;
        if name.trim().is_empty() {
            return Err(bad("switches.addresses", format!("{address} has no name; name the switch")));
        }
        addresses.insert(parsed.to_canonical(), name);
    }
    if raw.raw.iter().any(|name| name.trim_end_matches('*').is_empty()) {
        return Err(bad(
            "switches.raw",
            "an empty name; name a metric, or how its name begins with * at the end".to_owned(),
        ));
    }
    Ok(Switches { addresses, raw: raw.raw })
}

fn tls(cert: Option<String>, key: Option<String>, ca: Option<String>) -> Result<Option<Tls>, ConfigError> {
    let needs = |key, message: &str| Err(ConfigError::Value { key, message: message.to_owned() });
    match (cert, key) {
        (Some(cert), Some(key)) => {
            Ok(Some(Tls { cert: cert.into(), key: key.into(), client_ca: ca.map(PathBuf::from) }))
        }
        (None, None) if ca.is_none() => Ok(None),
        (None, _) => needs("tls.cert", "missing; tls.key and tls.client_ca need a certificate"),
        (Some(_), None) => needs("tls.key", "missing; a certificate needs its private key"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_threshold_suggests_the_nearest() {
        let load = |text: &str| check(toml::from_str(text).unwrap());
        let config = load("[verdicts.thresholds]\nhost_pause.held = 0.5\nlink_flap.in_10m = 4").unwrap();
        assert_eq!(
            config.thresholds,
            thresholds::from_flags(&["host_pause.held=0.5".into(), "link_flap.in_10m=4".into()]).unwrap()
        );
        let error = load("[verdicts.thresholds]\nhost_pause.hold = 0.5").unwrap_err();
        assert_eq!(
            error.to_string(),
            "verdicts.thresholds: there is no threshold host_pause.hold; did you mean host_pause.held?"
        );
    }

    #[test]
    fn switches_are_named_by_address() {
        let load = |text: &str| check(toml::from_str(text).unwrap());
        let config = load("[switches]\naddresses = { \"10.0.0.7\" = \"leaf1\" }\nraw = [\"nvswitch_lldp_*\"]").unwrap();
        assert_eq!(config.switches.addresses[&IpAddr::from([10, 0, 0, 7])], "leaf1");
        assert_eq!(config.switches.raw, ["nvswitch_lldp_*"]);
        let error = |text: &str| load(text).unwrap_err().to_string();
        assert!(error("[switches]\naddresses = { leaf1 = \"10.0.0.7\" }").contains("not an IP address"));
        assert!(error("[switches]\nraw = [\"*\"]").contains("switches.raw"));
    }

    #[test]
    fn classes_of_probes_have_their_range() {
        let load = |text: &str| check(toml::from_str(text).unwrap());
        let probes = load("[probes]\ntraffic_class = 255\nservice_level = 15").unwrap().probes;
        assert_eq!((probes.traffic_class, probes.service_level), (Some(255), Some(15)));
        assert_eq!(load("").unwrap().probes.service_level, None);
        let error = |text: &str| load(text).unwrap_err().to_string();
        assert!(error("[probes]\nservice_level = 16").contains("16 is not from 0 to 15"));
        assert!(error("[probes]\ntraffic_class = 256").contains("256 is not from 0 to 255"));
    }

    #[test]
    fn the_version_of_promql_is_one_of_two() {
        let load = |text: &str| check(toml::from_str(text).unwrap()).map(|c| c.query.promql);
        assert_eq!([load("").unwrap(), load("[query]\npromql = \"2.x\"").unwrap()], [Version::V3, Version::V2]);
        let error = load("[query]\npromql = \"4\"").unwrap_err().to_string();
        assert!(error.contains("write \"3.x\" or \"2.x\""), "{error}");
    }

    #[test]
    fn shown_config_parses_to_the_same() {
        let mut config = Config::default();
        config.listen.http.set_port(1);
        config.query.lookback = Duration::from_secs(7);
        config.query.promql = Version::V2;
        config.query.memory = 3 << 20;
        config.memory = Some(1 << 30);
        config.retention.size = Some(1 << 30);
        config.retention.rollups = Duration::ZERO;
        config.series.of_metric = 12;
        config.series.tenant_label = "cluster".into();
        config.external_url = Some("https://fabric.example".into());
        config.auth.tokens = Some("t".into());
        config.tls = Some(Tls { cert: "a".into(), key: "b".into(), client_ca: Some("c".into()) });
        let shown = config.shown();
        assert_eq!(shown.len(), KEYS.len());
        let env = shown.into_iter().map(|(key, value)| (environment_name(key), value));
        assert_eq!(load(None, env, &Overrides::default()).unwrap(), config);
    }
}

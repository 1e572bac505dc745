//! Merges file, environment and flags into a checked [`Config`].

use super::raw::{Form, KEYS, RawConfig};
use super::{Config, ConfigError, Http};
use crate::budget::Budget;
use crate::collectives::{Collectives, check_pattern};
use crate::ib_fabric::{IbFabric, Source};
use crate::probing::Probing;
use crate::schedule::Settings;
use fabriclens_agent_host::rails::Rails;
use fabriclens_agent_probes::destinations::{Destinations, Network};
use fabriclens_agent_samplers::microburst::{Dumps, Microburst};
use fabriclens_agent_uplink::config::{Collector, Compression, Mode, Spool, Tls};
use fabriclens_base::{duration, nearest};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Default state directory, on a file system that is cleared at boot.
const STATE_DIR: &str = "/run/fabriclens-agent";
/// Limit of interfaces for microburst recording.
const MOST_NETDEVS: usize = 8;
/// Every environment variable with this prefix must be a configuration key.
const PREFIX: &str = "FABRICLENS_AGENT_";
/// Variables with the prefix that are flags, not keys.
const FLAGS: &[&str] = &["FABRICLENS_AGENT_CONFIG", "FABRICLENS_AGENT_ROOT"];

/// Values of flags; `None` keeps the value of the environment, file or default.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// `--host`
    pub host: Option<String>,
    /// `--http`
    pub http: Option<String>,
    /// `--collector`
    pub collector: Option<String>,
}

/// Loads and checks the configuration. `env` is the process environment; `samplers` are the valid keys of `[samplers]`.
///
/// # Errors
/// [`ConfigError`], which names the file or key and the remedy.
pub fn load(
    file: Option<&Path>,
    env: impl IntoIterator<Item = (String, String)>,
    flags: &Overrides,
    samplers: &[&str],
) -> Result<Config, ConfigError> {
    let place = file.map_or_else(|| "config".to_owned(), |p| p.display().to_string());
    let mut table = match file {
        Some(path) => read(path, &place)?,
        None => toml::Table::new(),
    };
    apply_environment(&mut table, env)?;
    let syntax = |e: toml::de::Error| ConfigError::Syntax { place: place.clone(), message: e.to_string() };
    let mut raw: RawConfig = table.try_into().map_err(syntax)?;
    raw.host = flags.host.clone().or(raw.host);
    if let Some(url) = &flags.collector {
        raw.collector.url = Some(url.clone());
        raw.collector.urls.clear();
    }
    if let Some(listen) = &flags.http {
        raw.http.listen = Some(listen.clone());
        raw.http.enabled = Some(true);
    }
    if let Some(name) = raw.samplers.keys().find(|n| !samplers.contains(&n.as_str())) {
        let hint = nearest(name, samplers.iter().copied()).map(str::to_owned);
        return Err(ConfigError::Unknown { place, what: "sampler", name: name.clone(), hint });
    }
    let config = check(raw)?;
    keep_secrets(&config)?;
    Ok(config)
}

/// Refuses private keys that every user of the host can read. Missing files are reported when they are opened.
fn keep_secrets(config: &Config) -> Result<(), ConfigError> {
    let collector = config.collector.as_ref();
    let key = |identity: Option<&'_ (PathBuf, PathBuf)>| identity.map(|(_, key)| key.clone());
    for (what, path) in [
        ("collector.key", key(collector.and_then(|c| c.tls.identity.as_ref()))),
        ("collector.token_file", collector.and_then(|c| c.token_file.clone())),
        ("http.key", key(config.http.as_ref().and_then(|h| h.identity.as_ref()))),
    ] {
        let open = |path: &PathBuf| std::fs::metadata(path).is_ok_and(|meta| meta.permissions().mode() & 0o004 != 0);
        if let Some(path) = path.filter(open) {
            return Err(ConfigError::Exposed { what, path });
        }
    }
    Ok(())
}

fn read(path: &Path, place: &str) -> Result<toml::Table, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
    let syntax = |e: toml::de::Error| ConfigError::Syntax { place: place.to_owned(), message: e.to_string() };
    let table: toml::Table = text.parse().map_err(syntax)?;
    if let Some(name) = unknown_key(&table) {
        let sections = [
            "budget",
            "sampling",
            "samplers",
            "rails",
            "destinations",
            "microburst",
            "ib_fabric",
            "collectives",
            "probes",
            "collector",
            "spool",
            "http",
        ];
        let hint = nearest(&name, KEYS.iter().map(|(k, _)| *k).chain(sections)).map(str::to_owned);
        return Err(ConfigError::Unknown { place: place.to_owned(), what: "key", name, hint });
    }
    // Parsed again from the text, because only errors of this parser carry line and column.
    toml::from_str::<RawConfig>(&text).map_err(syntax)?;
    Ok(table)
}

fn unknown_key(table: &toml::Table) -> Option<String> {
    let known = |key: &String| KEYS.iter().any(|(k, _)| k == key);
    let section = |name: &str| KEYS.iter().any(|(k, _)| k.split_once('.').is_some_and(|(s, _)| s == name));
    table
        .iter()
        .filter(|(name, _)| !["samplers", "rails"].contains(&name.as_str()))
        .flat_map(|(name, value)| match value.as_table() {
            Some(inner) if section(name) => inner.keys().map(|k| format!("{name}.{k}")).collect(),
            _ => vec![name.clone()],
        })
        .find(|key| !known(key))
}

fn apply_environment(
    table: &mut toml::Table,
    env: impl IntoIterator<Item = (String, String)>,
) -> Result<(), ConfigError> {
    let variable = |key: &str| format!("{PREFIX}{}", key.replace('.', "_").to_uppercase());
    for (name, text) in env {
        if !name.starts_with(PREFIX) || FLAGS.contains(&name.as_str()) {
            continue;
        }
        let Some((key, form)) = KEYS.iter().find(|(k, _)| variable(k) == name) else {
            let all: Vec<String> = KEYS.iter().map(|(k, _)| variable(k)).collect();
            let hint = nearest(&name, all.iter().map(String::as_str)).map(str::to_owned);
            return Err(ConfigError::Unknown { place: "environment".to_owned(), what: "variable", name, hint });
        };
        let bad = |why| ConfigError::Syntax { place: name.clone(), message: format!("{text:?} is not {why}") };
        let value = match form {
            Form::Text => toml::Value::String(text.clone()),
            Form::Bool => toml::Value::Boolean(text.parse().map_err(|_| bad("true or false"))?),
            Form::Integer => toml::Value::Integer(text.parse().map_err(|_| bad("a whole number"))?),
            Form::Float => toml::Value::Float(text.parse().map_err(|_| bad("a number"))?),
            Form::List => {
                let items = text.split(',').map(str::trim).filter(|t| !t.is_empty());
                toml::Value::Array(items.map(|t| toml::Value::String(t.to_owned())).collect())
            }
        };
        let (section, inner) = key.split_once('.').unwrap_or(("", key));
        if section.is_empty() {
            table.insert(inner.to_owned(), value);
        } else {
            let entry = table.entry(section).or_insert_with(|| toml::Value::Table(toml::Table::new()));
            if let Some(section) = entry.as_table_mut() {
                section.insert(inner.to_owned(), value);
            }
        }
    }
    Ok(())
}

fn check(raw: RawConfig) -> Result<Config, ConfigError> {
    let mut settings = Settings { samplers: raw.samplers, ..Settings::default() };
    settings.host = raw.host.unwrap_or_default();
    let state_dir = raw.state_dir.unwrap_or_else(|| STATE_DIR.to_owned());
    settings.state_dir = (!state_dir.is_empty()).then(|| PathBuf::from(state_dir));
    settings.budget = budget(&raw.budget)?;
    time(&mut settings.full, raw.sampling.full, "sampling.full", 10..=60_000)?;
    time(&mut settings.fast, raw.sampling.fast, "sampling.fast", 10..=10_000)?;
    time(&mut settings.slow, raw.sampling.slow, "sampling.slow", 1_000..=3_600_000)?;
    time(&mut settings.deadline, raw.sampling.deadline, "sampling.deadline", 100..=600_000)?;
    settings.exclude_devices = raw.sampling.exclude_devices.unwrap_or_default();
    settings.passthrough = raw.sampling.passthrough.unwrap_or_default();
    settings.destinations = Arc::new(Destinations {
        rack: networks("destinations.rack", &raw.destinations.rack)?,
        fabric: networks("destinations.fabric", &raw.destinations.fabric)?,
    });
    settings.rails = Arc::new(rails(raw.rails)?);
    settings.microburst = Arc::new(microburst(raw.microburst)?);
    let enabled = raw.ib_fabric.enabled == Some(true);
    let ib_fabric = Arc::new(ib_fabric(raw.ib_fabric)?);
    settings.ib_fabric = enabled.then(|| Arc::clone(&ib_fabric));
    let enabled = raw.collectives.enabled == Some(true);
    let collectives = Arc::new(collectives(raw.collectives)?);
    settings.collectives = enabled.then(|| Arc::clone(&collectives));
    let enabled = raw.probes.enabled == Some(true);
    let probing = Arc::new(probing(&raw.probes)?);
    settings.probing = enabled.then(|| Arc::clone(&probing));
    // A list of interfaces turns the sampler on.
    if !settings.microburst.netdevs.is_empty() {
        settings.samplers.entry("microburst".to_owned()).or_insert(true);
    }
    settings.ring_sections = raw.sampling.ring_sections.unwrap_or(settings.ring_sections);
    needs("sampling.ring_sections", (64..=16_777_216).contains(&settings.ring_sections), "from 64 to 16777216")?;
    needs("sampling.fast", settings.fast <= settings.full, "not longer than sampling.full")?;
    needs("sampling.slow", settings.slow >= settings.full, "not shorter than sampling.full")?;
    Ok(Config {
        settings,
        ib_fabric,
        collectives,
        probing,
        collector: collector(raw.collector)?,
        spool: spool(raw.spool)?,
        http: http(raw.http)?,
        log: raw.log.unwrap_or_else(|| "info".to_owned()),
        sandbox: match raw.sandbox.as_deref() {
            None | Some("on") => true,
            Some("off") => false,
            Some(other) => return bad("sandbox", &format!("{other:?} is not on or off")),
        },
    })
}

fn budget(raw: &super::raw::Budget) -> Result<Budget, ConfigError> {
    let mut budget = Budget::USUAL;
    if let Some(text) = &raw.cpu {
        let share = text.trim().strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
        let share = share.filter(|share| (0.1..=100.0).contains(share));
        let why = || format!("{text:?} is not a share of a core from 0.1% to 100%; write for example 2%");
        budget.cpu = share.ok_or_else(|| ConfigError::Value { key: "budget.cpu", message: why() })? / 100.0;
    }
    if let Some(text) = &raw.memory {
        budget.memory = parse_size("budget.memory", text)?;
        needs("budget.memory", budget.memory >= 16 << 20, "at least 16MiB")?;
    }
    Ok(budget)
}

fn networks(key: &'static str, texts: &[String]) -> Result<Vec<Network>, ConfigError> {
    texts.iter().map(|text| text.parse().map_err(|message| ConfigError::Value { key, message })).collect()
}

fn rails(configured: BTreeMap<String, String>) -> Result<Rails, ConfigError> {
    let plain = |text: &String| text.len() <= 64 && !text.chars().any(char::is_control);
    needs("rails", configured.values().all(plain), "a rail's name has at most 64 bytes on one line")?;
    Ok(Rails::new(configured))
}

fn microburst(raw: super::raw::Microburst) -> Result<Microburst, ConfigError> {
    let (share, dumps) = (raw.share.unwrap_or(0.9), raw.dumps.unwrap_or(16));
    needs("microburst.share", share > 0.0 && share <= 1.0, "more than 0 and at most 1")?;
    needs("microburst.dumps", dumps <= 256, "at most 256")?;
    let few = format!("more than {MOST_NETDEVS} interfaces; each takes memory in the kernel for each CPU");
    needs("microburst.netdevs", raw.netdevs.len() <= MOST_NETDEVS, &few)?;
    let size = |text: &String| parse_size("microburst.bytes", text);
    let bytes = raw.bytes.as_ref().filter(|text| !text.is_empty()).map(size).transpose()?;
    Ok(Microburst { netdevs: raw.netdevs, share, bytes, dumps: Dumps::new(dumps) })
}

/// The reader of the InfiniBand subnet; checked even if it is off.
fn ib_fabric(raw: super::raw::IbFabric) -> Result<IbFabric, ConfigError> {
    let (adapters, lease) = (raw.adapters.unwrap_or(false), raw.lease.unwrap_or(true));
    let mut f = IbFabric { adapters, lease, ..IbFabric::default() };
    f.source = Source::of(raw.device.as_deref().unwrap_or_default());
    time(&mut f.period, raw.period, "ib_fabric.period", 1_000..=300_000)?;
    time(&mut f.details, raw.details, "ib_fabric.details", 1_000..=3_600_000)?;
    time(&mut f.sweep, raw.sweep, "ib_fabric.sweep", 1_000..=3_600_000)?;
    time(&mut f.pace.deadline, raw.timeout, "ib_fabric.timeout", 10..=10_000)?;
    f.pace.per_second = raw.mads_per_second.unwrap_or(f.pace.per_second);
    needs("ib_fabric.mads_per_second", (10..=100_000).contains(&f.pace.per_second), "from 10 to 100000")?;
    Ok(f)
}

/// The reader of collectives; checked even if it is off.
fn collectives(raw: super::raw::Collectives) -> Result<Collectives, ConfigError> {
    let mut c = Collectives::default();
    time(&mut c.period, raw.period, "collectives.period", 5_000..=3_600_000)?;
    // NCCL gives up after five seconds less.
    time(&mut c.limits.whole, raw.timeout, "collectives.timeout", 6_000..=120_000)?;
    c.port = raw.port.unwrap_or(c.port);
    needs("collectives.port", c.port >= 1024, "from 1024 to 65535")?;
    c.inspector = raw.inspector.unwrap_or(c.inspector);
    c.inspector_dirs = raw.inspector_dirs.into_iter().map(PathBuf::from).collect();
    let absolute = c.inspector_dirs.iter().all(|dir| dir.is_absolute());
    needs("collectives.inspector_dirs", absolute, "a list of absolute paths")?;
    needs("collectives.inspector_dirs", c.inspector_dirs.len() <= 16, "at most 16 directories")?;
    c.mpi = raw.mpi.unwrap_or(c.mpi);
    c.mpi_dir = raw.mpi_dir.map_or(c.mpi_dir, PathBuf::from);
    needs("collectives.mpi_dir", c.mpi_dir.is_absolute(), "an absolute path")?;
    needs("collectives.log_files", raw.log_files.len() <= 16, "at most 16 patterns")?;
    for pattern in &raw.log_files {
        check_pattern(pattern).or_else(|why| bad("collectives.log_files", &format!("{pattern:?}: {why}")))?;
    }
    c.log_files = raw.log_files;
    Ok(c)
}

/// Tracing and probing; checked even if they are off.
fn probing(raw: &super::raw::Probes) -> Result<Probing, ConfigError> {
    let usual = Probing::default();
    let probing = Probing {
        trace: raw.trace.unwrap_or(usual.trace),
        rdma: raw.rdma.unwrap_or(usual.rdma),
        tcp: raw.tcp.unwrap_or(usual.tcp),
        trace_packets: raw.trace_packets_per_second.unwrap_or(usual.trace_packets),
        probe_packets: raw.probes_per_second.unwrap_or(usual.probe_packets),
        tcp_port: raw.tcp_port.unwrap_or(usual.tcp_port),
        networks: networks("probes.networks", &raw.networks)?,
    };
    let packets = 1..=1000;
    needs("probes.trace_packets_per_second", packets.contains(&probing.trace_packets), "from 1 to 1000")?;
    needs("probes.probes_per_second", packets.contains(&probing.probe_packets), "from 1 to 1000")?;
    needs("probes.tcp_port", probing.tcp_port >= 1024, "from 1024 to 65535")?;
    let nothing = "probes.trace, probes.rdma and probes.tcp are all false; set probes.enabled = false instead";
    let any = probing.trace || probing.rdma || probing.tcp || raw.enabled != Some(true);
    needs("probes.enabled", any, nothing)?;
    Ok(probing)
}

fn spool(raw: super::raw::Spool) -> Result<Spool, ConfigError> {
    let mut s = Spool::default();
    if let Some(dir) = raw.dir.map(PathBuf::from).filter(|dir| Some(dir) != s.dir.as_ref()) {
        (s.asked, s.dir) = (true, Some(dir).filter(|dir| !dir.as_os_str().is_empty()));
    }
    size(&mut s.limits.bytes, raw.size, "spool.size")?;
    size(&mut s.rate, raw.rate, "spool.rate")?;
    time(&mut s.limits.age, raw.age, "spool.age", 60_000..=3_153_600_000_000)?;
    time(&mut s.after, raw.after, "spool.after", 0..=3_600_000)?;
    time(&mut s.jitter, raw.jitter, "spool.jitter", 0..=3_600_000)?;
    needs("spool.size", s.limits.bytes >= 1 << 20, "at least 1MiB; for no spool set spool.dir = \"\"")?;
    needs("spool.rate", s.rate >= 1 << 10, "at least 1KiB a second")?;
    Ok(s)
}

fn collector(raw: super::raw::Collector) -> Result<Option<Collector>, ConfigError> {
    let identity = identity(raw.cert, raw.key, ["collector.cert", "collector.key"])?;
    let one = raw.url.filter(|url| !url.is_empty());
    needs(
        "collector.urls",
        one.is_none() || raw.urls.is_empty(),
        "collector.url is set too; put all into collector.urls",
    )?;
    let mut urls = one.into_iter().chain(raw.urls);
    let mut c = Collector::new(urls.next().unwrap_or_default());
    c.others = urls.collect();
    c.mode = match raw.mode.as_deref() {
        None | Some("failover") => Mode::Failover,
        Some("spread") => Mode::Spread,
        Some("duplicate") => Mode::Duplicate,
        Some(other) => return bad("collector.mode", &format!("{other:?} is not failover, spread or duplicate")),
    };
    c.compression = match raw.compression.as_deref() {
        None | Some("zstd") => Compression::Zstd,
        Some("gzip") => Compression::Gzip,
        Some("none") => Compression::None,
        Some(other) => return bad("collector.compression", &format!("{other:?} is not zstd, gzip or none")),
    };
    c.batch = raw.batch.unwrap_or(c.batch);
    c.insecure = raw.insecure.unwrap_or(false);
    c.tls = Tls { ca: raw.ca.map(PathBuf::from), identity };
    c.token_file = raw.token_file.map(PathBuf::from);
    time(&mut c.flush, raw.flush, "collector.flush", 10..=60_000)?;
    time(&mut c.urgent, raw.urgent, "collector.urgent", 0..=60_000)?;
    time(&mut c.timeout, raw.timeout, "collector.timeout", 100..=300_000)?;
    time(&mut c.steady, raw.steady, "collector.steady", 100..=3_600_000)?;
    time(&mut c.drain, raw.drain, "collector.drain", 0..=300_000)?;
    needs("collector.batch", (16..=65_536).contains(&c.batch), "from 16 to 65536")?;
    if c.url.is_empty() {
        return Ok(None);
    }
    let urls: Vec<&String> = std::iter::once(&c.url).chain(&c.others).collect();
    let key = if c.others.is_empty() { "collector.url" } else { "collector.urls" };
    let open = urls.iter().map(|url| is_open(key, url, &c)).collect::<Result<Vec<_>, _>>()?;
    for (i, url) in urls.iter().enumerate() {
        needs("collector.urls", !urls[..i].contains(url), &format!("{url:?} is named twice"))?;
    }
    c.insecure = open.contains(&true);
    Ok(Some(c))
}

/// Checks a collector URL; true if it sends in plain text beyond this host and the configuration accepts that.
fn is_open(key: &'static str, url: &str, c: &Collector) -> Result<bool, ConfigError> {
    // Checked first: no message may show the credentials.
    if url.contains('@') {
        return bad(key, "holds credentials; use token_file, or cert and key, instead");
    }
    let form = || format!("{url:?} is not a URL such as http://127.0.0.1:4317 or https://collector:4317");
    let uri: axum::http::Uri = match url.parse() {
        Ok(uri) => uri,
        Err(_) => return bad(key, &form()),
    };
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let plain = match uri.scheme_str() {
        Some("http") => true,
        Some("https") => false,
        _ => return bad(key, &form()),
    };
    if host.is_empty() || uri.port_u16().is_none() {
        return bad(key, &form());
    }
    let local = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    if plain && !local && !c.insecure {
        let (value, insecure) = (url.to_owned(), "collector.insecure");
        return Err(ConfigError::Insecure { key, value, tls: "an https URL", insecure });
    }
    if plain && (c.tls.ca.is_some() || c.tls.identity.is_some()) {
        return bad(key, "certificates are set, so it must begin with https://");
    }
    Ok(plain && !local)
}

fn http(raw: super::raw::Http) -> Result<Option<Http>, ConfigError> {
    if raw.enabled == Some(false) {
        return Ok(None);
    }
    let text = raw.listen.unwrap_or_else(|| "127.0.0.1:7471".to_owned());
    let numeric = text.strip_prefix("localhost:").map_or_else(|| text.clone(), |port| format!("127.0.0.1:{port}"));
    let Ok(listen) = numeric.parse::<SocketAddr>() else {
        let why = format!("{text:?} is not an address and port; write for instance 127.0.0.1:7471 or [::]:7471");
        return bad("http.listen", &why);
    };
    let identity = identity(raw.cert, raw.key, ["http.cert", "http.key"])?;
    let open = !listen.ip().is_loopback() && identity.is_none();
    if open && raw.insecure != Some(true) {
        let (key, value, insecure) = ("http.listen", text, "http.insecure");
        return Err(ConfigError::Insecure { key, value, tls: "http.cert and http.key", insecure });
    }
    Ok(Some(Http { listen, identity, insecure: open, names: raw.names }))
}

fn identity(
    cert: Option<String>,
    key: Option<String>,
    names: [&'static str; 2],
) -> Result<Option<(PathBuf, PathBuf)>, ConfigError> {
    match (cert, key) {
        (Some(cert), Some(key)) => Ok(Some((cert.into(), key.into()))),
        (None, None) => Ok(None),
        (None, Some(_)) => bad(names[0], "missing; a private key needs its certificate"),
        (Some(_), None) => bad(names[1], "missing; a certificate needs its private key"),
    }
}

fn time(
    slot: &mut Duration,
    text: Option<String>,
    key: &'static str,
    millis: std::ops::RangeInclusive<u128>,
) -> Result<(), ConfigError> {
    let Some(text) = text else { return Ok(()) };
    *slot = duration::parse(&text).map_err(|source| ConfigError::Duration { key, source })?;
    let range = format!("{text} is not from {}ms to {}ms", millis.start(), millis.end());
    needs(key, millis.contains(&slot.as_millis()), &range)
}

fn size(slot: &mut u64, text: Option<String>, key: &'static str) -> Result<(), ConfigError> {
    let Some(text) = text else { return Ok(()) };
    *slot = parse_size(key, &text)?;
    Ok(())
}

fn parse_size(key: &'static str, text: &str) -> Result<u64, ConfigError> {
    fabriclens_base::size::parse(text).map_err(|source| ConfigError::Size { key, source })
}

fn needs(key: &'static str, ok: bool, message: &str) -> Result<(), ConfigError> {
    if ok { Ok(()) } else { bad(key, message) }
}

fn bad<T>(key: &'static str, message: &str) -> Result<T, ConfigError> {
    Err(ConfigError::Value { key, message: message.to_owned() })
}

//! `doctor`: the state of every source, with the reason and the remedy for each missing counter.
//!
//! Prints a table of at most [`WIDTH`] columns, or JSON.

use crate::budget::{Budget, text};
use crate::config::Config;
use crate::sandbox::{self, SandboxRuleset};
use crate::schedule::{self, Outcome, Settings, SourceStatus};
use crate::{collectives, exposition, ib_fabric, probing};
use fabriclens_agent_host::discover::discover;
use fabriclens_agent_host::inventory::{Device, Inventory};
use fabriclens_agent_host::roots::Roots;
use fabriclens_agent_samplers as samplers;
use fabriclens_agent_uplink::spool;
use fabriclens_agent_workload::Jobs;
use fabriclens_base::error_chain::with_causes;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Columns of the table.
pub const WIDTH: usize = 100;

/// The state of every source.
#[derive(Debug)]
pub struct Report {
    host: String,
    root: String,
    recorded: bool,
    series: usize,
    sources: Vec<SourceStatus>,
    /// Spool directory, its limit, and its usage or the reason why there is no spool.
    spool: Option<(PathBuf, u64, Result<spool::Usage, String>)>,
    /// Whether a spool that cannot be used is a failure.
    needs_spool: bool,
    /// Limits of a running agent: name and state.
    bounds: Vec<(&'static str, String)>,
}

/// Reads every source once.
pub fn examine(roots: Arc<Roots>, settings: &Settings) -> Report {
    let root = roots.base().display().to_string();
    let recorded = roots.is_recorded();
    let (sections, sources) = schedule::once(roots, settings);
    let series = sections.iter().map(fabriclens_wire::encode::points).sum();
    Report::new(settings.host.clone(), root, recorded, series, sources)
}

/// Sandbox and budget of an agent with this configuration; the sandbox is tried in this process.
pub fn bounds(roots: &Arc<Roots>, config: &Config) -> Vec<(&'static str, String)> {
    let sandbox = match config.sandbox {
        true => sandbox::tried(SandboxRuleset::of(roots, config)).text(),
        false => "off by configuration".to_owned(),
    };
    let Budget { cpu, memory } = config.settings.budget;
    let mut bounds =
        vec![("sandbox", sandbox), ("budget", format!("{}; above it samples are taken less often", text(cpu, memory)))];
    if let Some(fabric) = &config.settings.ib_fabric {
        let state = ib_fabric::probe(fabric, roots).unwrap_or_else(|why| format!("cannot read the subnet: {why}"));
        bounds.push(("ib_fabric", state));
    }
    if let Some(config) = config.settings.collectives.as_ref().filter(|_| !roots.is_recorded()) {
        bounds.push(("collectives", collectives::state(config, roots.proc(), &Jobs::default())));
    }
    let inventory = discover(roots, &config.settings.exclude_devices, None);
    let unused = unused_ports(&inventory);
    bounds.extend((!unused.is_empty()).then_some(("unused_ports", unused)));
    if let Some(probing) = config.settings.probing.as_ref().filter(|_| !roots.is_recorded()) {
        bounds.push(("probes", probing::state(probing, &inventory, config.collector.is_some())));
        bounds.push(("rdma_probes", probing::prober_state(probing, &inventory)));
        let classes = probing::PortClasses::read(&inventory).words();
        bounds.extend((!classes.is_empty()).then_some(("probe_class", classes)));
    }
    bounds
}

/// Ports that are not read because they are no planes of their adapter: `mlx5_0: 8 of 12 have no interface`.
fn unused_ports(inventory: &Inventory) -> String {
    let of = |device: &Arc<Device>| {
        let unused = device.ports.iter().filter(|port| device.is_unused(port)).count();
        (unused > 0).then(|| format!("{}: {unused} of {} have no interface", device.name, device.ports.len()))
    };
    inventory.devices.iter().filter_map(of).collect::<Vec<_>>().join(", ")
}

impl Report {
    fn new(host: String, root: String, recorded: bool, series: usize, mut sources: Vec<SourceStatus>) -> Self {
        // The host first, then devices and netdevs; within each, the order of the samplers' table.
        let rank = |s: &SourceStatus| samplers::ALL.iter().position(|spec| spec.name == s.sampler);
        sources.sort_by(|a, b| {
            let key = |s: &SourceStatus| (s.target != "host", natural(&s.target), s.target.clone(), rank(s));
            key(a).cmp(&key(b))
        });
        Self { host, root, recorded, series, sources, spool: None, needs_spool: false, bounds: Vec::new() }
    }

    /// Adds the usage of the spool, if samples are sent and the spool is on. Does not disturb a running agent.
    #[must_use]
    pub fn with_spool(mut self, config: &Config) -> Self {
        let dir =
            config.spool.dir.as_ref().filter(|_| config.collector.is_some() && config.spool.is_for(self.recorded));
        self.spool = dir.map(|dir| {
            let found = spool::usage(dir).map_err(|error| with_causes(&error));
            (dir.clone(), config.spool.limits.bytes, found)
        });
        // A default directory that is missing means no spool.
        self.needs_spool = dir.is_some_and(|dir| config.spool.asked || dir.is_dir());
        self
    }

    /// Adds the limits of a running agent.
    #[must_use]
    pub fn with_bounds(self, bounds: Vec<(&'static str, String)>) -> Self {
        Self { bounds, ..self }
    }

    /// True when no source fails or stalls, and the spool can be used. An absent source is no failure.
    pub fn healthy(&self) -> bool {
        let spooled = self.spool.as_ref().is_none_or(|(.., found)| found.is_ok());
        self.failing().next().is_none() && (spooled || !self.needs_spool)
    }

    fn failing(&self) -> impl Iterator<Item = &SourceStatus> {
        self.sources.iter().filter(|s| matches!(s.outcome, Outcome::Error(_) | Outcome::Stalled(_)))
    }

    /// Report as JSON.
    pub fn json(&self) -> serde_json::Value {
        let sources: Vec<_> = self
            .sources
            .iter()
            .map(|s| {
                let mut one = exposition::source(s);
                one["needs"] = samplers::by_name(s.sampler).map_or("", |spec| spec.needs).into();
                one
            })
            .collect();
        let spool = self.spool.as_ref().map(|(dir, limit, found)| {
            let usage = found.as_ref().ok();
            json!({
                "dir": dir, "limit": limit, "bytes": usage.map(|u| u.bytes), "aside": usage.map(|u| u.aside),
                "error": found.as_ref().err(),
            })
        });
        json!({
            "host": self.host, "root": self.root, "recorded": self.recorded, "healthy": self.healthy(),
            "series": self.series, "sources": sources, "spool": spool,
            "bounds": self.bounds.iter().cloned().collect::<BTreeMap<_, _>>(),
        })
    }

    /// Report as tables: sources with data or failures first, then absent ones.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let kind = if self.recorded { format!(", recorded in {}", self.root) } else { String::new() };
        _ = writeln!(out, "Host {}{kind}\n", self.host);
        let (absent, present): (Vec<_>, Vec<_>) =
            self.sources.iter().partition(|s| matches!(s.outcome, Outcome::Absent(_)));
        self.present(&present, &mut out);
        self.absent(&absent, &mut out);
        self.summary(&mut out);
        out
    }

    fn present(&self, sources: &[&SourceStatus], out: &mut String) {
        let target = sources.iter().map(|s| s.target.chars().count()).max().unwrap_or(0).clamp(6, 20);
        let sampler = sources.iter().map(|s| s.sampler.len()).max().unwrap_or(0).max(6);
        let mut row = |cells: [&str; 5], note: &str| {
            let [t, s, state, values, read] = cells;
            let t = cut(t, target);
            wrapped(&format!("{t:<target$}  {s:<sampler$}  {state:<7}  {values:>6}  {read:>7}  "), note, out);
        };
        row(["TARGET", "SOURCE", "STATE", "VALUES", "READ"], "");
        let mut last = None;
        for s in sources {
            let (state, values, note) = match &s.outcome {
                Outcome::Data { counters } => ("data", counters.to_string(), s.note.clone()),
                Outcome::Stalled(time) => ("STALLED", String::new(), format!("stuck for {}", short(*time))),
                Outcome::Absent(why) | Outcome::Error(why) => ("ERROR", String::new(), self.note(s, why)),
            };
            let shown = if last == Some(&s.target) { "" } else { &s.target };
            last = Some(&s.target);
            row([shown, s.sampler, state, &values, &s.last_read.map(short).unwrap_or_default()], &note);
        }
        out.push('\n');
    }

    /// Writes one entry for all targets that lack a source for the same reason.
    fn absent(&self, sources: &[&SourceStatus], out: &mut String) {
        let mut groups: Vec<(&str, String, Vec<&str>)> = Vec::new();
        for s in sources {
            let Outcome::Absent(why) = &s.outcome else { continue };
            let device = s.target.split('/').next().unwrap_or(&s.target);
            let why = self.note(s, why).replace(&format!("/{device}"), "/*");
            match groups.iter_mut().find(|(sampler, w, _)| *sampler == s.sampler && *w == why) {
                Some((_, _, targets)) => targets.push(&s.target),
                None => groups.push((s.sampler, why, vec![&s.target])),
            }
        }
        if groups.is_empty() {
            return;
        }
        let width = groups.iter().map(|(s, _, _)| s.len()).max().unwrap_or(0);
        _ = writeln!(out, "NOT ON THIS HOST");
        groups.sort_by_key(|(sampler, _, _)| samplers::ALL.iter().position(|spec| spec.name == *sampler));
        for (sampler, why, targets) in &groups {
            wrapped(&format!("{sampler:<width$}  "), &why.replace('\n', " "), out);
            wrapped(&format!("{:<width$}  ", ""), &targets.join(" "), out);
        }
        out.push('\n');
    }

    /// Removes the root from paths in a reason, and adds the remedy if the reason lacks it.
    fn note(&self, s: &SourceStatus, why: &str) -> String {
        let root = format!("{}/", self.root.trim_end_matches('/'));
        let why = if root == "/" { why.to_owned() } else { why.replace(&root, "") };
        let need = samplers::by_name(s.sampler).map_or("", |spec| spec.needs);
        if self.recorded || need.is_empty() || why.contains(need) { why } else { format!("{why}; needs {need}") }
    }

    fn summary(&self, out: &mut String) {
        let count = |f: fn(&Outcome) -> bool| self.sources.iter().filter(|s| f(&s.outcome)).count();
        let data = count(|o| matches!(o, Outcome::Data { .. }));
        let absent = count(|o| matches!(o, Outcome::Absent(_)));
        let cost: Duration = self.sources.iter().filter_map(|s| s.last_read).sum();
        _ = writeln!(
            out,
            "{data} sources give {} series at {} for one read of all; {absent} are not on this host; {} fail.",
            self.series,
            short(cost),
            self.failing().count()
        );
        for (name, state) in &self.bounds {
            wrapped(&format!("{name}: "), state, out);
        }
        if self.sources.iter().all(|s| s.target == "host") {
            let place = if self.recorded { "under sys/class in this recording" } else { "on this host" };
            _ = writeln!(out, "No RDMA device and no physical network interface was found {place}.");
        }
        if let Some((dir, limit, found)) = &self.spool {
            let (dir, mib) = (dir.display(), |bytes: u64| bytes as f64 / f64::from(1 << 20));
            let text = match found {
                Ok(usage) => {
                    let aside = match usage.aside {
                        0 => String::new(),
                        n => format!(
                            " {n} unreadable parts are set aside: a later release wrote them, or the disk cannot read them."
                        ),
                    };
                    let (holds, most) = (mib(usage.bytes), mib(*limit));
                    format!("holds {holds:.1} of at most {most:.0} MiB of samples that no collector took.{aside}")
                }
                Err(why) => format!("{why}; samples that no collector takes wait in memory alone."),
            };
            wrapped(&format!("Spool {dir}: "), &text, out);
        }
    }
}

/// A duration in three digits.
fn short(time: Duration) -> String {
    let us = time.as_secs_f64() * 1e6;
    match us {
        _ if us < 1_000.0 => format!("{us:.0} µs"),
        _ if us < 10_000.0 => format!("{:.1} ms", us / 1e3),
        _ if us < 1_000_000.0 => format!("{:.0} ms", us / 1e3),
        _ => format!("{:.1} s", us / 1e6),
    }
}

/// Writes a line with a trailing note, wrapped at words within the note's column.
fn wrapped(head: &str, note: &str, out: &mut String) {
    let indent = head.chars().count();
    let mut line = head.to_owned();
    let mut used = indent;
    for word in note.split_whitespace() {
        let length = word.chars().count();
        if used + length > WIDTH && used > indent {
            _ = writeln!(out, "{}", line.trim_end());
            line = " ".repeat(indent);
            used = indent;
        }
        line.push_str(word);
        line.push(' ');
        used += length + 1;
    }
    _ = writeln!(out, "{}", line.trim_end());
}

/// Sort key of alternating text and numbers: `mlx5_10` follows `mlx5_9`.
fn natural(name: &str) -> Vec<(String, Option<u64>)> {
    let mut parts: Vec<(String, Option<u64>)> = Vec::new();
    for c in name.chars() {
        match (c.to_digit(10).map(u64::from), parts.last_mut()) {
            (Some(d), Some((_, n))) => *n = Some(n.unwrap_or(0).saturating_mul(10).saturating_add(d)),
            (Some(d), None) => parts.push((String::new(), Some(d))),
            (None, Some((text, None))) => text.push(c),
            (None, _) => parts.push((c.to_string(), None)),
        }
    }
    parts
}

fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut out: String = text.chars().take(width - 1).collect();
    out.push('…');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(sampler: &'static str, target: &str, outcome: Outcome, micros: Option<u64>) -> SourceStatus {
        let last_read = micros.map(Duration::from_micros);
        SourceStatus { sampler, target: target.into(), outcome, last_read, reads: 1, errors: 0, note: String::new() }
    }

    fn report(stalls: bool) -> Report {
        let why = |device: &str| {
            let path = format!("/x/sys/class/infiniband/{device}/hw_counters");
            Outcome::Absent(format!("{path}: not there; and this sentence is long enough to need a second line"))
        };
        let mut sources = vec![
            status("device_counters", "mlx5_10", why("mlx5_10"), None),
            status("device_counters", "mlx5_9", why("mlx5_9"), None),
            status("port_state", "mlx5_10/1", Outcome::Data { counters: 3 }, Some(12)),
            status("rdma_counters", "mlx5_9/1", Outcome::Error("/x/sys: Input/output error".into()), None),
            status("port_state", "mlx5_9/1", Outcome::Data { counters: 3 }, Some(999)),
            status("tcpip", "host", Outcome::Data { counters: 9 }, Some(34_567)),
        ];
        if stalls {
            sources.retain(|s| !matches!(s.outcome, Outcome::Error(_)));
            sources.push(status("ethtool", "enp1s0f0np0", Outcome::Stalled(Duration::from_secs(3)), None));
        }
        Report::new("node-1".into(), "/x".into(), true, 12, sources)
    }

    #[test]
    fn the_tables_fit_and_group() {
        let want = "\
Host node-1, recorded in /x

TARGET     SOURCE         STATE    VALUES     READ
host       tcpip          data          9    35 ms
mlx5_9/1   port_state     data          3   999 µs
           rdma_counters  ERROR                     sys: Input/output error
mlx5_10/1  port_state     data          3    12 µs

NOT ON THIS HOST
device_counters  sys/class/infiniband/*/hw_counters: not there; and this sentence is long enough to
                 need a second line
                 mlx5_9 mlx5_10

3 sources give 12 series at 36 ms for one read of all; 2 are not on this host; 1 fail.
";
        let text = report(false).text();
        assert!(text == want, "{text}");
        assert!(want.lines().all(|l| l.chars().count() <= WIDTH));
        assert!(!report(false).healthy());
    }

    #[test]
    fn a_stalled_source_is_a_failure() {
        let report = report(true);
        assert!(!report.healthy() && report.text().contains("STALLED") && report.text().ends_with("1 fail.\n"));
        let json = report.json();
        let outcome = |s: &serde_json::Value| s["outcome"] == "stalled" && s["target"] == "enp1s0f0np0";
        assert!(json["sources"].as_array().unwrap().iter().any(outcome), "{json}");
    }

    #[test]
    fn an_unusable_spool_is_a_failure() {
        use crate::config::{Overrides, load};
        let dir = tempfile::tempdir().unwrap();
        let healthy = |dir: &std::path::Path, asked| {
            let url = ("FABRICLENS_AGENT_COLLECTOR_URL".to_owned(), "http://127.0.0.1:4317".to_owned());
            let mut config = load(None, [url], &Overrides::default(), &[]).unwrap();
            (config.spool.dir, config.spool.asked) = (Some(dir.to_owned()), asked);
            let report = Report::new("h".into(), "/x".into(), false, 0, Vec::new()).with_spool(&config);
            (report.healthy(), report.text())
        };
        assert!(healthy(dir.path(), true).0);
        let missing = dir.path().join("missing");
        assert!(!healthy(&missing, true).0);
        assert!(healthy(&missing, false).0, "the default directory is optional");
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        let (healthy, text) = healthy(dir.path(), false);
        assert!(!healthy && text.contains("every user can write into it"), "{text}");
    }

    #[test]
    fn durations_are_short() {
        for (micros, want) in [(0, "0 µs"), (999, "999 µs"), (1500, "1.5 ms"), (12_000, "12 ms"), (2_500_000, "2.5 s")]
        {
            assert_eq!(short(Duration::from_micros(micros)), want);
        }
    }
}

//! Faults that the kernel log names, counted by class and device. Texts are matched ([`crate::kernel_log`]) and forgotten: what
//! leaves this file is a class, a device of this host, a number, and the job of a process.
//!
//! Only records of the kernel's own facility count: programs can write to the log, but not under that one.

use crate::kernel_log::Names;
use crate::kernel_log::matching::{Found, find};
use crate::kernel_log::position::{LogPosition, Start};
use crate::kernel_log::reader::{Counts, LogReader};
use crate::kernel_log::record::Record;
use crate::sampler::{Period, Sampler, Spec};
use crate::target::SamplingTarget;
use fabriclens_agent_host::batch::{Batch, SampleError};
use fabriclens_agent_host::roots::Roots;
use fabriclens_agent_workload::{Jobs, Key, cgroup};
use fabriclens_catalog::CounterSource;
use fabriclens_catalog::kernel_log::{LogClass, LogSeverity, LogSubject};
use fabriclens_catalog::metrics::kernel_log::{KERNEL_LOG_EVENTS, KERNEL_LOG_RECORDS};
use fabriclens_wire::Value;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Table row of this sampler.
pub const SPEC: Spec = Spec {
    name: "kernel_log",
    source: CounterSource::Other,
    period: Period::Full,
    default: true,
    needs: "CAP_SYSLOG where kernel.dmesg_restrict is 1, and /dev/kmsg",
    applies: SamplingTarget::is_host,
    open,
};

/// Most series of events.
const MOST: usize = 256;

fn open(target: &SamplingTarget) -> Result<Box<dyn Sampler>, SampleError> {
    let path = target.roots.base().join("dev/kmsg");
    let unset = if target.roots.is_recorded() { Start::Boot } else { Start::End };
    let position = target.kernel_log.clone().unwrap_or_else(|| Arc::new(LogPosition::new(unset)));
    let reader = LogReader::open(&path, position.start()).map_err(|error| unreadable(&path, &error))?;
    Ok(Box::new(KernelLog {
        path,
        reader,
        position,
        events: Events::new(&target.roots, Arc::clone(&target.jobs), !target.roots.is_recorded()),
    }))
}

/// Why a log cannot be opened or read, and what helps.
fn unreadable(path: &Path, error: &std::io::Error) -> SampleError {
    let path = path.display();
    match error.kind() {
        ErrorKind::NotFound => {
            SampleError::Absent(format!("{path} does not exist; in a container, mount the host's /dev/kmsg there"))
        }
        ErrorKind::PermissionDenied => SampleError::Absent(format!(
            "{path} may not be read; give the agent CAP_SYSLOG, and DeviceAllow=/dev/kmsg r in its unit, or a privileged container"
        )),
        _ => SampleError::Failed(format!("reading {path}: {error}")),
    }
}

struct KernelLog {
    path: PathBuf,
    reader: LogReader,
    position: Arc<LogPosition>,
    events: Events,
}

impl Sampler for KernelLog {
    fn sample(&mut self, _: &[bool], out: &mut Batch) -> Result<(), SampleError> {
        let events = &mut self.events;
        events.names.begin();
        let came_to_end = self.reader.turn(&mut |record| events.take(record));
        if let Some(next) = self.reader.next() {
            self.position.set_next(next);
        }
        let came_to_end = came_to_end.map_err(|error| unreadable(&self.path, &error))?;
        out.urgent = self.events.tell(out);
        let Counts { read, foreign, skipped, malformed } = self.reader.counts();
        for (result, count) in [("foreign", foreign), ("malformed", malformed), ("read", read), ("skipped", skipped)] {
            out.fact(&KERNEL_LOG_RECORDS, &[("result", result)], Value::Int(count));
        }
        out.note = match came_to_end {
            true => format!("{read} records read, {skipped} skipped"),
            false => format!(
                "{read} records read, {skipped} skipped; more are waiting, the log grows faster than it is read"
            ),
        };
        Ok(())
    }
}

/// Identity of a series of events.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct EventKey {
    /// Name and severity of the class.
    class: (&'static str, LogSeverity),
    code: String,
    device: String,
    netdev: String,
    pci: String,
    job: Option<(Key, String)>,
}

/// Events so far.
struct Events {
    names: Names,
    jobs: Arc<Jobs>,
    proc: PathBuf,
    counts: BTreeMap<EventKey, u64>,
    /// Number that each series showed last; a series begins with 0, so that its growth is seen.
    shown: BTreeMap<EventKey, u64>,
    begin_with_zero: bool,
    /// Process that the kernel said it is about to kill for lack of memory, and its job.
    doomed: Option<(u32, Key)>,
}

impl Events {
    fn new(roots: &Arc<Roots>, jobs: Arc<Jobs>, begin_with_zero: bool) -> Self {
        Self {
            names: Names::new(roots),
            jobs,
            proc: roots.proc().into(),
            counts: BTreeMap::new(),
            shown: BTreeMap::new(),
            begin_with_zero,
            doomed: None,
        }
    }

    fn take(&mut self, record: &Record<'_>) {
        if let Some(doomed) = doomed(record.message) {
            self.doomed = Some(doomed);
        }
        let Some(found) = find(record.message, record.micros) else { return };
        let key = self.key(&found, record.pci);
        let key = if self.counts.len() < MOST || self.counts.contains_key(&key) { key } else { coarse(found.class()) };
        *self.counts.entry(key).or_default() += 1;
    }

    fn key(&mut self, found: &Found<'_>, said: Option<&str>) -> EventKey {
        let class = found.class();
        let names = self.names.of(found.pci.as_deref().or(said), found.name);
        let job = found.pid.filter(|_| class.subject == LogSubject::Process).and_then(|pid| self.job(pid));
        EventKey {
            code: found.code.unwrap_or_default().to_ascii_lowercase(),
            device: names.device,
            netdev: names.netdev,
            pci: names.pci,
            job,
            ..coarse(class)
        }
    }

    fn job(&self, pid: u32) -> Option<(Key, String)> {
        let doomed = self.doomed.iter().find(|(other, _)| *other == pid).map(|(_, key)| key.clone());
        let of_doomed = doomed.map(|key| (self.jobs.cluster(&key), key)).map(|(cluster, key)| (key, cluster));
        of_doomed.or_else(|| self.jobs.of_process(&self.proc, pid))
    }

    /// Exports the events. True if there are new ones that cannot wait.
    fn tell(&mut self, out: &mut Batch) -> bool {
        let mut is_news = false;
        for (key, count) in &self.counts {
            let before = self.shown.get(key).copied();
            let shown = if before.is_none() && self.begin_with_zero { 0 } else { *count };
            is_news |= key.class.1 >= LogSeverity::Error && before != Some(*count);
            self.shown.insert(key.clone(), shown);
            let (job, cluster) = key.job.as_ref().map_or((None, ""), |(key, cluster)| (Some(key), cluster));
            let labels = [
                ("class", key.class.0),
                ("cluster", cluster),
                ("code", &key.code),
                ("device", &key.device),
                ("job", job.map_or("", |key| &key.job)),
                ("netdev", &key.netdev),
                ("pci_address", &key.pci),
                ("scheduler", job.map_or("", |key| key.scheduler)),
                ("severity", key.class.1.name()),
            ];
            out.fact(&KERNEL_LOG_EVENTS, &labels, Value::Int(shown));
        }
        is_news
    }
}

/// Series of a class without further labels.
fn coarse(class: &LogClass) -> EventKey {
    let [code, device, netdev, pci] = [const { String::new() }; 4];
    EventKey { class: (class.name, class.severity), code, device, netdev, pci, job: None }
}

/// Process of a line `oom-kill:…,task_memcg=PATH,task=NAME,pid=N,uid=N`, and the job of its control group. The name is the
/// process's own, so the fields around it are looked for from the outside.
fn doomed(message: &str) -> Option<(u32, Key)> {
    let fields = message.strip_prefix("oom-kill:")?;
    let (rest, pid) = fields.rsplit_once(",pid=")?;
    let pid = pid.split(',').next()?.parse().ok()?;
    let (rest, _) = rest.rsplit_once(",task=")?;
    let place = cgroup::of_path(rest.split_once("task_memcg=")?.1)?;
    Some((pid, Key::new(place.scheduler, &place.job)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events() -> Events {
        let host = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/hosts/mlx5-roce");
        Events::new(&Arc::new(Roots::new(Some(host.into()))), Arc::default(), true)
    }

    fn take(events: &mut Events, message: &str) {
        events.take(&Record { sequence: 1, micros: 1 << 40, is_of_kernel: true, message, pci: None });
    }

    fn told(events: &mut Events) -> Vec<String> {
        let mut batch = Batch::default();
        events.tell(&mut batch);
        let text = |(column, value): &(fabriclens_wire::Column, Value)| {
            let labels: Vec<_> = column.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let Value::Int(count) = value else { panic!("{value:?}") };
            format!("{} {count}", labels.join(","))
        };
        batch.facts.iter().map(text).collect()
    }

    #[test]
    fn series_of_events_begin_with_zero() {
        let mut events = events();
        take(&mut events, "mlx5_core 0000:3b:00.0: poll_health:852:(pid 0): Fatal error 3 detected");
        take(&mut events, "mlx5_core 0000:3b:00.0: poll_health:852:(pid 0): Fatal error 3 detected");
        let labels =
            "class=mlx5_fatal_error,code=3,device=mlx5_0,netdev=ens1f0np0,pci_address=0000:3b:00.0,severity=fatal";
        assert_eq!(told(&mut events), [format!("{labels} 0")]);
        assert_eq!(told(&mut events), [format!("{labels} 2")]);
        take(&mut events, "mlx5_core 0000:3b:00.0: poll_health:852:(pid 0): Fatal error 3 detected");
        assert_eq!(told(&mut events), [format!("{labels} 3")]);
    }

    #[test]
    fn only_errors_cannot_wait() {
        let mut events = events();
        let mut is_urgent = |message: &str| {
            take(&mut events, message);
            events.tell(&mut Batch::default())
        };
        assert!(!is_urgent("mlx5_cmd_out_err:838:(pid 1): ACCESS_REG(0x805) op_mod(0x1) failed"));
        assert!(is_urgent("mlx5_core 0000:3b:00.0: poll_health:852:(pid 0): Fatal error 3 detected"));
        assert!(is_urgent("ordinary"), "the count follows the zero");
        assert!(!is_urgent("ordinary"));
    }

    #[test]
    fn no_text_of_a_message_is_exported() {
        let mut events = events();
        for message in [
            "NVRM: Xid (PCI:0000:9b:00): 31, pid=7, name=secret-program, Ch 00000008",
            "Out of memory: Killed process 12345 (secret-program) total-vm:1kB",
            "INFO: task secret-program:77 blocked for more than 120 seconds.",
            "secret-program[77]: segfault at 0 ip 0 sp 0 error 4 in secret-library.so[0+1000]",
            "NETDEV WATCHDOG: secret-netdev (mlx5_core): transmit queue 3 timed out",
        ] {
            take(&mut events, message);
        }
        let told = told(&mut events).join("\n");
        assert_eq!(told.lines().count(), 5, "{told}");
        assert!(!told.contains("secret"), "{told}");
    }

    #[test]
    fn killed_process_is_of_a_job() {
        let mut events = events();
        take(
            &mut events,
            "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0-1,oom_memcg=/system.slice/slurmstepd.scope/job_4711,task_memcg=/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0,task=a,pid=1,task=b,pid=5000,uid=1000",
        );
        take(&mut events, "Memory cgroup out of memory: Killed process 5000 (python) total-vm:1kB, anon-rss:1kB");
        take(&mut events, "Out of memory: Killed process 5001 (python) total-vm:1kB");
        let expected = [
            "class=out_of_memory,severity=warning 0",
            "class=out_of_memory,job=4711,scheduler=slurm,severity=warning 0",
        ];
        assert_eq!(told(&mut events), expected);
    }

    #[test]
    fn series_are_bounded() {
        let mut events = events();
        for code in 0..2000 {
            take(&mut events, &format!("NVRM: Xid (PCI:0000:9b:00): {}, x", 1000 + code));
        }
        told(&mut events);
        let told = told(&mut events);
        assert_eq!(told.len(), MOST + 1);
        assert_eq!(told[0], format!("class=gpu_xid,severity=warning {}", 2000 - MOST));
    }
}

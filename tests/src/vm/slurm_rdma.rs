//! Jobs of a real Slurm send over soft-RoCE; their reports must agree with perftest.

use super::watched::Pair;
use super::{Lab, Scenario};
use crate::lab::agent::MESSAGE;
use crate::lab::slurm;
use crate::lab::vm::Vm;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "slurm-rdma",
    shows: "reports of a real Slurm's jobs: RDMA bytes within 5 % of perftest's, exclusive alone and shared beside another",
    limit: Duration::from_secs(420),
    often: true,
    alone: false,
    run,
};

/// Messages per job: 256 MiB.
const MESSAGES: u64 = 4096;
/// Payload of a packet at the MTU of 1024 that an Ethernet MTU of 1500 allows, and what the interface counts for it:
/// Ethernet, IPv4, UDP, base transport header and checksum come on top.
const PAYLOAD: f64 = 1024.0;
const ON_WIRE: f64 = 1024.0 + 14.0 + 20.0 + 8.0 + 12.0 + 4.0;
const TOLERANCE: f64 = 0.05;

/// Script of a task: the first one listens, the other sends. Idle time before and after the traffic imitates a real job.
const TASK: &str = "\
common=\"ib_send_bw -d rxe0 -x 1 -n $1 -s $2 -p $3 -u 20 -e -F\"
sleep 2
if [ \"$SLURM_PROCID\" = 0 ]; then
    $common >/tmp/$3.server 2>&1 || exit 1
else
    tries=0
    until $common 10.77.0.1 >/tmp/$3.client 2>&1; do
        tries=$((tries + 1)); [ $tries -lt 100 ] && grep -q -i \"couldn't connect\" /tmp/$3.client || exit 1
        sleep 0.1
    done
fi
sleep 2
";

fn run(lab: &Lab) -> Result<()> {
    if !slurm::is_here() {
        lab.say(&format!("SKIPPED: no Slurm on this host, so no report of its jobs is tested. Run: {}", slurm::REMEDY));
        return Ok(());
    }
    let queue = lab.folder().join("squeue.json");
    let jobs = format!("[jobs]\nsqueue = \"cat {}\"\n", queue.display());
    std::fs::write(&queue, r#"{"jobs": []}"#)?;
    let pair = Pair::start_with(lab, &jobs, slurm::TREE, "")?;
    slurm::start(lab.folder(), &pair.one, &pair.two)?;
    for guest in [&pair.one, &pair.two] {
        guest.write("/task.sh", TASK)?;
    }

    let payload = MESSAGES * MESSAGE;
    let alone = Job::start(&pair.one, 18515)?;
    alone.done(lab, &pair.one)?;
    let told = alone.report(lab, &pair, &queue)?;
    let wire = payload as f64 / PAYLOAD * ON_WIRE;
    for way in ["transmitted", "received"] {
        let [exclusive, shared] = parts(&told, way);
        let said = exclusive.with_context(|| format!("{way}: nothing exclusive in {}", told["traffic"][way]))?;
        let ratio = said / wire;
        lab.say(&format!(
            "alone, {way}: perftest {payload} bytes, {wire:.0} on the wire, report {said:.0} (exclusive): {ratio:.4}"
        ));
        ensure!((ratio - 1.0).abs() < TOLERANCE && shared.is_none(), "{way}: {}", told["traffic"][way]);
    }

    // Both jobs use both nodes, so they share the port counters.
    let two = [Job::start(&pair.one, 18516)?, Job::start(&pair.one, 18517)?];
    for job in &two {
        job.done(lab, &pair.one)?;
    }
    for job in &two {
        let told = job.report(lab, &pair, &queue)?;
        for way in ["transmitted", "received"] {
            let [exclusive, shared] = parts(&told, way);
            let said = shared.with_context(|| format!("{way}: nothing shared in {}", told["traffic"][way]))?;
            let ratio = said / wire;
            lab.say(&format!("two at once, {way}: report {said:.0} (shared), {ratio:.4} times what each one sent"));
            let all = 1.0 - TOLERANCE..2.0 + 2.0 * TOLERANCE;
            ensure!(all.contains(&ratio) && exclusive.is_none(), "{way}: {}", told["traffic"][way]);
        }
    }
    Ok(())
}

/// A job of two tasks, one on each node.
struct Job {
    id: String,
    port: u16,
}

impl Job {
    fn start(controller: &Vm, port: u16) -> Result<Self> {
        let task = format!("sh /task.sh {MESSAGES} {MESSAGE} {port}");
        let srun = format!("srun -N2 -n2 --ntasks-per-node=1 --kill-on-bad-exit=1 -J rdma-{port} {task}");
        let start = format!("{srun} >/tmp/srun.{port} 2>&1; echo $? >/tmp/ended.{port}");
        controller.sh(&format!("setsid sh -c '{start}' </dev/null >/dev/null 2>&1 &"))?;
        let look = format!("until squeue --noheader --name=rdma-{port} --format=%i | grep .; do sleep 0.2; done");
        Ok(Self { id: controller.sh(&look)?, port })
    }

    /// Waits until the job has completed successfully.
    fn done(&self, lab: &Lab, controller: &Vm) -> Result<()> {
        let port = self.port;
        let limit = Duration::from_secs(200).min(lab.left()?);
        let script = format!(
            "until [ -f /tmp/ended.{port} ]; do sleep 0.3; done; cat /tmp/srun.{port} /tmp/{port}.server >&2; \
             exit $(cat /tmp/ended.{port})"
        );
        controller.exec(&script, limit)?.ok().map(drop).with_context(|| format!("job {}", self.id))
    }

    /// Report of the job, once the collector knows that it has ended.
    fn report(&self, lab: &Lab, pair: &Pair, queue: &Path) -> Result<Value> {
        // Replaced as a whole, because the collector reads the file every fifteen seconds.
        let next = queue.with_extension("next");
        std::fs::write(&next, pair.one.sh("squeue --json --states=all")?)?;
        std::fs::rename(&next, queue)?;
        let path = format!("/api/v1/jobs/{}", self.id);
        lab.wait("the collector knows that the job is over", Duration::from_secs(60), || {
            let job = pair.collector.get(&path)?;
            Ok((!job["data"]["end_ns"].is_null()).then_some(()))
        })?;
        pair.collector.get(&format!("{path}/report?format=json"))
    }
}

/// Bytes of exclusive and of shared ports.
fn parts(report: &Value, way: &str) -> [Option<f64>; 2] {
    let parts = report["traffic"][way]["parts"].as_array().map_or(&[][..], Vec::as_slice);
    ["exclusive", "shared"].map(|grade| parts.iter().find(|p| p["grade"] == grade)?["value"].as_f64())
}

//! Queue pairs of a job on two hosts are attributed to the job, name their peers, and end with the job.

use super::watched::Pair;
use super::{Lab, Scenario};
use crate::lab::slurm;
use anyhow::{Result, ensure};
use std::time::Duration;

pub const SCENARIO: Scenario = Scenario {
    name: "rxe-jobs",
    shows: "queue pairs by job on two hosts, paired by their numbers, with the address that the connection manager knows",
    limit: Duration::from_secs(240),
    often: true,
    alone: false,
    run,
};

/// Environment of a Slurm task.
const ENVIRONMENT: &str = "SLURM_ARRAY_JOB_ID=4700 SLURM_ARRAY_TASK_ID=3 SLURM_CLUSTER_NAME=west";
const CONFIG: &str = "[sampling]\nslow = \"2s\"\n";

fn run(lab: &Lab) -> Result<()> {
    let pair = Pair::start_as(lab, slurm::SCOPE, CONFIG)?;
    slurm::task(&pair.two, 4703, ENVIRONMENT, "rping -s -a 10.77.0.2 -C 1000000")?;
    pair.two.sh("until rdma resource show cm_id | grep -q LISTEN; do sleep 0.1; done")?;
    slurm::task(&pair.one, 4703, ENVIRONMENT, "rping -c -a 10.77.0.2 -C 1000000")?;

    for (host, peer) in [("vm1", "10.77.0.2"), ("vm2", "10.77.0.1")] {
        let job = "job=\"4703\",scheduler=\"slurm\"";
        let processes = format!("fabric_job_processes{{host=\"{host}\",{job},task=\"4700_3\",cluster=\"west\"}}");
        ensure!(pair.settled(lab, &processes)? == 1.0, "{processes} is not 1");
        let count = format!("fabric_job_queue_pairs{{host=\"{host}\",device=\"rxe0\",{job},cluster=\"west\"}}");
        ensure!(pair.settled(lab, &count)? == 1.0, "{count} is not 1");
        let info = format!("fabric_queue_pair_info{{host=\"{host}\",{job},type=\"RC\",peer=\"{peer}\"}}");
        ensure!(pair.settled(lab, &info)? == 1.0, "{info} is not there");
        lab.say(&info);
    }
    let end = |host: &str, own: &str, other: &str| {
        let info = format!("fabric_queue_pair_info{{host=\"{host}\",job=\"4703\"}}");
        format!(
            "label_replace(label_replace({info}, \"a\", \"$1\", \"{own}\", \"(.*)\"), \"b\", \"$1\", \"{other}\", \"(.*)\")"
        )
    };
    let both = format!("count({} * on (a, b) {})", end("vm1", "local", "remote"), end("vm2", "remote", "local"));
    let count = pair.collector.value(&both)?;
    ensure!(count == Some(1.0), "one pair expected: {count:?}");

    // The kernel's tools show the same.
    let shown = pair.one.sh("rdma resource show qp | grep -c rping; rdma statistic qp show")?;
    lab.say(&format!("rdma resource shows {} queue pair of rping", shown.trim()));

    for guest in [&pair.one, &pair.two] {
        guest.sh("killall rping; while pidof rping; do sleep 0.1; done")?;
    }
    for what in ["fabric_job_processes{job=\"4703\"}", "fabric_queue_pair_info{job=\"4703\"}"] {
        lab.wait("its series end", Duration::from_secs(60), || {
            let left = pair.collector.query(what)?;
            Ok(left.is_empty().then_some(()))
        })?;
        lab.say(&format!("{what} has ended"));
    }
    Ok(())
}

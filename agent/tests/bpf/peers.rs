//! `tcp_peers` on the running kernel: the peers of a job's sockets, and the bytes to and from each.

use crate::net::{Group, Pair, opened, send, sum, this_host};
use crate::turn;
use fabriclens_agent_host::batch::Batch;
use fabriclens_agent_host::roots::Roots;
use fabriclens_agent_probes::mount;
use fabriclens_agent_workload::Key;
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt as _;

const IO: &str = "fabric.job.tcp.peer.io";
const MIB: usize = 1 << 20;

#[test]
#[ignore = "needs: bpf"]
fn job_connections_name_their_peer() {
    let _turn = turn();
    let pair = Pair::new("fl-peers", "10.203.9");
    let groups = mount(&Roots::new(None)).unwrap();
    let job = Group::new(&groups, &format!("fl-peers-{}", std::process::id()));
    let inode = std::fs::metadata(groups.join(job.path.trim_start_matches('/'))).unwrap().ino();
    let target = this_host();
    let key = Key::new("slurm", "7");
    let clusters = HashMap::from([(key.clone(), "west".to_owned())]);
    target.jobs.tell(clusters, HashMap::new(), HashMap::from([(inode, key)]));

    let (mut here, mut there) = job.with(|| pair.connect(&pair.there()));
    let (mut six, mut far) = job.with(|| pair.connect(&pair.v6("2")));
    let other = pair.connect(&pair.there());
    send(&mut here, &mut there, 3 * MIB);
    send(&mut far, &mut six, MIB);
    let mut sampler = opened("tcp_peers", &target);
    let mut batch = Batch::default();
    sampler.sample(&[], &mut batch).unwrap();
    let labels = [("job", "7"), ("cluster", "west"), ("scheduler", "slurm")];
    let of = |local: &str, peer: &str| sum(&batch, IO, &[&labels[..], &[("local", local), ("peer", peer)]].concat());
    let (v4, v6) = (of(&pair.here(), &pair.there()), of(&pair.v6("1"), &pair.v6("2")));
    assert!((3 * MIB as u64..3 * MIB as u64 + 16).contains(&v4), "{v4}");
    assert!((MIB as u64..MIB as u64 + 16).contains(&v6), "{v6}");
    assert_eq!(sum(&batch, IO, &[]), v4 + v6, "the other connection is no job's");
    let told = |metric: &str| batch.facts.iter().filter(|(column, _)| column.metric.name == metric).count();
    assert_eq!((told("fabric.job.tcp.peer.rtt"), told("fabric.job.tcp.peer.omitted")), (2, 1));
    drop((here, there, six, far, other));
}

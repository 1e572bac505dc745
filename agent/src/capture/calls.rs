//! Records kernel calls as the text files that `--root` replays.

use super::CaptureError;
use super::out::RecordingWriter;
use fabriclens_agent_host::gpu::is_awake;
use fabriclens_agent_host::inventory::Inventory;
use fabriclens_kernel::recorded::{path, write};
use fabriclens_kernel::{CallError, KernelCalls, LldpNeighbor, RdmaLink, VerbsPort};
use std::collections::BTreeSet;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Records the answers of all calls; returns the process ids in them.
pub(super) fn record(
    calls: &Arc<dyn KernelCalls>,
    inventory: &Inventory,
    out: &mut RecordingWriter<'_>,
) -> Result<BTreeSet<u32>, CaptureError> {
    let of_ports = inventory.devices.iter().flat_map(|d| &d.ports).filter_map(|p| p.netdev.as_ref());
    let netdevs: BTreeSet<&str> = of_ports.chain(&inventory.netdevs).map(|n| &*n.name).collect();
    for netdev in netdevs {
        of_netdev(calls, netdev, out)?;
    }
    // Only the adapters of GPUs are asked, as on the host.
    let devices = inventory.devices.iter().filter(|device| !inventory.gpus.is_empty() && device.class.may_read());
    let answers: Vec<(&str, bool)> =
        devices.filter_map(|device| Some((&*device.name, calls.dma_buf(&device.name).ok()?))).collect();
    if !answers.is_empty() {
        out.text(&path::dma_buf(), &write::dma_buf(&answers))?;
    }
    // NVML opens all GPUs, and would resume one that is suspended.
    if inventory.gpus.iter().any(|gpu| gpu.is_nvidia()) && inventory.gpus.iter().all(|gpu| is_awake(&gpu.dir)) {
        let report = calls.nvml().map(|mut report| {
            for gpu in &mut report.gpus {
                gpu.uuid = gpu.uuid.take().map(|uuid| out.hidden("gpu", &uuid));
                for domain in gpu.fabric.iter_mut().filter(|domain| !domain.cluster.is_empty()) {
                    domain.cluster = out.hidden("cluster", &domain.cluster);
                }
            }
            report
        });
        put(out, path::nvml(), report, write::nvml)?;
    }
    let links = match calls.rdma_links() {
        Ok(links) => links,
        Err(error) => {
            note(&path::rdma_link(), &error, out)?;
            return Ok(BTreeSet::new());
        }
    };
    // The same devices as in sysfs: excluded ones are not touched, restricted ones not read.
    let known = |l: &&RdmaLink| inventory.devices.iter().any(|d| *d.name == *l.device);
    let links: Vec<RdmaLink> = links.iter().filter(known).cloned().collect();
    out.text(&path::rdma_link(), &write::rdma_link(&links))?;
    out.text(&path::rdma_dev(), &write::rdma_dev(&links))?;

    let open = |l: &&RdmaLink| inventory.devices.iter().any(|d| *d.name == *l.device && d.class.may_read());
    let mut counters = Vec::new();
    let mut verbs: Vec<(&RdmaLink, VerbsPort)> = Vec::new();
    for link in links.iter().filter(open) {
        let mut values = Vec::new();
        match calls.rdma_counters(link, &mut values) {
            Ok(()) => counters.push((link, values)),
            Err(error) => note(&path::rdma_statistic(), &error, out)?,
        }
        match calls.verbs_port(&link.device, link.port) {
            Ok(port) => verbs.push((link, port)),
            Err(error) => note(&path::verbs(), &error, out)?,
        }
    }
    if !counters.is_empty() {
        let ports = counters.iter().map(|(link, values)| (*link, values.iter().map(|(n, v)| (&**n, *v))));
        out.text(&path::rdma_statistic(), &write::rdma_statistic(ports))?;
    }
    if !verbs.is_empty() {
        out.text(&path::verbs(), &write::verbs(&verbs))?;
    }
    queue_pairs(calls, out)
}

/// Records queue pairs, their connections and counters; returns their process ids.
fn queue_pairs(calls: &Arc<dyn KernelCalls>, out: &mut RecordingWriter<'_>) -> Result<BTreeSet<u32>, CaptureError> {
    let mut qps = calls.rdma_qps(None);
    // Program names are private to the site; whether a process or the kernel owns a queue pair is not.
    for qp in qps.iter_mut().flatten().filter(|_| out.scrubs()) {
        qp.comm = qp.comm.take().map(|_| "process".to_owned());
    }
    let mut ids = calls.rdma_cm_ids(None);
    for end in ids.iter_mut().flatten().flat_map(|id| [&mut id.source, &mut id.destination]).flatten() {
        end.set_ip(out.address(end.ip()));
    }
    let counters = calls.rdma_qp_counters(None);
    let of_qps = qps.iter().flatten().filter_map(|qp| qp.pid);
    let pids = of_qps.chain(counters.iter().flatten().filter_map(|counter| counter.pid)).collect();
    put(out, path::res_qp(), qps, |qps| write::res_qp(qps))?;
    put(out, path::res_cm_id(), ids, |ids| write::res_cm_id(ids))?;
    put(out, path::qp_statistic(), counters, |counters| write::qp_statistic(counters))?;
    Ok(pids)
}

fn of_netdev(calls: &Arc<dyn KernelCalls>, netdev: &str, out: &mut RecordingWriter<'_>) -> Result<(), CaptureError> {
    put(out, path::ethtool_i(netdev), calls.driver(netdev), write::ethtool_i)?;
    let statistics = calls.stat_names(netdev).and_then(|names| {
        let mut values = Vec::new();
        calls.stat_values(netdev, &names, &mut values)?;
        Ok((names, values))
    });
    put(out, path::ethtool_s(netdev), statistics, |(names, values)| {
        write::ethtool_s(names.iter().map(|n| &**n).zip(values.iter().copied()))
    })?;
    let mut values = Vec::new();
    let std = calls.std_stats(netdev, &mut values).map(|()| values);
    put(out, path::std_stats(netdev), std, |values| write::std_stats(values))?;
    let rate = calls.max_rate_bits(netdev).ok();
    put(out, path::link(netdev), calls.link_state(netdev), |state| write::link(state, rate))?;
    put(out, path::netdev_settings(netdev), calls.netdev_settings(netdev), write::netdev_settings)?;
    put(out, path::module(netdev), calls.module(netdev), write::module)?;
    let hidden = |n: LldpNeighbor| LldpNeighbor {
        switch: out.hidden("switch", &n.switch),
        port: out.hidden("port", &n.port),
        address: n.address.map(|address| out.address(address)),
    };
    let neighbor = calls.lldp_neighbor(netdev).map(hidden);
    put(out, path::lldp(netdev), neighbor, write::lldp)?;
    put(out, path::dcb(netdev), calls.dcb(netdev), write::dcb)
}

fn put<T>(
    out: &mut RecordingWriter<'_>,
    path: PathBuf,
    answer: Result<T, CallError>,
    text: impl FnOnce(&T) -> String,
) -> Result<(), CaptureError> {
    match answer {
        Ok(answer) => out.text(&path, &text(&answer)),
        Err(error) => note(&path, &error, out),
    }
}

fn note(path: &Path, error: &CallError, out: &mut RecordingWriter<'_>) -> Result<(), CaptureError> {
    let cause = error.source().map_or_else(String::new, |e| format!(": {e}"));
    out.skip(path, format!("{error}{cause}"));
    Ok(())
}

//! Outputs of real tools from real hosts, read as recordings.

use std::fs;
use std::path::Path;

use fabriclens_kernel::KernelCalls;
use fabriclens_kernel::recorded::{RecordedKernel, path};
use fabriclens_testing::recordings;

/// Copies the file `from` to the path `to` of a recording.
fn copy(root: &Path, from: &Path, to: impl AsRef<Path>) {
    let to = root.join(to);
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::copy(from, to).unwrap_or_else(|e| panic!("{}: {e}", from.display()));
}

#[test]
#[ignore = "needs: recordings"]
fn soft_roce_receiver() {
    let fixtures = recordings();
    let from = fixtures.join("rxe-debian-6.1/receiver/t0");
    let dir = tempfile::tempdir().unwrap();
    copy(dir.path(), &from.join("rdma-link.json"), path::rdma_link());
    copy(dir.path(), &from.join("rdma-dev.json"), path::rdma_dev());
    copy(dir.path(), &from.join("rdma-statistic.json"), path::rdma_statistic());
    copy(dir.path(), &from.join("rdma-res-qp.json"), path::res_qp());
    copy(dir.path(), &from.join("ethtool-S.txt"), path::ethtool_s("fab0"));
    copy(dir.path(), &from.join("ethtool-i.txt"), path::ethtool_i("fab0"));
    let host = RecordedKernel::new(dir.path());
    let links = host.rdma_links().unwrap();
    assert_eq!(links.len(), 1);
    assert_eq!((&*links[0].device, links[0].netdev.as_deref(), links[0].state), ("rxe0", Some("fab0"), 4));
    assert_eq!(links[0].node_guid, Some(0x5054_00ff_fe77_0001));
    let mut counters = Vec::new();
    host.rdma_counters(&links[0], &mut counters).unwrap();
    assert_eq!(counters.len(), 15);
    assert!(counters.iter().any(|(n, v)| &**n == "duplicate_request" && *v == 5081));
    let qps = host.rdma_qps(None).unwrap();
    assert_eq!(qps.len(), 4);
    assert!(qps.iter().any(|q| q.pid == Some(169) && q.comm.as_deref() == Some("ib_send_bw") && q.rqpn == Some(18)));
    assert_eq!(host.driver("fab0").unwrap().driver, "virtio_net");
    let names = host.stat_names("fab0").unwrap();
    let mut values = Vec::new();
    host.stat_values("fab0", &names, &mut values).unwrap();
    assert_eq!((names.len(), values[0]), (14, 14751));
}

#[test]
#[ignore = "needs: recordings"]
fn mlx5_dcb_and_links() {
    let fixtures = recordings();
    let from = fixtures.join("fakehca-mlx5");
    let dir = tempfile::tempdir().unwrap();
    copy(dir.path(), &from.join("roce/t1/dcb-pfc.ens0np0.json"), path::dcb("ens0np0"));
    copy(dir.path(), &from.join("ib/t0/rdma-link.json"), path::rdma_link());
    copy(dir.path(), &from.join("roce/t1/rdma-statistic.json"), path::rdma_statistic());
    let host = RecordedKernel::new(dir.path());
    let dcb = host.dcb("ens0np0").unwrap();
    assert_eq!((dcb.pfc_capable, dcb.pfc_enabled), (Some(8), Some(8)));
    assert!(dcb.requests.is_some() && dcb.prio_tc.is_none());
    let links = host.rdma_links().unwrap();
    assert_eq!(links.len(), 3);
    assert!(links.iter().filter(|l| l.device.starts_with("mlx5")).all(|l| l.netdev.is_none()));
    for link in &links {
        let mut counters = Vec::new();
        host.rdma_counters(link, &mut counters).unwrap();
        assert!(counters.len() >= 15, "{link:?}");
    }
}

#[test]
#[ignore = "needs: recordings"]
fn every_ethtool_output_parses() {
    let fixtures = recordings();
    let dir = tempfile::tempdir().unwrap();
    let host = RecordedKernel::new(dir.path());
    let mut found = 0;
    let mut folders = vec![fixtures];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let name = entry.file_name().into_string().unwrap();
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            } else if name == "ethtool_-S.txt" || name.starts_with("ethtool-S") && name.ends_with(".txt") {
                let netdev = format!("n{found}");
                copy(dir.path(), &entry.path(), path::ethtool_s(&netdev));
                let names = host
                    .stat_names(&netdev)
                    .unwrap_or_else(|e| panic!("{}: {e}: {:?}", entry.path().display(), std::error::Error::source(&e)));
                let mut values = Vec::new();
                host.stat_values(&netdev, &names, &mut values).unwrap();
                assert_eq!(values.len(), names.len());
                found += 1;
            }
        }
    }
    assert!(found >= 14, "only {found} outputs of ethtool -S");
}

#[test]
#[ignore = "needs: recordings"]
fn ionic_statistics() {
    let fixtures = recordings();
    let dir = tempfile::tempdir().unwrap();
    let from = fixtures.join("tools/amd-ainic-rdma-and-nicctl/rdma_statistic_j.txt");
    copy(dir.path(), &from, path::rdma_statistic());
    let text = r#"[{"ifname":"rocep132s0","port":1,"state":"ACTIVE","physical_state":"LINK_UP","netdev":"enp132s0"}]"#;
    fs::write(dir.path().join(path::rdma_link()), text).unwrap();
    let host = RecordedKernel::new(dir.path());
    let mut counters = Vec::new();
    host.rdma_counters(&host.rdma_links().unwrap()[0], &mut counters).unwrap();
    assert!(counters.iter().any(|(n, _)| &**n == "rx_rdma_cnp_pkts"));
}

//! A recording replays with the series and values of its host; a scrubbed one has the same values and no secrets.

use fabriclens_agent::capture::{Options, Summary, capture};
use fabriclens_agent::exposition::{Format, render};
use fabriclens_agent::schedule::{Settings, once};
use fabriclens_agent_host::roots::Roots;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

fn put(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
    fs::write(path, text).expect("written");
}

/// A host in the kernel's own layout: class links, a bridge, one HCA with its netdev.
fn host(root: &Path) {
    const BRIDGE: &str = "sys/devices/pci0000:00/0000:00:01.0";
    let function = format!("{BRIDGE}/0000:01:00.0");
    for (dir, width) in [(BRIDGE, "8"), (function.as_str(), "16")] {
        put(root, &format!("{dir}/current_link_width"), &format!("{width}\n"));
        put(root, &format!("{dir}/max_link_width"), "16\n");
        put(root, &format!("{dir}/current_link_speed"), "16.0 GT/s PCIe\n");
        put(root, &format!("{dir}/max_link_speed"), "16.0 GT/s PCIe\n");
        put(root, &format!("{dir}/reset"), "never to be read\n");
    }
    put(root, &format!("{function}/vendor"), "0x15b3\n");
    put(root, &format!("{function}/numa_node"), "0\n");
    put(root, &format!("{function}/vpd"), "serial MT1234SECRET\n");
    put(root, &format!("{function}/uevent"), "DRIVER=mlx5_core\nPCI_SLOT_NAME=0000:01:00.0\n");
    put(root, &format!("{function}/aer_dev_correctable"), "RxErr 1\nBadTLP 2\nTOTAL_ERR_COR 3\n");
    let ib = format!("{function}/infiniband/mlx5_0");
    for (name, text) in [
        ("node_guid", "b8ce:f603:0001:0203\n"),
        ("node_desc", "node17 mlx5_0\n"),
        ("fw_ver", "28.39.1002\n"),
        ("hca_type", "MT4129\n"),
        ("ports/1/state", "4: ACTIVE\n"),
        ("ports/1/phys_state", "5: LinkUp\n"),
        ("ports/1/rate", "400 Gb/sec (4X NDR)\n"),
        ("ports/1/link_layer", "Ethernet\n"),
        ("ports/1/gids/0", "fe80:0000:0000:0000:b8ce:f603:0001:0203\n"),
        ("ports/1/gid_attrs/types/0", "RoCE v2\n"),
        ("ports/1/gid_attrs/ndevs/0", "eth9\n"),
        ("ports/1/counters/port_xmit_data", "1000\n"),
        ("ports/1/counters/port_rcv_data", "2000\n"),
        ("ports/1/hw_counters/np_cnp_sent", "33\n"),
        ("ports/1/hw_counters/out_of_sequence", "44\n"),
    ] {
        put(root, &format!("{ib}/{name}"), text);
    }
    symlink("../../../0000:01:00.0", root.join(&ib).join("device")).expect("linked");
    let net = format!("{function}/net/eth9");
    for (name, text) in [
        ("address", "b8:ce:f6:01:02:03\n"),
        ("mtu", "9000\n"),
        ("speed", "400000\n"),
        ("operstate", "up\n"),
        ("carrier", "1\n"),
        ("type", "1\n"),
        ("statistics/rx_bytes", "123\n"),
        ("statistics/tx_bytes", "456\n"),
        ("queues/rx-0/rps_cpus", "ff\n"),
    ] {
        put(root, &format!("{net}/{name}"), text);
    }
    symlink("../../../0000:01:00.0", root.join(&net).join("device")).expect("linked");
    for (class, name, real) in [("infiniband", "mlx5_0", &ib), ("net", "eth9", &net)] {
        fs::create_dir_all(root.join("sys/class").join(class)).expect("a class");
        let target = format!("../../{}", real.strip_prefix("sys/").expect("below sys"));
        symlink(target, root.join("sys/class").join(class).join(name)).expect("linked");
    }
    put(root, "proc/net/snmp", "Tcp: RtoAlgorithm RetransSegs InSegs\nTcp: 1 5 100\n");
    put(root, "proc/net/netstat", "IpExt: InCEPkts InECT0Pkts\nIpExt: 7 8\n");
    put(root, "proc/sys/kernel/hostname", "node17\n");
    put(root, "proc/sys/kernel/osrelease", "6.12.0\n");
    let statistics = "NIC statistics:\n     rx_prio3_pause: 17\n     tx_prio3_pause: 18\n     rx_bytes_phy: 99\n";
    put(root, "ethtool/eth9.S.txt", statistics);
    put(
        root,
        "ethtool/eth9.i.txt",
        "driver: mlx5_core\nversion: 6.12\nfirmware-version: 28.39.1002\nbus-info: 0000:01:00.0\n",
    );
    let link =
        r#"[{"ifindex":0,"ifname":"mlx5_0","port":1,"state":"ACTIVE","physical_state":"LINK_UP","netdev":"eth9"}]"#;
    put(root, "rdma/link.json", link);
}

fn series(root: &Path) -> Vec<String> {
    let roots = Arc::new(Roots::new(Some(root.to_owned())));
    let (sections, _) = once(roots, &Settings { host: "x".into(), ..Settings::default() });
    let text = render(&sections, Format::Prometheus);
    let own = |l: &&str| !l.starts_with('#') && !l.starts_with("fabriclens_agent_");
    text.lines().filter(own).map(str::to_owned).collect()
}

fn record(root: &Path, dir: &Path, scrub: bool, ticks: Option<u32>) -> Summary {
    let options = Options {
        dir: dir.to_owned(),
        ticks,
        interval: Duration::ZERO,
        scrub,
        host: "node17".into(),
        exclude_devices: vec![],
    };
    capture(&Arc::new(Roots::new(Some(root.to_owned()))), &options).expect("recorded")
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => out.extend(files(&path)),
            _ => out.push(path),
        }
    }
    out
}

#[test]
fn recording_replays_like_the_host() {
    let dir = tempfile::tempdir().unwrap();
    let (root, copy) = (dir.path().join("host"), dir.path().join("copy"));
    host(&root);
    let before = series(&root);
    for part in ["rdma_io", "cnp", "pfc_frames", "pcie", "tcp", "netdev_io"] {
        assert!(before.iter().any(|l| l.contains(part)), "the host itself has no {part}: {before:#?}");
    }
    let summary = record(&root, &copy, false, None);
    assert_eq!(series(&copy), before);
    assert!(summary.files > 30 && summary.bytes > 500, "{summary:?}");

    let names: Vec<String> = files(&copy).iter().map(|p| p.display().to_string()).collect();
    for never in ["reset", "vpd", "rps_cpus"] {
        assert!(!names.iter().any(|n| n.ends_with(never)), "{never} was recorded");
    }
    let manifest = fs::read_to_string(copy.join("manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    assert_eq!((&manifest["host"], &manifest["scrubbed"]), (&"node17".into(), &false.into()));
    assert!(manifest["skipped"].to_string().contains("verbs"), "what is missing is named: {manifest:#}");
}

#[test]
fn scrubbed_recording_has_no_identities() {
    let dir = tempfile::tempdir().unwrap();
    let (root, copy) = (dir.path().join("host"), dir.path().join("copy"));
    host(&root);
    record(&root, &copy, true, None);
    let values = |lines: Vec<String>| -> Vec<String> {
        let mut values: Vec<String> = lines
            .iter()
            .map(|l| format!("{} {}", l.split('{').next().unwrap(), l.rsplit(' ').next().unwrap()))
            .collect();
        values.sort();
        values
    };
    assert_eq!(values(series(&copy)), values(series(&root)));
    for path in files(&copy) {
        let shown = path.strip_prefix(&copy).unwrap().display().to_string();
        let text = fs::read_to_string(&path).unwrap_or_default();
        for secret in ["node17", "01:02:03", "0001:0203", "SECRET"] {
            assert!(!text.contains(secret) && !shown.contains(secret), "{secret} in {shown}");
        }
    }
}

/// Every text that a host, its administrator or a neighbor can set holds a canary; none is in a scrubbed recording.
#[test]
fn scrubbed_recording_has_no_canaries() {
    let dir = tempfile::tempdir().unwrap();
    let (root, copy) = (dir.path().join("host"), dir.path().join("copy"));
    busy_host(&root);
    let function = "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0";
    let (net, ib) = (format!("{function}/net/eth9"), format!("{function}/infiniband/mlx5_0"));
    for (path, text) in [
        (format!("{net}/ifalias"), "uplink to canary-a, 10.77.1.2, \u{e9}-canary\n"),
        (format!("{net}/phys_port_name"), "canary-b\n"),
        (format!("{net}/netdev_group"), "canary-c\n"),
        (format!("{net}/bonding/primary"), "canary-d0\n"),
        (format!("{net}/bonding/slaves"), "eth9 canarye0\n"),
        (format!("{net}/uevent"), "INTERFACE=eth9\nIFINDEX=3\nOWNER=canary-f\n"),
        (format!("{net}/some_new_attribute"), "serial canary-g, fd00:77::1\n"),
        (format!("{ib}/node_desc"), "NODE17 canary-h mlx5_0\n"),
        (format!("{ib}/serial_number"), "MT77canary\n"),
        (format!("{ib}/ports/1/gid_attrs/ndevs/1"), "canaryi0\n"),
        (format!("{function}/label"), "canary-j\n"),
        (format!("{function}/infiniband_mad/umad0/ibdev"), "canaryp_0\n"),
        (format!("{function}/infiniband_mad/umad0/some_new_name"), "canary-q\n"),
        ("proc/sys/kernel/random/boot_id".to_owned(), "0c0ffee0-canary-77\n"),
        ("proc/sys/kernel/osrelease".to_owned(), "6.12.0-canary-amd64\n"),
        ("etc/os-release".to_owned(), "ID=debian\nVERSION_ID=\"12\"\nPRETTY_NAME=\"Debian canary\"\nSITE=canary-k\n"),
        (
            "lldp/eth9.json".to_owned(),
            r#"{"lldp":[{"interface":[{"via":"LLDP","chassis":[{"name":[{"value":"canary-l"}]}],"port":[{"id":[{"type":"ifname","value":"canary-m"}]}]}]}]}"#,
        ),
    ] {
        put(&root, &path, text);
    }
    symlink("../../../0000:00:01.0", root.join(&net).join("lower_canaryn0")).expect("linked");
    // A device whose name an administrator chose.
    let named = format!("{function}/net/canaryo0");
    for (name, text) in [("address", "b8:ce:f6:01:02:04\n"), ("operstate", "up\n"), ("statistics/rx_bytes", "9\n")] {
        put(&root, &format!("{named}/{name}"), text);
    }
    symlink(format!("../../{}", named.strip_prefix("sys/").unwrap()), root.join("sys/class/net/canaryo0")).unwrap();
    record(&root, &copy, true, None);
    let mut all = 0;
    for path in files(&copy) {
        let shown = path.strip_prefix(&copy).unwrap().display().to_string().to_lowercase();
        let target = fs::read_link(&path).map(|t| t.display().to_string()).unwrap_or_default().to_lowercase();
        let text = String::from_utf8_lossy(&fs::read(&path).unwrap_or_default()).to_lowercase();
        for secret in ["canary", "node17", "10.77.1.2", "fd00:77", "0c0ffee0", "01:02:04", "mt77"] {
            assert!(
                [&text, &shown, &target].iter().all(|t| !t.contains(secret)),
                "{secret} in {shown} {target}: {text}"
            );
        }
        all += 1;
    }
    assert!(all > 40, "{all}");
    let replayed = series(&copy);
    assert!(replayed.iter().any(|line| line.starts_with("fabric_rdma_io")), "{replayed:#?}");
}

/// Jobs on a host of version 1, with a user, a cluster, secrets, and a connection.
fn busy_host(root: &Path) {
    host(root);
    let group = "slurm/uid_4321/job_7/step_0";
    put(root, "proc/mounts", "/dev/sda / ext4 rw 0 0\ncgroup /sys/fs/cgroup/freezer cgroup rw,freezer 0 0\n");
    put(root, &format!("sys/fs/cgroup/freezer/{group}/cgroup.procs"), "17\n18\n");
    put(root, "sys/fs/cgroup/freezer/pbs_jobs.service/jobid/9.headnode/cgroup.procs", "19\n");
    put(root, "etc/passwd", "root:x:0:0::/root:/bin/sh\nannabell:x:4321:1:Ann A. Bell:/home/annabell:/bin/sh\n");
    let environment =
        "TOKEN=hunter2\0SLURM_JOB_ID=7\0SLURM_JOB_NAME=project-x\0SLURM_JOB_USER=annabell\0SLURM_CLUSTER_NAME=bigone\0";
    for (pid, group, environment) in [
        (17, group, "PATH=/bin\0"),
        (18, group, environment),
        (19, "pbs_jobs.service/jobid/9.headnode", "PBS_JOBID=9.headnode\0"),
        (20, "user.slice/annabell", environment),
    ] {
        put(root, &format!("proc/{pid}/cgroup"), &format!("3:freezer:/{group}\n"));
        put(root, &format!("proc/{pid}/environ"), environment);
        put(root, &format!("proc/{pid}/status"), "Name:\tproject-x\nUid:\t4321\t4321\t4321\t4321\n");
    }
    let qp = |lqpn: u32, pid: u32| {
        format!(
            r#"{{"ifname":"mlx5_0","port":1,"lqpn":{lqpn},"rqpn":9,"type":"RC","state":"RTS","pid":{pid},"comm":"project-x"}}"#
        )
    };
    put(root, "rdma/res-qp.json", &format!("[{},{}]", qp(5, 18), qp(6, 20)));
    let id = r#"{"ifname":"mlx5_0","port":1,"lqpn":5,"state":"CONNECT","pid":18,"comm":"project-x","dst-addr":"192.0.2.77","dst-port":5}"#;
    put(root, "rdma/res-cm_id.json", &format!("[{id}]"));
}

#[test]
fn jobs_replay_without_environments() {
    let dir = tempfile::tempdir().unwrap();
    let (root, copy) = (dir.path().join("host"), dir.path().join("copy"));
    busy_host(&root);
    let before = series(&root);
    for part in [
        r#"cluster="bigone",job="7",scheduler="slurm",task="7",user="annabell"} 2"#,
        r#"job="9.headnode""#,
        r#"peer="192.0.2.77""#,
    ] {
        assert!(before.iter().any(|l| l.contains(part)), "the host itself has no {part}: {before:#?}");
    }
    record(&root, &copy, false, None);
    assert_eq!(series(&copy), before);
    for path in files(&copy) {
        let text = fs::read(&path).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        for secret in ["hunter2", "SLURM_JOB_NAME", "/dev/sda", "Ann A. Bell", "user.slice"] {
            assert!(!text.contains(secret), "{secret} in {}", path.display());
        }
    }
}

#[test]
fn scrubbed_recording_has_no_users() {
    let dir = tempfile::tempdir().unwrap();
    let (root, copy) = (dir.path().join("host"), dir.path().join("copy"));
    busy_host(&root);
    record(&root, &copy, true, None);
    let of_jobs = |root: &Path| {
        series(root).iter().filter(|l| l.starts_with("fabric_job") || l.starts_with("fabric_queue")).count()
    };
    assert_eq!(of_jobs(&copy), of_jobs(&root));
    let replayed = series(&copy);
    assert!(replayed.iter().any(|l| l.contains(r#"job="9.server""#)), "{replayed:#?}");
    assert!(
        replayed.iter().any(|l| l.contains(r#"user="user-"#) && l.contains(r#"cluster="cluster-"#)),
        "{replayed:#?}"
    );
    for path in files(&copy) {
        let shown = path.strip_prefix(&copy).unwrap().display().to_string();
        let text = fs::read(&path).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        for secret in ["hunter2", "annabell", "4321", "bigone", "headnode", "project-x", "192.0.2.77"] {
            assert!(!text.contains(secret) && !shown.contains(secret), "{secret} in {shown}: {text}");
        }
    }
}

#[test]
fn ticks_are_directories_never_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let (root, copy) = (dir.path().join("host"), dir.path().join("copy"));
    host(&root);
    record(&root, &copy, false, Some(2));
    assert_eq!(series(&copy.join("0")), series(&copy.join("1")));
    let options = Options {
        dir: copy,
        ticks: None,
        interval: Duration::ZERO,
        scrub: false,
        host: "h".into(),
        exclude_devices: vec![],
    };
    let error = capture(&Arc::new(Roots::new(Some(root))), &options).unwrap_err();
    assert!(error.to_string().contains("not empty"), "{error}");
}

/// Who can write into the directory could lead root to other files by links.
#[test]
fn a_directory_that_others_can_write_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (root, copy) = (dir.path().join("host"), dir.path().join("copy"));
    host(&root);
    fs::create_dir(&copy).unwrap();
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o777)).unwrap();
    let options = Options {
        dir: copy.clone(),
        ticks: None,
        interval: Duration::ZERO,
        scrub: false,
        host: "h".into(),
        exclude_devices: vec![],
    };
    let error = capture(&Arc::new(Roots::new(Some(root))), &options).unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("every user can write into it; run: chmod o-w"), "{error}: {cause}");
    assert_eq!(fs::read_dir(copy).unwrap().count(), 0);
}

/// Unreadable files are left out and named; a FIFO would block a naive reader.
#[test]
fn unreadable_files_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let (root, copy) = (dir.path().join("host"), dir.path().join("copy"));
    host(&root);
    let stats = root.join("sys/class/net/eth9/statistics");
    rustix::fs::mkfifoat(rustix::fs::CWD, stats.join("rx_errors"), 0o600.into()).unwrap();
    fs::write(stats.join("tx_errors"), "9".repeat(100_000)).unwrap();
    record(&root, &copy, false, None);
    let manifest = fs::read_to_string(copy.join("manifest.json")).unwrap();
    for part in ["rx_errors", "not a regular file", "tx_errors", "larger than 64 KiB"] {
        assert!(manifest.contains(part), "{part} in {manifest}");
    }
}

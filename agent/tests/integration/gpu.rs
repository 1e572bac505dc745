//! GPUs and their adapters on recorded hosts: distances against `nvidia-smi topo -m` of the same host.

use crate::hosts::copy;
use crate::support::fake::Fake;
use crate::support::lspci::{Function, tree, verbose, write};
use crate::support::{host, sample, series, value};
use fabriclens_agent::schedule::{Engine, Outcome, Settings, once};
use fabriclens_agent_host::gpu_affinity::{Distance, nearest};
use fabriclens_agent_host::roots::Roots;
use fabriclens_testing::eventually;
use fabriclens_wire::Section;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Words of `nvidia-smi topo -m` and the numbers that are exported for them.
const LEVELS: [(&str, f64); 5] = [("PIX", 10.0), ("PXB", 20.0), ("PHB", 30.0), ("NODE", 40.0), ("SYS", 50.0)];

fn recorded(path: &str) -> String {
    let path = fabriclens_testing::recordings().join("gpu").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A matrix of `nvidia-smi topo -m`: words of GPU rows and NIC columns, and the NUMA node of each GPU.
fn matrix(text: &str) -> (Vec<Vec<&str>>, Vec<Option<u32>>) {
    let mut lines = text.lines().filter(|line| !line.starts_with('$'));
    let header: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
    let is_nic = |name: &&str| name.starts_with("NIC") || name.starts_with("mlx5_");
    let gpus = header.iter().take_while(|name| name.starts_with("GPU")).count();
    let nics = header.iter().filter(|name| is_nic(name)).count();
    let rows = lines.take_while(|line| line.starts_with("GPU")).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let rows: Vec<Vec<&str>> = rows.collect();
    let words = rows.iter().map(|row| row[1 + gpus..1 + gpus + nics].to_vec()).collect();
    (words, rows.iter().map(|row| row.get(2 + gpus + nics)?.parse().ok()).collect())
}

/// Distance of each GPU to each adapter of the given names, as the agent exports it; and the nearest adapter.
fn exported(root: &Path, gpus: usize, adapters: &[String]) -> (Vec<Vec<&'static str>>, Vec<Option<usize>>) {
    let all = series(&sample(root).0);
    let of = |adapter: &str, metric: &str, gpu| value(&all, &format!("{adapter} fabric.gpu.nic.{metric}{{gpu={gpu}}}"));
    let word = |level: f64| LEVELS.iter().find(|(_, number)| *number == level).unwrap().0;
    let row = |gpu| adapters.iter().map(|name| word(of(name, "distance", gpu).unwrap())).collect();
    let near = |gpu| adapters.iter().position(|name| of(name, "nearest", gpu) == Some(1.0));
    ((0..gpus).map(row).collect(), (0..gpus).map(near).collect())
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("mlx5_{n}")).collect()
}

#[test]
#[ignore = "needs: recordings"]
fn distances_equal_the_matrix_of_the_same_host() {
    let text = recorded("stelline-asus-esc8000a-e12/lspci_-tv.txt");
    let topo = recorded("stelline-asus-esc8000a-e12/nvidia-smi_topo_-m.txt");
    let (words, nodes) = matrix(&topo);
    let mut functions = tree(&text);
    assert_eq!(functions.iter().filter(|f| f.name.starts_with("Mellanox")).count(), 4, "{functions:#?}");
    // The tree does not show NUMA nodes: those of GPUs are in the matrix, those of adapters in `lspci -vvv -s`.
    let mut nodes = nodes.into_iter();
    for function in &mut functions {
        let of_card = || {
            let bus = &function.address[5..7];
            verbose(recorded(&format!("stelline-asus-esc8000a-e12/lspci_-vvv_-s_{bus}_00.0.txt")).split_once('\n')?.1)
                [0]
            .numa
        };
        function.numa = match &*function.name {
            name if name.contains("[RTX") => nodes.next().unwrap(),
            name if name.starts_with("Mellanox") => of_card(),
            _ => None,
        };
    }
    let dir = tempfile::tempdir().unwrap();
    write(&functions, dir.path());
    let (found, near) = exported(dir.path(), 4, &names(4));
    assert_eq!(found, words);
    assert_eq!(near, [Some(0), Some(1), Some(2), Some(3)], "two GPUs of a socket share its two ports");
}

/// Eight H100 with an adapter each behind one switch: the recording has no matrix, another host of that design has.
#[test]
#[ignore = "needs: recordings"]
fn each_gpu_behind_a_switch_uses_its_adapter() {
    let functions = verbose(&recorded("lspci-h100-cx7-pex890xx/lspci-vvv.txt"));
    let of = |what: &str| -> Vec<&Function> { functions.iter().filter(|f| f.name.contains(what)).collect() };
    let dir = tempfile::tempdir().unwrap();
    write(&functions, dir.path());
    let gpus = functions.iter().filter(|f| f.what.starts_with("3D controller")).count();
    let mellanox = of("Mellanox");
    let fabric: Vec<String> =
        (0..mellanox.len()).filter(|n| mellanox[*n].name.contains("ConnectX-7")).map(|n| format!("mlx5_{n}")).collect();
    assert_eq!((gpus, fabric.len(), mellanox.len()), (8, 8, 12));
    let (found, near) = exported(dir.path(), gpus, &fabric);
    let topo = recorded("topo-8gpu-8nic-pix/topo.txt");
    assert_eq!(found, matrix(&topo).0);
    assert_eq!(near, (0..8).map(Some).collect::<Vec<_>>());
    let all = series(&sample(dir.path()).0);
    let info = all.iter().filter(|(name, _)| name.starts_with("host fabric.gpu.info")).count();
    assert_eq!(info, 8, "neither NVSwitches nor the display of the management controller");
}

/// Settings of each adapter against what `lspci -vvv` printed of it and of the bridges above.
#[test]
#[ignore = "needs: recordings"]
fn pcie_settings_equal_what_lspci_printed() {
    let functions = verbose(&recorded("lspci-h100-cx7-pex890xx/lspci-vvv.txt"));
    let dir = tempfile::tempdir().unwrap();
    write(&functions, dir.path());
    let all = series(&sample(dir.path()).0);
    let line = |function: &Function, start: &str| {
        let mut lines = function.capabilities.iter().flat_map(|c| &c.lines);
        lines.find(|line| line.starts_with(start)).cloned().unwrap_or_default()
    };
    let mellanox: Vec<&Function> = functions.iter().filter(|f| f.name.starts_with("Mellanox")).collect();
    let mut with_redirect = 0;
    for (n, function) in mellanox.iter().enumerate() {
        let of = |name: &str| value(&all, &format!("mlx5_{n} fabric.pcie.{name}"));
        let sizes = line(function, "MaxPayload 256 bytes, MaxReadReq");
        let read: f64 = sizes.rsplit(' ').nth(1).unwrap().parse().unwrap();
        assert_eq!((of("max_payload{}"), of("max_read_request{}")), (Some(256.0), Some(read)));
        let relaxed = line(function, "RlxdOrd").starts_with("RlxdOrd+");
        assert_eq!(of("relaxed_ordering{}"), Some(f64::from(relaxed)));
        assert_eq!(of("ats{}"), Some(f64::from(line(function, "ATSCtl:").contains("Enable+"))));
        let above = functions.iter().filter(|f| function.path.starts_with(&format!("{}/", f.path)));
        let redirects = above.filter(|f| line(f, "ACSCtl:").contains("ReqRedir+")).count();
        assert_eq!(of("acs{control=request_redirect}"), Some(redirects as f64));
        with_redirect += redirects;
    }
    assert_eq!(mellanox.len(), 12);
    assert!(functions.iter().any(|f| line(f, "ACSCtl:").contains("ReqRedir+")), "some bridges have it on");
    assert_eq!(with_redirect, 0, "but none above an adapter");
}

/// Without `CAP_SYS_ADMIN` the kernel gives 64 bytes of a configuration space.
#[test]
fn settings_that_may_not_be_read_are_absent() {
    let dir = tempfile::tempdir().unwrap();
    copy(&host("gpu"), dir.path());
    let config = "sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:02.0/0000:1a:00.0/config";
    let config = dir.path().join(config);
    let bytes = std::fs::read(&config).unwrap();
    std::fs::write(&config, &bytes[..64]).unwrap();
    let (sections, statuses) = sample(dir.path());
    let all = series(&sections);
    let settings = |nic: &str| all.iter().filter(|(n, _)| n.starts_with(&format!("{nic} fabric.pcie.max_"))).count();
    assert_eq!((settings("mlx5_0"), settings("mlx5_1")), (0, 2));
    assert_eq!(value(&all, "mlx5_0 fabric.pcie.iommu{type=identity}"), Some(1.0));
    let status = statuses.iter().find(|s| s.sampler == "pcie_settings" && s.target == "mlx5_0").unwrap();
    assert!(status.note.contains("CAP_SYS_ADMIN"), "{status:?}");
}

#[test]
#[ignore = "needs: recordings"]
fn nearest_adapters_of_recorded_matrices() {
    let levels: BTreeMap<&str, Distance> =
        [Distance::Pix, Distance::Pxb, Distance::Phb, Distance::Node, Distance::Sys].map(|d| (d.name(), d)).into();
    for (file, expected) in [
        ("topo-8gpu-8nic-pix/topo.txt", (0..8).collect::<Vec<_>>()),
        ("topo-vm-1gpu-1nic-phb/topo.txt", vec![0]),
        ("topo-old-style-mlx5-names/topo-2gpu-1nic.txt", vec![0, 0]),
        ("topo-old-style-mlx5-names/topo-4gpu-4nic.txt", vec![0, 1, 2, 3]),
    ] {
        let text = recorded(file);
        let rows: Vec<Vec<Option<Distance>>> =
            matrix(&text).0.iter().map(|row| row.iter().map(|word| Some(levels[word])).collect()).collect();
        assert_eq!(nearest(&rows), expected.into_iter().map(Some).collect::<Vec<_>>(), "{file}");
    }
}

#[test]
fn gpus_of_the_repository_host() {
    let all = series(&sample(&host("gpu")).0);
    let of = |name: &str| value(&all, name);
    let infos: Vec<&String> =
        all.iter().map(|(name, _)| name).filter(|name| name.contains("fabric.gpu.info")).collect();
    assert_eq!(
        infos,
        [
            "host fabric.gpu.info{driver=nvidia,gpu=0,model=10de:2330,numa_node=0,pci_address=0000:19:00.0,vendor=nvidia}",
            "host fabric.gpu.info{driver=nvidia,gpu=1,model=10de:2330,numa_node=1,pci_address=0000:9b:00.0,vendor=nvidia}",
        ]
    );
    let pairs =
        ["mlx5_0", "mlx5_1"].map(|nic| [0, 1].map(|gpu| of(&format!("{nic} fabric.gpu.nic.distance{{gpu={gpu}}}"))));
    assert_eq!(pairs, [[Some(10.0), Some(50.0)], [Some(50.0), Some(20.0)]]);
    let near =
        ["mlx5_0", "mlx5_1"].map(|nic| [0, 1].map(|gpu| of(&format!("{nic} fabric.gpu.nic.nearest{{gpu={gpu}}}"))));
    assert_eq!(near, [[Some(1.0), None], [None, Some(1.0)]]);
    assert_eq!(of("host fabric.gpu.pcie.width{gpu=1}"), Some(8.0));
    assert_eq!(of("host fabric.gpu.pcie.width.max{gpu=1}"), Some(16.0));
    for (nic, name, expected) in [
        ("mlx5_0", "pcie.max_read_request{}", Some(4096.0)),
        ("mlx5_1", "pcie.max_read_request{}", Some(512.0)),
        ("mlx5_0", "pcie.max_payload{}", Some(256.0)),
        ("mlx5_0", "pcie.relaxed_ordering{}", Some(1.0)),
        ("mlx5_0", "pcie.ats{}", Some(1.0)),
        ("mlx5_1", "pcie.ats{}", Some(0.0)),
        ("mlx5_0", "pcie.acs{control=request_redirect}", Some(1.0)),
        ("mlx5_1", "pcie.acs{control=request_redirect}", Some(0.0)),
        ("mlx5_0", "pcie.acs{control=translation_blocking}", Some(0.0)),
        ("mlx5_0", "pcie.iommu{type=identity}", Some(1.0)),
        ("mlx5_1", "pcie.iommu{type=DMA-FQ}", Some(1.0)),
        ("mlx5_0", "gpudirect.available{method=peer_memory}", Some(1.0)),
        ("mlx5_0", "gpudirect.available{method=dma_buf}", Some(1.0)),
        ("mlx5_1", "gpudirect.available{method=dma_buf}", Some(0.0)),
    ] {
        assert_eq!(of(&format!("{nic} fabric.{name}")), expected, "{nic} {name}");
    }
}

#[test]
fn nvml_reports_become_series() {
    let all = series(&sample(&host("gpu")).0);
    for (name, expected) in [
        ("fabric.nvlink.up{gpu=0,link=0}", Some(1.0)),
        ("fabric.nvlink.up{gpu=0,link=1}", Some(0.0)),
        ("fabric.nvlink.down{gpu=0,link=0}", Some(0.0)),
        ("fabric.nvlink.down{gpu=0,link=1}", None),
        ("fabric.nvlink.io{direction=receive,gpu=0,link=0}", Some(2_097_152.0)),
        ("fabric.nvlink.errors{gpu=0,link=0,reason=replay}", Some(2.0)),
        ("fabric.nvlink.errors{gpu=0,link=1,reason=replay}", None),
        ("fabric.nvlink.bit_errors{gpu=1,link=0,reason=raw}", Some(5e-9)),
        ("fabric.nvlink.domain.health{gpu=1}", Some(2.0)),
        ("fabric.nvlink.domain.health{gpu=0}", None),
        ("fabric.gpu.remapping{gpu=0,state=pending}", Some(1.0)),
        ("fabric.gpu.lost{gpu=1}", Some(0.0)),
    ] {
        assert_eq!(value(&all, &format!("host {name}")), expected, "{name}");
    }
}

/// A host that has just booted, one whose GPU sleeps, and one where a key turns NVML off.
#[test]
fn nvml_is_asked_only_where_it_does_no_harm() {
    let count = |root: &Path, on: bool| {
        let samplers = [("nvml".to_owned(), on)].into();
        let settings = Settings { host: "h".into(), samplers, ..Settings::default() };
        let (sections, statuses) = once(Arc::new(Roots::new(Some(root.to_owned()))), &settings);
        let all = series(&sections);
        let count = |prefix: &str| all.iter().filter(|(name, _)| name.starts_with(prefix)).count();
        let outcome = statuses.into_iter().find(|status| status.sampler == "nvml").map(|status| status.outcome);
        ([count("host fabric.nvlink.up"), count("host fabric.nvlink.down")], outcome)
    };
    let dir = tempfile::tempdir().unwrap();
    copy(&host("gpu"), dir.path());
    assert_eq!(count(dir.path(), true).0, [3, 2]);
    assert_eq!(count(dir.path(), false), ([0, 0], None));
    std::fs::write(dir.path().join("proc/uptime"), "599.99 1.00\n").unwrap();
    assert_eq!(count(dir.path(), true).0, [3, 0], "links may train");
    let gpu = dir.path().join("sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:19:00.0");
    std::fs::create_dir(gpu.join("power")).unwrap();
    std::fs::write(gpu.join("power/runtime_status"), "suspended\n").unwrap();
    let (links, outcome) = count(dir.path(), true);
    assert_eq!(links, [0, 0]);
    assert!(matches!(&outcome, Some(Outcome::Absent(why)) if why.contains("suspend")), "{outcome:?}");
}

#[test]
fn nvml_that_hangs_delays_nothing() {
    let root = host("gpu");
    let fake = Fake::new(&root);
    fake.blocked_nvml.store(true, Ordering::Relaxed);
    let settings = Settings {
        host: "h".into(),
        full: Duration::from_millis(50),
        slow: Duration::from_millis(200),
        deadline: Duration::from_millis(300),
        ..Settings::default()
    };
    let engine = Engine::start(Arc::new(Roots::with_calls(root, fake.clone())), settings).unwrap();
    let outcome = |sampler: &str| {
        let mut sources = engine.sources().into_iter();
        sources.find(|status| status.sampler == sampler).map(|status| (status.outcome, status.reads))
    };
    eventually("it is reported as stalled", Duration::from_secs(20), || {
        matches!(outcome("nvml"), Some((Outcome::Stalled(_), _)))
    });
    let before = ["gpu", "gpu_affinity", "pcie_settings"].map(|name| outcome(name).unwrap().1);
    eventually("the others go on", Duration::from_secs(20), || {
        let now = ["gpu", "gpu_affinity", "pcie_settings"].map(|name| outcome(name).unwrap().1);
        now.iter().zip(before).all(|(now, before)| *now > before + 2)
    });
    fake.blocked_nvml.store(false, Ordering::Relaxed);
    // By what is sent: a report of more than a second puts the next ones off, so the state may show data for a moment only.
    let is_of_nvml = |section: &Section| section.columns.iter().any(|column| column.metric.name == "fabric.nvlink.up");
    eventually("it is read again", Duration::from_secs(20), || {
        engine.reader(0).take(usize::MAX).iter().any(is_of_nvml)
    });
    engine.shutdown(Duration::from_secs(5));
}

//! Initial inputs of the targets: written by our own encoders, or files of the repository.

use crate::paths::{host_fixtures, root, scratch};
use fabriclens_agent::device::{Runner, Tick};
use fabriclens_agent::schedule;
use fabriclens_agent::state::{self, State};
use fabriclens_agent_host::clock::Clock;
use fabriclens_agent_host::discover::discover;
use fabriclens_agent_host::roots::Roots;
use fabriclens_agent_samplers::target::SamplingTarget;
use fabriclens_agent_uplink::spool::{Limits, Now, Spool};
use fabriclens_catalog::kernel_log::{LOG_CLASSES, LogClass, Printer};
use fabriclens_core::prompb::{Label, MetricMetadata, Sample, TimeSeries, WriteRequest};
use fabriclens_kernel::live;
use fabriclens_model::Labels;
use fabriclens_store::log_record;
use fabriclens_wire::Section;
use prost::Message as _;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Largest seed file, bytes; larger ones slow the fuzzer and add little coverage.
const LARGEST: u64 = 64 << 10;

/// Contents of the files below a directory of the repository; empty if it does not exist.
pub fn files(dir: &str) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    below(&root().join(dir), &mut found);
    found.iter().filter_map(|path| fs::read(path).ok()).collect()
}

/// Files below a directory of at most [`LARGEST`] bytes, sorted.
fn below(dir: &Path, found: &mut Vec<PathBuf>) {
    let mut paths: Vec<_> = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        match fs::symlink_metadata(&path) {
            Ok(meta) if meta.is_dir() => below(&path, found),
            Ok(meta) if meta.is_file() && meta.len() <= LARGEST => found.push(path),
            _ => {}
        }
    }
}

fn file(path: &str) -> Vec<Vec<u8>> {
    vec![fs::read(root().join(path)).expect("the file is in the repository")]
}

/// Samples of recorded hosts.
pub(crate) fn otlp() -> Vec<Vec<u8>> {
    let sample = |name: &str| {
        let settings = schedule::Settings { host: name.into(), ..schedule::Settings::default() };
        schedule::once(Arc::new(Roots::new(Some(host_fixtures().join(name)))), &settings).0
    };
    ["mlx5-roce", "rxe", "slurm", "mana"]
        .iter()
        .map(|name| fabriclens_wire::encode::request_bytes(&sample(name)))
        .collect()
}

pub(crate) fn otlp_json() -> Vec<Vec<u8>> {
    let point = r#"{"startTimeUnixNano":"1","timeUnixNano":"2000000000","asDouble":1.5,"attributes":[{"key":"port","value":{"stringValue":"1"}}]}"#;
    let sum = format!(
        r#"{{"dataPoints":[{point},{{"timeUnixNano":"7","asInt":"3"}}],"aggregationTemporality":2,"isMonotonic":true}}"#
    );
    let buckets = r#"{"timeUnixNano":"9","count":"3","sum":4.5,"bucketCounts":["1","2"],"explicitBounds":[0.5]}"#;
    let metrics = format!(
        r#"{{"name":"fabric.a","unit":"By","sum":{sum}}},{{"name":"b","gauge":{{"dataPoints":[{point}]}}}},{{"name":"c","histogram":{{"dataPoints":[{buckets}],"aggregationTemporality":2}}}}"#
    );
    let resource = r#"{"attributes":[{"key":"host.name","value":{"stringValue":"h1"}}]}"#;
    vec![
        format!(r#"{{"resourceMetrics":[{{"resource":{resource},"scopeMetrics":[{{"metrics":[{metrics}]}}]}}]}}"#)
            .into_bytes(),
    ]
}

pub(crate) fn remote_write() -> Vec<Vec<u8>> {
    let label = |(name, value): (&str, &str)| Label { name: name.into(), value: value.into() };
    let series = |name: &str| TimeSeries {
        labels: [("__name__", name), ("host", "h1"), ("device", "mlx5_0")].map(label).into(),
        samples: (0..4).map(|t| Sample { value: t as f64, timestamp: t * 1000 }).collect(),
        histograms: Vec::new(),
    };
    let kind = MetricMetadata::kind_number("counter");
    let metadata = vec![MetricMetadata { kind, name: "a".into(), ..MetricMetadata::default() }];
    let plain = WriteRequest { timeseries: ["a", "b_total"].map(series).into(), metadata }.encode_to_vec();
    let packed = snap::raw::Encoder::new().compress_vec(&plain).expect("bytes can be compressed");
    vec![plain, packed]
}

pub(crate) fn gzip() -> Vec<Vec<u8>> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    out.write_all(&[7; 5000]).expect("memory takes bytes");
    vec![out.finish().expect("memory takes bytes")]
}

pub(crate) fn zstd() -> Vec<Vec<u8>> {
    let level = |level| zstd::bulk::compress(&[[7; 5000], [9; 5000]].concat(), level).expect("memory takes bytes");
    let two = [level(1), level(3)].concat();
    vec![level(1), level(19), two, zstd::stream::encode_all(&[3; 70_000][..], 1).expect("memory takes bytes")]
}

/// A request under each number of a compression, as a spool keeps it.
pub(crate) fn kept() -> Vec<Vec<u8>> {
    let request = otlp().swap_remove(1);
    let gzipped = {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        out.write_all(&request).expect("memory takes bytes");
        out.finish().expect("memory takes bytes")
    };
    let zstd = zstd::bulk::compress(&request, 1).expect("memory takes bytes");
    let message = |code: u8, body: &[u8]| {
        let length = (body.len() as u32).to_be_bytes();
        [&[code, u8::from(code > 0)], &length[..], body].concat()
    };
    vec![message(0, &request), message(1, &gzipped), message(2, &zstd)]
}

/// Certificates with names of every supported kind, and one without names.
pub(crate) fn certificates() -> Vec<Vec<u8>> {
    let ia5 = |text: &str| rcgen::string::Ia5String::try_from(text).expect("ASCII");
    let uri = rcgen::SanType::URI(ia5("spiffe://example.org/host/gpu-01"));
    let dns = ["gpu-01.example", "*.example"].map(|name| rcgen::SanType::DnsName(ia5(name)));
    let address = rcgen::SanType::IpAddress([10, 0, 0, 1].into());
    let names = [vec![], vec![uri.clone()], dns.to_vec(), [vec![uri, address], dns.to_vec()].concat()];
    let certificate = |subject_alt_names| {
        let mut params = rcgen::CertificateParams::default();
        params.subject_alt_names = subject_alt_names;
        let key = rcgen::KeyPair::generate().expect("a key");
        params.self_signed(&key).expect("a certificate").der().to_vec()
    };
    names.map(certificate).into()
}

/// A recorded host whose agent restarts and restores the counters of its state file.
pub(crate) struct RestartedHost {
    dir: TempDir,
    roots: Arc<Roots>,
    targets: Vec<SamplingTarget>,
    settings: schedule::Settings,
}

impl RestartedHost {
    pub(crate) fn new() -> Self {
        let dir = scratch();
        copy(&host_fixtures().join("mlx5-roce"), dir.path()).expect("a host can be copied");
        let boot_id = dir.path().join("proc/sys/kernel/random/boot_id");
        fs::create_dir_all(boot_id.parent().expect("it is in a directory")).expect("the copy takes files");
        fs::write(boot_id, "one\n").expect("the copy takes files");
        let roots = Arc::new(Roots::new(Some(dir.path().into())));
        let found = discover(&roots, &[], None);
        let device = found.devices.first().expect("the host has a device");
        let targets = SamplingTarget::of_device(&roots, &"h".into(), device);
        let state_dir = Some(dir.path().join("state"));
        Self { dir, roots, targets, settings: schedule::Settings { state_dir, ..schedule::Settings::default() } }
    }

    /// Sections that an agent sends after it found a state file with this body. It then writes its own state file.
    pub(crate) fn sampled(&self, body: &[u8]) -> Vec<Section> {
        let dir = self.dir.path().join("state");
        fs::create_dir_all(&dir).expect("the copy takes files");
        fs::write(dir.join("counters.state"), state::sealed(body)).expect("the copy takes files");
        let state = State::open(&dir, "h", &self.roots).expect("a directory of its own");
        let (mut sections, mut memory) = (Vec::new(), BTreeMap::new());
        for target in &self.targets {
            let mut runner = Runner::new(target.clone(), &self.settings, Arc::new(Clock::new()));
            runner.recall(state.take(&target.name(), &target.identity()));
            for tick in [Tick::Slow, Tick::Full, Tick::Slow] {
                runner.run(tick, &mut |section| sections.push(section));
            }
            memory.extend(runner.shared().memory.lock().clone().map(|memory| (target.name(), memory)));
        }
        state.save(memory, Some(814));
        sections
    }
}

pub(crate) fn states() -> Vec<Vec<u8>> {
    let host = RestartedHost::new();
    host.sampled(b"{}");
    let file = fs::read(host.dir.path().join("state/counters.state")).expect("it was saved");
    let body = file.iter().position(|byte| *byte == b'\n').expect("a line") + 1;
    vec![file[body..].to_vec()]
}

pub(crate) fn lines() -> Vec<Vec<u8>> {
    let line = r#"{"metric":{"__name__":"a","job":"x"},"values":[1,2.5,"NaN",null,+Inf],"timestamps":[1,2,3,4,5]}"#;
    vec![line.into(), format!("{line}\n\n{}\n", line.replace("+Inf", "\"-Inf\"")).into()]
}

/// Patterns that are short and become large, and ordinary ones.
pub(crate) fn names() -> Vec<Vec<u8>> {
    let all = [
        "__name__\0fabric_port_up\0host\0gpu-01",
        "__name__\0up 1 1\nup{host=\"other\"}\0host\0evil",
        "__name__\0http.requests\0code.class\0a\"b\\c\nd\0é\0\u{9b}2J",
        "+1",
        "__name__\0on\0by\0x",
        "=1+1\0-2\0@x\0\t\r\u{202e}\u{2028}",
    ];
    all.map(|text| text.as_bytes().to_vec()).to_vec()
}

pub(crate) fn job_bodies() -> Vec<Vec<u8>> {
    let all = [
        r#"{"id": 4711, "user": "ann", "hosts": ["gpu-01", "gpu-02"], "labels": {"partition": "h100"}, "start": 1.5}"#,
        r#"{"id": "4711_3", "cluster": "west", "hosts": "gpu[01-04,07],rack[1-2]n[1-3]", "aliases": [4714, "x"]}"#,
        r#"{"id": "x", "hosts": "x[1-65536]", "start": "2026-01-31T12:00:00Z", "end": 2e9}"#,
        r#"{"name": "a", "hosts": "a[1-256]b[1-256],c[1-65536]"}"#,
        r#"{"hosts": {"gpu-01": {"devices": ["mlx5_0"], "pids": [17]}}}"#,
    ];
    all.map(|text| text.as_bytes().to_vec()).to_vec()
}

pub(crate) fn patterns() -> Vec<Vec<u8>> {
    let all = [
        "gpu-.*",
        "(gpu-01|10\\.0\\.0\\.1)",
        r"\pL{150}x",
        r"((((a{100}){100}){100}){100})",
        r"(?i)[\x{0}-\x{10FFFF}][[:^alpha:]]",
        r"(?x: a # b
            (?P<n>[^\pL]+) )*?",
        ".{0,1000}",
        r"(?:a*)*(?-u:\w)\bé|",
        "(.*)-([0-9]+)",
    ];
    all.map(|text| text.as_bytes().to_vec()).to_vec()
}

/// Queries of the PromQL scripts and of the dashboard comparison.
pub(crate) fn promql() -> Vec<Vec<u8>> {
    let scripts = |folder| files(folder).into_iter().filter_map(|text| String::from_utf8(text).ok());
    let query =
        |line: &str| line.split_once(": ").filter(|(head, _)| head.starts_with(['a', 'o'])).map(|(_, q)| q.into());
    // `eval instant at TIME QUERY`, `eval range from START to END step STEP QUERY`
    let evaluated = |line: &str| {
        let times = if line.starts_with("eval instant ") { 4 } else { 8 };
        line.strip_prefix("eval ").and_then(|_| line.splitn(times + 1, ' ').nth(times)).map(|q| q.as_bytes().to_vec())
    };
    let own = scripts("tests/promql").flat_map(|text| text.lines().filter_map(query).collect::<Vec<_>>());
    own.chain(scripts("tests/promqltest").flat_map(|text| text.lines().filter_map(evaluated).collect::<Vec<_>>()))
        .collect()
}

const STORES: &str = "collector/store/tests/fixtures/stores";

pub(crate) fn blocks() -> Vec<Vec<u8>> {
    ["v1", "v2"].iter().flat_map(|v| file(&format!("{STORES}/{v}/blocks/000000000001.blk"))).collect()
}

pub(crate) fn logs() -> Vec<Vec<u8>> {
    ["v1", "v2"].iter().flat_map(|v| file(&format!("{STORES}/{v}/wal/000000000002-0000.wal"))).collect()
}

pub(crate) fn queues() -> Vec<Vec<u8>> {
    let mut queue = b"FABLENSF\x02\0\0\0\x01".to_vec();
    queue.resize(40, 0);
    let columns = ["a", "b", "c"].map(|name| Labels::new([("__name__", name), ("host", "h1")]));
    log_record::put_layout(&mut queue, 1, &columns);
    for t in 0..4 {
        log_record::put_rows(&mut queue, 1, &[t * 1000, t * 1000 + 500], &[1.0, 2.0, 0.5, f64::NAN, t as f64, -7.0]);
    }
    vec![queue]
}

/// Creates a spool with these requests; returns its directory and segment.
pub(crate) fn spool(requests: &[&[u8]]) -> (TempDir, PathBuf) {
    let dir = scratch();
    let (mut spool, _) = opened(dir.path());
    let now = Now::of(&Clock::new());
    for (n, request) in requests.iter().enumerate() {
        spool.append(request, 0, n as u64 + 1, now).1.expect("the spool has space");
    }
    spool.seal().expect("the disk is intact");
    let mut files = fs::read_dir(dir.path()).expect("its directory").flatten().map(|entry| entry.path());
    let other = |path: &PathBuf| !["lock", "cursor"].iter().any(|name| path.ends_with(name));
    let segment = files.find(other).expect("a segment");
    (dir, segment)
}

/// Opens the spool of a directory; returns the time, too.
pub(crate) fn opened(dir: &Path) -> (Spool, Instant) {
    let now = Now::of(&Clock::new());
    let limits = Limits { bytes: 64 << 20, age: Duration::from_secs(86_400) };
    (Spool::open(dir, limits, now).expect("a directory of its own"), now.at)
}

pub(crate) fn spools() -> Vec<Vec<u8>> {
    let (_dir, segment) = spool(&[b"one", &[7; 300], b""]);
    vec![fs::read(segment).expect("it was written")]
}

/// Attributes of all small types, flat and nested once, for each parser.
pub(crate) fn answers() -> Vec<Vec<u8>> {
    let attribute = |kind: u16, payload: &[u8]| {
        let mut out = Vec::new();
        out.extend((payload.len() as u16 + 4).to_ne_bytes());
        out.extend(kind.to_ne_bytes());
        out.extend(payload);
        out.resize(out.len().next_multiple_of(4), 0);
        out
    };
    let flat: Vec<u8> = (1..90).flat_map(|kind| attribute(kind, &[1, 0, 0, 0, 0, 0, 0, 0])).collect();
    let nested: Vec<u8> = (1..90).flat_map(|kind| attribute(kind, &attribute(kind, b"mlx5_0\0\0"))).collect();
    let uevent = b"add@/devices/x\0ACTION=add\0DEVPATH=/devices/x/mlx5_0\0SUBSYSTEM=infiniband\0";
    let mut strings = vec![0; 8];
    strings.extend(2_u32.to_ne_bytes());
    strings.extend([b"rx_bytes\0", b"tx_bytes\0"].iter().flat_map(|name| [&name[..], &[0; 23]].concat()));
    let of = |which: u8| [&flat[..], &nested, uevent, &strings].map(|body| [&[which], body].concat());
    live::fuzzing::answers().flat_map(of).collect()
}

/// Modules of each memory layout, with non-zero bytes everywhere.
pub(crate) fn modules() -> Vec<Vec<u8>> {
    let module = |kind: u8| {
        let mut memory: Vec<u8> = (0..128 * 7).map(|n| n as u8 | 0x40).collect();
        (memory[0], memory[2], memory[92]) = (kind, 0, 0x68);
        memory
    };
    [0x03, 0x11, 0x18, 0x1e].map(module).into()
}

/// A reply by directed route, one of performance management, and what is none.
pub(crate) fn mad() -> Vec<Vec<u8>> {
    let reply = |class: u8, attribute: u8| {
        let mut mad = vec![0; 256];
        mad[..4].copy_from_slice(&[1, class, 1, 0x81]);
        (mad[17], mad[66], mad[83]) = (attribute, 2, 1);
        mad
    };
    vec![reply(0x81, 0x11), reply(0x81, 0x15), reply(4, 0x1d), reply(4, 0x01), vec![0; 100]]
}

/// A record of each text of each class.
pub(crate) fn kernel_log() -> Vec<Vec<u8>> {
    let of = |class: &'static LogClass| {
        let driver = match class.printer {
            Printer::Driver(drivers) => format!("{} 0000:3b:00.0 eth0: f:1:(pid 2): ", drivers[0]),
            Printer::AnyDriver => "nvme 0000:3b:00.0: ".to_owned(),
            Printer::Kernel => String::new(),
        };
        let record = move |text: &&str| {
            let text = text.replace("<code>", "0x79").replace("<pci>", "0000:3b:00").replace("<netdev>", "eth0");
            let text = text.replace("<n>", "1").replace("<pid>", "7").replace('*', "x");
            format!("3,814,883319200,-;{driver}{text}\n SUBSYSTEM=pci\n DEVICE=+pci:0000:3b:00.0\n").into_bytes()
        };
        class.texts.iter().map(record)
    };
    LOG_CLASSES.iter().flat_map(of).collect()
}

pub(crate) fn lldp() -> Vec<Vec<u8>> {
    let part = |kind: u8, value: &[u8]| [&[kind << 1, value.len() as u8], value].concat();
    let parts = [
        part(1, b"\x04\x00\x11\x22\x33\x44\x55"),
        part(2, b"\x05Ethernet1/1"),
        part(3, &[0, 120]),
        part(4, b"swp1"),
        part(5, b"leaf1.example.com"),
        part(7, &[0, 4, 0, 4]),
        part(0, b""),
    ];
    vec![parts.concat()]
}

/// Files of recorded hosts besides sysfs and procfs.
pub(crate) fn recorded() -> Vec<Vec<u8>> {
    let hosts = ["mlx5-roce", "bnxt", "slurm", "kubernetes"];
    let folders = ["ethtool", "rdma", "dcb", "lldp", "module"];
    hosts
        .iter()
        .flat_map(|h| folders.iter().flat_map(move |f| files(&format!("tests/fixtures/hosts/{h}/{f}"))))
        .collect()
}

pub(crate) fn ebpf() -> Vec<Vec<u8>> {
    let format = "name: tcp_probe\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
                  \tfield:__u8 saddr[28];\toffset:8;\tsize:28;\tsigned:0;\n";
    // A header, an integer, and a structure `sock` whose member `__sk_common` is without a name.
    let strings = b"\0sock\0__sk_common\0int\0";
    let types: Vec<u32> = vec![18, 1 << 24, 4, 32, 1, 4 << 24 | 1, 8, 6, 1, 64];
    let mut btf: Vec<u8> = vec![0x9f, 0xeb, 1, 0];
    let header = [24, 0, types.len() as u32 * 4, types.len() as u32 * 4, strings.len() as u32];
    btf.extend(header.iter().chain(&types).flat_map(|word| word.to_le_bytes()));
    btf.extend(strings);
    let record = (0..40_u64).flat_map(|n| (n % 7).to_le_bytes()).collect();
    vec![format.into(), btf, record]
}

pub(crate) fn processes() -> Vec<Vec<u8>> {
    [
        "0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0\n",
        "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0ff3a5a6_7c2b_4a1e_9f0e_0123456789ab.slice/cri-x.scope\n",
        "12:memory:/slurm/uid_1001/job_4711/step_batch\n0::/\n",
        "SLURM_JOB_ID=4711\0SLURM_CLUSTER_NAME=lab\0SLURM_ARRAY_JOB_ID=4700\0SLURM_ARRAY_TASK_ID=3\0USER=ann\0",
        "PBS_JOBID=12.server\0PBS_ENVIRONMENT=x\0LSB_JOBID=9\0LSB_JOBINDEX=2\0",
        "18446744073709551615\n",
        "0x1f\n",
    ]
    .map(Into::into)
    .into()
}

pub(crate) fn collectives() -> Vec<Vec<u8>> {
    let texts = [
        r#"{"nccl_version": "2.28.9", "communicators": [{"hash": "0xab", "secondary_hash": "0x1:0x2", "size": 2, "ranks": [{"rank": 0, "host":
            "10.0.0.1", "pid": 7, "nvml_dev": 0, "status": {"init_state": 0, "abort_flag": false}, "collective_counts": {"AllReduce": 4}}],
            "missing_ranks": [{"rank": 1, "nvml_dev": 1 "status": {"unresponsive": true, "considered_dead": false}}]}], "ras": {"timeouts_count": 1}}"#,
        "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n    0  1  4  8  32  32  RUNNING  MISMATCH\n\nErrors\n======\n\n\
         #0-0 (cf264af53edbe986) INCOMPLETE\n  Missing communicator data from 1 rank\n  The missing rank: 21\n\nWarnings\n========\n\n\
         #0-0 (cf264af53edbe986) MISMATCH\n  Communicator ranks have different AllReduce operation counts\n  26 ranks have launched up to operation 6650\n\
         \x20 Rank 2 -- GPU 2 (NVML 6) managed by process 483074 on node 172.16.64.210\n",
        "{\"header\":{\"id\":\"0x7f\",\"rank\":2},\"metadata\":{\"hostname\":\"h\",\"pid\":7},\"dump_stats\":{}}\n\
         {\"coll_perf\":{\"coll\":\"AllReduce\",\"coll_msg_size_bytes\":17,\"coll_exec_time_us\":61974,\"coll_busbw_gbs\":485.1}}\n",
        "nccl_bus_bandwidth_gbs{node=\"h\",gpu=\"GPU0\",comm_name=\"a\\\"b\",collective=\"AllReduce\",message_size=\"4-5GB\"} 678.263\n",
        "  sl  local_address\n   0: 0100007F:6D7C 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1001        0 40001 1\n",
        "h:1:2 [0] NCCL WARN NET/IB: WQE slow: peer=10.1.2.3<1> | local: qpn=1 dev=mlx5_3 port=1 | remote: qpn=2 | thr=1ns delta=2ns count=7 |\n\
         h:1:2 [0] NCCL WARN NET/IB: Got CQE with error (qp_num=3)\nh:1:2 [0] NCCL INFO Channel 00 : 1[1] -> 2[0] via NET/IB/0\n",
    ];
    texts.map(Into::into).into_iter().chain([mpi_counters()]).collect()
}

/// A file of MPI counters with one operation.
fn mpi_counters() -> Vec<u8> {
    let mut bytes = vec![0; 256 + 320];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(0, b"FLNSIPI1");
    for (at, value) in [(8, 1_u32), (12, 576), (16, 1), (20, 7), (24, 2), (28, 4), (280, 1)] {
        put(at, &value.to_ne_bytes());
    }
    for (at, value) in [(32, 5_u64), (288, 9), (296, 72), (304, 1000)] {
        put(at, &value.to_ne_bytes());
    }
    put(72, b"Open MPI v4.1.4");
    put(256, b"Allreduce");
    bytes
}

pub(crate) fn agent_config() -> Vec<Vec<u8>> {
    file("deploy/config/agent.toml").into_iter().flat_map(both).collect()
}

pub(crate) fn config() -> Vec<Vec<u8>> {
    file("deploy/config/collector.toml").into_iter().flat_map(both).collect()
}

/// A file with commented keys, and the same with all keys active.
fn both(text: Vec<u8>) -> [Vec<u8>; 2] {
    let lines = String::from_utf8_lossy(&text).into_owned();
    let keys = lines.lines().map(|l| l.trim_start_matches(['#', ' '])).filter(|l| l.contains(['=', '[']));
    [text, keys.collect::<Vec<_>>().join("\n").into()]
}

/// Copies of recorded hosts in which one file at a time is replaced.
pub(crate) struct Hosts {
    dir: TempDir,
    /// Name and relative file paths of each host.
    hosts: Vec<(&'static str, Vec<PathBuf>)>,
    lock: Mutex<()>,
}

const HOSTS: [&str; 6] = ["mlx5-roce", "mlx5-ib", "bnxt", "slurm", "kubernetes", "rxe"];

fn files_of(host: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    below(&host_fixtures().join(host), &mut found);
    found.iter().filter_map(|path| path.strip_prefix(host_fixtures().join(host)).ok().map(Into::into)).collect()
}

/// Every seventh file of each host as an input: index of the host (one byte), index of the file (two), content.
pub(crate) fn hosts() -> Vec<Vec<u8>> {
    let seed = |(h, (n, path)): (usize, (usize, &PathBuf))| {
        let content = fs::read(host_fixtures().join(HOSTS[h]).join(path)).ok()?;
        Some([&[h as u8], &(n as u16).to_le_bytes()[..], &content].concat())
    };
    let of =
        |h: usize| files_of(HOSTS[h]).iter().enumerate().step_by(7).filter_map(|f| seed((h, f))).collect::<Vec<_>>();
    (0..HOSTS.len()).flat_map(of).collect()
}

impl Hosts {
    pub(crate) fn copied(dir: TempDir) -> Self {
        let hosts = HOSTS.map(|host| {
            copy(&host_fixtures().join(host), &dir.path().join(host)).expect("a host can be copied");
            (host, files_of(host))
        });
        Self { dir, hosts: hosts.into(), lock: Mutex::default() }
    }

    /// Calls `look` with a host in which one file is replaced as the input says.
    pub(crate) fn with_changed(&self, input: &[u8], look: impl FnOnce(Arc<Roots>)) {
        let [host, low, high, content @ ..] = input else { return };
        let (name, files) = &self.hosts[usize::from(*host) % self.hosts.len()];
        let file = &files[usize::from(u16::from_le_bytes([*low, *high])) % files.len()];
        let _guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let root = self.dir.path().join(name);
        fs::write(root.join(file), content).expect("the copy takes files");
        look(Arc::new(Roots::new(Some(root.clone()))));
        fs::copy(host_fixtures().join(name).join(file), root.join(file)).expect("the copy takes files");
    }
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let (from, to) = (entry.as_ref().map(|e| e.path()), entry.as_ref().map(|e| to.join(e.file_name())));
        let (from, to) = (from.map_err(|e| e.kind())?, to.map_err(|e| e.kind())?);
        let meta = fs::symlink_metadata(&from)?;
        if meta.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(&from)?, &to)?;
        } else if meta.is_dir() {
            copy(&from, &to)?;
        } else {
            fs::copy(&from, &to)?;
        }
    }
    Ok(())
}

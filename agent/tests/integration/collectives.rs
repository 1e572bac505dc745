//! Collectives of jobs, from a stand-in of NCCL's RAS service and processes of a procfs written for the test.

use crate::support::procfs::Procfs;
use fabriclens_agent::collectives::{Collectives, Enter, Reader};
use fabriclens_agent_collectives::ras::Limits;
use fabriclens_agent_host::batch::Batch;
use fabriclens_agent_uplink::TroubledJobs;
use fabriclens_agent_workload::Jobs;
use fabriclens_testing::ras::{Behavior, RasRank, RasServer, status_json};
use fabriclens_wire::Value;
use std::sync::Arc;
use std::time::{Duration, Instant};

const PERIOD: Duration = Duration::from_secs(30);
/// Address of the host in its procfs.
const HERE: &str = "10.0.0.1";

fn reader(server: &RasServer, procfs: &Procfs) -> Reader {
    reader_with(server, procfs, &Arc::default())
}

fn reader_with(server: &RasServer, procfs: &Procfs, troubled: &Arc<TroubledJobs>) -> Reader {
    let limits = Limits { first: Duration::from_millis(300), whole: Duration::from_secs(6), ..Limits::default() };
    let config = Collectives { port: server.address().port(), limits, ..Collectives::default() };
    let enter: Enter = Arc::new(|| {});
    Reader::new(config, procfs.path().to_owned(), Arc::new(Jobs::default()), Arc::clone(troubled), enter)
}

/// Four ranks on this host and four on another.
fn ranks(launched: [Option<u64>; 8]) -> Vec<RasRank> {
    let rank = |(number, launched): (usize, Option<u64>)| RasRank {
        host: if number < 4 { HERE } else { "10.0.0.2" }.into(),
        pid: 100 + number as u32,
        gpu: number as u32 % 4,
        launched,
        dead: false,
    };
    launched.into_iter().enumerate().map(rank).collect()
}

fn status(launched: [Option<u64>; 8]) -> Behavior {
    Behavior::Json(status_json("2.30.4", 0xabc, &ranks(launched)))
}

/// A job of Slurm on this host: its first process has the socket.
fn host_of_job(server: &RasServer) -> Procfs {
    let procfs = Procfs::new(HERE);
    procfs.listen("self", server.address(), 1001, 40001);
    for pid in 100..104 {
        procfs.process(pid, 1001, "0::/system.slice/slurmstepd.scope/job_7/step_0\n");
    }
    procfs.descriptor(100, "socket:[40001]");
    procfs
}

/// Series as text, without those of the agent itself.
fn look(reader: &mut Reader, at: Instant) -> Vec<String> {
    let mut batch = Batch::default();
    reader.look(at, &|| false, &mut batch);
    let one = |(column, value): &(fabriclens_wire::Column, Value)| {
        let labels: Vec<String> = column.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let value = match value {
            Value::Int(count) => count.to_string(),
            Value::Float(float) => float.to_string(),
            other => format!("{other:?}"),
        };
        format!("{} {} {value}", column.metric.name.trim_start_matches("fabric."), labels.join(","))
    };
    batch.facts.iter().map(one).filter(|line| !line.contains("collectives.duration")).collect()
}

fn with<'a>(lines: &'a [String], part: &str) -> Vec<&'a str> {
    lines.iter().map(String::as_str).filter(|line| line.contains(part)).collect()
}

#[test]
fn a_rank_that_stops_is_named_with_its_host_and_gpu() {
    let server = RasServer::start(status([Some(100); 8]));
    let (procfs, begin) = (host_of_job(&server), Instant::now());
    let mut reader = reader(&server, &procfs);
    let first = look(&mut reader, begin);
    let common = "communicator=0000000000000abc,job=7";
    assert_eq!(with(&first, "host.info"), ["collective.host.info job=7,rank_host=10.0.0.1,scheduler=slurm 1"]);
    assert_eq!(with(&first, "readable"), ["collective.readable job=7,scheduler=slurm 1"]);
    let info = format!("collective.communicator.info {common},library_version=2.30.4,scheduler=slurm,size=8 1");
    assert_eq!(with(&first, "communicator.info"), [info]);
    assert_eq!(with(&first, "straggler"), [""; 0]);
    let mut stopped = [Some(500); 8];
    stopped[5] = Some(100);
    server.set(status(stopped));
    let looks: Vec<Vec<String>> = (1..4).map(|number| look(&mut reader, begin + PERIOD * number)).collect();
    assert_eq!((with(&looks[0], "straggler").len(), with(&looks[1], "straggler").len()), (0, 0), "too early to say");
    let straggler = "collective.straggler.info communicator=0000000000000abc,gpu=1,job=7,operation=AllReduce,pid=105,rank=5,\
                     rank_host=10.0.0.2,reason=behind,scheduler=slurm 1";
    assert_eq!(with(&looks[2], "straggler"), [straggler]);
    assert_eq!(with(&looks[2], "behind "), [format!("collective.behind {common},scheduler=slurm 1")]);
    let lag = format!("collective.lag {common},operation=AllReduce,scheduler=slurm 400");
    assert_eq!(with(&looks[2], "lag")[1], lag);
    assert_eq!(with(&looks[2], "idle"), [format!("collective.idle {common},scheduler=slurm 60")]);
    assert_eq!(with(&looks[2], "bound=lowest").last().unwrap().rsplit(' ').next(), Some("100"));
    assert_eq!(with(&looks[2], "result=answered"), ["fabriclens.agent.collectives.questions result=answered 4"]);
}

#[test]
fn an_answer_that_fails_is_a_gap_with_a_reason() {
    let server = RasServer::start(status([Some(100); 8]));
    let (procfs, begin) = (host_of_job(&server), Instant::now());
    let mut reader = reader(&server, &procfs);
    assert!(with(&look(&mut reader, begin), "operations").len() > 1);
    let Behavior::Json(whole) = status([Some(200); 8]) else { panic!("no JSON") };
    server.set(Behavior::Cut(whole, 700));
    let lines = look(&mut reader, begin + PERIOD);
    assert_eq!(
        with(&lines, "collective."),
        ["collective.readable job=7,reason=cut,scheduler=slurm 0"],
        "no counts at all"
    );
    server.set(status([Some(300); 8]));
    let lines = look(&mut reader, begin + PERIOD * 2);
    assert_eq!(with(&lines, "readable"), ["collective.readable job=7,scheduler=slurm 1"]);
    // The job ends.
    procfs.remove("self/net/tcp");
    assert_eq!(with(&look(&mut reader, begin + PERIOD * 3), "collective."), [""; 0]);
}

#[test]
fn silent_ranks_are_told_after_two_answers() {
    let mut launched = [Some(100); 8];
    launched[6] = None;
    let server = RasServer::start(status(launched));
    let (procfs, begin) = (host_of_job(&server), Instant::now());
    let mut reader = reader(&server, &procfs);
    assert_eq!(with(&look(&mut reader, begin), "straggler"), [""; 0]);
    let lines = look(&mut reader, begin + PERIOD);
    assert!(with(&lines, "straggler")[0].contains("rank=6,rank_host=10.0.0.2,reason=unresponsive"), "{lines:?}");
    assert!(with(&lines, "state=unresponsive")[0].ends_with(" 1") && with(&lines, "state=dead")[0].ends_with(" 0"));
}

#[test]
fn another_service_gets_one_line_and_is_left_alone() {
    let server = RasServer::start(Behavior::Other("HTTP/1.1 400 Bad Request".into()));
    let (procfs, begin) = (host_of_job(&server), Instant::now());
    let mut reader = reader(&server, &procfs);
    let looks: Vec<Vec<String>> = (0..50).map(|number| look(&mut reader, begin + PERIOD * number)).collect();
    assert_eq!(server.lines(), ["CLIENT PROTOCOL 2"]);
    let last = looks.last().unwrap();
    assert_eq!(with(last, "role=foreign"), ["fabriclens.agent.collectives.services role=foreign 1"]);
    assert_eq!(with(last, "collective."), [""; 0]);
    // Another process listens there now.
    procfs.listen("self", server.address(), 1001, 40002);
    procfs.descriptor(101, "socket:[40002]");
    look(&mut reader, begin + PERIOD * 60);
    assert_eq!(server.lines().len(), 2);
}

#[test]
fn sockets_of_other_programs_are_not_asked() {
    let server = RasServer::start(status([Some(1); 8]));
    let procfs = host_of_job(&server);
    let mut reader = reader(&server, &procfs);
    // Of another user, and of the same user's process outside the job.
    for (uid, inode) in [(0, 40001), (1001, 49999)] {
        procfs.listen("self", server.address(), uid, inode);
        for pid in 100..104 {
            procfs.descriptor(pid, "socket:[1]");
        }
        look(&mut reader, Instant::now());
        assert_eq!(server.lines(), [""; 0], "{uid} {inode}");
    }
}

#[test]
fn of_two_jobs_on_one_port_the_answer_says_which_it_is() {
    let server = RasServer::start(status([Some(1); 8]));
    let procfs = host_of_job(&server);
    // Of the same user, whose descriptors cannot be read.
    procfs.process(900, 1001, "0::/system.slice/slurmstepd.scope/job_8/step_0\n");
    procfs.remove("900/fd");
    let mut reader = reader(&server, &procfs);
    assert_eq!(with(&look(&mut reader, Instant::now()), "readable"), ["collective.readable job=7,scheduler=slurm 1"]);
}

#[test]
fn the_host_of_the_lowest_rank_asks_and_the_others_rarely() {
    let server = RasServer::start(status([Some(1); 8]));
    let procfs = Procfs::new("10.0.0.2");
    procfs.listen("self", server.address(), 1001, 40001);
    procfs.process(104, 1001, "0::/system.slice/slurmstepd.scope/job_7/step_0\n");
    procfs.descriptor(104, "socket:[40001]");
    let (mut reader, begin) = (reader(&server, &procfs), Instant::now());
    let looks: Vec<Vec<String>> = (0..20).map(|number| look(&mut reader, begin + PERIOD * number)).collect();
    assert_eq!(server.lines().iter().filter(|line| *line == "STATUS").count(), 1);
    assert_eq!(with(&looks[19], "role=followed"), ["fabriclens.agent.collectives.services role=followed 1"]);
    let own = "collective.host.info job=7,rank_host=10.0.0.2,scheduler=slurm 1";
    let rank = "collective.rank.info communicator=0000000000000abc,gpu=0,job=7,pid=104,rank=4,scheduler=slurm 1";
    assert_eq!(with(&looks[19], "collective."), [own, rank], "the other host sends the other series");
    // The hosts of the lower ranks are gone.
    server.set(status([None, None, None, None, Some(1), Some(1), Some(1), Some(1)]));
    look(&mut reader, begin + PERIOD * 20);
    let lines = look(&mut reader, begin + PERIOD * 21);
    assert_eq!(server.lines().iter().filter(|line| *line == "STATUS").count(), 3);
    assert_eq!(with(&lines, "state=unresponsive")[0].rsplit(' ').next(), Some("4"));
}

#[test]
fn a_job_that_an_incident_touches_is_asked_more_often_by_the_host_that_asks() {
    let server = RasServer::start(status([Some(1); 8]));
    let (procfs, troubled, begin) = (host_of_job(&server), Arc::new(TroubledJobs::default()), Instant::now());
    let mut reader = reader_with(&server, &procfs, &troubled);
    let mut asked = |seconds: u64| {
        let lines = look(&mut reader, begin + Duration::from_secs(seconds));
        let counts = with(&lines, "collectives.questions").into_iter().map(|line| line.rsplit(' ').next().unwrap());
        counts.map(|count| count.parse::<u32>().unwrap()).sum::<u32>()
    };
    assert_eq!([0, 10, 20, 30].map(&mut asked), [1, 1, 1, 2], "each period");
    troubled.tell(vec!["8".into()], begin + Duration::from_secs(31));
    assert_eq!(asked(40), 2, "another job is in trouble");
    troubled.tell(vec!["7".into()], begin + Duration::from_secs(41));
    assert_eq!([42, 47, 52, 62].map(&mut asked), [3, 3, 4, 5]);
    server.set(Behavior::Silent);
    assert_eq!([72, 82, 92].map(&mut asked), [6, 6, 6], "a service without an answer is not pressed");
}

#[test]
#[ignore = "needs: network-namespaces"]
fn a_service_in_a_network_namespace_of_its_own_is_asked() {
    use fabriclens_testing::routers::Namespace;
    let namespace = Namespace::new("ras");
    let server = namespace.within(|| RasServer::start(status([Some(3); 8])));
    let procfs = Procfs::new(HERE);
    procfs.link("self/ns/net", "/proc/self/ns/net");
    for pid in 100..104 {
        procfs.process(pid, 1001, "0::/system.slice/slurmstepd.scope/job_7/step_0\n");
        procfs.link(&format!("{pid}/ns/net"), &namespace.path());
    }
    procfs.listen("100", server.address(), 1001, 40001);
    procfs.descriptor(100, "socket:[40001]");
    let mut reader = reader(&server, &procfs);
    assert_eq!(with(&look(&mut reader, Instant::now()), "readable"), ["collective.readable job=7,scheduler=slurm 1"]);
    let own = std::fs::metadata("/proc/thread-self/ns/net").unwrap();
    let of_process = std::fs::metadata("/proc/self/ns/net").unwrap();
    use std::os::unix::fs::MetadataExt as _;
    assert_eq!(own.ino(), of_process.ino(), "this thread stays where it is");
}

#[test]
fn the_engine_sends_the_series_and_ends_them_with_the_job() {
    use fabriclens_agent::schedule::{Engine, Settings};
    use fabriclens_agent_host::roots::Roots;
    use fabriclens_testing::eventually;
    let server = RasServer::start(status([Some(1); 8]));
    let procfs = host_of_job(&server);
    let root = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/sys", root.path().join("sys")).unwrap();
    std::os::unix::fs::symlink(procfs.path(), root.path().join("proc")).unwrap();
    let port = server.address().port();
    let config = Collectives { port, period: Duration::from_millis(300), ..Collectives::default() };
    let settings = Settings { host: "h".into(), collectives: Some(Arc::new(config)), ..Settings::default() };
    let engine = Engine::start(Arc::new(Roots::new(Some(root.path().to_owned()))), settings).unwrap();
    let reader = engine.reader(0);
    let last = |metric: &str| {
        let sections = reader.take(usize::MAX);
        let values = sections.iter().rev().flat_map(|section| section.columns.iter().zip(&section.values));
        let mut found = values.filter(|(column, _)| column.metric.name == metric).map(|(_, value)| value.clone());
        found.next()
    };
    let limit = Duration::from_secs(30);
    eventually("series of the job", limit, || last("fabric.collective.readable") == Some(Value::Int(1)));
    let shown =
        || engine.snapshot().iter().flat_map(|s| s.columns.to_vec()).any(|c| c.metric.name == "fabric.collective.idle");
    assert!(shown(), "for /metrics too");
    procfs.remove("self/net/tcp");
    eventually("their end", limit, || last("fabric.collective.readable") == Some(Value::Stale));
    assert!(!shown());
    engine.shutdown(limit);
}

#[expect(clippy::disallowed_methods, reason = "ages of files are of wall time")]
mod inspector {
    use super::*;
    use fabriclens_agent::collectives::InspectorReader;
    use std::fs::OpenOptions;
    use std::io::Write as _;
    use std::path::{Path, PathBuf};
    use std::time::SystemTime;

    fn append(path: &Path, rank: u32, pid: u32, host: &str, micros: u64) {
        let line = format!(
            "{{\"header\":{{\"id\":\"0xabc\",\"rank\":{rank}}},\"metadata\":{{\"hostname\":\"{host}\",\"pid\":{pid}}},\"coll_perf\":{{\"coll\":\
             \"AllReduce\",\"coll_msg_size_bytes\":2097152,\"coll_exec_time_us\":{micros},\"coll_busbw_gbs\":40}}}}\n"
        );
        OpenOptions::new().create(true).append(true).open(path).unwrap().write_all(line.repeat(20).as_bytes()).unwrap();
    }

    fn look(reader: &mut InspectorReader) -> Vec<String> {
        let mut batch = Batch::default();
        reader.look(SystemTime::now(), &mut batch);
        let one = |(column, value): &(fabriclens_wire::Column, Value)| {
            let labels: Vec<String> = column.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
            format!("{} {} {value:?}", column.metric.name, labels.join(","))
        };
        batch.facts.iter().map(one).collect()
    }

    /// A host `h` with four processes of a job.
    fn host() -> Procfs {
        let procfs = Procfs::new(HERE);
        procfs.write("sys/kernel/hostname", "h.example.org\n");
        (100..104).for_each(|pid| procfs.process(pid, 1001, "0::/system.slice/slurmstepd.scope/job_7/step_0\n"));
        procfs
    }

    fn reader(procfs: &Procfs, directories: &[PathBuf]) -> InspectorReader {
        let config = Collectives { inspector_dirs: directories.to_vec(), ..Collectives::default() };
        InspectorReader::new(procfs.path().to_owned(), &config, Arc::new(Jobs::default()))
    }

    #[test]
    fn the_late_rank_of_a_job_is_named_from_configured_directories() {
        let (procfs, dir) = (host(), tempfile::tempdir().unwrap());
        let of_job = dir.path().join("7");
        std::fs::create_dir(&of_job).unwrap();
        let mut reader = reader(&procfs, &[dir.path().to_owned()]);
        let mut lines = Vec::new();
        for _ in 0..3 {
            for rank in 0..4 {
                let path = of_job.join(format!("h-pid{}.log", 100 + rank));
                append(&path, rank, 100 + rank, "h", if rank == 2 { 100 } else { 900 });
            }
            // Of another host, on a file system that both have.
            append(&of_job.join("other-pid100.log"), 9, 100, "other", 1);
            append(&of_job.join("shared.log"), 9, 100, "other", 1);
            lines = look(&mut reader);
        }
        let labels = "communicator=0000000000000abc,job=7";
        let end = "operation=AllReduce,scheduler=slurm,size=1MiB";
        assert_eq!(with(&lines, "executions"), [format!("fabric.collective.executions {labels},{end} Int(240)")]);
        assert_eq!(with(&lines, "late.info"), [format!("fabric.collective.late.info {labels},member=2,{end} Int(1)")]);
        assert!(
            with(&lines, "bus_bandwidth")[0].contains("Float(4")
                || with(&lines, "bus_bandwidth")[0].contains("Float(39999999999.9")
        );
        assert_eq!(with(&lines, "collectives.files ")[0].rsplit(' ').next(), Some("Int(5)"));
    }

    #[test]
    fn directories_of_environments_are_found() {
        let (procfs, dir) = (host(), tempfile::tempdir().unwrap());
        for pid in 100..104 {
            procfs.write(&format!("{pid}/environ"), "PATH=/bin\0NCCL_INSPECTOR_DUMP_DIR=/logs/7\0HOSTNAME=pod-a\0");
            procfs.link(&format!("{pid}/root"), dir.path().to_str().unwrap());
        }
        procfs.write("103/environ", "NCCL_INSPECTOR_DUMP_DIR=../../logs\0");
        let logs = dir.path().join("logs/7");
        std::fs::create_dir_all(&logs).unwrap();
        append(&logs.join("pod-a-pid5.log"), 0, 5, "pod-a", 10);
        let lines = look(&mut reader(&procfs, &[]));
        assert!(with(&lines, "executions")[0].contains("job=7"), "of the environment's job: {lines:?}");
        assert!(with(&lines, "executions")[0].ends_with("Int(20)"), "each file once: {lines:?}");
    }

    #[test]
    fn files_of_earlier_runs_are_not_begun() {
        let (procfs, dir) = (host(), tempfile::tempdir().unwrap());
        let path = dir.path().join("h-pid100.log");
        append(&path, 0, 100, "h", 10);
        let old = SystemTime::now() - Duration::from_secs(3600);
        OpenOptions::new().write(true).open(&path).unwrap().set_modified(old).unwrap();
        let mut reader = reader(&procfs, &[dir.path().to_owned()]);
        assert_eq!(with(&look(&mut reader), "executions"), [""; 0]);
        append(&path, 0, 100, "h", 10);
        assert_eq!(with(&look(&mut reader), "executions").len(), 1);
    }

    #[test]
    fn lines_of_a_jobs_log_are_counted_and_name_queue_pairs() {
        let (procfs, dir) = (host(), tempfile::tempdir().unwrap());
        let log_files = vec![format!("{}/slurm-{{job}}*.out", dir.path().display())];
        let config = Collectives { log_files, ..Collectives::default() };
        let mut reader = InspectorReader::new(procfs.path().to_owned(), &config, Arc::new(Jobs::default()));
        let line = |host: &str| {
            format!(
                "{host}:100:9 [0] NCCL WARN NET/IB: WQE slow: peer=10.1.2.3<5> | local: qpn=4711 dev=mlx5_3 port=1 | remote: qpn=815 port=1 | \
                 thr=1000ns delta=250000ns max=1ns count=7\n"
            )
        };
        let text = [&line("h"), &line("other"), "h:100:9 [0] NCCL INFO Using network IB\n", &line("h")].concat();
        std::fs::write(dir.path().join("slurm-7.out"), text).unwrap();
        std::fs::write(dir.path().join("slurm-8.out"), line("h")).unwrap();
        let lines = look(&mut reader);
        let job = "job=7,kind=slow_work_request";
        let count = format!("fabric.collective.log.lines {job},rdma_device=mlx5_3,scheduler=slurm Int(2)");
        assert_eq!(with(&lines, "rdma_device=mlx5_3,scheduler"), [count]);
        let pair = format!(
            "fabric.collective.queue_pair.info {job},local=4711,peer=10.1.2.3,rdma_device=mlx5_3,remote=815,scheduler=slurm Int(1)"
        );
        assert_eq!(with(&lines, "queue_pair"), [pair]);
        assert_eq!(
            with(&lines, "network.info"),
            ["fabric.collective.network.info job=7,network=IB,scheduler=slurm Int(1)"]
        );
        assert!(!lines.iter().any(|line| line.contains("job=8")), "not a job of this host");
        std::fs::remove_file(dir.path().join("slurm-7.out")).unwrap();
        assert_eq!(with(&look(&mut reader), "fabric.collective.log"), [""; 0]);
    }
}

//! Counters of MPI operations: from files written for the test, and from programs of four ranks.

use crate::support::procfs::Procfs;
use fabriclens_agent::collectives::{Collectives, MpiReader};
use fabriclens_agent_collectives::mpi::name_of;
use fabriclens_agent_host::batch::Batch;
use fabriclens_agent_workload::Jobs;
use fabriclens_testing::mpi::{Mpi, MpiBuild, RANKS};
use fabriclens_wire::{Column, Value};
use rustix::time::{ClockId, clock_gettime};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const SECOND: u64 = 1_000_000_000;
/// Start of all processes, clock ticks since boot.
const START: u64 = 4242;
const JOB: &str = "0::/system.slice/slurmstepd.scope/job_7/step_0\n";

/// Rank of a process, calls of `MPI_Allreduce` on all ranks, time in them.
#[derive(Clone, Copy)]
struct Process {
    pid: u32,
    rank: u32,
    world: u64,
    calls: u64,
    nanoseconds: u64,
}

fn write(directory: &Path, process: Process) {
    let Process { pid, rank, world, calls, nanoseconds } = process;
    let mut bytes = vec![0; 256 + 320];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(0, b"FLNSIPI1");
    for (at, value) in [(8, 1), (12, 576), (16, 1), (20, pid), (24, rank), (28, 4), (280, 1)] {
        put(at, &u32::to_ne_bytes(value));
    }
    for (at, value) in [(32, START), (40, world), (288, calls), (296, 1024 * calls), (304, nanoseconds)] {
        put(at, &u64::to_ne_bytes(value));
    }
    put(72, b"Open MPI v4.1.4");
    put(256, b"Allreduce");
    // The agent has the file open: it is written into, as the library does.
    let path = directory.join(name_of(pid, START));
    let file = std::fs::OpenOptions::new().create(true).truncate(false).write(true).open(path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &bytes, 0).unwrap();
}

fn stat(procfs: &Procfs, pid: u32, start: u64) {
    procfs.write(&format!("{pid}/stat"), &format!("{pid} (a b) c) S{} {start} 0\n", " 0".repeat(18)));
}

/// A host with four processes of a job, as the user that runs the test.
fn host(directory: &Path) -> Procfs {
    let procfs = Procfs::new("10.0.0.1");
    for pid in 100..104 {
        procfs.process(pid, directory.metadata().unwrap().uid(), JOB);
        stat(&procfs, pid, START);
    }
    procfs
}

fn reader(procfs: &Procfs, directory: &Path) -> MpiReader {
    let config = Collectives { mpi_dir: directory.to_owned(), ..Collectives::default() };
    MpiReader::new(procfs.path().to_owned(), &config, Arc::new(Jobs::default()))
}

fn look(reader: &mut MpiReader, now: u64) -> Vec<String> {
    let mut batch = Batch::default();
    reader.look(now, &mut batch);
    let one = |(column, value): &(Column, Value)| {
        let labels: Vec<String> = column.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let value = match value {
            Value::Int(count) => count.to_string(),
            Value::Float(float) => format!("{float:.3}"),
            other => format!("{other:?}"),
        };
        format!("{} {} {value}", column.metric.name.trim_start_matches("fabric."), labels.join(","))
    };
    batch.facts.iter().map(one).collect()
}

fn with<'a>(lines: &'a [String], part: &str) -> Vec<&'a str> {
    lines.iter().map(String::as_str).filter(|line| line.contains(part)).collect()
}

/// Looks of four periods of 10 s, in which each rank calls 1,000 times; `times` are seconds in MPI of each rank and period.
fn periods(procfs: &Procfs, directory: &Path, times: [u64; 4], world: impl Fn(u32) -> u64) -> Vec<Vec<String>> {
    let mut reader = reader(procfs, directory);
    let period = |number: u64| {
        for (rank, seconds) in (0..).zip(times) {
            let nanoseconds = number * seconds * SECOND;
            write(directory, Process { pid: 100 + rank, rank, world: world(rank), calls: 1000 * number, nanoseconds });
        }
        look(&mut reader, 1000 * SECOND + number * 10 * SECOND)
    };
    (1..=4).map(period).collect()
}

#[test]
fn the_rank_that_others_wait_for_is_named_with_what_it_costs() {
    let dir = tempfile::tempdir().unwrap();
    let all = periods(&host(dir.path()), dir.path(), [8, 8, 1, 8], |_| 1);
    let late = all.iter().map(|lines| with(lines, "late.info").len());
    assert_eq!(late.collect::<Vec<_>>(), [0, 0, 1, 1], "after three periods");
    let labels = "communicator=MPI_COMM_WORLD,job=7";
    let end = "operation=Allreduce,scheduler=slurm,size=0";
    assert_eq!(with(&all[3], "late.info"), [format!("collective.late.info {labels},member=2,{end} 1")]);
    assert_eq!(with(&all[3], "executions"), [format!("collective.executions {labels},{end} 16000")]);
    assert_eq!(with(&all[3], "message"), [format!("collective.message {labels},{end} 16384000")]);
    assert_eq!(with(&all[3], "execution.time"), [format!("collective.execution.time {labels},{end} 100.000")]);
    assert_eq!(with(&all[3], "execution.mean"), [format!("collective.execution.mean {labels},{end} 0.006")]);
    assert_eq!(with(&all[3], "collective.wait"), [format!("collective.wait {labels},{end} 0.005")]);
    let info = "collective.mpi.info job=7,library=Open MPI v4.1.4,scheduler=slurm,size=4 1";
    assert_eq!(with(&all[3], "mpi.info"), [info]);
    assert_eq!(with(&all[0], "mpi.share"), [""; 0], "since when is not known");
    let shares = [0.8, 0.8, 0.1, 0.8].iter().zip(0..);
    let shares =
        shares.map(|(share, rank)| format!("collective.mpi.share job=7,rank={rank},scheduler=slurm {share:.3}"));
    assert_eq!(with(&all[3], "mpi.share"), shares.collect::<Vec<_>>());
    assert_eq!(with(&all[3], "state=read"), ["fabriclens.agent.collectives.mpi.processes state=read 4"]);
}

/// Writes the operation that a rank is in, or none, and whether it is one on all ranks.
fn enters(directory: &Path, pid: u32, entered: Option<(u64, u32)>) {
    let file = std::fs::OpenOptions::new().write(true).open(directory.join(name_of(pid, START))).unwrap();
    let put = |at, value: &[u8]| std::os::unix::fs::FileExt::write_all_at(&file, value, at).unwrap();
    put(56, &u64::from(entered.is_some()).to_ne_bytes());
    put(64, &entered.map_or(0, |(at, _)| at).to_ne_bytes());
    put(136, &entered.map_or(0, |(_, group)| group).to_ne_bytes());
}

#[test]
fn ranks_that_wait_tell_in_what_and_since_when_and_those_that_died_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let procfs = host(dir.path());
    let mut reader = reader(&procfs, dir.path());
    let process = |rank| Process { pid: 100 + rank, rank, world: 1, calls: 7, nanoseconds: 7 };
    (0..4).for_each(|rank| write(dir.path(), process(rank)));
    enters(dir.path(), 100, Some((1000 * SECOND, 1)));
    enters(dir.path(), 101, Some((1000 * SECOND, 2)));
    enters(dir.path(), 103, Some((1000 * SECOND, 0)));
    assert_eq!(with(&look(&mut reader, 1009 * SECOND), "mpi.inside"), [""; 0], "operations take seconds");
    let lines = look(&mut reader, 1020 * SECOND);
    let inside = "collective.mpi.inside job=7,operation=Allreduce,rank=0,scheduler=slurm,size=4 20.000";
    assert_eq!(with(&lines, "mpi.inside"), [inside], "on all ranks, by a library that tells so");
    let entered = |rank: u32, count| {
        format!("collective.mpi.entered job=7,pid={},rank={rank},scheduler=slurm,size=4 {count}", 100 + rank)
    };
    assert_eq!(with(&lines, "mpi.entered"), [entered(0, 8), entered(1, 7), entered(2, 7), entered(3, 7)]);
    let info = "collective.rank.info communicator=MPI_COMM_WORLD,job=7,pid=102,rank=2,scheduler=slurm 1";
    assert_eq!(with(&lines, "rank.info")[2], info);
    procfs.remove("102");
    let dead =
        "collective.straggler.info communicator=MPI_COMM_WORLD,job=7,pid=102,rank=2,reason=dead,scheduler=slurm 1";
    let after: Vec<Vec<String>> = (1030..1060).map(|second| look(&mut reader, second * SECOND)).collect();
    assert!(after.iter().all(|lines| with(lines, "straggler") == [dead]), "{:?}", after[0]);
    assert_eq!(with(&look(&mut reader, 5000 * SECOND), "straggler"), [""; 0], "not for ever");
}

#[test]
fn a_rank_that_has_finalized_or_is_of_an_earlier_program_is_not_dead() {
    let dir = tempfile::tempdir().unwrap();
    let procfs = host(dir.path());
    let mut reader = reader(&procfs, dir.path());
    let process = |rank, world| Process { pid: 100 + rank, rank, world, calls: 7, nanoseconds: 7 };
    (0..2).for_each(|rank| write(dir.path(), process(rank, 1)));
    look(&mut reader, SECOND);
    let file = std::fs::OpenOptions::new().write(true).open(dir.path().join(name_of(100, START))).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &1_u32.to_ne_bytes(), 52).unwrap();
    (100..102).for_each(|pid| procfs.remove(&pid.to_string()));
    let lines = look(&mut reader, 2 * SECOND);
    let named = with(&lines, "straggler");
    assert!(named.len() == 1 && named[0].contains("rank=1,"), "{named:?}");
    (2..4).for_each(|rank| write(dir.path(), process(rank, 2)));
    assert_eq!(with(&look(&mut reader, 3 * SECOND), "straggler"), [""; 0], "the job has gone on with another program");
}

#[test]
fn nobody_is_late_where_ranks_cannot_be_compared() {
    for (why, times, world) in [
        ("all alike", [8, 8, 8, 8], (|_| 1) as fn(u32) -> u64),
        ("two programs", [8, 8, 1, 8], |rank| u64::from(rank / 2)),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let all = periods(&host(dir.path()), dir.path(), times, world);
        assert!(all.iter().all(|lines| with(lines, "late.info").is_empty()), "{why}");
        assert_eq!(with(&all[3], "executions").len(), 1, "{why}");
        assert_eq!(with(&all[3], "collective.wait").is_empty(), why == "two programs");
    }
}

#[test]
fn the_last_values_of_a_process_that_has_ended_count() {
    let dir = tempfile::tempdir().unwrap();
    let procfs = host(dir.path());
    let mut reader = reader(&procfs, dir.path());
    let process = |calls| Process { pid: 100, rank: 0, world: 1, calls, nanoseconds: calls };
    write(dir.path(), process(10));
    look(&mut reader, SECOND);
    write(dir.path(), process(25));
    std::fs::remove_file(dir.path().join(name_of(100, START))).unwrap();
    procfs.remove("100");
    let lines = look(&mut reader, 2 * SECOND);
    assert!(with(&lines, "executions")[0].ends_with(" 25"), "{lines:?}");
    let lines = look(&mut reader, 3 * SECOND);
    assert_eq!(with(&lines, "state=read"), ["fabriclens.agent.collectives.mpi.processes state=read 0"]);
    let after: Vec<Vec<String>> = (4..16).map(|second| look(&mut reader, second * SECOND)).collect();
    assert_eq!(with(&after[11], "executions"), [""; 0], "the series end");
}

#[test]
fn files_of_another_owner_are_counted_and_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let procfs = host(dir.path());
    let process = Process { pid: 100, rank: 0, world: 1, calls: 5, nanoseconds: 5 };
    (100..103).for_each(|pid| write(dir.path(), Process { pid, ..process }));
    // Another user's process, an earlier process of this number, another form, a process that is of no job.
    procfs.process(100, dir.path().metadata().unwrap().uid() + 1, JOB);
    stat(&procfs, 101, START + 1);
    std::fs::write(dir.path().join(name_of(102, START)), "x").unwrap();
    procfs.process(200, dir.path().metadata().unwrap().uid(), "0::/user.slice\n");
    stat(&procfs, 200, START);
    write(dir.path(), Process { pid: 200, ..process });
    let lines = look(&mut reader(&procfs, dir.path()), SECOND);
    assert_eq!(with(&lines, "collective."), [""; 0]);
    let processes = |state: &str, count| format!("fabriclens.agent.collectives.mpi.processes state={state} {count}");
    let expected =
        [processes("foreign_owner", 1), processes("limit", 0), processes("malformed", 1), processes("read", 0)];
    assert_eq!(with(&lines, "mpi.processes"), expected);
}

#[test]
fn files_are_found_in_the_root_of_a_container() {
    let (dir, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let procfs = host(root.path());
    procfs.link("100/root", root.path().to_str().unwrap());
    // Its number is another one inside.
    let uid = root.path().metadata().unwrap().uid();
    procfs.write("100/status", &format!("Name:\tx\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nNSpid:\t100\t5\n"));
    let within = root.path().join(dir.path().strip_prefix("/").unwrap());
    std::fs::create_dir_all(&within).unwrap();
    write(&within, Process { pid: 5, rank: 3, world: 1, calls: 5, nanoseconds: 5 });
    let lines = look(&mut reader(&procfs, dir.path()), SECOND);
    assert!(with(&lines, "executions")[0].ends_with(" 5"), "{lines:?}");
}

fn monotonic() -> u64 {
    u64::try_from(Duration::try_from(clock_gettime(ClockId::Monotonic)).unwrap().as_nanos()).unwrap()
}

/// Series of a program of four ranks, after four periods of a second.
fn watch(build: &MpiBuild, mode: &str) -> Vec<String> {
    let [counters, run] = [0, 1].map(|_| tempfile::tempdir().unwrap());
    let program = build.start(&build.library(), counters.path(), run.path(), mode);
    let procfs = Procfs::new("10.0.0.1");
    for pid in (0..RANKS).map(|rank| program.pid(rank)) {
        procfs.process(pid, counters.path().metadata().unwrap().uid(), JOB);
        procfs.link(&format!("{pid}/stat"), &format!("/proc/{pid}/stat"));
    }
    let mut reader = reader(&procfs, counters.path());
    let mut lines = Vec::new();
    for _ in 0..5 {
        std::thread::sleep(Duration::from_secs(1));
        lines = look(&mut reader, monotonic());
    }
    assert_eq!(program.stop(), "");
    lines
}

#[test]
#[ignore = "needs: mpi"]
fn a_rank_that_sleeps_is_told_apart_in_real_programs() {
    for mpi in Mpi::ALL {
        let dir = tempfile::tempdir().unwrap();
        let build = MpiBuild::new(mpi, dir.path());
        let late = watch(&build, "late");
        let info = "collective.late.info communicator=MPI_COMM_WORLD,job=7,member=2,operation=Allreduce,scheduler=slurm,size=0 1";
        assert_eq!(with(&late, "late.info"), [info], "{mpi:?}: {late:#?}");
        let value = |line: &str| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap();
        let wait = value(with(&late, "collective.wait")[0]);
        assert!(
            (0.01..0.08).contains(&wait),
            "{mpi:?}: about the 40 ms of its sleep, in the mean of four ranks: {wait}"
        );
        let shares: Vec<f64> = with(&late, "mpi.share").into_iter().map(value).collect();
        assert!(shares.len() == 4 && shares[2] < 0.5 && shares[0] > 0.5, "{mpi:?}: {shares:?}");
        let even = watch(&build, "even");
        assert_eq!(with(&even, "late.info"), [""; 0], "{mpi:?}: {even:#?}");
        assert!(value(with(&even, "executions")[0]) > 100.0, "{even:#?}");
    }
}

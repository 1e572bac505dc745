//! Files of MPI counters: hostile ones, and those of real programs.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "programs with the library are started, which the agent never does")]

use fabriclens_agent_collectives::inspector::CLASSES;
use fabriclens_agent_collectives::mpi::{CounterFile, Counters, Follower, Group, Malformed, Refused, name_of, parse};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;

const SECOND: u64 = 1_000_000_000;

/// A file as the library makes it, with one operation on all ranks.
fn bytes(pid: u32, start: u64, calls: u64, nanoseconds: u64) -> Vec<u8> {
    let mut bytes = vec![0; 256 + 320];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(0, b"FLNSIPI1");
    for (at, value) in [(8, 1), (12, 576), (16, 1), (20, pid), (24, 2), (28, 4)] {
        put(at, &u32::to_ne_bytes(value));
    }
    for (at, value) in
        [(32, start), (40, 77), (256 + 32, calls), (256 + 40, calls.wrapping_mul(8)), (256 + 48, nanoseconds)]
    {
        put(at, &u64::to_ne_bytes(value));
    }
    put(72, b"Open MPI v4.1.4");
    put(256, b"Allreduce");
    put(256 + 24, &u32::to_ne_bytes(1));
    bytes
}

fn with(at: usize, value: &[u8]) -> Vec<u8> {
    let mut bytes = bytes(7, 5, 1, 1);
    bytes[at..at + value.len()].copy_from_slice(value);
    bytes
}

#[test]
fn the_form_of_a_file_is_read() {
    let counters = parse(&bytes(7, 5, 10, 500)).unwrap();
    assert_eq!((counters.pid, counters.start, counters.rank, counters.size, counters.world), (7, 5, 2, 4, 77));
    assert_eq!((&*counters.library, counters.ended, counters.entered), ("Open MPI v4.1.4", false, None));
    let operation = &counters.operations[0];
    assert_eq!((&*operation.name, operation.all_wait), ("Allreduce", true));
    let cell = operation.cells[0][0];
    assert_eq!((cell.calls, cell.bytes, cell.nanoseconds), (10, 80, 500));
}

#[test]
fn the_operation_that_a_process_is_in_is_read_with_its_group_where_the_library_tells() {
    let inside = |row: u64, group: u32| {
        let mut bytes = with(56, &row.to_ne_bytes());
        bytes[136..140].copy_from_slice(&group.to_ne_bytes());
        parse(&bytes).unwrap().inside.map(|inside| (inside.operation.to_string(), inside.all_wait, inside.group))
    };
    let allreduce = |group| Some(("Allreduce".to_owned(), true, group));
    assert_eq!((inside(0, 1), inside(2, 1)), (None, None), "outside, and beyond the rows");
    assert_eq!((inside(1, 0), inside(1, 9)), (allreduce(None), allreduce(None)));
    assert_eq!((inside(1, 1), inside(1, 2)), (allreduce(Some(Group::World)), allreduce(Some(Group::Other))));
}

#[test]
fn other_bytes_are_refused_with_the_reason() {
    let long = |value: u32| value.to_ne_bytes();
    let whole = bytes(7, 5, 1, 1);
    let cases = [
        (Vec::new(), Malformed::Magic),
        (whole[..7].to_vec(), Malformed::Magic),
        (with(0, b"x"), Malformed::Magic),
        (with(8, &long(2)), Malformed::Version(2)),
        (whole[..256].to_vec(), Malformed::Form),
        (whole[..575].to_vec(), Malformed::Form),
        ([&whole[..], b"x"].concat(), Malformed::Form),
        (with(12, &long(575)), Malformed::Form),
        (with(16, &long(2)), Malformed::Form),
        (with(16, &long(u32::MAX)), Malformed::Form),
        (with(24, &long(4)), Malformed::Form),
        (with(28, &long(0)), Malformed::Form),
        (with(28, &long(u32::MAX)), Malformed::Form),
        (with(256, b"All{duce"), Malformed::Form),
        (with(256, &[0]), Malformed::Form),
        (with(256, &[b'A'; 24]), Malformed::Form),
    ];
    for (bytes, why) in cases {
        assert_eq!(parse(&bytes).unwrap_err(), why, "{:?}", &bytes[..bytes.len().min(40)]);
    }
    assert_eq!(&*parse(&with(72, b"\x1b[2J")).unwrap().library, "", "a text that acts on a terminal");
    assert_eq!(&*parse(&with(72, &[b'x'; 64])).unwrap().library, "", "without an end");
}

#[test]
fn only_the_file_of_the_process_and_its_user_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let user = dir.path().metadata().unwrap().uid();
    let open = |pid: u32| CounterFile::open(dir.path(), pid, 5, user);
    assert!(open(7).unwrap().is_none());
    fs::write(dir.path().join(name_of(7, 5)), bytes(7, 5, 1, 1)).unwrap();
    assert_eq!(open(7).unwrap().unwrap().read().unwrap().pid, 7);
    assert!(matches!(CounterFile::open(dir.path(), 7, 5, user + 1), Err(Refused::Owner { .. })));
    assert!(CounterFile::open(dir.path(), 7, 6, user).unwrap().is_none(), "an earlier process of this number");
    // A copy for another process.
    fs::write(dir.path().join(name_of(8, 5)), bytes(7, 5, 1, 1)).unwrap();
    assert!(matches!(open(8).unwrap().unwrap().read(), Err(Refused::Process)));
    symlink(dir.path().join(name_of(7, 5)), dir.path().join(name_of(9, 5))).unwrap();
    let fifo = dir.path().join(name_of(10, 5));
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    fs::create_dir(dir.path().join(name_of(11, 5))).unwrap();
    for pid in 9..12 {
        assert_eq!(open(pid).unwrap_err().label(), "unreadable", "{pid}");
    }
    // Sparse and endless.
    fs::File::create(dir.path().join(name_of(12, 5))).unwrap().set_len(1 << 40).unwrap();
    assert_eq!(open(12).unwrap().unwrap().read().unwrap_err().label(), "malformed");
}

#[test]
fn the_last_values_are_read_after_the_file_has_lost_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name_of(7, 5));
    fs::write(&path, bytes(7, 5, 3, 1)).unwrap();
    let file = CounterFile::open(dir.path(), 7, 5, dir.path().metadata().unwrap().uid()).unwrap().unwrap();
    fs::remove_file(&path).unwrap();
    assert_eq!(file.read().unwrap().operations[0].cells[0][0].calls, 3);
}

/// Calls, nanoseconds and whether the process is in an operation since that time.
fn counters(calls: u64, nanoseconds: u64, entered: Option<u64>) -> Counters {
    Counters { entered, ..parse(&bytes(7, 5, calls, nanoseconds)).unwrap() }
}

#[test]
fn steps_are_differences_and_shares_have_operations_that_last() {
    let mut follower = Follower::default();
    let mut look = |at: u64, counters: &Counters| {
        let (steps, share) = follower.look(counters, at * SECOND);
        (steps.first().map_or(0, |step| step.new.calls), share)
    };
    assert_eq!(look(100, &counters(10, 20 * SECOND, None)), (10, None), "since the begin of the process");
    assert_eq!(look(110, &counters(14, 25 * SECOND, None)), (4, Some(0.5)));
    // It has entered an operation 4 s ago, and is in it for the whole next period.
    assert_eq!(look(120, &counters(14, 25 * SECOND, Some(116 * SECOND))), (0, Some(0.4)));
    assert_eq!(look(130, &counters(14, 25 * SECOND, Some(116 * SECOND))), (0, Some(1.0)));
    assert_eq!(look(140, &counters(15, 40 * SECOND, None)), (1, Some(0.1)), "it has left after 15 s");
    let several = Counters { several_threads: true, ..counters(15, 44 * SECOND, None) };
    assert_eq!(look(150, &several).1, None);
    let ended = Counters { ended: true, ..counters(15, 44 * SECOND, None) };
    assert_eq!(look(160, &ended).1, None);
}

#[test]
fn numbers_that_cannot_be_are_left_out() {
    let mut follower = Follower::default();
    assert_eq!(follower.look(&counters(10, 5, None), SECOND).0.len(), 1);
    assert_eq!(follower.look(&counters(9, 6, None), 2 * SECOND), (Vec::new(), None), "it went back");
    assert_eq!(follower.look(&counters(11, 1 << 62, None), 3 * SECOND), (Vec::new(), None), "a century in a second");
    assert_eq!(follower.implausible, 2);
    assert_eq!(
        follower.look(&counters(12, 7, None), 4 * SECOND).0[0].new.calls,
        2,
        "goes on from the last good values"
    );
    let mut double = bytes(7, 5, u64::MAX, 1);
    let row = double[256..].to_vec();
    double.extend(row);
    double[12..16].copy_from_slice(&u32::to_ne_bytes(896));
    double[16..20].copy_from_slice(&u32::to_ne_bytes(2));
    Follower::default().look(&parse(&double).unwrap(), SECOND);
}

mod foreign_bytes {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_change_is_survived(at in 0_usize..576, value in any::<[u8; 8]>(), length in 0_usize..700) {
            let mut bytes = bytes(7, 5, 1, 1);
            let end = (at + 8).min(576);
            bytes[at..end].copy_from_slice(&value[..end - at]);
            bytes.resize(length.max(1), 0);
            if let Ok(counters) = parse(&bytes) {
                let mut follower = Follower::default();
                follower.look(&counters, 1);
                follower.look(&counters, u64::MAX);
            }
        }
    }
}

mod real {
    use super::*;
    use fabriclens_testing::mpi::{Mpi, MpiBuild, MpiProgram, RANKS};
    use std::process::Command;

    fn start(pid: u32) -> u64 {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit_once(')').unwrap().1.split_whitespace().nth(19).unwrap().parse().unwrap()
    }

    fn file(program: &MpiProgram, counters: &Path, rank: u32) -> Option<CounterFile> {
        let pid = program.pid(rank);
        CounterFile::open(counters, pid, start(pid), counters.metadata().unwrap().uid()).unwrap()
    }

    /// Operations that were called, as `check` writes them.
    fn called(counters: &Counters) -> Vec<String> {
        let mut lines = Vec::new();
        for operation in &counters.operations {
            for (group, cells) in Group::ALL.into_iter().zip(&operation.cells) {
                for ((class, _), cell) in CLASSES.iter().zip(cells).filter(|(_, cell)| cell.calls > 0) {
                    let group = if group == Group::World { "world" } else { "other" };
                    lines.push(format!("{} {group} {} {} {class}", operation.name, cell.calls, cell.bytes));
                    assert!(cell.nanoseconds > 0);
                }
            }
        }
        lines
    }

    #[test]
    #[ignore = "needs: mpi"]
    fn calls_and_bytes_are_those_that_the_program_knows() {
        for mpi in Mpi::ALL {
            let dirs: [_; 3] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
            let [built, counters, run] = [0, 1, 2].map(|number: usize| dirs[number].path());
            let build = MpiBuild::new(mpi, built);
            let program = build.start(&build.library(), counters, run, "count");
            let mut files = Vec::new();
            for rank in 0..RANKS {
                let file = file(&program, counters, rank).unwrap();
                let found = file.read().unwrap();
                assert_eq!((found.rank, found.size, found.several_threads), (rank, RANKS, false), "{mpi:?}");
                let name = if mpi == Mpi::Open { "Open MPI v" } else { "MPICH" };
                assert!(found.library.starts_with(name), "{}", found.library);
                let (mut called, mut expected) = (called(&found), program.expected(rank));
                called.sort();
                expected.sort();
                assert!(expected.len() > 50, "{expected:?}");
                assert_eq!(called, expected, "{mpi:?} rank {rank}");
                files.push(file);
            }
            assert_eq!(program.stop(), "", "{mpi:?}: it says nothing");
            assert_eq!(fs::read_dir(counters).unwrap().count(), 0, "each process has removed its file");
            assert!(files.iter().all(|file| file.read().unwrap().ended), "and the last values can be read");
        }
    }

    #[test]
    #[ignore = "needs: mpi"]
    fn without_a_place_or_with_another_mpi_the_program_runs_uncounted() {
        let dirs: [_; 3] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
        let [open, mpich] = [Mpi::Open, Mpi::Mpich].map(|mpi| {
            let dir = dirs[usize::from(mpi == Mpi::Mpich)].path().join("build");
            fs::create_dir(&dir).unwrap();
            MpiBuild::new(mpi, &dir)
        });
        for (build, library, counters, why) in [
            (&open, open.library(), Path::new("/nonexistent"), "No such file or directory"),
            (&mpich, mpich.library(), Path::new("/proc/self"), ": "),
            // Handles of the two have different types: they must pass through.
            (&open, mpich.library(), dirs[2].path(), "another MPI"),
            (&mpich, open.library(), dirs[2].path(), "another MPI"),
        ] {
            let run = tempfile::tempdir().unwrap();
            let program = build.start(&library, counters, run.path(), "count");
            assert_eq!(program.expected(0).len(), program.expected(2).len());
            let said = program.stop();
            let lines: Vec<&str> = said.lines().filter(|line| line.starts_with("libfabriclens-mpi: ")).collect();
            assert!(lines.len() == RANKS as usize && lines.iter().all(|line| line.contains(why)), "{said}");
        }
        assert_eq!(fs::read_dir(dirs[2].path()).unwrap().count(), 0);
    }

    #[test]
    #[ignore = "needs: mpi"]
    fn files_of_killed_processes_are_removed_by_the_next_one_of_the_user() {
        let dirs: [_; 4] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
        let [built, counters, first, second] = [0, 1, 2, 3].map(|number: usize| dirs[number].path());
        let build = MpiBuild::new(Mpi::Mpich, built);
        let program = build.start(&build.library(), counters, first, "even");
        let dead = program.pid(1);
        let killed = Command::new("kill").args(["-9", &dead.to_string()]).status().unwrap();
        assert!(killed.success());
        drop(program);
        let left = || fs::read_dir(counters).unwrap().flatten().map(|entry| entry.file_name().into_string().unwrap());
        assert!(
            left().any(|name| name.starts_with(&format!("fabriclens-mpi-{dead}-"))),
            "{:?}",
            left().collect::<Vec<_>>()
        );
        fs::write(counters.join("fabriclens-mpi"), "of somebody else").unwrap();
        let program = build.start(&build.library(), counters, second, "even");
        assert_eq!(left().count(), RANKS as usize + 1, "{:?}", left().collect::<Vec<_>>());
        program.stop();
    }

    #[test]
    #[ignore = "needs: mpi"]
    fn processes_that_start_together_do_not_remove_each_others_files() {
        let dirs: [_; 3] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
        let [built, counters, runs] = [0, 1, 2].map(|number: usize| dirs[number].path());
        let build = MpiBuild::new(Mpi::Mpich, built);
        let libraries = format!("{}:{}", built.join("slow_lock.so").display(), build.library().display());
        for round in 0..5 {
            let run = runs.join(round.to_string());
            fs::create_dir(&run).unwrap();
            let program = build.start(Path::new(&libraries), counters, &run, "even");
            let counted = (0..RANKS).filter(|rank| file(&program, counters, *rank).is_some()).count();
            assert_eq!((counted, &*program.stop()), (RANKS as usize, ""), "round {round}");
        }
    }

    #[test]
    #[ignore = "needs: mpi"]
    fn a_program_without_mpi_runs_with_the_library() {
        let dirs: [_; 2] = std::array::from_fn(|_| tempfile::tempdir().unwrap());
        for mpi in Mpi::ALL {
            let built = dirs[0].path().join(format!("{mpi:?}"));
            fs::create_dir(&built).unwrap();
            let build = MpiBuild::new(mpi, &built);
            // All symbols at once, which fails if one of MPI's is missing.
            let mut program = Command::new("/bin/sh");
            program.args(["-c", "cat /proc/self/maps"]).env("LD_BIND_NOW", "1").env("LD_PRELOAD", build.library());
            let ran =
                program.env("FABRICLENS_MPI_DIR", dirs[1].path()).env("FABRICLENS_MPI_VERBOSE", "1").output().unwrap();
            let maps = String::from_utf8_lossy(&ran.stdout);
            assert!(ran.status.success() && ran.stderr.is_empty(), "{}", String::from_utf8_lossy(&ran.stderr));
            assert!(
                maps.contains("libfabriclens-mpi.so") && !maps.contains("libmpi.so") && !maps.contains("libmpich.so"),
                "{maps}"
            );
            assert_eq!(fs::read_dir(dirs[1].path()).unwrap().count(), 0);
        }
    }
}

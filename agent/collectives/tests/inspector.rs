//! Files of NCCL's Inspector, as a writer of 32 ranks leaves them, and recorded ones.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use fabriclens_agent_collectives::Budget;
use fabriclens_agent_collectives::inspector::{Followed, Observation, Series, SizeClass, Totals, parse_prometheus};
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;

const HEADER: &str = r#""header":{"id":"0xabc","rank":RANK,"n_ranks":32,"nnodes":4},"metadata":{"inspector_output_format_version":"VERSION","hostname":"h","pid":7}"#;

fn header(version: &str, rank: u32) -> String {
    HEADER.replace("RANK", &rank.to_string()).replace("VERSION", version)
}

fn performance(number: u64, micros: u64) -> String {
    format!(
        r#""coll_perf":{{"coll":"AllReduce","coll_sn":{number},"coll_msg_size_bytes":1048576,"coll_exec_time_us":{micros},"coll_algobw_gbs":1.5,"coll_busbw_gbs":2.5}}"#
    )
}

/// A record of a format that repeats its header.
fn line(rank: u32, number: u64, micros: u64) -> String {
    format!("{{{},{}}}\n", header("v4.0", rank), performance(number, micros))
}

fn append(path: &Path, text: &str) {
    OpenOptions::new().create(true).append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
}

fn read(file: &mut Followed) -> Vec<Observation> {
    let mut all = Vec::new();
    file.read(&mut Budget::default(), &mut all).unwrap();
    all
}

#[test]
fn of_32_ranks_the_late_one_is_named_after_three_windows() {
    let dir = tempfile::tempdir().unwrap();
    let path = |rank: u32| dir.path().join(format!("h-pid{}.log", 100 + rank));
    let mut files: Vec<Followed> = (0..32).map(|rank| Followed::new(&path(rank)).unwrap()).collect();
    let mut totals = Totals::default();
    let mut window = |number: u64| -> Series {
        for (rank, file) in (0..32).zip(&mut files) {
            // The late rank comes last, so that it spends the least time in the operation.
            let micros = if rank == 21 { 200 } else { 1000 };
            (0..50).for_each(|n| append(&path(rank), &line(rank, 50 * number + n, micros)));
            read(file).iter().for_each(|observation| totals.add(observation));
        }
        totals.end_window().remove(0)
    };
    assert_eq!((window(0).late, window(1).late), (None, None), "chance");
    let series = window(2);
    assert_eq!(&*series.late.as_ref().unwrap().member, "21");
    assert_eq!((&*series.key.0, &*series.key.1, series.key.2.label()), ("0000000000000abc", "AllReduce", "1MiB"));
    assert_eq!((series.count, series.bus_bandwidth.map(f64::round)), (3 * 32 * 50, Some(2.5e9)));
    assert!((series.mean - 975e-6).abs() < 1e-9 && (series.wait.unwrap() - 775e-6).abs() < 1e-9, "{series:?}");
}

#[test]
fn records_after_a_marker_belong_to_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("h-pid7.log");
    let mut file = Followed::new(&path).unwrap();
    append(&path, &format!("{{{},\"dump_stats\":{{\"coll_records\":2}}}}\n", header("v4.3", 4)));
    append(&path, &format!("{{{}}}\n{{{}}}\n", performance(1, 10), performance(2, 10)));
    append(&path, "{\"proxy_trace\":{\"record_type\":\"proxy_op\",\"rank\":4,\"steps\":[{\"step\":0}]}}\n");
    let all = read(&mut file);
    assert_eq!(file.lost, 0, "transfers of the network are known, and of no interest");
    assert_eq!((all.len(), &*all[1].member, all[1].pid, &*all[1].host), (2, "4", Some(7), "h"));
    append(&path, &format!("{{{}}}\n", performance(3, 10)));
    assert_eq!(read(&mut file).len(), 1, "also at the next look");
}

#[test]
fn growth_rotation_and_truncation_are_followed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("h-pid7.log");
    let mut file = Followed::new(&path).unwrap();
    let whole = line(1, 1, 10);
    append(&path, &whole);
    append(&path, &whole[..60]);
    assert_eq!((read(&mut file).len(), read(&mut file).len()), (1, 0), "a line that is not complete waits");
    append(&path, &whole[60..]);
    assert_eq!(read(&mut file).len(), 1);
    fs::write(&path, line(1, 3, 10)).unwrap();
    assert_eq!(read(&mut file).len(), 1, "truncated");
    fs::remove_file(&path).unwrap();
    append(&dir.path().join("new"), &[line(1, 4, 10), line(1, 5, 10), line(1, 6, 10)].concat());
    fs::rename(dir.path().join("new"), &path).unwrap();
    assert_eq!(read(&mut file).len(), 3, "replaced");
    append(&path, "{\"header\": {\"id\": \"0xab\n");
    append(&path, &line(1, 7, 10));
    assert_eq!((read(&mut file).len(), file.lost), (1, 1), "a cut line loses itself only");
}

#[test]
fn a_file_that_is_long_already_is_begun_near_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("h-pid7.log");
    append(&path, &(0..20_000).map(|n| line(1, n, 10)).collect::<String>());
    let mut file = Followed::new(&path).unwrap();
    let first = read(&mut file).len();
    assert!((100..400).contains(&first), "{first}");
    append(&path, &(0..20_000).map(|n| line(1, n, 10)).collect::<String>());
    let mut all = Vec::new();
    file.read(&mut Budget { file: 100_000, all: 1 << 30 }, &mut all).unwrap();
    assert!((200..500).contains(&all.len()) && file.skipped() > 4_000_000, "{} {}", all.len(), file.skipped());
    assert_eq!(file.lost, 0, "the part of a line at which it goes on is no record");
}

#[test]
fn links_pipes_and_other_files_are_not_read() {
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/etc/passwd", dir.path().join("a.log")).unwrap();
    let fifo = dir.path().join("b.log");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    for name in ["a.log", "b.log"] {
        let mut file = Followed::new(&dir.path().join(name)).unwrap();
        assert!(file.read(&mut Budget::default(), &mut Vec::new()).is_err(), "{name}");
    }
    assert!(Followed::new(&dir.path().join("core.1234")).is_none());
}

#[test]
fn the_prometheus_form_is_read_when_it_is_rewritten() {
    let labels = |version: &str, gpu: u32| {
        format!(
            r#"{{version="{version}",slurm_job_id="7",node="h",gpu="GPU{gpu}",comm_name="DP Group 0",n_nodes="1",nranks="4",collective="AllReduce",message_size="4-5GB",algo_proto="Ring_ll"}}"#
        )
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("nccl_inspector_metrics_GPU-1.prom");
    let text = |version: &str| {
        let l = labels(version, 1);
        format!(
            "nccl_bus_bandwidth_gbs{l} 678.263\nnccl_collective_exec_time_microseconds{l} 9498.47\nnccl_new_thing{l} 1\n"
        )
    };
    fs::write(&path, text("v5.1")).unwrap();
    let mut file = Followed::new(&path).unwrap();
    let all = read(&mut file);
    assert_eq!((all.len(), &*all[0].communicator, &*all[0].member), (1, "DP Group 0", "GPU1"));
    assert_eq!((all[0].slurm_job.as_deref(), all[0].size.label(), all[0].is_mean), (Some("7"), "1GiB", true));
    assert_eq!(all[0].bus_bandwidth.unwrap().round(), 678.263e9);
    assert!(read(&mut file).is_empty(), "the same means are not counted twice");
    std::thread::sleep(std::time::Duration::from_millis(20));
    let new = text("v9.0");
    fs::write(&path, &new[..new.len() - 40]).unwrap();
    assert_eq!(read(&mut file).len(), 1, "another version, written just now");
    let (none, lost) =
        parse_prometheus("x\nnccl_collective_exec_time_microseconds{a=\"b\"} 1\nnccl_bus_bandwidth_gbs{ NaN\n");
    assert_eq!((none.len(), lost), (0, 3));
}

#[test]
fn every_version_of_the_prometheus_form_is_read() {
    let common = r#"slurm_job_id="unknown",nranks="16",n_nodes="2""#;
    // The first version: one operation, known by hash, rank and host.
    let first = format!(
        r#"{{comm_id="0xabc",hostname="h",rank="3",slurm_job="x",{common},gpu_device_id="GPU3",collective="AllReduce",coll_sn="7",timestamp="t",message_size="1.50MB"}}"#
    );
    // A sum and a count in place of a mean, with the number of samples at the count only.
    let sums = format!(
        r#"version="v5.2",{common},node="h",gpu="GPU3",comm_name="tp",collective="AllReduce",message_size="4-5GB",algo_proto="Ring_ll""#
    );
    let text = format!(
        "nccl_algorithm_bandwidth_gbs{first} 1\nnccl_bus_bandwidth_gbs{first} 2\nnccl_collective_exec_time_microseconds{first} 40\n\
         nccl_bus_bandwidth_gbs{{{sums}}} 3\nnccl_collective_count{{{sums},percentile_samples=\"9\"}} 10\n\
         nccl_collective_exec_time_sum_microseconds{{{sums}}} 500\nnccl_collective_exec_time_p50_microseconds{{{sums}}} 44\n"
    );
    let (all, lost) = parse_prometheus(&text);
    let mut found: Vec<_> = all
        .iter()
        .map(|o| (&*o.communicator, &*o.host, &*o.member, (o.seconds * 1e6).round(), o.bus_bandwidth))
        .collect();
    found.sort_by_key(|one| one.0);
    let want = [("0000000000000abc", "h", "3", 40.0, Some(2e9)), ("tp", "h", "GPU3", 50.0, Some(3e9))];
    assert_eq!((&*found, lost), (&want[..], 0));
}

#[test]
fn ranks_of_communicators_with_one_name_are_not_compared() {
    let late = |name: &str, ranks: u32, nodes: u32| {
        let mut totals = Totals::default();
        let mut last = Vec::new();
        for _ in 0..3 {
            for gpu in 0..4 {
                let labels = format!(
                    r#"{{node="h",gpu="GPU{gpu}",comm_name="{name}",n_nodes="{nodes}",nranks="{ranks}",collective="AllReduce",message_size="4-5GB"}}"#
                );
                let micros = if gpu == 2 { 100 } else { 1000 };
                let text = format!("nccl_collective_exec_time_microseconds{labels} {micros}\n");
                parse_prometheus(&text).0.iter().for_each(|observation| totals.add(observation));
            }
            last = totals.end_window();
        }
        (last[0].wait.is_some(), last[0].late.as_ref().map(|late| late.member.to_string()))
    };
    assert_eq!(late("dp", 8, 2), (true, Some("GPU2".into())));
    assert_eq!(late("tp", 2, 1), (false, None), "two communicators of two ranks each");
    assert_eq!(late("pp", 4, 4), (false, None), "four communicators, each with one rank here");
    assert_eq!(late("unknown", 8, 2), (false, None), "no name");
}

#[test]
fn sizes_have_classes() {
    let labels = [0, 32767, 32768, 1 << 20, 1 << 30, u64::MAX].map(|bytes| SizeClass::of(bytes).label());
    assert_eq!(labels, ["0", "0", "32KiB", "1MiB", "1GiB", "32GiB"]);
    let ranges = ["0B", "1-2KB", "512-513MB", "4-5GB", "4-5 parsecs", "", "GB"]
        .map(|range| SizeClass::of_range(range).map(SizeClass::label));
    assert_eq!(ranges, [Some("0"), Some("0"), Some("32MiB"), Some("1GiB"), None, None, None]);
}

#[test]
fn too_many_series_are_counted_and_idle_ones_end() {
    let mut totals = Totals::default();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("h-pid7.log");
    append(&path, &line(1, 1, 10));
    let one = read(&mut Followed::new(&path).unwrap()).remove(0);
    for number in 0..600 {
        totals.add(&Observation { communicator: number.to_string().into(), ..one.clone() });
    }
    assert_eq!((totals.end_window().len(), totals.omitted), (128, 472));
    let after: Vec<usize> = (0..11).map(|_| totals.end_window().len()).collect();
    assert_eq!((after[9], after[10]), (128, 0));
}

#[test]
#[ignore = "needs: recordings"]
fn recorded_files_are_read() {
    let dir = fabriclens_testing::recordings().join("collectives/nccl-inspector");
    for (name, communicator, size) in [
        ("json-lines.jsonl", "007f8c496ae9f661", "1GiB"),
        ("pretty.json", "007f8c496ae9f661", "1GiB"),
        ("nccl_inspector_metrics.prom", "DP Group 0", "1GiB"),
    ] {
        let mut file = Followed::new(&dir.join(name)).unwrap();
        let all = read(&mut file);
        assert_eq!((all.len(), file.lost), (1, 0), "{name}");
        assert_eq!((&*all[0].communicator, &*all[0].operation, all[0].size.label()), (communicator, "AllReduce", size));
        assert!(all[0].bus_bandwidth.unwrap() > 4e11, "{name}");
    }
}

mod foreign_bytes {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_survived_and_read_once(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let dir = tempfile::tempdir().unwrap();
            for name in ["x.log", "x.prom"] {
                let path = dir.path().join(name);
                fs::write(&path, &bytes).unwrap();
                let mut file = Followed::new(&path).unwrap();
                read(&mut file);
                prop_assert!(read(&mut file).is_empty());
            }
        }

        #[test]
        fn a_file_that_grows_in_any_steps_gives_each_record_once(steps in prop::collection::vec(1_usize..200, 1..30)) {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("h-pid1.log");
            let text: String = (0..12).map(|n| line(1, n, 10 + n)).collect();
            fs::write(&path, "").unwrap();
            let mut file = Followed::new(&path).unwrap();
            read(&mut file);
            let (mut at, mut all) = (0, Vec::new());
            for step in steps.into_iter().chain([text.len()]) {
                let end = (at + step).min(text.len());
                append(&path, &text[at..end]);
                at = end;
                all.extend(read(&mut file).iter().map(|o| (o.seconds * 1e6).round() as u64));
            }
            prop_assert_eq!((all, file.lost), ((10..22).collect::<Vec<u64>>(), 0));
        }
    }
}

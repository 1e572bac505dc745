//! Recorded output of real schedulers.

use fabriclens_jobs::{ListedJob, slurm};
use fabriclens_testing::recordings;
use std::path::Path;

fn slurm_of(path: &Path) -> Vec<ListedJob> {
    let (listed, unparsed) =
        slurm::jobs(&std::fs::read(path).unwrap(), "").unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    assert!(unparsed.is_empty(), "{}: {unparsed:?}", path.display());
    listed
}

#[test]
#[ignore = "needs: recordings"]
fn recorded_queue_parses_in_every_format() {
    let dir = recordings().join("slurm-22.05");
    let listed = slurm_of(&dir.join("squeue.json"));
    let of = |id: &str| &listed.iter().find(|l| l.key.id == id && l.key.cluster == "lab").unwrap().record;
    let (runs, task, failed) = (of("3"), of("4_1"), of("2"));
    assert_eq!(runs.hosts.keys().collect::<Vec<_>>(), ["n1", "n2"]);
    assert_eq!(runs.end_ns, None);
    assert_eq!((task.name.as_deref(), task.hosts.len(), task.end_ns), (Some("sweep"), 1, None));
    assert_eq!(task.aliases, ["5"]);
    assert_eq!(failed.end_ns.unwrap() - failed.start_ns.unwrap(), 1_000_000_000);
    assert_eq!(listed.len(), 4, "waiting jobs are not listed");
    // The same queue as text, except the account and the cluster, which scontrol does not print.
    let plain = |all: Vec<ListedJob>| -> Vec<_> {
        let mut all: Vec<_> = all
            .into_iter()
            .map(|l| {
                (
                    l.key.id,
                    l.record.user,
                    l.record.name,
                    l.record.aliases,
                    l.record.start_ns,
                    l.record.end_ns,
                    l.record.hosts,
                )
            })
            .collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    };
    assert_eq!(plain(slurm_of(&dir.join("scontrol-show-job-o.txt"))), plain(listed));
    assert_eq!(slurm_of(&dir.join("scontrol-show-job-d.txt"))[0].record.hosts.len(), 2);
    // Output of slurmrestd and of accounting.
    for (file, jobs) in
        [("restd-slurm_v0.0.38_jobs.json", 4), ("restd-slurmdb_v0.0.38_jobs.json", 4), ("sacct.json", 3)]
    {
        let listed = slurm_of(&dir.join(file));
        assert_eq!(listed.len(), jobs, "{file}: {:?}", listed.iter().map(|l| &l.key.id).collect::<Vec<_>>());
        assert!(listed.iter().all(|l| l.record.user.is_some() && !l.record.hosts.is_empty()), "{file}");
    }
}

#[test]
#[ignore = "needs: recordings"]
fn scontrol_text_of_large_clusters_parses() {
    let dir = recordings().join("workload/gcm-scontrol-show");
    let mut count = 0;
    for file in std::fs::read_dir(&dir).unwrap().map(|e| e.unwrap().path()) {
        if file.file_name().is_some_and(|n| n.to_string_lossy().starts_with("scontrol_out")) {
            let listed = slurm_of(&file);
            assert!(!listed.is_empty() && listed.iter().all(|l| l.record.end_ns.is_none()), "{}", file.display());
            count += 1;
        }
    }
    assert_eq!(count, 7);
    let many = slurm_of(&dir.join("scontrol_out_multi_node.txt"));
    assert_eq!(many[0].record.hosts.len(), 8);
    assert_eq!((many[0].key.id.as_str(), many[0].record.user.as_deref()), ("8401413", Some("test_username")));
    let array = slurm_of(&dir.join("scontrol_out_main_array_job.txt"));
    let ids: Vec<_> = array.iter().map(|l| (l.key.id.as_str(), l.record.aliases.as_slice())).collect();
    assert_eq!(ids, [("30214", &[][..]), ("31185_128", &["31214".to_owned()][..])], "a range of tasks is no task");
}

#[test]
#[ignore = "needs: recordings"]
fn new_slurmrestd_versions_parse() {
    let dir = recordings().join("workload/slurmweb-slurmrestd-json");
    let (mut jobs, mut refused) = (0, Vec::new());
    for file in std::fs::read_dir(&dir).unwrap().map(|e| e.unwrap().path()) {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let is_list = ["slurm-job", "slurmdb-job"].iter().any(|s| name.starts_with(s));
        match slurm::jobs(&std::fs::read(&file).unwrap(), "") {
            Ok((listed, unparsed)) => {
                assert!(is_list && unparsed.is_empty(), "{name}: {unparsed:?}");
                jobs += listed.len();
            }
            Err(e) => refused.push((is_list, name, e)),
        }
    }
    // Node lists, and slurm-web's jobs (without times), are no job lists of Slurm.
    let wrong: Vec<_> =
        refused.iter().filter(|(is_list, ..)| *is_list).map(|(_, name, e)| format!("{name}: {e}")).collect();
    assert!(wrong.iter().all(|w| w.contains("unfound") || w.contains("archived")), "{wrong:?}");
    assert!(wrong.iter().all(|w| w.contains("Slurm says: ")), "{wrong:?}");
    assert!(jobs > 30, "{jobs}");
    let runs = slurm_of(&dir.join("slurm-job-gpus-running.json"));
    assert_eq!((runs.len(), runs[0].record.end_ns, runs[0].key.cluster.as_str()), (1, None, "hpc"));
    let same = slurm_of(&dir.join("slurmdb-job-gpus-running.json"));
    assert_eq!(
        (&same[0].key, same[0].record.start_ns),
        (&runs[0].key, runs[0].record.start_ns),
        "accounting says the same"
    );
    assert_eq!(same[0].record.hosts, runs[0].record.hosts);
}

#[test]
#[ignore = "needs: recordings"]
fn lists_without_hosts_or_times_are_refused() {
    let dir = recordings().join("workload");
    let rivos = slurm_of(&dir.join("rivos-slurm-json/squeue_out.json"));
    assert_eq!(rivos[0].record.hosts.keys().collect::<Vec<_>>(), ["cs75"]);
    // These show that a job exists, but not where or since when: `squeue --format` and accounting output.
    for file in [
        "rivos-slurm-json/squeue_fallback.txt",
        "rivos-slurm-json/sinfo_out.json",
        "vpenso-slurm-text/squeue.txt",
        "ceems-k8s-and-slurmprops/slurmjobprops/1009248",
    ] {
        assert!(slurm::jobs(&std::fs::read(dir.join(file)).unwrap(), "").is_err(), "{file}");
    }
}

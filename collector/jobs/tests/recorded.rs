//! What a real `squeue --json` printed. Recordings are not in this repository; FABRICLENS_FIXTURES says where they are.

use fabriclens_jobs::slurm;
use std::path::PathBuf;

#[test]
fn a_recorded_queue_is_understood() {
    let beside = || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/fixtures"));
    let path =
        std::env::var_os("FABRICLENS_FIXTURES").map_or_else(beside, PathBuf::from).join("slurm-22.05/squeue.json");
    let Ok(json) = std::fs::read(&path) else {
        eprintln!("SKIPPED: {} not found; set FABRICLENS_FIXTURES", path.display());
        return;
    };
    let (listed, odd) = slurm::jobs(&json, "").unwrap();
    assert_eq!(odd, []);
    let of = |id: &str| &listed.iter().find(|l| l.key.id == id && l.key.cluster == "lab").unwrap().facts;
    let (runs, task, failed) = (of("3"), of("4_1"), of("2"));
    assert_eq!(runs.hosts.keys().collect::<Vec<_>>(), ["n1", "n2"]);
    assert_eq!(runs.end_ns, None);
    assert_eq!((task.name.as_deref(), task.hosts.len(), task.end_ns), (Some("sweep"), 1, None));
    assert_eq!(failed.end_ns.unwrap() - failed.start_ns.unwrap(), 1_000_000_000);
    assert_eq!(listed.len(), 4, "those that wait are none");
}

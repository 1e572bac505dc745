//! Parses the path of a cgroup into the job that it belongs to. Pure functions; called by the tree walk and for queue
//! pairs.

use crate::rules::{ALL, Scheduler};
use std::borrow::Cow;

/// A job, as parsed from the path of a cgroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobPath<'a> {
    /// Label `scheduler`.
    pub scheduler: &'static str,
    /// Job id of the scheduler.
    pub job: Cow<'a, str>,
    /// User id, if the path contains it.
    pub uid: Option<u32>,
}

/// Job of a path. For nested jobs (Slurm in pods) the innermost one.
pub fn of_path(path: &str) -> Option<JobPath<'_>> {
    let names: Vec<&str> = names(path);
    let mut found: Option<(usize, JobPath)> = None;
    for scheduler in ALL {
        for pattern in scheduler.groups {
            for end in (pattern.len()..=names.len()).rev() {
                if found.as_ref().is_some_and(|(other, _)| *other >= end) {
                    break;
                }
                if let Some(place) = place(scheduler, pattern, &names[end - pattern.len()..end]) {
                    found = Some((end, place));
                }
            }
        }
    }
    found.map(|(_, place)| place)
}

/// Whether jobs may appear directly in or below this path, because a pattern begins there.
pub fn leads_to_jobs(path: &str) -> bool {
    let names = names(path);
    let begins = |pattern: &&[&str]| {
        (1..pattern.len().min(names.len() + 1)).any(|count| {
            let last = &names[names.len() - count..];
            pattern.iter().zip(last).all(|(pattern, name)| fits(pattern, name, &mut Captures::default()))
        })
    };
    ALL.iter().flat_map(|scheduler| scheduler.groups).any(begins)
}

/// Job of a process from the lines of its `/proc/PID/cgroup`; version 2 first.
pub fn of_process(lines: &str) -> Option<JobPath<'_>> {
    let paths = || lines.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    let unified = paths().filter(|(controllers, _)| controllers.is_empty());
    unified.chain(paths()).find_map(|(_, path)| of_path(path).or_else(|| of_foreign_namespace(path)))
}

/// Job of a path seen from another cgroup namespace. An agent in a pod sees other pods relative to its own cgroup,
/// without the names above: `/../../kubepods-burstable-podX.slice/…`. Only the UID of a pod identifies a job then.
fn of_foreign_namespace(path: &str) -> Option<JobPath<'_>> {
    let names = names(path);
    let up = names.iter().take_while(|name| **name == "..").count();
    let below = &names[up..];
    ALL.iter().find_map(|scheduler| {
        let ends = scheduler.groups.iter().flat_map(|pattern| (1..pattern.len().min(up + 1)).map(|n| &pattern[n..]));
        let mut ends = ends.filter(|end| end.len() <= below.len() && end.iter().any(|name| name.contains("{pod}")));
        ends.find_map(|end| place(scheduler, end, below))
    })
}

fn names(path: &str) -> Vec<&str> {
    path.split('/').filter(|name| !name.is_empty()).collect()
}

fn place<'a>(scheduler: &'static Scheduler, pattern: &[&str], names: &[&'a str]) -> Option<JobPath<'a>> {
    let mut captures = Captures::default();
    let all = pattern.iter().zip(names).all(|(pattern, name)| fits(pattern, name, &mut captures));
    let job = captures.job.filter(|_| all)?;
    Some(JobPath { scheduler: scheduler.name, job, uid: captures.uid })
}

#[derive(Default, Clone)]
struct Captures<'a> {
    job: Option<Cow<'a, str>>,
    uid: Option<u32>,
}

/// Matches a directory name against a pattern; text in braces goes to `captures`.
fn fits<'a>(pattern: &str, name: &'a str, captures: &mut Captures<'a>) -> bool {
    match pattern.chars().next() {
        None => name.is_empty(),
        Some('*') => {
            let ends = name.char_indices().map(|(at, _)| at).chain([name.len()]);
            ends.into_iter().any(|at| fits(&pattern[1..], &name[at..], captures))
        }
        Some('{') => {
            let Some((kind, rest)) = pattern[1..].split_once('}') else { return false };
            let ends = name.char_indices().map(|(at, _)| at).skip(1).chain([name.len()]);
            let ends: Vec<usize> = ends.filter(|at| *at > 0).collect();
            ends.into_iter().rev().any(|at| {
                let (this, after) = name.split_at(at);
                let before = captures.clone();
                if take(kind, this, captures) && fits(rest, after, captures) {
                    return true;
                }
                *captures = before;
                false
            })
        }
        Some(literal) => {
            name.strip_prefix(literal).is_some_and(|after| fits(&pattern[literal.len_utf8()..], after, captures))
        }
    }
}

/// Most characters of a job id; PBS ids contain the name of their server.
const LONGEST: usize = 128;

fn take<'a>(kind: &str, text: &'a str, captures: &mut Captures<'a>) -> bool {
    let digits = |text: &str| text.len() <= 20 && text.bytes().all(|b| b.is_ascii_digit());
    let job = match kind {
        "uid" => {
            captures.uid = text.parse().ok();
            return captures.uid.is_some() && digits(text);
        }
        "job" => digits(text).then_some(Cow::Borrowed(text)),
        "id" => is_id(text).then_some(Cow::Borrowed(text)),
        "escaped" => unescaped(text).filter(|id| is_id(id)).map(Cow::Owned),
        "pod" => pod(text),
        "f58" => is_f58(text).then_some(Cow::Borrowed(text)),
        _ => None,
    };
    captures.job = job;
    captures.job.is_some()
}

fn is_id(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b".-_[]".contains(&b);
    text.len() <= LONGEST && text.starts_with(|c: char| c.is_ascii_digit()) && text.bytes().all(plain)
}

/// True for a Flux job id as in unit names: `f` and base-58 digits.
fn is_f58(text: &str) -> bool {
    let digit = |b: u8| b.is_ascii_alphanumeric() && !b"0OIl".contains(&b);
    text.len() <= 13 && text.strip_prefix('f').is_some_and(|rest| !rest.is_empty() && rest.bytes().all(digit))
}

/// UID of a pod in its canonical form; that of a static pod is a hash without dashes.
fn pod(text: &str) -> Option<Cow<'_, str>> {
    let hex = |range: &str| range.bytes().all(|b| b.is_ascii_hexdigit());
    match text.len() {
        32 if hex(text) => Some(Cow::Borrowed(text)),
        36 if text.is_ascii() => {
            let groups: Vec<&str> = text.split(['-', '_']).collect();
            let lengths = groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12]);
            (lengths && groups.iter().all(|group| hex(group))).then(|| Cow::Owned(groups.join("-")))
        }
        _ => None,
    }
}

/// Removes systemd's escapes: `\x2d` is `-`.
fn unescaped(text: &str) -> Option<String> {
    let mut parts = text.split("\\x");
    let mut out = parts.next()?.to_owned();
    for part in parts {
        let byte = u8::from_str_radix(part.get(..2)?, 16).ok().filter(u8::is_ascii_graphic)?;
        out.push(byte.into());
        out.push_str(&part[2..]);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const POD: &str = "0b3c9f4e-7d1a-4c52-9e0f-1a2b3c4d5e6f";

    #[test]
    fn paths_of_every_scheduler() {
        let escaped = POD.replace('-', "_");
        let kind =
            |class: &str| format!("/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods{class}-pod{escaped}.slice");
        let rows = [
            ("/slurm/uid_1000/job_4824887/step_0/task_3".to_owned(), "slurm", "4824887", Some(1000)),
            ("/slurm_gpu-07/uid_0/job_7/step_batch".into(), "slurm", "7", Some(0)),
            ("/system.slice/slurmstepd.scope/job_12/step_0/user/task_0".into(), "slurm", "12", None),
            ("/system.slice/gpu-07_slurmstepd.scope/job_12".into(), "slurm", "12", None),
            (format!("/kubepods.slice/kubepods-pod{escaped}.slice/cri-containerd-12ab.scope"), "kubernetes", POD, None),
            (
                format!("/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{escaped}.slice"),
                "kubernetes",
                POD,
                None,
            ),
            (kind("-burstable"), "kubernetes", POD, None),
            (format!("/kubepods/burstable/pod{POD}/12ab"), "kubernetes", POD, None),
            (format!("/docker/12ab/kubelet/kubepods/besteffort/pod{POD}/crio-1"), "kubernetes", POD, None),
            (format!("/kubepods/pod{POD}"), "kubernetes", POD, None),
            (
                format!("/system.slice/containerd.service/kubepods-pod{escaped}.slice:cri-containerd:12ab"),
                "kubernetes",
                POD,
                None,
            ),
            (
                "/kubepods/burstable/pod0123456789abcdef0123456789abcdef/1".into(),
                "kubernetes",
                "0123456789abcdef0123456789abcdef",
                None,
            ),
            ("/pbs_jobs.service/jobid/2404743.opbs".into(), "pbs", "2404743.opbs", None),
            ("/pbs_jobs.service/jobs/12[3].head-1/x".into(), "pbs", "12[3].head-1", None),
            ("/pbspro/7.head".into(), "pbs", "7.head", None),
            ("/pbspro.slice/pbspro-7.head\\x2d1.slice".into(), "pbs", "7.head-1", None),
            ("/torque/7.head".into(), "pbs", "7.head", None),
            ("/lsf/west/job.101.12345.1600000000".into(), "lsf", "101", None),
            ("/UGE/12.1".into(), "sge", "12", None),
            (
                "/user.slice/user-990.slice/user@990.service/app.slice/imp-shell-0-f2WfTbGv.service".into(),
                "flux",
                "f2WfTbGv",
                None,
            ),
            // Slurm in a pod.
            (format!("/kubepods/pod{POD}/12ab/system.slice/slurmstepd.scope/job_3/step_0"), "slurm", "3", None),
        ];
        for (path, scheduler, job, uid) in rows {
            let place = of_path(&path).unwrap_or_else(|| panic!("{path}: no job"));
            assert_eq!((place.scheduler, &*place.job, place.uid), (scheduler, job, uid), "{path}");
        }
    }

    #[test]
    fn other_paths_are_no_jobs() {
        let long = "9".repeat(300);
        for path in [
            "/",
            "",
            "/system.slice/slurmd.service",
            "/system.slice/slurmstepd.scope/system",
            "/system.slice/slurmstepd.scope/job_12a",
            "/slurm/uid_x/job_1",
            "/slurm/uid_99999999999/job_1",
            "/kubepods.slice/kubepods-burstable.slice",
            "/kubepods/podxyz",
            "/kubepods/pod0123456789abcdef0123456789abcdeg",
            "/user.slice/user-1000.slice/session-1.scope",
            "/job_7/step_0",
            "/pbspro/head",
            "/pbspro.slice/pbspro-7\\x.slice",
            "/pbspro.slice/pbspro-7\\xé.slice",
            "/user.slice/shell-0-bash.service",
            &format!("/pbspro/{long}"),
        ] {
            assert_eq!(of_path(path), None, "{path}");
        }
    }

    #[test]
    fn where_jobs_may_appear() {
        for path in [
            "/slurm",
            "/slurm/uid_0",
            "/system.slice/h_slurmstepd.scope",
            "/kubepods.slice",
            "/kubepods.slice/kubepods-burstable.slice",
            "/x/kubepods/burstable",
            "/lsf",
        ] {
            assert!(leads_to_jobs(path), "{path}");
        }
        for path in ["/", "/system.slice", "/system.slice/slurmd.service", "/slurm/system", "/user.slice"] {
            assert!(!leads_to_jobs(path), "{path}");
        }
    }

    #[test]
    fn lines_of_a_process() {
        let hybrid = "12:freezer:/slurm/uid_5/job_7\n2:pids:/user.slice\n0::/system.slice/slurmd.service\n";
        assert_eq!(of_process(hybrid).map(|p| (p.job, p.uid)), Some(("7".into(), Some(5))));
        let both = "12:freezer:/slurm/uid_5/job_7\n0::/system.slice/slurmstepd.scope/job_8/step_0\n";
        assert_eq!(of_process(both).map(|p| p.job), Some("8".into()));
        assert_eq!(of_process("0::/\nnonsense\n1:2"), None);
        // Other pods as an agent in a pod sees them, of its own and of another class, by both drivers; and paths
        // without a pod.
        let uid = "1b3f7c12_2c5e_4f5d_9b43_0d2f4c6a8e10";
        let seen = |path: String| of_process(&format!("0::/../..{path}")).map(|p| p.job.into_owned());
        let pod = Some(uid.replace('_', "-"));
        assert_eq!(seen(format!("/kubepods-burstable-pod{uid}.slice/cri-containerd-2.scope")), pod);
        assert_eq!(seen(format!("/../kubepods-pod{uid}.slice/cri-containerd-2.scope")), pod);
        assert_eq!(seen(format!("/pod{}/2", uid.replace('_', "-"))), pod);
        assert_eq!(seen("/4711".to_owned()), None);
        assert_eq!(seen("/system.slice/sshd.service".to_owned()), None);
        assert_eq!(seen(String::new()), None);
    }

    proptest! {
        #[test]
        fn any_path_is_survived(path in "\\PC*") {
            of_path(&path);
            leads_to_jobs(&path);
            of_process(&path);
        }

        #[test]
        fn paths_that_nearly_fit_are_survived(
            path in r"(/pbspro\.slice/pbspro-7(\\x|é|2|d){0,4}\.slice)?(/(slurm|slurm_é|uid_|job_|[0-9]{1,30}|kubepods|-pod|pod|\.slice|:|[0-9a-f_-]{30,38}|pbspro-|\\x|\\x2|é|imp-shell-|f[a-z]|\.service){1,6}){1,5}",
        ) {
            if let Some(place) = of_path(&path) {
                prop_assert!(!place.job.is_empty() && place.job.len() <= LONGEST);
            }
            leads_to_jobs(&path);
        }
    }
}

//! Parses the environment of a job's process, `/proc/PID/environ`: only variables in [`crate::rules`] are read. Pure
//! functions; called by [`crate::details`] and [`crate::scan`].

use crate::rules::{ALL, Scheduler, Variables, is_wanted};

/// Longest value, bytes; longer ones are not ids.
const LONGEST: usize = 128;

/// A job, as found in an environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvironJob {
    /// Label `scheduler`.
    pub scheduler: &'static str,
    /// Job id of the scheduler.
    pub job: String,
    /// Job id as the scheduler prints it, with array index or part.
    pub task: String,
    /// Cluster; empty if unknown.
    pub cluster: String,
    /// User name; empty if unknown.
    pub user: String,
}

/// Job of a process from its whole environment: `NAME=VALUE`, separated by NUL.
pub fn of_environment(bytes: &[u8]) -> Option<EnvironJob> {
    ALL.iter().find_map(|scheduler| of_scheduler(scheduler, bytes))
}

/// Job of a process of this scheduler.
pub fn of_scheduler(scheduler: &'static Scheduler, bytes: &[u8]) -> Option<EnvironJob> {
    let variables = scheduler.variables.as_ref()?;
    let others = || pairs(bytes).filter(|(name, _)| *name != variables.job);
    if !variables.beside.is_empty() && !others().any(|(name, _)| name.starts_with(variables.beside)) {
        return None;
    }
    let job = value(bytes, variables.job)?;
    Some(EnvironJob {
        scheduler: scheduler.name,
        task: task(variables, bytes).unwrap_or_else(|| job.clone()),
        cluster: value(bytes, variables.cluster).unwrap_or_default(),
        user: value(bytes, variables.user).unwrap_or_default(),
        job,
    })
}

/// Part of an environment that may be recorded: variables of the rules with valid values.
pub fn kept(bytes: &[u8]) -> String {
    let value = |value| if is_plain(value) { value } else { "" };
    pairs(bytes).filter(|(name, _)| is_wanted(name)).map(|(name, this)| format!("{name}={}\0", value(this))).collect()
}

fn task(variables: &Variables, bytes: &[u8]) -> Option<String> {
    variables.parts.iter().find_map(|part| {
        let (first, second) = (value(bytes, part.first)?, value(bytes, part.second)?);
        let index: u64 = second.parse().ok()?;
        (index > 0 || !part.zero_is_none).then(|| format!("{first}{}{index}{}", part.between, part.after))
    })
}

fn value(bytes: &[u8], name: &str) -> Option<String> {
    let (_, value) = pairs(bytes).find(|(this, value)| *this == name && is_plain(value))?;
    // Flux prints its ids with the letter `ƒ` if the locale has it.
    Some(value.replace('ƒ', "f"))
}

/// True for characters of scheduler ids and names; label values must not contain others.
fn is_plain(value: &str) -> bool {
    let plain = |c: char| c.is_alphanumeric() || "._-+[]@:".contains(c);
    !value.is_empty() && value.len() <= LONGEST && value.chars().all(plain)
}

fn pairs(bytes: &[u8]) -> impl Iterator<Item = (&str, &str)> {
    bytes.split(|b| *b == 0).filter_map(|pair| std::str::from_utf8(pair).ok()?.split_once('='))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(lines: &str) -> Option<(&'static str, String, String, String, String)> {
        let parsed = of_environment(lines.replace(' ', "\0").as_bytes())?;
        Some((parsed.scheduler, parsed.job, parsed.task, parsed.cluster, parsed.user))
    }

    #[test]
    fn variables_of_every_scheduler() {
        let rows = [
            ("SLURM_JOB_ID=7 SLURM_JOB_UID=5", ["slurm", "7", "7", "", ""]),
            (
                "SLURM_CLUSTER_NAME=west SLURM_JOB_USER=ann SLURM_JOB_ID=4703 SLURM_ARRAY_JOB_ID=4700 SLURM_ARRAY_TASK_ID=0",
                ["slurm", "4703", "4700_0", "west", "ann"],
            ),
            ("SLURM_JOB_ID=4711 SLURM_HET_JOB_ID=4710 SLURM_HET_JOB_OFFSET=1", ["slurm", "4711", "4710+1", "", ""]),
            ("PBS_JOBID=7.head PBS_O_LOGNAME=ann", ["pbs", "7.head", "7.head", "", "ann"]),
            ("LSB_JOBID=9 LSB_JOBINDEX=4 LSFUSER=ann", ["lsf", "9", "9[4]", "", "ann"]),
            ("LSB_JOBID=9 LSB_JOBINDEX=0", ["lsf", "9", "9", "", ""]),
            ("JOB_ID=12 SGE_TASK_ID=3 SGE_CLUSTER_NAME=p1", ["sge", "12", "12.3", "p1", ""]),
            ("JOB_ID=12 SGE_TASK_ID=undefined", ["sge", "12", "12", "", ""]),
            ("FLUX_JOB_ID=ƒ2WfTbGv FLUX_URI=local:///x", ["flux", "f2WfTbGv", "f2WfTbGv", "", ""]),
        ];
        for (lines, want) in rows {
            let (scheduler, job, task, cluster, user) = parsed(lines).unwrap_or_else(|| panic!("{lines}: no job"));
            assert_eq!([scheduler, &*job, &*task, &*cluster, &*user], want, "{lines}");
        }
    }

    #[test]
    fn other_environments_are_of_no_job() {
        for lines in ["", "PATH=/bin", "JOB_ID=12 HOME=/x", "SLURM_JOB_ID=", "XSLURM_JOB_ID=7 SLURM_X=1"] {
            assert_eq!(parsed(lines), None, "{lines}");
        }
        assert_eq!(of_environment(b"SLURM_JOB_ID=7\x1b[2J\0"), None, "no control characters in labels");
    }

    #[test]
    fn nothing_else_is_kept() {
        let environment =
            b"HOME=/home/ann\0SLURM_JOB_ID=7\0TOKEN=secret\0SLURM_JOB_NAME=bert\0SLURM_CLUSTER_NAME=w\0\xff=1\0";
        assert_eq!(kept(environment), "SLURM_JOB_ID=7\0SLURM_CLUSTER_NAME=w\0");
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            of_environment(&bytes);
            kept(&bytes);
        }

        #[test]
        fn what_is_kept_tells_the_same(
            lines in prop::collection::vec(
                r"(SLURM_JOB_ID|SLURM_ARRAY_TASK_ID|SLURM_ARRAY_JOB_ID|JOB_ID|SGE_TASK_ID|LSB_JOBID|HOME)=(\PC{0,9}|[0-9]{0,30})",
                0..6,
            ),
        ) {
            let all = lines.join("\0");
            prop_assert_eq!(of_environment(all.as_bytes()), of_environment(kept(all.as_bytes()).as_bytes()));
        }
    }
}

//! Table of schedulers and how they mark their jobs. A scheduler is a row; the parsers of [`crate::cgroup`] and
//! [`crate::environ`], the walk of [`crate::tree`] and the scan of [`crate::scan`] follow from it.
//!
//! A pattern names directories one below the other, wherever in the tree they begin, because kubelets, containers and
//! site configurations put prefixes before them. In a name `*` stands for any text and braces for what is taken out:
//! `{job}` and `{uid}` digits, `{id}` an id that begins with a digit, `{escaped}` the same with systemd's escapes,
//! `{pod}` the UID of a pod (of a static pod the hash of its manifest) with `-` or `_`, `{f58}` a Flux job id.

/// A row of [`ALL`].
#[derive(Debug)]
pub struct Scheduler {
    /// Label `scheduler`.
    pub name: &'static str,
    /// Patterns of a job's control group.
    pub groups: &'static [&'static [&'static str]],
    /// Environment variables of its processes.
    pub variables: Option<Variables>,
    /// Names, or prefixes of names, of its daemons: environments are read on hosts where one runs.
    pub daemons: &'static [&'static str],
}

/// Environment variables of a job's process.
#[derive(Debug)]
pub struct Variables {
    /// Job id.
    pub job: &'static str,
    /// Prefix of another variable that must exist, if the name of the first one is ambiguous.
    pub beside: &'static str,
    /// Formats of the ids of array tasks and parts of a job.
    pub parts: &'static [Part],
    /// Cluster name.
    pub cluster: &'static str,
    /// User name.
    pub user: &'static str,
}

/// Format `{first}{between}{second}{after}`, if both variables exist and the second is a number.
#[derive(Debug)]
pub struct Part {
    /// Variable with the id of the whole job.
    pub first: &'static str,
    /// Text between the values.
    pub between: &'static str,
    /// Variable with the index.
    pub second: &'static str,
    /// Text after the index.
    pub after: &'static str,
    /// Whether index 0 means that the job has no parts.
    pub zero_is_none: bool,
}

/// All schedulers. HTCondor is missing: its cgroups are named after slots, and it exports no job id.
pub static ALL: &[Scheduler] = &[
    Scheduler {
        name: "slurm",
        groups: &[
            // Version 1; with the host name if several slurmd share a host.
            &["slurm", "uid_{uid}", "job_{job}"],
            &["slurm_*", "uid_{uid}", "job_{job}"],
            // Version 2: `slurmstepd.scope` or `HOST_slurmstepd.scope`.
            &["*slurmstepd.scope", "job_{job}"],
        ],
        variables: Some(Variables {
            job: "SLURM_JOB_ID",
            beside: "",
            parts: &[
                Part {
                    first: "SLURM_ARRAY_JOB_ID",
                    between: "_",
                    second: "SLURM_ARRAY_TASK_ID",
                    after: "",
                    zero_is_none: false,
                },
                Part {
                    first: "SLURM_HET_JOB_ID",
                    between: "+",
                    second: "SLURM_HET_JOB_OFFSET",
                    after: "",
                    zero_is_none: false,
                },
            ],
            cluster: "SLURM_CLUSTER_NAME",
            user: "SLURM_JOB_USER",
        }),
        daemons: &["slurmd", "slurmstepd"],
    },
    Scheduler {
        name: "kubernetes",
        groups: &[
            // systemd driver, all QoS classes; with a prefix if the kubelet is nested.
            &["*kubepods*.slice", "*kubepods*-pod{pod}.slice"],
            // A container runtime configured with the other driver.
            &["*kubepods*-pod{pod}.slice:*"],
            // cgroupfs driver.
            &["kubepods", "pod{pod}"],
            &["kubepods", "burstable", "pod{pod}"],
            &["kubepods", "besteffort", "pod{pod}"],
        ],
        variables: None,
        daemons: &[],
    },
    Scheduler {
        name: "pbs",
        groups: &[
            &["pbs_jobs.service", "jobid", "{id}"],
            &["pbs_jobs.service", "jobs", "{id}"],
            &["pbspro", "{id}"],
            &["pbspro.slice", "pbspro-{escaped}.slice"],
            &["torque", "{id}"],
        ],
        variables: Some(Variables {
            job: "PBS_JOBID",
            beside: "",
            parts: &[],
            cluster: "PBS_SERVER",
            user: "PBS_O_LOGNAME",
        }),
        daemons: &["pbs_mom"],
    },
    Scheduler {
        name: "lsf",
        groups: &[&["lsf", "*", "job.{job}.*"]],
        variables: Some(Variables {
            job: "LSB_JOBID",
            beside: "",
            parts: &[Part { first: "LSB_JOBID", between: "[", second: "LSB_JOBINDEX", after: "]", zero_is_none: true }],
            cluster: "LSB_CLUSTER_NAME",
            user: "LSFUSER",
        }),
        daemons: &["sbatchd"],
    },
    Scheduler {
        name: "sge",
        groups: &[&["UGE", "{job}.*"], &["UGE", "{job}"]],
        variables: Some(Variables {
            job: "JOB_ID",
            beside: "SGE_",
            parts: &[Part { first: "JOB_ID", between: ".", second: "SGE_TASK_ID", after: "", zero_is_none: true }],
            cluster: "SGE_CLUSTER_NAME",
            user: "SGE_O_LOGNAME",
        }),
        daemons: &["sge_execd", "sge_shepherd"],
    },
    Scheduler {
        name: "flux",
        groups: &[&["imp-shell-*-{f58}.service"]],
        variables: Some(Variables { job: "FLUX_JOB_ID", beside: "", parts: &[], cluster: "", user: "" }),
        daemons: &["flux-broker"],
    },
];

/// Scheduler by name.
pub fn by_name(name: &str) -> Option<&'static Scheduler> {
    ALL.iter().find(|scheduler| scheduler.name == name)
}

/// Whether the agent may read and record this environment variable.
pub fn is_wanted(variable: &str) -> bool {
    ALL.iter().filter_map(|s| s.variables.as_ref()).any(|v| v.names().any(|name| name == variable))
}

impl Variables {
    /// Names of all variables in use.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        let parts = self.parts.iter().flat_map(|part| [part.first, part.second]);
        [self.job, self.cluster, self.user].into_iter().chain(parts).filter(|name| !name.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_distinct_and_whole() {
        for (index, scheduler) in ALL.iter().enumerate() {
            assert!(ALL[..index].iter().all(|other| other.name != scheduler.name), "{} twice", scheduler.name);
            for pattern in scheduler.groups {
                let all = pattern.concat();
                let takes = ["{job}", "{id}", "{escaped}", "{pod}", "{f58}"];
                assert_eq!(takes.iter().map(|t| all.matches(t).count()).sum::<usize>(), 1, "{all}: one id");
            }
        }
        assert!(is_wanted("SLURM_ARRAY_TASK_ID") && !is_wanted("AWS_SECRET_ACCESS_KEY") && !is_wanted(""));
    }
}

//! What tests need beyond the repository, and whether it is there.
//!
//! A test that needs more says so: `#[ignore = "needs: prometheus"]`, or several names with commas. Run without it, such a test fails.

mod probe;

use anyhow::{Context, Result};

/// Something outside the repository that a test needs.
struct Need {
    /// The name in the ignore reason.
    name: &'static str,
    /// The error says what is missing and how to get it.
    probe: fn() -> Result<()>,
}

const NEEDS: &[Need] = &[
    Need { name: "alertmanager", probe: || probe::programs(&["prometheus-alertmanager"], "prometheus-alertmanager") },
    Need { name: "bpf", probe: probe::bpf },
    Need { name: "btf", probe: || probe::exists("/sys/kernel/btf/vmlinux".as_ref(), "boot a kernel with BTF") },
    Need { name: "cgroup2", probe: probe::cgroup2 },
    Need { name: "curl", probe: || probe::programs(&["curl"], "curl") },
    Need {
        name: "ibsim",
        probe: || probe::programs(fabriclens_testing::ibsim::PROGRAMS, fabriclens_testing::ibsim::PACKAGES),
    },
    Need {
        name: "infiniband-simulations",
        probe: || {
            let why = "set FABRICLENS_SCENARIOS_IB to a set of simulations";
            probe::exists(&fabriclens_testing::infiniband_simulations(), why)
        },
    },
    Need { name: "kernel-log", probe: probe::kernel_log },
    Need { name: "landlock", probe: || probe::kernel(6, 7) },
    Need {
        name: "libibverbs-dev",
        probe: || {
            probe::programs(&["cc"], "gcc")?;
            probe::exists("/usr/include/infiniband/verbs.h".as_ref(), "apt-get install libibverbs-dev")
        },
    },
    Need { name: "linux-5.13", probe: || probe::kernel(5, 13) },
    Need { name: "manual", probe: || probe::programs(&["man", "zsh", "fish"], "man-db zsh fish") },
    Need { name: "mount", probe: probe::mount },
    Need {
        name: "mpi",
        probe: || probe::programs(fabriclens_testing::mpi::Mpi::PROGRAMS, fabriclens_testing::mpi::Mpi::PACKAGES),
    },
    Need { name: "network-namespaces", probe: probe::network_namespaces },
    Need { name: "prometheus", probe: || probe::programs(&["prometheus", "promtool"], "prometheus") },
    Need {
        name: "prometheus-scripts",
        probe: || {
            let why = "set FABRICLENS_PROMQLTEST to a folder of scripts";
            probe::exists(&fabriclens_testing::prometheus_scripts(), why)
        },
    },
    Need { name: "pygnmi", probe: probe::pygnmi },
    Need {
        name: "recordings",
        probe: || probe::exists(&fabriclens_testing::recordings(), "set FABRICLENS_FIXTURES to a collection"),
    },
    Need {
        name: "reference",
        probe: || probe::exists(&fabriclens_testing::reference(), "set FABRICLENS_REFERENCE to the counter lists"),
    },
    Need {
        name: "simulations",
        probe: || probe::exists(&fabriclens_testing::simulations(), "set FABRICLENS_SCENARIOS to a set of simulations"),
    },
    Need { name: "tcx", probe: || probe::bpf().and_then(|()| probe::kernel(6, 6)) },
    Need { name: "user-namespaces", probe: probe::user_namespaces },
    Need { name: "victoria-metrics", probe: || probe::programs(&["victoria-metrics", "vmalert"], "victoria-metrics") },
];

/// Why the first unmet one of these needs is not met; none if all are.
///
/// # Errors
/// When a need has no row.
pub fn missing(needs: &str) -> Result<Option<String>> {
    for name in needs.split(',').map(str::trim) {
        let need = NEEDS.iter().find(|need| need.name == name);
        let need = need.with_context(|| format!("unknown need `{name}`; add it to xtask/src/needs"))?;
        if let Err(why) = (need.probe)() {
            return Ok(Some(format!("{why:#}")));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_need_is_refused() {
        let error = missing("no-such-need").unwrap_err().to_string();
        assert!(error.contains("unknown need `no-such-need`"), "{error}");
    }
}

//! Run time and missed events of probes, as the kernel counts them per program.

use crate::load::map;
use crate::per_cpu::summed;
use aya::Ebpf;
use aya::maps::{MapData, PerCpuArray};
use fabriclens_agent_host::batch::{Batch, SampleError};
use fabriclens_agent_host::sysfile::maybe;
use fabriclens_catalog::metrics::self_::{PROBE_BUSY, PROBE_DROPS, PROBE_RUNS};
use fabriclens_wire::Value;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::{Path, PathBuf};

/// Whether the kernel counts runs. The operator decides, since counting costs a little per run.
const COUNTED: &str = "/proc/sys/kernel/bpf_stats_enabled";

/// Cost of a loaded object.
#[derive(Default)]
pub struct Cost {
    /// Events that its programs could not count; not every object has this map.
    drops: Option<PerCpuArray<MapData, [u64; 1]>>,
    /// The kernel's `fdinfo` file of each loaded program.
    programs: Vec<PathBuf>,
}

/// Sums over programs.
#[derive(Debug, Default, PartialEq, Eq)]
struct ProgramCosts {
    runs: u64,
    nanos: u64,
    missed: u64,
}

impl Cost {
    /// Cost counters of the loaded programs.
    pub(crate) fn new(loaded: &mut Ebpf) -> Result<Self, SampleError> {
        // The agent's own process: always the real /proc, also with --root.
        let file = |fd: i32| Path::new("/proc/self/fdinfo").join(fd.to_string());
        let fds = loaded.programs().filter_map(|(_, program)| Some(program.fd().ok()?.as_fd().as_raw_fd()));
        let programs = fds.map(file).collect();
        let drops = if loaded.map("DROPS").is_some() { Some(map(loaded, "DROPS")?) } else { None };
        Ok(Self { drops, programs })
    }
}

/// Adds run count, run time and missed events of the probe `name` over all its objects.
///
/// # Errors
/// When the kernel does not report them.
pub fn tell<'a>(name: &str, costs: impl Iterator<Item = &'a Cost>, out: &mut Batch) -> Result<(), SampleError> {
    let labels = [("probe", name)];
    let mut sums = ProgramCosts::default();
    for cost in costs {
        cost.programs.iter().filter_map(|file| maybe(file)).for_each(|text| sums.add(&text));
        if let Some(map) = &cost.drops {
            let mut drops = [0];
            summed(map, 0, &mut drops)?;
            sums.missed += drops[0];
        }
    }
    out.fact(&PROBE_DROPS, &labels, Value::Int(sums.missed));
    // While switched off, the kernel's counts stand still, which must not look like "never ran".
    if maybe(Path::new(COUNTED)).is_some_and(|on| on.trim() == "1") {
        out.fact(&PROBE_RUNS, &labels, Value::Int(sums.runs));
        out.fact(&PROBE_BUSY, &labels, Value::Float(sums.nanos as f64 / 1e9));
    }
    Ok(())
}

impl ProgramCosts {
    fn add(&mut self, text: &str) {
        for line in text.lines() {
            let Some((name, value)) = line.split_once(':') else { continue };
            let value = value.trim().parse().unwrap_or(0);
            match name {
                "run_cnt" => self.runs += value,
                "run_time_ns" => self.nanos += value,
                "recursion_misses" => self.missed += value,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_a_probe_add_up() {
        let mut sums = ProgramCosts::default();
        sums.add("prog_type:\t5\nrun_time_ns:\t700\nrun_cnt:\t7\nrecursion_misses:\t1\nverified_insns:\t9\n");
        sums.add("run_time_ns:\t300\nrun_cnt:\t3\n");
        assert_eq!(sums, ProgramCosts { runs: 10, nanos: 1000, missed: 1 });
    }
}

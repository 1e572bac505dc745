//! What a probe costs and what it lost, as the kernel tells of its programs.

use super::{Probe, summed};
use crate::batch::{Batch, SampleError, chain};
use crate::roots::Roots;
use crate::sysfile::maybe;
use aya::maps::{MapData, PerCpuArray};
use fabriclens_catalog::metrics::self_::{PROBE_BUSY, PROBE_DROPS, PROBE_RUNS};
use fabriclens_wire::Value;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::{Path, PathBuf};

/// See the module.
pub(super) struct Cost {
    name: &'static str,
    drops: PerCpuArray<MapData, [u64; 1]>,
    /// What the kernel tells of each program, by its descriptor.
    programs: Vec<PathBuf>,
    /// Whether the kernel counts runs; the operator's to set, for it costs a little with each of them.
    counted: PathBuf,
}

/// Sums over programs.
#[derive(Debug, Default, PartialEq, Eq)]
struct Told {
    runs: u64,
    nanos: u64,
    missed: u64,
}

impl Cost {
    pub(super) fn new(roots: &Roots, name: &'static str, probe: &mut Probe) -> Result<Self, SampleError> {
        let mut programs = Vec::new();
        for (program, loaded) in probe.loaded.programs() {
            let fd = loaded.fd().map_err(|e| SampleError::Failed(format!("program {program}: {}", chain(&e))))?;
            // The own process: always the real /proc, whatever host is looked at.
            programs.push(Path::new("/proc/self/fdinfo").join(fd.as_fd().as_raw_fd().to_string()));
        }
        let counted = roots.proc().join("sys/kernel/bpf_stats_enabled");
        Ok(Self { name, drops: probe.per_cpu("DROPS")?, programs, counted })
    }

    pub(super) fn tell(&self, out: &mut Batch) -> Result<(), SampleError> {
        let labels = [("probe", self.name)];
        let mut told = Told::default();
        self.programs.iter().filter_map(|file| maybe(file)).for_each(|text| told.add(&text));
        let mut drops = [0];
        summed(&self.drops, 0, &mut drops)?;
        out.fact(&PROBE_DROPS, &labels, Value::Int(drops[0] + told.missed));
        // Off, the kernel's counts stand still, which is not "never ran".
        if maybe(&self.counted).is_some_and(|on| on.trim() == "1") {
            out.fact(&PROBE_RUNS, &labels, Value::Int(told.runs));
            out.fact(&PROBE_BUSY, &labels, Value::Float(told.nanos as f64 / 1e9));
        }
        Ok(())
    }
}

impl Told {
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
        let mut told = Told::default();
        told.add("prog_type:\t5\nrun_time_ns:\t700\nrun_cnt:\t7\nrecursion_misses:\t1\nverified_insns:\t9\n");
        told.add("run_time_ns:\t300\nrun_cnt:\t3\n");
        assert_eq!(told, Told { runs: 10, nanos: 1000, missed: 1 });
    }
}

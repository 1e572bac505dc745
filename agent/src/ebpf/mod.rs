//! Probes in the kernel: loading, attaching, reading. Called by the samplers that have one.
//!
//! Each probe is an object of its own (`ebpf/objects`, built by `cargo xtask ebpf`), so that what one of them cannot
//! have on this kernel the others do not miss. Programs are held by file descriptors alone: when the agent ends, in
//! whatever way, the kernel takes them out.

pub mod cgroup;
pub mod cgroup_names;
mod format;
pub mod ledger;
mod load;
pub mod netdev;
pub mod networks;
mod peers;

pub use peers::Peers;

use crate::batch::{SampleError, chain};
use crate::roots::Roots;
use aya::maps::{MapData, PerCpuArray};
use aya::programs::TracePoint;
use aya::{Ebpf, EbpfLoader, Pod};
use std::path::Path;

/// What would make a probe work that the kernel refused.
const REMEDY: &str = "run the agent as root or with CAP_BPF and CAP_PERFMON, on Linux 5.15 or later";

/// A tracepoint, and where the probe wants to know its fields: name of the global, name of the field.
pub struct Hook {
    /// Name of the program in the object.
    pub program: &'static str,
    /// `tcp/tcp_probe`
    pub tracepoint: &'static str,
    /// Fields, by the global that takes their offset.
    pub fields: &'static [(&'static str, &'static str)],
}

/// A probe at work. Dropped, it is gone from the kernel.
pub struct Probe(Ebpf);

impl Probe {
    /// Loads `object` with maps of `sizes` (name, entries) and attaches `hook`.
    ///
    /// # Errors
    /// `Absent` with the remedy where this host, this kernel or this agent's privileges cannot have it.
    pub fn attach(
        roots: &Roots,
        object: &[u8],
        hook: &Hook,
        sizes: &[(&'static str, u32)],
    ) -> Result<Self, SampleError> {
        if roots.is_recorded() {
            return Err(SampleError::Absent("no kernel stands behind a recorded host".into()));
        }
        let absent = |what: &str, error: &dyn std::error::Error| {
            SampleError::Absent(format!("{what}: {}; {REMEDY}", chain(error)))
        };
        let events = format::events(roots)?;
        let offsets = format::offsets(&events.join(hook.tracepoint), hook.fields)?;
        let mut loader = EbpfLoader::new();
        for (global, offset) in &offsets {
            loader.override_global(global, offset, true);
        }
        for (map, entries) in sizes {
            loader.map_max_entries(map, *entries);
        }
        let mut loaded = loader.load(object).map_err(|e| absent("loading the probe", &e))?;
        let program: &mut TracePoint = loaded
            .program_mut(hook.program)
            .and_then(|program| program.try_into().ok())
            .ok_or_else(|| SampleError::Failed(format!("the object has no tracepoint program {}", hook.program)))?;
        program.load().map_err(|e| absent("the kernel refuses the probe", &e))?;
        let (category, name) = hook.tracepoint.split_once('/').unwrap_or(("", hook.tracepoint));
        program.attach(category, name).map_err(|e| absent("attaching the probe", &e))?;
        Ok(Self(loaded))
    }

    /// A map with one record for each CPU and place.
    ///
    /// # Errors
    /// `Failed` when the object has no such map: the object and the agent do not belong together.
    pub fn per_cpu<T: Pod>(&mut self, name: &str) -> Result<PerCpuArray<MapData, T>, SampleError> {
        let map = self.0.take_map(name).ok_or_else(|| SampleError::Failed(format!("the probe has no map {name}")))?;
        PerCpuArray::try_from(map).map_err(|e| SampleError::Failed(format!("map {name}: {}", chain(&e))))
    }

    /// The maps that tell a probe who is at the other end.
    ///
    /// # Errors
    /// As [`Probe::per_cpu`].
    pub fn peers(&mut self) -> Result<Peers, SampleError> {
        Peers::take(&mut self.0)
    }
}

/// Sum over CPUs of the record at `place`.
///
/// # Errors
/// `Failed` when the kernel does not give it.
pub fn summed<const N: usize>(
    map: &PerCpuArray<MapData, [u64; N]>,
    place: u32,
    out: &mut [u64; N],
) -> Result<(), SampleError> {
    let records = map.get(&place, 0).map_err(|e| SampleError::Failed(format!("reading a map: {}", chain(&e))))?;
    *out = [0; N];
    for record in records.iter() {
        out.iter_mut().zip(record).for_each(|(sum, n)| *sum = sum.wrapping_add(*n));
    }
    Ok(())
}

/// Whether `path` is a mounted tracefs.
fn is_tracefs(path: &Path) -> bool {
    path.join("events").is_dir()
}

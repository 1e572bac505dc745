//! eBPF probes: loading, attaching, reading maps. Called by the samplers that use one.
//!
//! Each probe is an object of its own (`ebpf/objects`, built by `cargo xtask ebpf`), so that a kernel that lacks
//! support for one probe still runs the others. Programs are held by file descriptors only: when the agent ends, in any
//! way, the kernel removes them.

pub mod accumulator;
mod btf;
mod cgroup;
pub mod cgroup_names;
pub mod cost;
pub mod destinations;
mod format;
pub mod fuzzing;
pub mod histogram;
mod load;
pub mod netdev;
mod peers;
mod per_cpu;

pub use btf::Member;
pub use cgroup::{Interfaces, mount};
pub use histogram::{bounds, histogram};
pub use load::possible;
pub use peers::Peers;
pub use per_cpu::summed;

use aya::maps::{MapData, PerCpuArray, PerCpuHashMap};
use aya::programs::{CgroupSkb, CgroupSkbAttachType, TracePoint};
use aya::{Ebpf, Pod};
use cost::Cost;
use fabriclens_agent_host::batch::{Batch, SampleError};
use fabriclens_agent_host::roots::Roots;
use fabriclens_agent_host::sysfile::maybe;
use load::{absent, load, map, program};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Requirements of a probe on tracepoints.
pub const TRACEPOINTS: &str = "CAP_BPF, CAP_PERFMON and tracefs (CAP_DAC_READ_SEARCH for other users than root)";
/// Requirements of a probe on the root cgroup.
pub const SOCKETS: &str = "CAP_BPF, CAP_NET_ADMIN and cgroup2";

/// Definition of a probe: its object, attach points, and offsets of kernel structures.
pub struct ProbeSpec {
    /// Name of the sampler; label `probe` of its cost.
    pub name: &'static str,
    /// Compiled object of `ebpf/objects`.
    pub object: &'static [u8],
    /// One hook per program of the object.
    pub hooks: &'static [Hook],
    /// Members of kernel structures. If the kernel does not describe them, their globals stay 0, and the probe omits
    /// the values that depend on them.
    pub members: &'static [Member],
}

/// A program of the object, with its attach point.
pub struct Hook {
    /// Program name in the object.
    pub program: &'static str,
    /// Attach point.
    pub at: AttachPoint,
}

/// Attach point of a program.
pub enum AttachPoint {
    /// A tracepoint; its field offsets are written to globals: (global, field).
    Tracepoint {
        /// `category/event`, such as `tcp/tcp_probe`.
        event: &'static str,
        /// Required fields, by the global that takes their offset.
        fields: &'static [(&'static str, &'static str)],
        /// Optional fields; their globals stay 0 on kernels without them.
        optional: &'static [(&'static str, &'static str)],
    },
    /// IP packets of the sockets of all cgroups, in one direction.
    Sockets(CgroupSkbAttachType),
}

/// A loaded probe. Dropping it removes it from the kernel.
pub struct Probe {
    loaded: Ebpf,
    design: &'static ProbeSpec,
    /// Offsets found on this kernel, by global.
    places: BTreeMap<&'static str, u32>,
    /// Root cgroup, for programs that attach to it.
    mount: Option<PathBuf>,
    cost: Cost,
}

impl Probe {
    /// Loads a probe with maps of `sizes` (name, entries). It sees no events until [`Probe::attach`].
    ///
    /// # Errors
    /// `Absent` with the remedy if this host, kernel or the agent's privileges do not permit it.
    pub fn load(roots: &Roots, design: &'static ProbeSpec, sizes: &[(&'static str, u32)]) -> Result<Self, SampleError> {
        possible(roots)?;
        let mut mount = None;
        let mut places = BTreeMap::new();
        for hook in design.hooks {
            match &hook.at {
                AttachPoint::Tracepoint { event, fields, optional } => {
                    places.extend(format::offsets(&format::events(roots)?.join(event), fields, optional)?);
                }
                AttachPoint::Sockets(_) => mount = Some(cgroup::mount(roots)?),
            }
        }
        places.extend(btf::words(roots, design.members));
        let mut loaded = load(roots, design.object, &places, sizes)?;
        for hook in design.hooks {
            let loading = match &hook.at {
                AttachPoint::Tracepoint { .. } => program::<TracePoint>(&mut loaded, hook.program)?.load(),
                AttachPoint::Sockets(_) => program::<CgroupSkb>(&mut loaded, hook.program)?.load(),
            };
            loading.map_err(|e| absent("the kernel rejects the probe", &e))?;
        }
        Ok(Self { cost: Cost::new(&mut loaded)?, loaded, design, places, mount })
    }

    /// Attaches its programs.
    ///
    /// # Errors
    /// `Absent`, as for [`Probe::load`].
    pub fn attach(mut self) -> Result<Self, SampleError> {
        let loaded = &mut self.loaded;
        for hook in self.design.hooks {
            match (&hook.at, &self.mount) {
                (AttachPoint::Tracepoint { event, .. }, _) => {
                    let (category, name) = event.split_once('/').unwrap_or(("", event));
                    let program: &mut TracePoint = program(loaded, hook.program)?;
                    let attached = program.attach(category, name);
                    attached.map_err(|e| absent(&format!("attaching the probe{}", paranoid()), &e))?;
                }
                (AttachPoint::Sockets(way), Some(mount)) => {
                    cgroup::attach(program(loaded, hook.program)?, *way, mount)?
                }
                (AttachPoint::Sockets(_), None) => {}
            }
        }
        Ok(self)
    }

    /// Whether this kernel has the member or field of `global`.
    pub fn has(&self, global: &str) -> bool {
        self.places.contains_key(global)
    }

    /// Adds run count, run time and missed events of the probe.
    ///
    /// # Errors
    /// When the kernel does not report them.
    pub fn tell(&self, out: &mut Batch) -> Result<(), SampleError> {
        cost::tell(self.design.name, std::iter::once(&self.cost), out)
    }

    /// Map with one record per CPU and place.
    ///
    /// # Errors
    /// `Failed` if the object has no such map, because object and agent do not match.
    pub fn per_cpu<T: Pod>(&mut self, name: &str) -> Result<PerCpuArray<MapData, T>, SampleError> {
        map(&mut self.loaded, name)
    }

    /// Hash map with one record per CPU and key.
    ///
    /// # Errors
    /// As [`Probe::per_cpu`].
    pub fn by_key<K: Pod, V: Pod>(&mut self, name: &str) -> Result<PerCpuHashMap<MapData, K, V>, SampleError> {
        map(&mut self.loaded, name)
    }

    /// Map of interface numbers by index.
    ///
    /// # Errors
    /// As [`Probe::per_cpu`].
    pub fn interfaces(&mut self) -> Result<Interfaces, SampleError> {
        Interfaces::take(&mut self.loaded)
    }

    /// Maps that classify the remote address.
    ///
    /// # Errors
    /// As [`Probe::per_cpu`].
    pub fn peers(&mut self) -> Result<Peers, SampleError> {
        Peers::take(&mut self.loaded)
    }
}

/// Hint for Debian kernels, whose `perf_event_paranoid` has a level that requires more than CAP_PERFMON.
fn paranoid() -> &'static str {
    let level =
        maybe(Path::new("/proc/sys/kernel/perf_event_paranoid")).and_then(|level| level.trim().parse::<i32>().ok());
    if level > Some(2) {
        " (kernel.perf_event_paranoid is above 2: set it to 2, or give the agent CAP_SYS_ADMIN)"
    } else {
        ""
    }
}

/// Whether `path` is a mounted tracefs.
fn is_tracefs(path: &Path) -> bool {
    path.join("events").is_dir()
}

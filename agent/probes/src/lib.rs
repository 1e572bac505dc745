//! Probes in the kernel: loading, attaching, reading. Called by the samplers that have one.
//!
//! Each probe is an object of its own (`ebpf/objects`, built by `cargo xtask ebpf`), so that what one of them cannot
//! have on this kernel the others do not miss. Programs are held by file descriptors alone: when the agent ends, in
//! whatever way, the kernel takes them out.

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

pub use btf::Member;
pub use cgroup::{Interfaces, mount};
pub use histogram::{bounds, histogram};
pub use load::possible;
pub use peers::Peers;

use aya::maps::{MapData, PerCpuArray, PerCpuHashMap};
use aya::programs::{CgroupSkb, CgroupSkbAttachType, TracePoint};
use aya::{Ebpf, Pod};
use cost::Cost;
use fabriclens_agent_host::batch::{Batch, SampleError, chain};
use fabriclens_agent_host::roots::Roots;
use fabriclens_agent_host::sysfile::maybe;
use load::{absent, load, map, program};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What a sampler needs whose probe hangs from tracepoints.
pub const TRACEPOINTS: &str = "CAP_BPF, CAP_PERFMON and tracefs (CAP_DAC_READ_SEARCH for other users than root)";
/// What a sampler needs whose probe hangs from the root of the control groups.
pub const SOCKETS: &str = "CAP_BPF, CAP_NET_ADMIN and cgroup2";

/// What a probe is: its object, where it hooks in, what it must know of the kernel.
pub struct Design {
    /// Name of the sampler; label `probe` of its cost.
    pub name: &'static str,
    /// Of `ebpf/objects`.
    pub object: &'static [u8],
    /// One for each program of the object.
    pub hooks: &'static [Hook],
    /// Members of kernel structures. A kernel that does not tell where they are leaves their globals 0, and the probe
    /// tells less.
    pub members: &'static [Member],
}

/// A program of the object, and where it hangs.
pub struct Hook {
    /// Its name in the object.
    pub program: &'static str,
    /// Where.
    pub at: At,
}

/// What calls a program.
pub enum At {
    /// A tracepoint, and where the program wants to know its fields: name of the global, name of the field.
    Tracepoint {
        /// `tcp/tcp_probe`
        event: &'static str,
        /// Fields, by the global that takes their offset.
        fields: &'static [(&'static str, &'static str)],
        /// Fields that not every kernel has; their globals stay 0 there.
        optional: &'static [(&'static str, &'static str)],
    },
    /// IP packets of the sockets of all control groups, one way.
    Sockets(CgroupSkbAttachType),
}

/// A probe in the kernel. Dropped, it is gone from there.
pub struct Probe {
    loaded: Ebpf,
    design: &'static Design,
    /// What the kernel told, by global.
    places: BTreeMap<&'static str, u32>,
    /// Root of the control groups, for programs that hang there.
    mount: Option<PathBuf>,
    cost: Cost,
}

impl Probe {
    /// Loads a probe with maps of `sizes` (name, entries). It sees nothing until [`Probe::attach`].
    ///
    /// # Errors
    /// `Absent` with the remedy where this host, this kernel or this agent's privileges cannot have it.
    pub fn load(roots: &Roots, design: &'static Design, sizes: &[(&'static str, u32)]) -> Result<Self, SampleError> {
        possible(roots)?;
        let mut mount = None;
        let mut places = BTreeMap::new();
        for hook in design.hooks {
            match &hook.at {
                At::Tracepoint { event, fields, optional } => {
                    places.extend(format::offsets(&format::events(roots)?.join(event), fields, optional)?);
                }
                At::Sockets(_) => mount = Some(cgroup::mount(roots)?),
            }
        }
        places.extend(btf::words(roots, design.members));
        let mut loaded = load(roots, design.object, &places, sizes)?;
        for hook in design.hooks {
            let loading = match &hook.at {
                At::Tracepoint { .. } => program::<TracePoint>(&mut loaded, hook.program)?.load(),
                At::Sockets(_) => program::<CgroupSkb>(&mut loaded, hook.program)?.load(),
            };
            loading.map_err(|e| absent("the kernel refuses the probe", &e))?;
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
                (At::Tracepoint { event, .. }, _) => {
                    let (category, name) = event.split_once('/').unwrap_or(("", event));
                    let program: &mut TracePoint = program(loaded, hook.program)?;
                    let attached = program.attach(category, name);
                    attached.map_err(|e| absent(&format!("attaching the probe{}", paranoid()), &e))?;
                }
                (At::Sockets(way), Some(mount)) => cgroup::attach(program(loaded, hook.program)?, *way, mount)?,
                (At::Sockets(_), None) => {}
            }
        }
        Ok(self)
    }

    /// Whether this kernel has what `global` asks for.
    pub fn has(&self, global: &str) -> bool {
        self.places.contains_key(global)
    }

    /// Tells what the probe has cost and lost so far.
    ///
    /// # Errors
    /// When the kernel does not give it.
    pub fn tell(&self, out: &mut Batch) -> Result<(), SampleError> {
        cost::tell(self.design.name, std::iter::once(&self.cost), out)
    }

    /// A map with one record for each CPU and place.
    ///
    /// # Errors
    /// `Failed` when the object has no such map: the object and the agent do not belong together.
    pub fn per_cpu<T: Pod>(&mut self, name: &str) -> Result<PerCpuArray<MapData, T>, SampleError> {
        map(&mut self.loaded, name)
    }

    /// A hash map with one record for each CPU and key.
    ///
    /// # Errors
    /// As [`Probe::per_cpu`].
    pub fn by_key<K: Pod, V: Pod>(&mut self, name: &str) -> Result<PerCpuHashMap<MapData, K, V>, SampleError> {
        map(&mut self.loaded, name)
    }

    /// The map that tells the number of an interface by its index.
    ///
    /// # Errors
    /// As [`Probe::per_cpu`].
    pub fn interfaces(&mut self) -> Result<Interfaces, SampleError> {
        Interfaces::take(&mut self.loaded)
    }

    /// The maps that tell a probe who is at the other end.
    ///
    /// # Errors
    /// As [`Probe::per_cpu`].
    pub fn peers(&mut self) -> Result<Peers, SampleError> {
        Peers::take(&mut self.loaded)
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

/// Debian's kernels know a setting above the usual ones, which asks for more than CAP_PERFMON.
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

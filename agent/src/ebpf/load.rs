//! Loading an object, for probes that hang from a place of their own (a control group, an interface) and not from a
//! tracepoint.

use crate::batch::{SampleError, chain};
use crate::roots::Roots;
use aya::{Ebpf, EbpfLoader};

/// What would make a probe of network traffic work that the kernel refused.
const REMEDY: &str = "run the agent as root or with CAP_BPF and CAP_NET_ADMIN, on Linux 5.15 or later";

/// An object at work, or what stands in its way.
///
/// # Errors
/// `Absent` with the remedy where this host, this kernel or this agent's privileges cannot have it.
pub(super) fn load(
    roots: &Roots,
    object: &[u8],
    globals: &[(&'static str, u32)],
    sizes: &[(&'static str, u32)],
) -> Result<Ebpf, SampleError> {
    if roots.is_recorded() {
        return Err(SampleError::Absent("no kernel stands behind a recorded host".into()));
    }
    let mut loader = EbpfLoader::new();
    for (global, value) in globals {
        loader.override_global(global, value, true);
    }
    for (map, entries) in sizes {
        loader.map_max_entries(map, *entries);
    }
    loader.load(object).map_err(|e| absent("loading the probe", &e))
}

/// `Absent`: what was being done, why it failed, what would help.
pub(super) fn absent(what: &str, error: &dyn std::error::Error) -> SampleError {
    SampleError::Absent(format!("{what}: {}; {REMEDY}", chain(error)))
}

/// A map of a loaded object.
///
/// # Errors
/// `Failed` when the object has no such map: the object and the agent do not belong together.
pub(super) fn map<T: TryFrom<aya::maps::Map, Error = aya::maps::MapError>>(
    probe: &mut Ebpf,
    name: &str,
) -> Result<T, SampleError> {
    let map = probe.take_map(name).ok_or_else(|| SampleError::Failed(format!("the probe has no map {name}")))?;
    T::try_from(map).map_err(|e| SampleError::Failed(format!("map {name}: {}", chain(&e))))
}

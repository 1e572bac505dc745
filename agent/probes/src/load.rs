//! Loading an object and taking its parts, for probes wherever they hang.

use aya::{Ebpf, EbpfLoader};
use fabriclens_agent_host::batch::{SampleError, chain};
use fabriclens_agent_host::capabilities;
use fabriclens_agent_host::roots::Roots;
use std::collections::BTreeMap;

/// What would make a probe work that the kernel refused.
const REMEDY: &str = "run the agent as root or with CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN, on Linux 5.15 or later";

/// Longer texts of the kernel are cut.
const LONGEST: usize = 600;

/// What must be so before anything else is tried: to look through the kernel's types takes a while, and an agent that
/// may not load anything would do it again and again.
///
/// # Errors
/// `Absent`, with the remedy.
pub fn possible(roots: &Roots) -> Result<(), SampleError> {
    if roots.is_recorded() {
        return Err(SampleError::Absent("no kernel stands behind a recorded host".into()));
    }
    if !capabilities::may_load() {
        return Err(SampleError::Absent(format!("Operation not permitted: there is no CAP_BPF; {REMEDY}")));
    }
    Ok(())
}

/// An object at work, or what stands in its way.
///
/// # Errors
/// `Absent` with the remedy where this host, this kernel or this agent's privileges cannot have it.
pub(crate) fn load(
    roots: &Roots,
    object: &[u8],
    globals: &BTreeMap<&'static str, u32>,
    sizes: &[(&'static str, u32)],
) -> Result<Ebpf, SampleError> {
    possible(roots)?;
    let mut loader = EbpfLoader::new();
    // The kernel's types are large, and aya needs none of them: what a probe must know is in its globals.
    loader.btf(None);
    for (global, value) in globals {
        loader.override_global(global, value, true);
    }
    for (map, entries) in sizes {
        loader.map_max_entries(map, *entries);
    }
    loader.load(object).map_err(|e| absent("loading the probe", &e))
}

/// `Absent`: what was being done, why it failed, what would help.
pub(crate) fn absent(what: &str, error: &dyn std::error::Error) -> SampleError {
    SampleError::Absent(format!("{what}: {}; {REMEDY}", short(&chain(error))))
}

/// The kernel says why it refuses a program at the end of pages of how it came to that.
fn short(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    match lines.as_slice() {
        [first, .., reason, times, depth, processed, last] if text.len() > LONGEST => {
            let head: String = first.chars().take(LONGEST / 2).collect();
            [&head, "…", reason, times, depth, processed, last].join(" ")
        }
        _ => text.to_owned(),
    }
}

/// A program of a loaded object.
///
/// # Errors
/// `Failed` when the object has no such program: the object and the agent do not belong together.
pub(crate) fn program<'a, T>(probe: &'a mut Ebpf, name: &str) -> Result<&'a mut T, SampleError>
where
    &'a mut T: TryFrom<&'a mut aya::programs::Program, Error = aya::programs::ProgramError>,
{
    let program =
        probe.program_mut(name).ok_or_else(|| SampleError::Failed(format!("the probe has no program {name}")))?;
    program.try_into().map_err(|e| SampleError::Failed(format!("program {name}: {}", chain(&e))))
}

/// A map of a loaded object.
///
/// # Errors
/// `Failed` when the object has no such map: the object and the agent do not belong together.
pub(crate) fn map<T: TryFrom<aya::maps::Map, Error = aya::maps::MapError>>(
    probe: &mut Ebpf,
    name: &str,
) -> Result<T, SampleError> {
    let map = probe.take_map(name).ok_or_else(|| SampleError::Failed(format!("the probe has no map {name}")))?;
    T::try_from(map).map_err(|e| SampleError::Failed(format!("map {name}: {}", chain(&e))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_the_verifier_are_cut_to_its_verdict() {
        let log = format!(
            "refused: {}\nR5 prohibited for !root\ntime 1\nstack 2\nprocessed 3\n: EACCES",
            "0: r1\n".repeat(500)
        );
        let said = short(&log);
        assert!(said.len() < LONGEST && said.starts_with("refused") && said.contains("prohibited for !root"), "{said}");
        assert_eq!(short("Operation not permitted"), "Operation not permitted");
    }
}
